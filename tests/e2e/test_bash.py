"""Commands in a real daemon, over every transport, and without orphans."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from hubd.wire import jsonrpc
from tests.mcp.support import MODERN, connected
from tests.plugins.bash.support import STUBBORN
from tests.process.support import linux_only, watching
from tests.support import Daemon, LineClient, McpDaemon, events_of
from tests.synapse.support import synapse

pytestmark = linux_only


async def pids_of(client: LineClient, command: str) -> list[int]:
    """Start a command and return the pids in its first line."""
    await client.send("plexus.call", {"method": "bash.execute", "params": {"command": command}})
    while True:
        item = (await client.receive()).get("params", {}).get("result", {})
        if item.get("type") == "data":
            return [int(word) for word in item["content"]["line"].split()]


async def test_no_process_survives_a_killed_daemon(home: Path) -> None:
    with Daemon(home) as daemon:
        async with daemon.client() as client:
            # Neither the shell nor its children end by themselves.
            pids = await pids_of(client, STUBBORN)
            with watching(*pids):
                daemon.kill()
        daemon.start()
        [page] = events_of(home, "bash.list")
        assert [row["status"] for row in page["executions"]] == ["interrupted"]


async def test_a_disconnection_and_the_end_of_the_daemon_end_commands(home: Path) -> None:
    with Daemon(home) as daemon:
        async with daemon.client() as client:
            first = await pids_of(client, STUBBORN)
        other = daemon.client()
        with watching(*first):
            async with other as client:
                second = await pids_of(client, STUBBORN)
                with watching(*second):
                    assert daemon.stop() == 0
        daemon.start()
        [page] = events_of(home, "bash.list")
        assert [row["status"] for row in page["executions"]] == ["cancelled", "cancelled"]
        assert [row["size"] > 0 for row in page["executions"]] == [True, True]


async def test_commands_run_over_every_transport(home: Path, tmp_path: Path) -> None:
    with McpDaemon(home) as daemon:
        result = synapse(
            *("bash", "execute", "--command", "pwd; exit 4", "--exit-code"),
            home=home,
            cwd=str(tmp_path),
        )
        line, end = map(json.loads, result.stdout.splitlines())
        assert (result.returncode, line["line"]) == (4, str(tmp_path))
        headers = {"Authorization": f"Bearer {daemon.token}"}
        async with connect(daemon.record["ws_url"], additional_headers=headers) as socket:
            params = {"method": "bash.execute", "params": {"command": "echo over the socket"}}
            await socket.send(jsonrpc.request(1, "plexus.call", params).decode())
            types = Counter[str]()
            while not types["done"]:
                item = json.loads(await socket.recv()).get("params", {}).get("result", {})
                types[item.get("content", item).get("type", "reply")] += 1
        assert types == {"reply": 1, "stdout": 1, "exit": 1, "done": 1}
        async with connected(daemon, "http", MODERN) as client:
            called = await client.call_tool("bash.execute", {"command": "echo over MCP"})
            assert called.structured_content is not None
            stdout, end = called.structured_content["events"]
            assert (stdout["line"], end["code"]) == ("over MCP", 0)
            read = await client.read_resource(f"plexus://handle/{end['handle']}")
            assert "over MCP" in str(read.contents[0])


# The longer runs


@pytest.fixture
def measured(home: Path) -> Iterator[Daemon]:
    with Daemon(home) as daemon:
        yield daemon


def memory_of(daemon: Daemon) -> int:
    """Return the largest memory that a daemon has used, in MiB."""
    text = Path(f"/proc/{daemon.record['pid']}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) // 1024


@pytest.mark.soak
async def test_two_hundred_megabytes_need_little_memory(measured: Daemon) -> None:
    before = memory_of(measured)
    async with measured.client() as client:
        command = "yes 0123456789012345678901234567890123456789 | head -c 200000000"
        items = await asyncio.wait_for(client.call("bash.execute", {"command": command}), 600)
    handle = items[-2]["content"]["handle"]
    [answer] = events_of(measured.home, "plexus.resolve_handle", handle=handle)
    data = answer["data"]
    assert data["stdout_size"] == 64 * 1024**2
    assert data["stdout_dropped"] == 200_000_000 - data["stdout_size"]
    assert memory_of(measured) - before < 200


@pytest.mark.soak
async def test_a_thousand_short_commands_leave_nothing_behind(measured: Daemon) -> None:
    pid = measured.record["pid"]
    files = Path(f"/proc/{pid}/fd")

    async def some(numbers: range) -> dict[int, int]:
        """Run commands at once on one connection, and return their exit statuses."""
        codes: dict[int, int] = {}
        async with measured.client() as client:
            for number in numbers:
                params = {"command": f"echo {number}; exit {number % 7}"}
                await client.send("plexus.call", {"method": "bash.execute", "params": params})
            lines: dict[int, int] = {}
            while len(codes) < len(numbers):
                message = json.loads(await client.reader.readline()).get("params", {})
                content = message.get("result", {}).get("content", {})
                if content.get("type") == "stdout":
                    lines[message["subscription"]] = int(content["line"])
                elif content.get("type") == "exit":
                    codes[lines[message["subscription"]]] = content["code"]
        return codes

    await some(range(1))
    before = len(list(files.iterdir()))
    # The hub lets 64 of them run.
    async with asyncio.timeout(600):
        results = await asyncio.gather(*(some(range(n, n + 100)) for n in range(0, 1000, 100)))
    codes = {number: code for part in results for number, code in part.items()}
    assert codes == {number: number % 7 for number in range(1000)}
    assert len(list(files.iterdir())) <= before + 10
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    # The guardian is left.
    assert len(children) == 1
