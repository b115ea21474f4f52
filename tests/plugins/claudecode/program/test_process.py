"""Messages to an agent's program, and the real `claude` as a child process."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hubd.plugins.claudecode.program import process
from hubd.plugins.claudecode.program.argv import ChatOptions, command_line
from hubd.plugins.claudecode.program.exit_reason import explain
from hubd.process.child import ChildProcess as Child
from tests.fakes.agent_process import agent_environment, claude_program
from tests.fakes.messages_api import FakeMessagesApi
from tests.process.support import Limits, all_lines, child_that, is_running, limit, linux_only
from tests.support import PATIENCE_SECONDS

pytestmark = linux_only


@pytest.fixture
def long_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """For children that end when they are asked, on a busy machine too."""
    limit(monkeypatch, eof=PATIENCE_SECONDS, term=PATIENCE_SECONDS)


async def test_messages_are_json_lines() -> None:
    async with child_that("echo") as child:
        await process.send_user(child, "one\ntwo \u2028 😀 \ud800")
        await process.send_user(child, [{"type": "image"}], uuid="u-1")
        await process.interrupt(child, "r-1")
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


async def test_a_crash_is_explained_by_its_signal_and_stderr() -> None:
    async with child_that("crash", "out of cheese\n") as child:
        assert await all_lines(child) == []
        sentence = explain(await child.wait(), child.stderr_tail)
    assert sentence == "the agent was killed by SIGABRT: out of cheese"


# The real claude


@asynccontextmanager
async def claude(directory: Path, **options: Any) -> AsyncIterator[Child]:
    """Run the real `claude` with a fake API that follows the prompt."""
    command = command_line([claude_program()], ChatOptions(**options))
    async with FakeMessagesApi() as api, asyncio.timeout(3 * PATIENCE_SECONDS):
        environ = agent_environment(directory, api.url)
        eof_seconds = Limits.eof_seconds
        async with Child(command, cwd=directory, env=environ, eof_seconds=eof_seconds) as child:
            yield child


async def read_until(child: Child, kind: str) -> dict[str, Any]:
    """The next line of a type."""
    async with aclosing(child.lines()) as lines:
        async for line in lines:
            message: dict[str, Any] = json.loads(line)
            if message["type"] == kind:
                return message
    raise AssertionError(f"no {kind}, but: {child.stderr_tail}")


async def tool_of(child: Child, directory: Path, command: str) -> list[int]:
    """Let a tool run a command; return the pids that it writes to `fifo`, all of them running."""
    os.mkfifo(directory / "fifo")
    reader = asyncio.StreamReader()
    # Opened for reading and writing, it does not wait for a writer.
    with os.fdopen(os.open(directory / "fifo", os.O_RDWR), "rb", buffering=0) as file:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), file
        )
        await process.send_user(child, f"RUN_BASH[{command}]")
        pids = [int(word) for word in (await reader.readline()).split()]
        transport.close()
        await asyncio.sleep(0)
    assert all(map(is_running, pids))
    return pids


@pytest.mark.soak
@pytest.mark.usefixtures("long_limits")
async def test_claude_takes_several_turns_and_ends_with_its_input(
    tmp_path: Path,
) -> None:
    async with claude(tmp_path) as child:
        for prompt in ("alpha", "beta"):
            await process.send_user(child, prompt)
            result = await read_until(child, "result")
            assert (result["is_error"], result["result"]) == (False, f"echo: {prompt}")
    assert child.status == 0


@pytest.mark.usefixtures("long_limits")
@pytest.mark.claude
async def test_claude_can_be_interrupted_in_a_tool_and_continues(tmp_path: Path) -> None:
    async with claude(tmp_path, allowed_tools=["Bash"]) as child:
        await tool_of(child, tmp_path, "echo $$ > fifo; tail -f /dev/null")
        await process.interrupt(child, "r-1")
        answer = await read_until(child, "control_response")
        assert answer["response"]["request_id"] == "r-1"
        await read_until(child, "result")
        await process.send_user(child, "beta")
        assert (await read_until(child, "result"))["result"] == "echo: beta"


TOOL = """
tail -f /dev/null & one=$!
two=$(setsid sh -c 'tail -f /dev/null >/dev/null 2>&1 & echo $!')
echo $one $two > fifo
tail -f /dev/null
"""


@pytest.mark.soak
@pytest.mark.parametrize("how", ["term", "kill"])
async def test_the_processes_of_a_tool_end_with_claude(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    # SIGTERM lets it end its tools by itself, but for those that have left the session; after
    # SIGKILL all of them are left.
    limit(monkeypatch, term=PATIENCE_SECONDS if how == "term" else 0)
    async with claude(tmp_path, allowed_tools=["Bash"]) as child:
        pids = await tool_of(child, tmp_path, TOOL)
    assert child.status == (143 if how == "term" else -signal.SIGKILL)
    assert [is_running(pid) for pid in pids] == [False, False]
