"""A child process and its pipes, with real processes. Its descendants are in test_tree.py."""

import asyncio
import json
import logging
import os
import signal
from pathlib import Path
from uuid import uuid4

import pytest

from hubd.errors import Timeout, Unavailable
from hubd.process import child as child_module
from hubd.process.child import ChildProcess
from hubd.process.pipes import STDERR_TAIL_BYTES
from hubd.process.tree import MARK_VARIABLE
from hubd.wire.caller import Actor
from tests.process.fake_child import HELD_BACK
from tests.process.support import (
    MORE_THAN_A_PIPE_HOLDS,
    all_lines,
    child_that,
    fake,
    first_line,
    is_running,
    limit,
    linux_only,
    send,
)
from tests.support import PATIENCE_SECONDS

pytestmark = linux_only


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch)


@pytest.fixture
def long_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """For children that end when they are asked, on a busy machine too."""
    limit(monkeypatch, eof=PATIENCE_SECONDS, term=PATIENCE_SECONDS)


# Lines


@pytest.mark.parametrize("size", ["1", "7", "100000"])
async def test_lines_are_whole_however_the_output_is_split(tmp_path: Path, size: str) -> None:
    file = tmp_path / "lines"
    file.write_bytes('{"a":"€😀"}\n\n  \r\n{"b":"ü"}\nno end: 😀'.encode())
    async with child_that("copy", str(file), size) as child:
        lines = await all_lines(child)
    assert lines == ['{"a":"€😀"}'.encode(), '{"b":"ü"}'.encode(), "no end: 😀".encode()]


async def test_a_line_of_fifty_megabytes_arrives_whole() -> None:
    size = 50_000_000
    async with child_that("huge", str(size), max_line_bytes=2 * size) as child:
        long, after = await all_lines(child)
    assert (len(long), set(long), after) == (size, {ord("x")}, b"after")


async def test_a_line_over_the_limit_is_skipped_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with child_that(
        "huge", "1000001", max_line_bytes=1_000_000, mark=(mark := uuid4().hex)
    ) as child:
        assert await all_lines(child) == [b"after"]
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert "a line of 1000001 bytes" in record.getMessage()
    assert record.__dict__["stream_id"] == mark


async def test_the_child_waits_for_a_slow_reader() -> None:
    async with child_that("flood", "50000000") as child:
        assert await first_line(child) == b"y" * 1023
        assert await child.wait() == HELD_BACK
        assert int(child.stderr_tail) < 1_000_000
        # Its earlier lines can still be read.
        assert len(await all_lines(child)) == int(child.stderr_tail) // 1024 - 1


async def test_a_cancelled_reader_loses_nothing() -> None:
    async with child_that("echo") as child:
        await send(child, {"n": 1})
        assert await first_line(child) == b'{"n":1}'
        reader = asyncio.create_task(first_line(child))
        await asyncio.sleep(0)
        reader.cancel()
        await asyncio.wait([reader])
        assert reader.cancelled()
        await send(child, {"n": 2})
        await send(child, {"n": 3})
        assert await first_line(child) == b'{"n":2}'
        child.close_input()
        assert await all_lines(child) == [b'{"n":3}']


async def test_lines_end_with_stdout_while_the_child_still_runs() -> None:
    async with child_that("close_output") as child:
        assert await all_lines(child) == [b"last"]
        assert await all_lines(child) == []
        assert child.status is None
        child.close_input()
        assert await child.wait() == 5
        assert child.status == 5


# Input


async def test_input_larger_than_every_buffer_arrives_whole() -> None:
    text = "x" * 5_000_000
    async with child_that("echo") as child:
        sending = asyncio.create_task(send(child, text))
        line = json.loads(await first_line(child))
        await sending
    assert line == text


async def test_writing_to_a_child_that_does_not_read_times_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(child_module, "SEND_SECONDS", 0.05)
    large = {"large": "x" * MORE_THAN_A_PIPE_HOLDS}
    async with child_that("late") as child:
        await first_line(child)
        await send(child, {"small": "fits into the pipe"})
        with pytest.raises(Timeout, match="has not read its input"):
            await send(child, large)
        with pytest.raises(Timeout):
            await send(child, {"small": "again"})
        os.kill(child.identity.pid, signal.SIGUSR1)
        child.close_input()
        # The half-written line is completed; the refused one is not sent.
        lines = [json.loads(line) for line in await all_lines(child)]
        assert lines == [{"small": "fits into the pipe"}, large]


async def test_a_child_that_never_reads_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "SEND_SECONDS", 0.05)
    async with child_that("deaf") as child:
        await first_line(child)
        with pytest.raises(Timeout):
            await send(child, {"large": "x" * MORE_THAN_A_PIPE_HOLDS})
    assert child.status == -signal.SIGTERM


