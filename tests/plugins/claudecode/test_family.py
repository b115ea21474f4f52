"""What a child starts ends with it, also when hubd is killed, and nothing else does."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from hubd.errors import Timeout
from hubd.plugins.claudecode.program import process
from hubd.plugins.claudecode.program.process import ChildProcess
from hubd.plugins.claudecode.program.process_tree import Identity, identity, kill_family, reap
from tests.plugins.claudecode.test_process import (
    MORE_THAN_A_PIPE_HOLDS,
    all_lines,
    bound,
    child_that,
    claude,
    fake,
    first_line,
    is_running,
    pids_of,
    tool_of,
    watching,
)
from tests.support import PATIENCE_SECONDS, environment

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="what outlives a child is found through /proc"
)


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch)


async def test_what_a_killed_child_has_started_is_killed_with_it() -> None:
    async with child_that("stubborn_parent") as child:
        pids = await pids_of(child)
    assert child.status == -signal.SIGKILL
    assert [is_running(pid) for pid in pids] == [False, False]


async def test_a_descendant_without_the_mark_is_killed_with_its_parent() -> None:
    async with child_that("stubborn_parent_of_unmarked") as child:
        [pid] = await pids_of(child)
    assert not is_running(pid)


@pytest.mark.parametrize(("ending", "status"), [("exit", 0), ("crash", -9)])
async def test_what_a_child_leaves_behind_is_ended_and_holds_no_reader_up(
    ending: str, status: int
) -> None:
    async with child_that("parent", ending) as child:
        # The two hold its stdout: without their end this would wait for ever.
        [line] = await all_lines(child)
        assert await child.wait() == status
    assert [is_running(int(pid)) for pid in line.split()] == [False, False]


async def test_what_a_polite_child_leaves_behind_is_ended_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bound(monkeypatch, eof=PATIENCE_SECONDS)
    async with child_that("parent", "eof") as child:
        pids = await pids_of(child)
    assert child.status == 0
    assert [is_running(pid) for pid in pids] == [False, False]


@pytest.mark.parametrize("reading", ["before", "after"])
async def test_a_process_that_hides_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, reading: str
) -> None:
    monkeypatch.setattr(process, "LINGER_SECONDS", 0.05)
    monkeypatch.setattr(process, "SEND_SECONDS", 0.05)
    async with child_that("echo"):
        pass  # What asyncio opens once is open now.
    files = Path("/proc/self/fd")
    before = len(list(files.iterdir()))
    async with child_that("hidden_parent") as child:
        if reading == "after":
            await child.wait()
            await child.end()
        [line] = await all_lines(child)
        assert "its output is still open" in caplog.records[0].getMessage()
        if reading == "before":
            # It holds the input as well, and does not read it.
            with pytest.raises(Timeout):
                await child.send({"large": "x" * MORE_THAN_A_PIPE_HOLDS})
    hidden = int(line)
    assert is_running(hidden)
    with watching(hidden):
        os.kill(hidden, signal.SIGKILL)
    assert len(list(files.iterdir())) == before


async def test_cancelling_again_and_again_does_not_keep_the_end_from_happening() -> None:
    started: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()

    async def chat() -> None:
        child = ChildProcess(fake("stubborn_parent"), cwd=Path("/"), env={})
        async with child:
            started.set_result([child.identity().pid, *await pids_of(child)])
            await child.wait()

    task = asyncio.create_task(chat())
    pids = await asyncio.wait_for(started, PATIENCE_SECONDS)
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.01)
    assert task.cancelled()
    assert [is_running(pid) for pid in pids] == [False, False, False]


@pytest.mark.parametrize("ending", [False, True])
@pytest.mark.parametrize("behaviour", [["stubborn_parent"], ["parent", "eof"]])
def test_a_loop_that_shuts_down_and_cancels_everything_leaves_nothing_behind(
    behaviour: list[str], ending: bool
) -> None:
    pids: list[int] = []

    async def chat(started: asyncio.Event) -> None:
        child = ChildProcess(fake(*behaviour), cwd=Path("/"), env={})
        async with child:
            pids.extend([child.identity().pid, *await pids_of(child)])
            started.set()
            await (child.end() if ending else child.wait())

    async def main() -> asyncio.Task[None]:
        started = asyncio.Event()
        task = asyncio.create_task(chat(started))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await started.wait()
        # Let it go as far as it gets by itself; the loop cancels it when this returns.
        await asyncio.sleep(0)
        return task

    assert asyncio.run(main()).cancelled()
    assert [is_running(pid) for pid in pids] == [False, False, False]


async def test_children_do_not_end_each_other() -> None:
    async with child_that("echo") as one:
        async with child_that("parent", "eof") as other:
            await pids_of(other)
        await one.send({"still": "here"})
        assert await first_line(one) == b'{"still":"here"}'


# When hubd itself dies

HUB = """
import asyncio, json, os, sys
from pathlib import Path
from hubd.plugins.claudecode.program.process import ChildProcess

