"""A hub with claudecode in it, and both agents behind one language, for tests that really chat.

Nothing of this machine's settings reaches an agent: the hub's own environment is emptied, and what
an agent needs comes with each call, as a caller's context does.
"""

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import pytest

from hubd.activation import Context
from hubd.plexus import lifecycle
from hubd.plexus.discovery import Source
from hubd.plexus.dispatch import Call
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import Hub
from hubd.plexus.root import build_hub
from hubd.plugins.claudecode import native
from hubd.storage.database import Database
from tests.fakes.agent_process import OFFLINE, agent_environment, claude_program, processes_of
from tests.fakes.messages_api import FakeMessagesApi
from tests.storage import migrated_database
from tests.support import PATIENCE_SECONDS, Collector

EngineName = Literal["claude", "offline"]
ENGINES: Final[tuple[EngineName, ...]] = ("claude", "offline")
Event = dict[str, Any]
# A message as the API gets it: its role and its blocks.
RoleAndBlocks = tuple[str, list[dict[str, Any]]]

PLUGINS: Final = (
    "hubd.plugins.arbor.plugin:Arbor",
    "hubd.plugins.echo:EchoPlugin",
    "hubd.plugins.claudecode.plugin:ClaudeCode",
)
OPEN: Final = ("queued", "running", "awaiting_permission")
# Starts of texts that `claude` adds to messages.
ADDED: Final = ("<system-reminder>",)


class Step(NamedTuple):
    """One thing an agent shall do."""

    kind: str
    text: str = ""


def say(text: str) -> Step:
    """It says this."""
    return Step("say", text)


def think(text: str) -> Step:
    """It thinks this."""
    return Step("think", text)


def run(command: str) -> Step:
    """It runs a command with Bash."""
    return Step("run", command)


def fail(status: int = 500) -> Step:
    """Its API answers with an error."""
    return Step("fail", str(status))


HANG: Final = Step("hang")


def asking(engine: EngineName, *steps: Step) -> str:
    """The prompt that makes an agent take these steps."""
    if engine == "offline":
        words = {"fail": "error"}
        return "\n".join(f"{words.get(kind, kind)}: {text}".rstrip() for kind, text in steps)
    names = {"say": "SAY", "think": "THINK", "run": "RUN_BASH", "fail": "STATUS", "hang": "HANG"}
    return " ".join(f"{names[kind]}[{text}]" for kind, text in steps)


class Failure(Exception):
    """A call ended with an error; `item` is that, and `guidance` the one before."""

    def __init__(self, item: Event, guidance: Event) -> None:
        super().__init__(f"{item['code']}: {item['message']}")
        self.code: str = item["code"]
        self.message: str = item["message"]
        self.guidance = guidance


class Ended(NamedTuple):
    """An ended chat: its durable events without variable fields, and its status."""

    status: str
    error: str | None
    events: list[Event]

    def of(self, *kinds: str) -> list[Event]:
        """The events of some types."""
        return [event for event in self.events if event["type"] in kinds]

    @property
    def types(self) -> list[str]:
        """Return the types of the events in order, without passthrough events."""
        return [event["type"] for event in self.events if event["type"] != "passthrough"]

    @property
    def text(self) -> str:
        """All that was said."""
        return "".join(event["text"] for event in self.of("content"))


