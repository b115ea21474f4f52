"""A child process and its pipes under all circumstances: real processes, also the real `claude`.

What a child starts and leaves behind is in test_family.py.
"""

import asyncio
import json
import logging
import os
import select
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from hubd.errors import Timeout, Unavailable
from hubd.plugins.claudecode.program import process
from hubd.plugins.claudecode.program import process_tree as family
from hubd.plugins.claudecode.program.argv import ChatOptions, command_line
from hubd.plugins.claudecode.program.exit_reason import explain
from hubd.plugins.claudecode.program.process import ChildProcess
from hubd.plugins.claudecode.program.process_tree import MARK_VARIABLE
from tests.fakes.agent_process import agent_environment, claude_program
from tests.fakes.messages_api import FakeMessagesApi
from tests.plugins.claudecode.fake_child import HELD_BACK
from tests.support import PATIENCE_SECONDS

# The bounds are for real agents; a fake one that ignores us need not be waited for.
HURRY_SECONDS = 0.2

# By less than the buffers of asyncio, which would otherwise take it.
MORE_THAN_A_PIPE_HOLDS = 100_000

FAKE = Path(__file__).parent / "fake_child.py"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="what outlives a child is found through /proc"
)


def fake(*arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(FAKE), *arguments]


def bound(
    monkeypatch: pytest.MonkeyPatch, *, eof: float = HURRY_SECONDS, term: float = HURRY_SECONDS
) -> None:
    """How long a child may take to end with its input, and how long after SIGTERM."""
    monkeypatch.setattr(process, "EOF_SECONDS", eof)
    # Each reads it under a name of its own.
    monkeypatch.setattr(process, "TERM_SECONDS", term)
    monkeypatch.setattr(family, "TERM_SECONDS", term)


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch)


