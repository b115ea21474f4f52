"""`self.host.process`, from the plugin's side and in a real daemon."""

import os
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from hubd.activation import Activation, Event, ExecutionError, Unavailable, method
from hubd.testing import hub
from tests.process.support import is_running, linux_only, watching
from tests.support import Daemon, LineClient

pytestmark = linux_only

# Prints its pid and waits for ever. The shell's own child ignores SIGTERM.
WAITS = "sh -c 'trap \"\" TERM; echo $$; exec tail -f /dev/null' & wait"
# Leaves a process that is in another session and has another parent.
LEAVES = "setsid sh -c 'tail -f /dev/null >/dev/null 2>&1 & echo $!'"
# The same, without the mark.
LEAVES_UNMARKED = LEAVES.replace("setsid sh", "setsid env -i sh")


class Line(Event):
    text: str


class Ended(Event):
    status: int
    stderr: str
    actor: str


class Runner(Activation, namespace="runner", version="1.0.0"):
    """Runs shell commands."""

    @method(needs_context=True)
    async def run(self, command: str, stdin: str = "") -> AsyncIterator[Line | Ended]:
        """Run a command and stream its lines."""
        argv = ["sh", "-c", command]
        async with self.host.process(argv, stdin=stdin.encode()) as child:
            async for line in child.lines():
                yield Line(text=line.decode())
            status = await child.wait()
            yield Ended(status=status, stderr=child.stderr_tail, actor=child.actor.kind)

    @method
    async def missing(self) -> Ended:
        """Run a program that does not exist."""
        async with self.host.process(["/nowhere/program"]) as child:
            return Ended(status=await child.wait(), stderr="", actor="")

    @method
    async def as_text(self) -> Ended:
        """Run a command line that is not a list."""
        async with self.host.process("ls -l") as child:
            return Ended(status=await child.wait(), stderr="", actor="")


async def events_of(**params: Any) -> list[dict[str, Any]]:
    async with hub(Runner()) as h:
        return [event async for event in h.call("runner.run", **params)]


async def test_a_process_streams_its_lines_and_reports_its_status() -> None:
    *lines, ended = await events_of(command="cat; echo two; echo err >&2; exit 3", stdin="one\n")
    assert [line["text"] for line in lines] == ["one", "two"]
    assert (ended["status"], ended["stderr"]) == (3, "err\n")
    # The process acts as the client that called.
    assert ended["actor"] == "person"


async def test_a_process_runs_with_the_caller_context_without_the_hubs_secrets(
    tmp_path: Path,
) -> None:
    env = {"PATH": os.environ["PATH"], "A": "1", "HUBD_TOKEN": "x", "SYNAPSE_API_KEY": "y"}
    async with hub(Runner()) as h:
        caller = h.calling(cwd=tmp_path, env=env)
        events = [event async for event in caller.call("runner.run", command="pwd; env")]
    first, *variables = [event["text"] for event in events[:-1]]
    assert first == str(tmp_path)
    assert "A=1" in variables
    assert not [line for line in variables if line.startswith(("HUBD_TOKEN", "SYNAPSE"))]
    # Python's launcher leaves nothing behind.
    assert not [line for line in variables if line.startswith("LC_")]


async def test_leaving_the_call_ends_the_process_and_its_descendants() -> None:
    async with hub(Runner()) as h, aclosing(h.call("runner.run", command=WAITS)) as events:
        pid = int((await anext(events))["text"])
        assert is_running(pid)
        await events.aclose()
        assert not is_running(pid)


async def test_a_missing_program_is_unavailable() -> None:
    async with hub(Runner()) as h:
        with pytest.raises(Unavailable, match="there is no program /nowhere/program"):
            await h.call_one("runner.missing")


async def test_a_command_that_is_a_text_is_refused_with_the_remedy() -> None:
    async with hub(Runner()) as h:
        with pytest.raises(ExecutionError, match=r"got the text 'ls -l'; write a list with the"):
            await h.call_one("runner.as_text")


async def test_orphans_stay_below_their_process() -> None:
    async with hub(Runner()) as h:
        # The orphan has neither the mark nor the session of the process.
        async with aclosing(h.call("runner.run", command=f"{LEAVES_UNMARKED}; {WAITS}")) as events:
            orphan = int((await anext(events))["text"])
            stat = Path(f"/proc/{orphan}/stat").read_text().rpartition(")")[2].split()
            assert int(stat[1]) not in (1, os.getpid())
        assert not is_running(orphan)


async def first_number(client: LineClient, command: str) -> int:
    await client.send("plexus.call", {"method": "runner.run", "params": {"command": command}})
    while True:
        item = (await client.receive()).get("params", {}).get("result", {})
        if item.get("type") == "data":
            return int(item["content"]["text"])


async def test_a_killed_daemon_takes_its_processes_with_it(home: Path) -> None:
    with Daemon(home, "--plugin", f"{__name__}:Runner") as daemon:
        async with daemon.client() as client:
            pid = await first_number(client, "echo $$; exec tail -f /dev/null")
            with watching(pid):
                daemon.kill()


async def test_a_stopped_daemon_ends_its_processes(home: Path) -> None:
    with Daemon(home, "--plugin", f"{__name__}:Runner") as daemon:
        async with daemon.client() as client:
            pid = await first_number(client, WAITS)
            with watching(pid):
                assert daemon.stop() == 0


async def test_a_daemon_ends_the_orphans_of_an_ended_process(home: Path) -> None:
    with Daemon(home, "--plugin", f"{__name__}:Runner") as daemon:
        async with daemon.client() as client:
            pid = await first_number(client, LEAVES)
            while (await client.receive())["params"]["result"]["type"] != "done":
                pass
        # The daemon has also waited for it: no zombie is left.
        assert not Path(f"/proc/{pid}").exists()