async def test_writing_to_an_ended_child_fails() -> None:
    async with child_that("crash", "") as child:
        await child.wait()
        with pytest.raises(Unavailable, match="takes no more input"):
            await send(child, {"large": "x" * 1_000_000})


async def test_writing_after_the_input_was_closed_fails() -> None:
    async with child_that("echo") as child:
        child.close_input()
        with pytest.raises(Unavailable, match="takes no more input"):
            await send(child, {})


async def test_stdin_is_written_and_closed() -> None:
    async with child_that("echo", stdin=b"one\ntwo") as child:
        assert await all_lines(child) == [b"one", b"two"]
        assert await child.wait() == 0


async def test_the_lines_of_stderr_can_be_read() -> None:
    async with child_that("noisy", "5", stderr_lines=True) as child:
        errors = [line async for line in child.stderr_lines()]
        assert errors == [b"eeeee", "the end €".encode()]
        assert await all_lines(child) == [b"done"]


# Environment


async def test_a_child_gets_the_given_environment_directory_and_mark(
    tmp_path: Path,
) -> None:
    child = ChildProcess(
        fake("surroundings"), cwd=tmp_path, env={"A": "1"}, mark=(mark := uuid4().hex)
    )
    async with child:
        cwd, *variables = await all_lines(child)
    assert cwd == os.fsencode(tmp_path)
    # Python adds LC_CTYPE to an environment without a locale.
    assert [text for text in variables if not text.startswith(b"LC_CTYPE=")] == [
        b"A=1",
        f"{MARK_VARIABLE}={mark}".encode(),
    ]


async def test_stderr_is_drained_and_its_tail_is_kept() -> None:
    async with child_that("noisy", "3000000") as child:
        assert await all_lines(child) == [b"done"]
        await child.wait()
        assert child.stderr_tail.endswith("eee\nthe end €")
        assert len(child.stderr_tail.encode()) == STDERR_TAIL_BYTES


async def test_a_missing_program_is_named() -> None:
    with pytest.raises(Unavailable, match="there is no program /nowhere/claude"):
        async with ChildProcess(["/nowhere/claude"], cwd=Path("/"), env={}):
            pass


@pytest.mark.parametrize(
    ("cwd", "env", "reason"),
    [
        (Path("/nowhere"), {}, "true cannot be started in /nowhere: No such file"),
        (Path("/"), {"A": "\0"}, "true cannot be started in /: embedded null byte"),
    ],
)
async def test_a_failed_start_names_its_reason(cwd: Path, env: dict[str, str], reason: str) -> None:
    with pytest.raises(Unavailable, match=reason):
        async with ChildProcess(["true"], cwd=cwd, env=env):
            pass


# End


@pytest.mark.usefixtures("long_limits")
async def test_a_child_that_ends_with_its_input_gets_no_signal() -> None:
    async with child_that("echo") as child:
        await send(child, {})
    assert child.status == 0


async def test_a_child_that_ignores_the_end_of_its_input_gets_sigterm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit(monkeypatch, term=PATIENCE_SECONDS)
    async with child_that("polite") as child:
        assert await first_line(child) == b"ready"
        await child.end()
        assert child.status == 143
        await child.end()
        assert await all_lines(child) == [b"terminated"]
    assert child.status == 143


async def test_a_child_that_ignores_sigterm_is_killed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with child_that("stubborn", mark=(mark := uuid4().hex)) as child:
        await first_line(child)
    assert child.status == -signal.SIGKILL
    [record] = caplog.records
    assert "ignores SIGTERM" in record.getMessage()
    assert record.__dict__["stream_id"] == mark


async def test_a_full_pipe_does_not_keep_a_child_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit(monkeypatch, eof=PATIENCE_SECONDS)
    async with child_that("full") as child:
        await first_line(child)
    # It wrote more than a pipe holds. It ended because its output was read.
    assert child.status == 9


async def test_an_error_in_the_block_ends_the_child() -> None:
    child: ChildProcess | None = None
    with pytest.raises(KeyError, match="mine"):
        async with child_that("stubborn") as child:
            raise KeyError("mine")
    assert child is not None
    assert not is_running(child.identity.pid)


async def test_a_child_can_be_ended_twice_at_once() -> None:
    async with child_that("stubborn") as child:
        await first_line(child)
        await asyncio.gather(child.end(), child.end())
        assert child.status == -signal.SIGKILL


@pytest.mark.usefixtures("long_limits")
async def test_the_tail_of_stderr_is_complete_after_the_block() -> None:
    async with child_that("noisy", "60000") as child:
        pass
    assert child.stderr_tail.endswith("the end €")


async def test_a_child_knows_its_actor() -> None:
    actor = Actor("session", "one")
    async with child_that("echo", actor=actor) as child:
        assert child.actor == actor