async def main():
    child = ChildProcess(json.loads(sys.argv[1]), cwd=Path("/"), env={}, mark=sys.argv[2])
    async with child:
        async for line in child.lines():
            pids = [int(word) for word in line.split() if word.isdigit()]
            print(json.dumps([*child.identity(), *pids]), flush=True)

asyncio.run(main())
"""


@contextmanager
def another_hub(mark: str, *behaviour: str) -> Iterator[tuple[subprocess.Popen[bytes], list[Any]]]:
    """A Python process that runs a child, and what it tells of it."""
    command = [sys.executable, "-c", HUB, json.dumps(fake(*behaviour)), mark]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as hub:
        child = Identity(0, "")
        try:
            assert hub.stdout is not None
            told = json.loads(hub.stdout.readline())
            child = Identity(*told[:2])
            yield hub, told
        finally:
            hub.kill()
            # Not even a test that fails may leave something behind.
            kill_family(child, mark)


def test_a_child_dies_when_hubd_is_killed() -> None:
    # It does not care for the end of its input: what ends it is the signal of the system.
    with another_hub(uuid4().hex, "deaf") as (hub, [pid, _]), watching(pid):
        hub.kill()


async def test_what_survives_hubd_is_reaped_with_all_it_has_started() -> None:
    mark = uuid4().hex
    with another_hub(mark, "stubborn_parent") as (hub, [pid, started, *others]):
        with watching(hub.pid):
            hub.kill()
        assert is_running(pid)
        assert not await reap(pid, started + "0", "another mark")
        assert not await reap(pid, "")
        assert is_running(pid)
        assert await reap(pid, started, mark)
        assert [is_running(other) for other in (pid, *others)] == [False, False, False]
        assert not await reap(pid, started, mark)


async def test_what_outlives_the_child_as_well_is_reaped_by_its_mark() -> None:
    mark = uuid4().hex
    with another_hub(mark, "stubborn_parent") as (hub, [pid, started, *others]):
        with watching(hub.pid, pid):
            hub.kill()
            os.kill(pid, signal.SIGKILL)
        assert not await reap(pid, started)
        assert [is_running(other) for other in others] == [True, True]
        assert await reap(pid, started, mark)
        assert [is_running(other) for other in others] == [False, False]


async def test_reaping_asks_politely_first(monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, eof=PATIENCE_SECONDS, term=PATIENCE_SECONDS)
    async with child_that("polite") as child:
        await first_line(child)
        assert await reap(*child.identity())
        assert await child.wait() == 143


async def test_an_identity_is_the_same_for_everybody_and_differs_between_processes() -> None:
    async with child_that("echo") as one, child_that("echo") as other:
        assert one.identity().pid != other.identity().pid
        assert one.identity().started != ""
        assert identity(one.identity().pid) == one.identity()
        # A pid that is used again does not make it the same process.
        assert not await reap(other.identity().pid, f"{one.identity().started}0")
        assert is_running(other.identity().pid)


# The real program

TOOL = """
tail -f /dev/null & one=$!
two=$(setsid sh -c 'tail -f /dev/null >/dev/null 2>&1 & echo $!')
echo $one $two > fifo
tail -f /dev/null
"""


@pytest.mark.parametrize("how", ["term", "kill"])
async def test_the_processes_of_a_tool_end_with_the_real_claude(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    # SIGTERM lets it end its tools by itself, but for those that have left the session; after
    # SIGKILL all of them are left.
    bound(monkeypatch, term=PATIENCE_SECONDS if how == "term" else 0)
    async with claude(tmp_path, allowed_tools=["Bash"]) as child:
        pids = await tool_of(child, tmp_path, TOOL)
    assert child.status == (143 if how == "term" else -signal.SIGKILL)
    assert [is_running(pid) for pid in pids] == [False, False]