class World:
    """One hub that can be stopped and started again, one agent program, one caller."""

    def __init__(
        self, directory: Path, engine: EngineName, api: FakeMessagesApi, program: str
    ) -> None:
        # The language of prompts.
        self.engine: EngineName = engine
        # Whether the hub takes the offline agent for `claude`.
        self.stand_in = engine == "offline" and bool(program)
        # The program that the hub starts; "" for the offline agent.
        self.program = program
        self.api = api
        self.directory = directory
        self.cwd = directory / "project"
        self.cwd.mkdir()
        self.environment = {
            **agent_environment(directory / "agent", api.url),
            # Its own number of retries would take minutes.
            "CLAUDE_CODE_MAX_RETRIES": "1",
        }
        self.hub: Hub
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Start the hub."""
        migrated_database.provide(path := self.directory / "hub.db")
        database = await self._stack.enter_async_context(Database(path))
        self.hub = build_hub(database=database)
        sources = [Source(name, "a test") for name in PLUGINS]
        running = lifecycle.plugins(self.hub, PlexusHost(self.hub), sources)
        await self._stack.enter_async_context(running)
        assert self.hub.broken == []

    async def stop(self) -> None:
        """Stop the hub in good order."""
        await self._stack.aclose()

    async def items(self, method: str, /, **params: Any) -> list[Event]:
        """All items of a call."""
        caller = Collector(Context(cwd=str(self.cwd), env=self.environment))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await Call(self.hub, method, params, caller).run()
        return caller.items

    async def call(self, method: str, /, **params: Any) -> list[Event]:
        """The events of a call.

        Raises:
            Failure: It ended with an error.
        """
        items = await self.items(method if "." in method else f"claudecode.{method}", **params)
        if len(items) > 1 and items[-2]["type"] == "error":
            raise Failure(items[-2], items[-3])
        return [item["content"] for item in items if item["type"] == "data"]

    async def one(self, method: str, /, **params: Any) -> Event:
        """The only event of a call."""
        [event] = await self.call(method, **params)
        return event

    async def begin(self, *steps: Step, name: str = "s", **options: Any) -> str:
        """Start a chat in the background; the id of its stream."""
        prompt = options.pop("prompt", None) or asking(self.engine, *steps)
        started = await self.one("chat_async", name=name, prompt=prompt, **options)
        return str(started["stream_id"])

    async def chat(self, *steps: Step, name: str = "s", **options: Any) -> Ended:
        """Chat to the end."""
        return await self.end_of(await self.begin(*steps, name=name, **options))

    async def end_of(self, stream_id: str) -> Ended:
        """Wait for the end of a chat."""
        records = await self.call("follow", stream_id=stream_id)
        events = [record["event"] for record in records if record["type"] == "event"]
        [row] = [row for row in await self.streams() if row["stream_id"] == stream_id]
        return Ended(row["status"], row["error"], events)

    async def streams(self) -> list[Event]:
        """All streams, the newest first."""
        pages = await self.call("streams")
        return [row for page in pages for row in page["streams"]]

    async def until_listed(self, wanted: Callable[[Event], bool]) -> Event:
        """The first stream that fits, as soon as there is one."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                for row in await self.streams():
                    if wanted(row):
                        return row
                # A read may be answered at once; the others must get their turn.
                await asyncio.sleep(0)

    async def until(self, stream_id: str, wanted: Callable[[Event], bool]) -> Event:
        """The first durable event that fits; the chat may go on."""
        seq = 0
        while True:
            page = await self.one("poll", stream_id=stream_id, from_seq=seq, wait_ms=10_000)
            for record in page["events"]:
                if wanted(record["event"]):
                    return dict(record["event"])
            seq = page["read_position"]
            assert page["status"] in OPEN or page["has_more"], page

    async def until_said(self, stream_id: str) -> Event:
        """The first live event that carries text of a block that is still growing."""
        caller = Watcher(Context(cwd=str(self.cwd), env=self.environment))
        following = Call(self.hub, "claudecode.follow", {"stream_id": stream_id}, caller)
        task = asyncio.ensure_future(following.run())
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await caller.said
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def head(self, name: str = "s") -> str:
        """The node where a session stands."""
        return str((await self.one("get_tree", name=name))["head"]["node_id"])

    async def session(self, name: str = "s") -> Event:
        """A session."""
        return dict((await self.one("get", name=name))["session"])

    async def context(self, name: str = "s", **params: Any) -> list[RoleAndBlocks]:
        """Return the context of a session from the tree."""
        messages = await self.call("render_context", name=name, **params)
        return plain(messages)

    async def model_messages(self, name: str = "s") -> list[RoleAndBlocks]:
        """Return the messages of the agent's last request, up to the newest prompt."""
        if self.engine == "claude":
            messages = plain(self.api.conversations[-1])
        else:
            native_id = (await self.session(name))["claude_session_id"]
            history = native.read_history(self.native_file(native_id))
            native_messages = native.conversation(history).messages
            messages = plain(
                {"role": each.role, "content": each.content} for each in native_messages
            )
        last = max(place for place, message in enumerate(messages) if _is_prompt(message))
        return messages[: last + 1]

    def native_file(self, native_id: str) -> Path:
        """Where the agent keeps one of its sessions."""
        environ = self.environment
        if self.engine == "offline" and not self.stand_in:
            environ = {"CLAUDE_CONFIG_DIR": str(self.directory / "offline_agent")}
        return native.session_file(environ, self.cwd, native_id)

    async def survivors(self) -> set[int]:
        """Return the processes that still run, after a short wait for those about to end."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while alive := processes_of(self.environment):
            if asyncio.get_running_loop().time() > deadline:
                return alive
            await asyncio.sleep(0.01)
        return set()


class Watcher(Collector):
    """A caller that waits for the first piece of text."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.said: asyncio.Future[Event] = asyncio.get_running_loop().create_future()

    def post(self, *items: Any) -> None:
        """Take items."""
        super().post(*items)
        event = self.items[-1].get("content", {}).get("event", {})
        if event.get("type") == "content_delta" and not self.said.done():
            self.said.set_result(event)


