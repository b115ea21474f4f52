"""An agent that is killed while it waits for an approval, and resumed by another process."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hubd.plugins.claudecode.native import (
    NativeMessage,
    conversation,
    read_history,
    restore_entries,
    session_file,
    write_session,
)
from hubd.plugins.claudecode.native.call_message import CallState, OpenCall
from hubd.plugins.claudecode.native.pending_call import (
    STAGE_SETTINGS,
    inspect,
    write_marker,
)
from tests.fakes.agent_process import OFFLINE, AgentProcess, Line, Program, claude_program
from tests.fakes.messages_api import FakeMessagesApi
from tests.fakes.old_claude import old_claude

SESSION = "11111111-2222-4333-8444-555555555555"
ALLOW = {"behavior": "allow", "updatedInput": {}}
STAGE = ("--settings", json.dumps(STAGE_SETTINGS))
STDIO = "--permission-prompt-tool=stdio"


class Resumable(Program):
    """One of the two agents, with one session."""

    def __init__(self, directory: Path, *command: str, api: FakeMessagesApi | None = None) -> None:
        url = {} if api is None else {"api_url": api.url}
        super().__init__(directory, *command, CLAUDE_CODE_MAX_RETRIES="0", **url)
        self.api = api
        self.frame: dict[str, Any] = {
            "session_id": SESSION,
            "cwd": self.cwd,
            "version": "2.1.325",
        }
        # The prompt of the last `asking`, for entries that are lost.
        self._prompt = ""

    @property
    def file(self) -> Path:
        """The session's file."""
        return session_file(self.environment, self.cwd, SESSION)

    @property
    def runs(self) -> list[str]:
        """The words that the calls have written, one each."""
        path = self.cwd / "made"
        return path.read_text().split() if path.exists() else []

    def prompt(self, *words: str) -> str:
        """Return a prompt: a call that writes each word, all in one message, then `done`."""
        self._prompt = (
            "".join(f"\n- run: echo {word} >> made" for word in words)
            if self.api is None
            else ", ".join(json.dumps(call(word)) for word in words)
        )
        if self.api is None:
            self._prompt = f"parallel:{self._prompt}\nsay: done"
        else:
            self._prompt = f"TOOLS[{self._prompt}] SAY[done]"
        return self._prompt

    @asynccontextmanager
    async def asking(self, *words: str) -> AsyncIterator[tuple[AgentProcess, Line]]:
        """Run a new session until it asks for the first call."""
        async with self.talk(STDIO, f"--session-id={SESSION}") as running:
            await running.say(self.prompt(*words))
            yield running, await question(running)

    async def killed_while_asking(self, *words: str) -> str:
        """Kill an agent that waits for an approval. Return the id of its call."""
        async with self.asking(*words) as (running, request):
            await kill(running)
        self.restore(running.lines)
        return str(request["request"]["tool_use_id"])

    def restore(self, lines: list[Line]) -> None:
        """Write the entries that the agent printed but has not written."""
        printed = [line for line in lines if line["type"] == "assistant"]
        asked = NativeMessage(role="user", content=[{"type": "text", "text": self._prompt}])
        called = NativeMessage(
            role="assistant",
            content=[block for line in printed for block in line["message"]["content"]],
            uuids=tuple(line["uuid"] for line in printed),
            message_id=printed[0]["message"]["id"],
            model=printed[0]["message"]["model"],
        )
        given: dict[str, Any] = {"messages": [asked, called], "now": datetime.now(UTC)}
        if not restore_entries(self.file, **self.frame, **given):
            write_session(self.file, **self.frame, **given, overwrite=True)

    def state(self, tool_use_id: str) -> CallState:
        """Return the state of a call in the file."""
        return inspect(self.file, tool_use_id)

    def mark(self, open_call: OpenCall) -> None:
        """Write the marker of a call."""
        write_marker(self.file, open_call, **self.frame, permission_mode="default")

    def resuming(self, *flags: str) -> AbstractAsyncContextManager[AgentProcess]:
        """Run the session in another process."""
        return self.talk(STDIO, f"--resume={SESSION}", *flags)

    async def resume(self, answer: Line, *flags: str) -> AgentProcess:
        """Resume the session, answer its request, and wait for its end."""
        async with self.resuming(*flags) as running:
            request = await question(running)
            await running.answer(request["request_id"], answer)
            await running.turn()
            assert await running.end() == 0
        return running

    def results(self) -> list[tuple[str, str]]:
        """The results of the last turn as the model sees them: id and text."""
        if self.api is not None:
            messages = self.api.conversations[-1]
        else:
            sent = conversation(read_history(self.file)).messages
            messages = [{"role": each.role, "content": each.content} for each in sent]
        return [
            (block["tool_use_id"], block["content"])
            for message in messages
            if isinstance(message["content"], list)
            for block in message["content"]
            if block["type"] == "tool_result"
        ]


@asynccontextmanager
async def resumable(name: str, directory: Path) -> AsyncIterator[Resumable]:
    """Give an agent by its name: `offline`, `claude`, or `old` for an older `claude`."""
    if name == "offline":
        config = directory / "config"
        yield Resumable(directory, *OFFLINE, f"--session-directory={config}")
    else:
        async with FakeMessagesApi() as api:
            program = old_claude() if name == "old" else claude_program()
            yield Resumable(directory, program, api=api)


def call(word: str) -> Line:
    """A call that leaves one word behind each time it runs."""
    return {"name": "Bash", "input": {"command": f"echo {word} >> made", "description": word}}


async def question(running: AgentProcess) -> Line:
    """Wait until the agent asks."""
    return await running.until(lambda line: line["type"] == "control_request")


async def kill(running: AgentProcess) -> None:
    """Kill an agent at once, as a crash of the machine would."""
    os.kill(running.pid, signal.SIGKILL)
    await asyncio.wait_for(running.process.wait(), 20)