@pytest.fixture
def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For children that end when they are asked, however busy the machine is."""
    bound(monkeypatch, eof=PATIENCE_SECONDS, term=PATIENCE_SECONDS)


@asynccontextmanager
async def child_that(*behaviour: str, **options: Any) -> AsyncIterator[ChildProcess]:
    child = ChildProcess(fake(*behaviour), cwd=Path("/"), env={"PATH": "/usr/bin"}, **options)
    async with asyncio.timeout(PATIENCE_SECONDS), child:
        yield child
    assert not is_running(child.identity().pid)


async def first_line(child: ChildProcess) -> bytes:
    async with aclosing(child.lines()) as lines:
        async for line in lines:
            return line
    raise AssertionError(f"no line, but: {child.stderr_tail}")


async def all_lines(child: ChildProcess) -> list[bytes]:
    return [line async for line in child.lines()]


async def pids_of(child: ChildProcess) -> list[int]:
    """Those that a `parent` tells, all of them alive."""
    pids = [int(word) for word in (await first_line(child)).split()]
    assert all(map(is_running, pids))
    return pids


def is_running(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


@contextmanager
def watching(*pids: int) -> Iterator[None]:
    """After the block, wait until these processes have ended; they need not be our children."""
    descriptors = [os.pidfd_open(pid) for pid in pids]
    try:
        yield
        for pid, descriptor in zip(pids, descriptors, strict=True):
            ended, _, _ = select.select([descriptor], [], [], PATIENCE_SECONDS)
            assert ended, f"{pid} does not end"
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


# Lines


@pytest.mark.parametrize("size", ["1", "7", "100000"])
async def test_characters_that_are_cut_in_two_come_out_whole(tmp_path: Path, size: str) -> None:
    file = tmp_path / "lines"
    file.write_bytes('{"a":"€😀"}\n\n  \r\n{"b":"ü"}\nno end: 😀'.encode())
    async with child_that("copy", str(file), size) as child:
        lines = await all_lines(child)
    assert lines == ['{"a":"€😀"}'.encode(), '{"b":"ü"}'.encode(), "no end: 😀".encode()]


async def test_a_line_of_fifty_megabytes_comes_out_whole() -> None:
    size = 50_000_000
    async with child_that("huge", str(size)) as child:
        long, after = await all_lines(child)
    assert (len(long), set(long), after) == (size, {ord("x")}, b"after")


async def test_a_line_beyond_the_bound_is_skipped_and_logged(
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


async def test_a_consumer_that_does_not_read_holds_the_child_back() -> None:
    async with child_that("flood", "50000000") as child:
        assert await first_line(child) == b"y" * 1023
        assert await child.wait() == HELD_BACK
        assert int(child.stderr_tail) < 1_000_000
        # What it wrote before is still there.
        assert len(await all_lines(child)) == int(child.stderr_tail) // 1024 - 1


async def test_a_reader_that_is_cancelled_loses_nothing() -> None:
    async with child_that("echo") as child:
        await child.send({"n": 1})
        assert await first_line(child) == b'{"n":1}'
        reader = asyncio.create_task(first_line(child))
        await asyncio.sleep(0)
        reader.cancel()
        await asyncio.wait([reader])
        assert reader.cancelled()
        await child.send({"n": 2})
        await child.send({"n": 3})
        assert await first_line(child) == b'{"n":2}'
        child.close_input()
        assert await all_lines(child) == [b'{"n":3}']


async def test_the_end_of_stdout_is_the_end_of_the_lines_while_the_child_still_runs() -> None:
    async with child_that("close_output") as child:
        assert await all_lines(child) == [b"last"]
        assert await all_lines(child) == []
        assert child.status is None
        child.close_input()
        assert await child.wait() == 5
        assert child.status == 5


# Input


async def test_messages_go_in_as_json_lines_in_their_order() -> None:
    async with child_that("echo") as child:
        await child.send_user("one\ntwo \u2028 😀 \ud800")
        await child.send_user([{"type": "image"}], uuid="u-1")
        await child.interrupt("r-1")
        child.close_input()
        lines = [json.loads(line) for line in await all_lines(child)]
    assert lines == [
        {
            "type": "user",
            "message": {
                "role": "user",
                "content": [{"type": "text", "text": "one\ntwo \u2028 😀 \ud800"}],
            },
        },
        {
            "type": "user",
            "message": {"role": "user", "content": [{"type": "image"}]},
            "uuid": "u-1",
        },
        {"type": "control_request", "request_id": "r-1", "request": {"subtype": "interrupt"}},
    ]


async def test_a_message_larger_than_every_buffer_arrives_whole_while_its_echo_is_read() -> None:
    text = "x" * 5_000_000
    async with child_that("echo") as child:
        sending = asyncio.create_task(child.send_user(text))
        line = json.loads(await first_line(child))
        await sending
    assert line["message"]["content"][0]["text"] == text


async def test_sending_to_a_child_that_does_not_read_times_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "SEND_SECONDS", 0.05)
    large = {"large": "x" * MORE_THAN_A_PIPE_HOLDS}
    async with child_that("late") as child:
        await first_line(child)
        await child.send({"small": "fits into the pipe"})
        with pytest.raises(Timeout, match="has not read its input"):
            await child.send(large)
        with pytest.raises(Timeout):
            await child.send({"small": "again"})
        os.kill(child.identity().pid, signal.SIGUSR1)
        child.close_input()
        # The line that was begun is completed; nothing was piled up behind it.
        lines = [json.loads(line) for line in await all_lines(child)]
        assert lines == [{"small": "fits into the pipe"}, large]


async def test_a_child_that_never_reads_can_be_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "SEND_SECONDS", 0.05)
    async with child_that("deaf") as child:
        await first_line(child)
        with pytest.raises(Timeout):
            await child.send({"large": "x" * MORE_THAN_A_PIPE_HOLDS})
    assert child.status == -signal.SIGTERM


async def test_sending_to_a_child_that_has_ended_says_so() -> None:
    async with child_that("crash", "") as child:
        await child.wait()
        with pytest.raises(Unavailable, match="takes no more input"):
            await child.send({"large": "x" * 1_000_000})


async def test_nothing_can_be_sent_after_the_input_was_closed() -> None:
    async with child_that("echo") as child:
        child.close_input()
        with pytest.raises(Unavailable, match="takes no more input"):
            await child.send({})


# Its surroundings


async def test_a_child_gets_the_given_environment_and_directory_and_a_mark(
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


async def test_stderr_is_always_drained_and_its_end_is_kept() -> None:
    async with child_that("noisy", "3000000") as child:
        assert await all_lines(child) == [b"done"]
        await child.wait()
        assert child.stderr_tail.endswith("eee\nthe end €")
        assert len(child.stderr_tail.encode()) == process.STDERR_TAIL_BYTES


async def test_a_program_that_is_not_there_is_named() -> None:
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
async def test_a_child_that_cannot_be_started_is_an_error_with_its_reason(
    cwd: Path, env: dict[str, str], reason: str
) -> None:
    with pytest.raises(Unavailable, match=reason):
        async with ChildProcess(["true"], cwd=cwd, env=env):
            pass


# Its end


@pytest.mark.usefixtures("be_patient")
async def test_a_child_that_ends_with_its_input_gets_no_signal() -> None:
    async with child_that("echo") as child:
        await child.send({})
    assert child.status == 0


async def test_a_child_that_goes_on_gets_a_signal_and_its_last_line_can_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bound(monkeypatch, term=PATIENCE_SECONDS)
    async with child_that("polite") as child:
        assert await first_line(child) == b"ready"
        await child.end()
        assert child.status == 143
        await child.end()
        assert await all_lines(child) == [b"terminated"]
    assert child.status == 143


async def test_a_child_that_ignores_every_request_is_killed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with child_that("stubborn", mark=(mark := uuid4().hex)) as child:
        await first_line(child)
    assert child.status == -signal.SIGKILL
    [record] = caplog.records
    assert "ignores SIGTERM" in record.getMessage()
    assert record.__dict__["stream_id"] == mark


async def test_a_child_that_writes_to_nobody_still_ends_politely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bound(monkeypatch, eof=PATIENCE_SECONDS)
    async with child_that("full") as child:
        await first_line(child)
    # It had more to say than a pipe holds, and came to its end because it was read.
    assert child.status == 9


async def test_an_error_in_the_block_ends_the_child_and_goes_on() -> None:
    child: ChildProcess | None = None
    with pytest.raises(KeyError, match="mine"):
        async with child_that("stubborn") as child:
            raise KeyError("mine")
    assert child is not None
    assert not is_running(child.identity().pid)


async def test_ending_twice_at_once_is_ending_once() -> None:
    async with child_that("stubborn") as child:
        await first_line(child)
        await asyncio.gather(child.end(), child.end())
        assert child.status == -signal.SIGKILL


async def test_a_crash_is_explained_by_its_signal_and_last_words() -> None:
    async with child_that("crash", "out of cheese\n") as child:
        assert await all_lines(child) == []
        sentence = explain(await child.wait(), child.stderr_tail)
    assert sentence == "the agent was killed by SIGABRT: out of cheese"


@pytest.mark.usefixtures("be_patient")
async def test_the_last_words_are_there_when_the_block_was_left() -> None:
    async with child_that("noisy", "60000") as child:
        pass
    assert child.stderr_tail.endswith("the end €")


# The real program


@asynccontextmanager
async def claude(directory: Path, **options: Any) -> AsyncIterator[ChildProcess]:
    """The real one, with an API of its own that does what the prompt says."""
    command = command_line([claude_program()], ChatOptions(**options))
    async with FakeMessagesApi() as api, asyncio.timeout(3 * PATIENCE_SECONDS):
        environ = agent_environment(directory, api.url)
        async with ChildProcess(command, cwd=directory, env=environ) as child:
            yield child


async def read_until(child: ChildProcess, kind: str) -> dict[str, Any]:
    """The next line of a type."""
    async with aclosing(child.lines()) as lines:
        async for line in lines:
            message: dict[str, Any] = json.loads(line)
            if message["type"] == kind:
                return message
    raise AssertionError(f"no {kind}, but: {child.stderr_tail}")


async def tool_of(child: ChildProcess, directory: Path, command: str) -> list[int]:
    """Have a tool run a command; the pids that it writes to `fifo`, all of them alive."""
    os.mkfifo(directory / "fifo")
    reader = asyncio.StreamReader()
    # Opened for both, it does not wait for somebody at the other end.
    with os.fdopen(os.open(directory / "fifo", os.O_RDWR), "rb", buffering=0) as file:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), file
        )
        await child.send_user(f"RUN_BASH[{command}]")
        pids = [int(word) for word in (await reader.readline()).split()]
        transport.close()
        await asyncio.sleep(0)
    assert all(map(is_running, pids))
    return pids


@pytest.mark.usefixtures("be_patient")
async def test_the_real_claude_takes_turn_after_turn_and_ends_with_its_input(
    tmp_path: Path,
) -> None:
    async with claude(tmp_path) as child:
        for prompt in ("alpha", "beta"):
            await child.send_user(prompt)
            result = await read_until(child, "result")
            assert (result["is_error"], result["result"]) == (False, f"echo: {prompt}")
    assert child.status == 0


@pytest.mark.usefixtures("be_patient")
async def test_the_real_claude_can_be_interrupted_in_a_tool_and_goes_on(tmp_path: Path) -> None:
    async with claude(tmp_path, allowed_tools=["Bash"]) as child:
        await tool_of(child, tmp_path, "echo $$ > fifo; tail -f /dev/null")
        await child.interrupt("r-1")
        answer = await read_until(child, "control_response")
        assert answer["response"]["request_id"] == "r-1"
        await read_until(child, "result")
        await child.send_user("beta")
        assert (await read_until(child, "result"))["result"] == "echo: beta"
