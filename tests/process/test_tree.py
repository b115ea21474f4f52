"""The descendants of a child end with it, also when hubd is killed; other processes do not."""

import asyncio
import os
import signal
from pathlib import Path
from uuid import uuid4

import pytest

from hubd.errors import Timeout
from hubd.process import child as child_module
from hubd.process import patience
from hubd.process.child import ChildProcess
from hubd.process.tree import identity, reap
from tests.process.another_hub import another_hub
from tests.process.support import (
    MORE_THAN_A_PIPE_HOLDS,
    all_lines,
    child_that,
    fake,
    first_line,
    is_running,
    limit,
    linux_only,
    pids_of,
    send,
    watching,
)
from tests.support import PATIENCE_SECONDS

pytestmark = linux_only


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch)


async def test_descendants_are_killed_with_a_child() -> None:
    async with child_that("stubborn_parent") as child:
        pids = await pids_of(child)
    assert child.status == -signal.SIGKILL
    assert [is_running(pid) for pid in pids] == [False, False]


async def test_a_descendant_without_the_mark_is_killed_too() -> None:
    async with child_that("stubborn_parent_of_unmarked") as child:
        [pid] = await pids_of(child)
    assert not is_running(pid)


@pytest.mark.parametrize(("ending", "status"), [("exit", 0), ("crash", -9)])
async def test_descendants_of_an_ended_child_are_ended_and_block_no_reader(
    ending: str, status: int
) -> None:
    async with child_that("parent", ending) as child:
        # Both hold its stdout, so this waits until they have ended.
        [line] = await all_lines(child)
        assert await child.wait() == status
    assert [is_running(int(pid)) for pid in line.split()] == [False, False]


async def test_descendants_of_a_child_that_ends_with_its_input_are_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit(monkeypatch, eof=PATIENCE_SECONDS)
    async with child_that("parent", "eof") as child:
        pids = await pids_of(child)
    assert child.status == 0
    assert [is_running(pid) for pid in pids] == [False, False]


@pytest.mark.parametrize("reading", ["before", "after"])
async def test_a_hidden_process_blocks_no_reader(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, reading: str
) -> None:
    for module in (child_module, patience):
        monkeypatch.setattr(module, "LINGER_SECONDS", 0.05)
    monkeypatch.setattr(child_module, "SEND_SECONDS", 0.05)
    async with child_that("echo"):
        pass  # asyncio opens some files once.
    files = Path("/proc/self/fd")
    before = len(list(files.iterdir()))
    async with child_that("hidden_parent") as child:
        if reading == "after":
            await child.wait()
            await child.end()
        [line] = await all_lines(child)
        assert "its output is still open" in caplog.records[0].getMessage()
        if reading == "before":
            # It also holds the input, and does not read it.
            with pytest.raises(Timeout):
                await send(child, {"large": "x" * MORE_THAN_A_PIPE_HOLDS})
    hidden = int(line)
    assert is_running(hidden)
    with watching(hidden):
        os.kill(hidden, signal.SIGKILL)
    assert len(list(files.iterdir())) == before


async def test_repeated_cancellation_does_not_prevent_the_end() -> None:
    started: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()

    async def chat() -> None:
        child = ChildProcess(fake("stubborn_parent"), cwd=Path("/"), env={})
        async with child:
            started.set_result([child.identity.pid, *await pids_of(child)])
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
def test_an_event_loop_that_shuts_down_leaves_no_process(
    behaviour: list[str], ending: bool
) -> None:
    pids: list[int] = []

    async def chat(started: asyncio.Event) -> None:
        child = ChildProcess(fake(*behaviour), cwd=Path("/"), env={})
        async with child:
            pids.extend([child.identity.pid, *await pids_of(child)])
            started.set()
            await (child.end() if ending else child.wait())

    async def main() -> asyncio.Task[None]:
        started = asyncio.Event()
        task = asyncio.create_task(chat(started))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await started.wait()
        # Let the task run until it waits; the loop cancels it when this returns.
        await asyncio.sleep(0)
        return task

    assert asyncio.run(main()).cancelled()
    assert [is_running(pid) for pid in pids] == [False, False, False]


async def test_children_do_not_end_each_other() -> None:
    async with child_that("echo") as one:
        async with child_that("parent", "eof") as other:
            await pids_of(other)
        await send(one, {"still": "here"})
        assert await first_line(one) == b'{"still":"here"}'


# When hubd is killed


def test_a_child_ends_when_hubd_is_killed() -> None:
    # It ignores the end of its input: the signal of the system ends it.
    with another_hub(uuid4().hex, "deaf") as (hub, [pid, _]), watching(pid):
        hub.kill()


async def test_a_child_that_survives_hubd_is_reaped_with_its_descendants() -> None:
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


async def test_descendants_that_survive_the_child_are_reaped_by_their_mark() -> None:
    mark = uuid4().hex
    with another_hub(mark, "stubborn_parent") as (hub, [pid, started, *others]):
        with watching(hub.pid, pid):
            hub.kill()
            os.kill(pid, signal.SIGKILL)
        assert not await reap(pid, started)
        assert [is_running(other) for other in others] == [True, True]
        assert await reap(pid, started, mark)
        assert [is_running(other) for other in others] == [False, False]


async def test_reaping_sends_sigterm_first(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, eof=PATIENCE_SECONDS, term=PATIENCE_SECONDS)
    async with child_that("polite") as child:
        await first_line(child)
        assert await reap(*child.identity)
        assert await child.wait() == 143


async def test_identities_differ_between_processes() -> None:
    async with child_that("echo") as one, child_that("echo") as other:
        assert one.identity.pid != other.identity.pid
        assert one.identity.started != ""
        assert identity(one.identity.pid) == one.identity
        # Another process with the same pid has another start time.
        assert not await reap(other.identity.pid, f"{one.identity.started}0")
        assert is_running(other.identity.pid)
