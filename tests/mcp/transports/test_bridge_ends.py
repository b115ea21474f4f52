"""`hubd mcp`: the end of the client, the bridge or the daemon; refused connections."""

import asyncio
import json
import os
import signal
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hubd.activation import Activation, Event, method
from hubd.errors import PermissionDenied, Unavailable
from hubd.mcp.transports import lines as mcp_lines
from hubd.mcp.transports import stdio as mcp_stdio
from hubd.mcp.transports.bridge import run
from hubd.wire.mcp_bridge import END
from hubd.wire.paths import Paths
from tests.mcp.bridge_support import (
    INITIALIZE,
    INITIALIZED,
    PLUGINS,
    bare,
    bridge,
    event_of,
    lines,
    read,
    request,
    tool_call,
)
from tests.mcp.support import MODERN, serving
from tests.support import PATIENCE_SECONDS, Daemon, McpDaemon


class Waited(Event):
    finished: bool = True


class Waiting(Activation, namespace="waiting", version="1.0.0"):
    """Waits for a test."""

    def __init__(self) -> None:
        super().__init__()
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = asyncio.Event()

    @method(streaming=False)
    async def wait(self) -> AsyncIterator[Waited]:
        """Wait until the test says so."""
        self.started.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        yield Waited()


@pytest.fixture(scope="module")
def daemon(bridged_daemon: Daemon) -> Daemon:
    """One daemon for all that leave it alive."""
    return bridged_daemon


@pytest.fixture
async def waiting(tmp_path: Path) -> AsyncIterator[Waiting]:
    """A plugin that a test can look into, behind the socket of `tmp_path`."""
    plugin = Waiting()
    async with serving(tmp_path, plugin):
        yield plugin