@asynccontextmanager
async def world(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    engine: EngineName,
    *,
    stand_in: bool = False,
) -> AsyncIterator[World]:
    """A running world; nothing that it started is alive after it.

    Args:
        directory: The directory of all files.
        monkeypatch: Restores the environment.
        engine: The agent that the hub is configured to start.
        stand_in: Start the offline agent where the hub starts `claude`.
    """
    empty_environment(directory, monkeypatch)
    program = ""
    if engine == "claude":
        program = stand_in_program(directory) if stand_in else claude_program()
        monkeypatch.setenv("HUBD_CLAUDECODE_PROGRAM", program)
    monkeypatch.setenv("HUBD_CLAUDECODE_ENGINE", engine)
    async with FakeMessagesApi() as api:
        running = World(directory, "offline" if stand_in else engine, api, program)
        await running.start()
        try:
            yield running
        finally:
            await running.stop()
        assert await running.survivors() == set()


def with_program(engine: EngineName, variables: Mapping[str, str]) -> dict[str, str]:
    """Return a daemon's variables; the program is the real `claude` unless they name another."""
    if engine == "offline" or "HUBD_CLAUDECODE_PROGRAM" in variables:
        return dict(variables)
    return {**variables, "HUBD_CLAUDECODE_PROGRAM": claude_program()}


def stand_in_program(directory: Path) -> str:
    """Write a program that is the offline agent and keeps its sessions where `claude` does."""
    program = directory / "claude"
    command = f'{shlex.join(OFFLINE)} --session-directory="$CLAUDE_CONFIG_DIR" "$@"'
    program.write_text(f"#!/bin/sh\nexec {command}\n")
    program.chmod(0o755)
    return str(program)


def empty_environment(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this process an environment made from nothing; a hub overlays it with the caller's."""
    for name in set(os.environ) - {"PYTEST_CURRENT_TEST"}:
        monkeypatch.delenv(name)
    for name, text in agent_environment(directory / "hub").items():
        monkeypatch.setenv(name, text)


def without_claude(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide `claude`, as on a machine without it."""
    monkeypatch.delenv("HUBD_CLAUDECODE_PROGRAM", raising=False)
    monkeypatch.setenv("HUBD_CLAUDECODE_ENGINE", "auto")
    # The import system takes None for "not installed".
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)


def plain(messages: Iterable[dict[str, Any]]) -> list[RoleAndBlocks]:
    """Return messages without the program's additions; adjacent ones of a role are joined."""
    collected: list[RoleAndBlocks] = []
    for message in messages:
        if message["role"] not in ("user", "assistant"):
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        kept = [_block(block) for block in blocks if not _is_added(block)]
        if collected and collected[-1][0] == message["role"]:
            collected[-1][1].extend(kept)
        elif kept:
            collected.append((message["role"], kept))
    return collected


def text_of(said: Iterable[RoleAndBlocks]) -> list[tuple[str, str]]:
    """Return the role and the text of each message."""
    return [
        (role, "".join(block["text"] for block in blocks if block["type"] == "text"))
        for role, blocks in said
    ]


def is_sound(said: list[RoleAndBlocks]) -> bool:
    """Whether an API would take it: every call is answered in the very next message."""
    for number, (role, blocks) in enumerate(said):
        calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
        after = said[number + 1][1] if number + 1 < len(said) else []
        answers = {block["tool_use_id"] for block in after if block["type"] == "tool_result"}
        if role == "assistant" and calls != answers:
            return False
    return True


def _is_prompt(said: RoleAndBlocks) -> bool:
    role, blocks = said
    return role == "user" and any(block["type"] == "text" for block in blocks)


def _is_added(block: dict[str, Any]) -> bool:
    return block["type"] == "text" and str(block["text"]).startswith(ADDED)


def _block(block: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in block.items() if key != "cache_control"}
    if block["type"] == "text":
        # `claude` ends a text with a line break if another one follows it.
        kept["text"] = block["text"].removesuffix("\n")
    return kept
