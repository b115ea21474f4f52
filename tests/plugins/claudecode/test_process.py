"""A child process under all circumstances: real processes, one of them the real `claude`."""

import asyncio
import json
import logging
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.errors import Timeout, Unavailable
from hubd.plugins.claudecode import process as module
from hubd.plugins.claudecode.argv import ChatOptions, command_line
from hubd.plugins.claudecode.process import (
    MARK_VARIABLE,
    ChildProcess,
    Identity,
    LineSplitter,
    explain,
    reap,
)
from tests.plugins.claudecode.fake_child import HELD_BACK
from tests.plugins.claudecode.test_argv import (
    TalkingApi,
    claude_environment,
    real_claude,
    serving,
)
from tests.support import PATIENCE_SECONDS, environment

# By less than the buffers of asyncio, which would otherwise take it.
MORE_THAN_A_PIPE_HOLDS = 100_000

FAKE = Path(__file__).parent / "fake_child.py"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="what outlives a child is found through /proc"
)


def fake(*arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(FAKE), *arguments]


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds are for real agents; a fake one that ignores us need not be waited for."""
    monkeypatch.setattr(module, "EOF_SECONDS", 0.2)
    monkeypatch.setattr(module, "TERM_SECONDS", 0.2)


@pytest.fixture
def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For children that end when they are asked, however busy the machine is."""
    monkeypatch.setattr(module, "EOF_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(module, "TERM_SECONDS", PATIENCE_SECONDS)


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


@given(
    lines=st.lists(st.binary(max_size=40).filter(lambda line: b"\n" not in line)),
    cuts=st.lists(st.integers(0, 400)),
    limit=st.integers(0, 40),
)
def test_lines_are_the_same_however_they_arrive(
    lines: list[bytes], cuts: list[int], limit: int
) -> None:
    data = b"\n".join(lines)
    reported: list[int] = []
    splitter = LineSplitter(limit, reported.append)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    found: list[bytes] = []
    for begin, end in pairwise(edges):
        found += splitter.feed(data[begin:end])
    found += splitter.finish()
    assert found == [line for line in lines if len(line) <= limit and line.strip()]
    assert reported == [len(line) for line in lines if len(line) > limit]


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
    monkeypatch.setattr(module, "SEND_SECONDS", 0.05)
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
    monkeypatch.setattr(module, "SEND_SECONDS", 0.05)
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
        assert len(child.stderr_tail.encode()) == module.STDERR_TAIL_BYTES


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
    monkeypatch.setattr(module, "TERM_SECONDS", PATIENCE_SECONDS)
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
    monkeypatch.setattr(module, "EOF_SECONDS", PATIENCE_SECONDS)
    async with child_that("full") as child:
        await first_line(child)
    # It had more to say than a pipe holds, and came to its end because it was read.
    assert child.status == 9


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


@pytest.mark.usefixtures("be_patient")
async def test_what_a_polite_child_leaves_behind_is_ended_too() -> None:
    async with child_that("parent", "eof") as child:
        pids = await pids_of(child)
    assert child.status == 0
    assert [is_running(pid) for pid in pids] == [False, False]


@pytest.mark.parametrize("reading", ["before", "after"])
async def test_a_process_that_hides_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, reading: str
) -> None:
    monkeypatch.setattr(module, "LINGER_SECONDS", 0.05)
    monkeypatch.setattr(module, "SEND_SECONDS", 0.05)
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


async def test_an_error_in_the_block_ends_the_child_and_goes_on() -> None:
    child: ChildProcess | None = None
    with pytest.raises(KeyError, match="mine"):
        async with child_that("stubborn") as child:
            raise KeyError("mine")
    assert child is not None
    assert not is_running(child.identity().pid)


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