@pytest.fixture
def draining(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when the daemon knows that a client has said all it has to say."""
    known = asyncio.Event()
    drain = mcp_lines._Client._drain

    async def observed(client: mcp_lines._Client) -> None:
        known.set()
        await drain(client)

    monkeypatch.setattr(mcp_lines._Client, "_drain", observed)
    return known


async def reached(event: asyncio.Event) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        await event.wait()


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_the_bridge_ends_with_the_daemon_and_reports_the_reason(
    home: Path, tmp_path: Path, end: str
) -> None:
    with McpDaemon(home, *PLUGINS) as daemon:
        async with bridge(home) as client:
            await client.greet()
            await client.send(
                tool_call(1, "trouble.hang", marker=str(tmp_path / "marker")), request(2, "ping")
            )
            assert (await client.receive())["id"] == 2
            await asyncio.to_thread(daemon.kill if end == "kill" else daemon.stop)
            assert await client.status() == 5
            said = await client.said()
            assert "the daemon closed the connection" in said
            assert len(said.splitlines()) == 2
            # A daemon that could say something told the client that its call is lost.
            answers = read(await client.rest())
            assert set(answers) == (set() if end == "kill" else {1})


async def test_a_daemon_that_stops_under_a_client_logs_no_warning(home: Path) -> None:
    with McpDaemon(home) as daemon:
        async with bridge(home) as client:
            await client.greet()
            await asyncio.to_thread(daemon.stop)
            assert await client.status() == 5
        lines = map(json.loads, Path(daemon.paths.log).read_text().splitlines())
        assert [line for line in lines if line["level"] == "error"] == []


async def test_a_daemon_that_dies_owing_answers_to_a_pipe_is_a_failure(
    home: Path, tmp_path: Path
) -> None:
    with McpDaemon(home, *PLUGINS) as daemon:
        async with bridge(home) as client:
            await client.greet()
            await client.send(
                tool_call(1, "trouble.hang", marker=str(tmp_path / "marker")), request(2, "ping")
            )
            assert (await client.receive())["id"] == 2
            client.hang_up()
            await asyncio.to_thread(daemon.kill)
            assert await client.status() == 5


async def test_calls_end_with_a_bridge_that_is_killed(tmp_path: Path, waiting: Waiting) -> None:
    async with bridge(tmp_path, command=bare(tmp_path)) as client:
        await client.greet()
        await client.send(tool_call(1, "waiting.wait"))
        await reached(waiting.started)
        client.process.kill()
        await reached(waiting.cancelled)


async def test_calls_end_with_a_client_that_dies(tmp_path: Path, waiting: Waiting) -> None:
    reading, writing = os.pipe()
    async with bridge(tmp_path, command=bare(tmp_path), stdout=writing) as client:
        os.close(writing)
        await client.send(INITIALIZE, INITIALIZED, tool_call(1, "waiting.wait"))
        await reached(waiting.started)
        # Both ends of a process close when it dies.
        client.hang_up()
        os.close(reading)
        await reached(waiting.cancelled)
        await client.status()


async def test_answers_are_sent_after_the_end_of_the_input(
    tmp_path: Path, waiting: Waiting, draining: asyncio.Event
) -> None:
    async with bridge(tmp_path, command=bare(tmp_path)) as client:
        await client.greet()
        await client.send(tool_call(1, "waiting.wait"))
        await reached(waiting.started)
        client.hang_up()
        await reached(draining)
        waiting.go_on.set()
        assert event_of(await client.receive())["finished"] is True
        assert await client.rest() == b""
        assert await client.status() == 0
        assert not waiting.cancelled.is_set()


async def test_a_client_that_uses_a_number_twice_gets_both_answers(
    tmp_path: Path, waiting: Waiting, draining: asyncio.Event
) -> None:
    reader, writer = await asyncio.open_unix_connection(str(tmp_path / "hub.mcp"))
    writer.write(b"{}\n" + lines(INITIALIZE, INITIALIZED, tool_call(1, "waiting.wait")))
    await reached(waiting.started)
    writer.write(lines(request(1, "ping")) + END + b"\n")
    await reached(draining)
    async with asyncio.timeout(PATIENCE_SECONDS):
        answers = [json.loads(await reader.readline()) for _ in range(2)]
        assert [answer["id"] for answer in answers] == [0, 1]
        waiting.go_on.set()
        assert event_of(json.loads(await reader.readline()))["finished"] is True
        assert await reader.read() == END
    writer.close()
    await writer.wait_closed()


async def test_draining_has_a_time_limit(
    tmp_path: Path, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_lines, "DRAIN_SECONDS", 0.05)
    reader, writer = await asyncio.open_unix_connection(str(tmp_path / "hub.mcp"))
    writer.write(b"{}\n" + lines(INITIALIZE, INITIALIZED, tool_call(1, "waiting.wait")))
    await reached(waiting.started)
    writer.write(END + b"\n")
    await reached(waiting.cancelled)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert (await reader.read()).endswith(END)
    writer.close()
    await writer.wait_closed()


async def test_a_client_may_disconnect_after_the_end_of_its_input(
    tmp_path: Path, waiting: Waiting, draining: asyncio.Event
) -> None:
    async with bridge(tmp_path, command=bare(tmp_path)) as client:
        await client.greet()
        await client.send(tool_call(1, "waiting.wait"))
        await reached(waiting.started)
        client.hang_up()
        await reached(draining)
        client.process.kill()
        await reached(waiting.cancelled)


async def test_a_cancelled_call_does_not_delay_the_end(tmp_path: Path, waiting: Waiting) -> None:
    async with bridge(tmp_path, command=bare(tmp_path)) as client:
        await client.greet()
        await client.send(tool_call(1, "waiting.wait"))
        await reached(waiting.started)
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": 1}}
        await client.send({"jsonrpc": "2.0", **cancelled})
        await reached(waiting.cancelled)
        client.hang_up()
        assert await client.rest() == b""
        assert await client.status() == 0


async def test_a_subscription_does_not_delay_the_end(tmp_path: Path, waiting: Waiting) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    listen = request(1, "subscriptions/listen", notifications={"toolsListChanged": True})
    listen["params"]["_meta"] = meta
    async with bridge(tmp_path, command=bare(tmp_path)) as client:
        await client.send(listen)
        assert client.process.stdout is not None
        accepted = json.loads(await client.process.stdout.readline())
        assert accepted["method"] == "notifications/subscriptions/acknowledged"
        client.hang_up()
        read(await client.rest())
        assert await client.status() == 0


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, -signal.SIGTERM), (2, 130)])
async def test_a_signal_ends_it_without_a_word(daemon: Daemon, number: int, status: int) -> None:
    async with bridge(daemon.home) as client:
        await client.greet()
        client.process.send_signal(number)
        assert await client.status() == status
        assert await client.said() == ""


@pytest.mark.parametrize("ask", [True, False], ids=["while it writes", "while it waits"])
async def test_a_reader_that_goes_away_ends_it_without_a_word(daemon: Daemon, ask: bool) -> None:
    ours, theirs = socket.socketpair()
    # Node's pipes are sockets.
    with ours, theirs:
        async with bridge(daemon.home, stdout=theirs) as client:
            theirs.close()
            await client.send(INITIALIZE, INITIALIZED)
            assert await asyncio.to_thread(ours.recv, 1) == b"{"
            ours.close()
            if ask:
                await client.send(request(1, "tools/list"))
            assert await client.status() == 0
            assert await client.said() == ""


async def test_the_bridge_ends_silently_when_its_output_is_closed(daemon: Daemon) -> None:
    reading, writing = os.pipe()
    async with bridge(daemon.home, stdout=writing) as client:
        os.close(writing)
        await client.send(INITIALIZE, INITIALIZED)
        assert await asyncio.to_thread(os.read, reading, 1) == b"{"
        os.close(reading)
        await client.send(request(1, "tools/list"))
        assert await client.status() == 0
        assert await client.said() == ""


# Refused connections.


@pytest.mark.parametrize("hello", [b"not JSON\n", b"[]\n", b"[" * 100_000 + b"\n", b"\xff\n", b""])
async def test_a_connection_that_is_not_the_bridge_is_refused(tmp_path: Path, hello: bytes) -> None:
    async with serving(tmp_path):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "hub.mcp"))
        writer.write(hello)
        writer.write_eof()
        async with asyncio.timeout(PATIENCE_SECONDS):
            refusal = json.loads(await reader.read())
        assert refusal["error"]["message"] == "only `hubd mcp` may connect to this socket"
        writer.close()
        await writer.wait_closed()


async def test_the_socket_is_for_this_user_only_and_goes_with_the_server(tmp_path: Path) -> None:
    left = tmp_path / "hub.mcp"
    # By a daemon that was killed.
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(left))
    async with serving(tmp_path):
        assert stat.S_IMODE(left.stat().st_mode) == 0o600
        reader, writer = await asyncio.open_unix_connection(str(left))
        writer.write(b"{}\n" + lines(INITIALIZE))
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert json.loads(await reader.readline())["id"] == 0
        writer.close()
        await writer.wait_closed()
    assert not left.exists()


def test_a_socket_that_another_user_could_have_created_is_not_used(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path))
    tmp_path.chmod(0o770)
    # Nothing listens at this socket.
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(paths.mcp_socket)
        with pytest.raises(PermissionDenied, match="can be written by others"):
            run(paths, None, "a-secret-token")
        tmp_path.chmod(0o700)
        with pytest.raises(Unavailable):
            run(paths, None, "a-secret-token")


async def test_a_silent_connection_to_the_socket_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_stdio, "HELLO_SECONDS", 0.0)
    async with serving(tmp_path):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "hub.mcp"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert b"only `hubd mcp` may connect to this socket" in await reader.read()
        writer.close()
        await writer.wait_closed()


async def test_a_bridge_is_refused_if_all_others_have_a_running_request(
    tmp_path: Path, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_stdio, "MAX_BRIDGES", 1)
    async with bridge(tmp_path, command=bare(tmp_path)) as first:
        await first.greet()
        await first.send(tool_call(1, "waiting.wait"))
        await reached(waiting.started)
        async with bridge(tmp_path, command=bare(tmp_path)) as second:
            refusal = await second.receive()
            assert "have a running request" in refusal["error"]["message"]
            assert await second.status() != 0
        waiting.go_on.set()
        assert (await first.receive())["id"] == 1


async def test_the_longest_idle_bridge_is_disconnected_with_a_reason(
    tmp_path: Path, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_stdio, "MAX_BRIDGES", 1)
    async with bridge(tmp_path, command=bare(tmp_path)) as first:
        await first.greet()
        async with bridge(tmp_path, command=bare(tmp_path)) as second:
            await second.greet()
            assert "longest-idle" in (await first.receive())["error"]["message"]
            assert await first.status() != 0
            assert (await second.ask(request(1, "ping")))["result"] == {}


async def test_a_bridge_that_has_ended_makes_room_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_stdio, "MAX_BRIDGES", 1)
    async with serving(tmp_path), asyncio.timeout(PATIENCE_SECONDS):
        for _ in range(3):
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "hub.mcp"))
            writer.write(b"{}\n" + lines(INITIALIZE) + END + b"\n")
            answer = await reader.read()
            assert "result" in json.loads(answer.removesuffix(END))
            writer.close()
            await writer.wait_closed()