async def test_ending_twice_at_once_is_ending_once() -> None:
    async with child_that("stubborn") as child:
        await first_line(child)
        await asyncio.gather(child.end(), child.end())
        assert child.status == -signal.SIGKILL


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
from hubd.plugins.claudecode.process import ChildProcess

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
            module._kill_family(child, mark)


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
    monkeypatch.setattr(module, "EOF_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(module, "TERM_SECONDS", PATIENCE_SECONDS)
    async with child_that("polite") as child:
        await first_line(child)
        assert await reap(*child.identity())
        assert await child.wait() == 143


async def test_an_identity_is_the_same_for_everybody_and_differs_between_processes() -> None:
    async with child_that("echo") as one, child_that("echo") as other:
        assert one.identity().pid != other.identity().pid
        assert one.identity().started != ""
        assert isinstance(one.identity(), Identity)
        # A pid that is used again does not make it the same process.
        assert not await reap(other.identity().pid, f"{one.identity().started}0")
        assert is_running(other.identity().pid)


# Explanations


@pytest.mark.parametrize(
    ("status", "stderr", "sentence"),
    [
        (0, "", "the agent has ended"),
        (1, "", "the agent ended with status 1"),
        (1, "a\n\nError: bad thing\n", "the agent ended with status 1: bad thing"),
        (
            1,
            "Error: Invalid session ID. Must be a valid UUID.\n[claude-code:note] {}\n",
            "the agent ended with status 1: Invalid session ID. Must be a valid UUID.",
        ),
        (143, "", "the agent was ended by SIGTERM"),
        (-15, "", "the agent was killed by SIGTERM"),
        (-6, "boom", "the agent was killed by SIGABRT: boom"),
        (-9, "", "the agent was killed (SIGKILL), perhaps because memory ran out"),
        (-99, "", "the agent ended with status -99"),
        (255, "", "the agent ended with status 255"),
        (
            127,
            "setpriv: failed to execute claude: No such file",
            "the agent's program could not be run: setpriv: failed to execute claude: No such file",
        ),
        (
            1,
            "No conversation found with session ID: 1923d140-595b-4dba-884c-5037aa1915bc\n",
            "the agent does not have the session to resume",
        ),
        (
            1,
            "Error: Session ID c7126bb3-00ac-473d-92a4-1dd81acf5555 is already in use.\n",
            "the agent already has a session with this id",
        ),
        (
            1,
            "--dangerously-skip-permissions cannot be used with root/sudo privileges for security",
            "the agent refuses to bypass permissions for root",
        ),
    ],
)
def test_an_end_is_explained_in_a_sentence(status: int, stderr: str, sentence: str) -> None:
    assert explain(status, stderr) == sentence


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


async def read_until(child: ChildProcess, kind: str) -> dict[str, Any]:
    """The next line of a type."""
    async with aclosing(child.lines()) as lines:
        async for line in lines:
            message: dict[str, Any] = json.loads(line)
            if message["type"] == kind:
                return message
    raise AssertionError(f"no {kind}, but: {child.stderr_tail}")


@asynccontextmanager
async def claude(
    directory: Path, api: TalkingApi, options: ChatOptions
) -> AsyncIterator[ChildProcess]:
    command = command_line([real_claude()], options)
    environ = claude_environment(directory, api.server_port)
    child = ChildProcess(command, cwd=directory, env=environ)
    async with asyncio.timeout(3 * PATIENCE_SECONDS), child:
        yield child


@pytest.mark.usefixtures("be_patient")
async def test_the_real_claude_takes_turn_after_turn_and_ends_with_its_input(
    tmp_path: Path,
) -> None:
    with serving(api := TalkingApi()):
        async with claude(tmp_path, api, ChatOptions()) as child:
            for prompt in ("alpha", "beta"):
                await child.send_user(prompt)
                result = await read_until(child, "result")
                assert (result["is_error"], result["result"]) == (False, "well")
                assert prompt in json.dumps(api.requests[-1]["messages"])
    assert child.status == 0


@pytest.mark.usefixtures("be_patient")
async def test_the_real_claude_can_be_interrupted_in_a_tool_and_goes_on(tmp_path: Path) -> None:
    with serving(api := TalkingApi("touch started; tail -f /dev/null")):
        async with claude(tmp_path, api, ChatOptions(allowed_tools=["Bash"])) as child:
            await child.send_user("alpha")
            await read_until(child, "assistant")
            await child.interrupt("r-1")
            answer = await read_until(child, "control_response")
            assert answer["response"]["request_id"] == "r-1"
            await read_until(child, "result")
            await child.send_user("beta")
            assert (await read_until(child, "result"))["result"] == "well"


async def tool_of(child: ChildProcess, fifo: Path) -> list[int]:
    """The pids that the Bash tool has written to the pipe, once it runs."""
    os.mkfifo(fifo)
    reader = asyncio.StreamReader()
    # Opened for both, it does not wait for somebody at the other end.
    with os.fdopen(os.open(fifo, os.O_RDWR), "rb", buffering=0) as file:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), file
        )
        await child.send_user("go")
        pids = [int(word) for word in (await reader.readline()).split()]
        transport.close()
        await asyncio.sleep(0)
    assert len(pids) == 2
    assert all(map(is_running, pids))
    return pids


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
    monkeypatch.setattr(module, "TERM_SECONDS", PATIENCE_SECONDS if how == "term" else 0)
    with serving(api := TalkingApi(TOOL)):
        async with claude(tmp_path, api, ChatOptions(allowed_tools=["Bash"])) as child:
            pids = await tool_of(child, tmp_path / "fifo")
    assert child.status == (143 if how == "term" else -signal.SIGKILL)
    assert [is_running(pid) for pid in pids] == [False, False]
