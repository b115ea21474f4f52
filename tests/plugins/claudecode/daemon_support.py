"""A real daemon, and a client at its socket with its own directory and environment."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.agent_process import agent_environment
from tests.fakes.messages_api import FakeMessagesApi
from tests.plugins.claudecode.chat_support import (
    EngineName,
    Event,
    Step,
    asking,
    empty_environment,
    with_program,
)
from tests.support import Daemon


class Caller:
    """A client with a directory and an environment, at the socket of a daemon."""

    def __init__(self, daemon: Daemon, directory: Path, engine: EngineName, api_url: str) -> None:
        self._daemon = daemon
        self.engine: EngineName = engine
        self.cwd = directory / "project"
        self.cwd.mkdir()
        self.environment = agent_environment(directory / "agent", api_url)

    async def call(self, method: str, **params: Any) -> list[Event]:
        """The events of a call that must succeed."""
        items = await self.items(method, **params)
        # A chat that waits reports progress.
        assert {item["type"] for item in items} <= {"data", "progress", "done"}, items
        return [item["content"] for item in items if item["type"] == "data"]

    async def items(self, method: str, **params: Any) -> list[Event]:
        """All items of a call, whether it succeeds or not."""
        async with self.stream(method, **params) as items:
            return [item async for item in items]

    @asynccontextmanager
    async def stream(self, method: str, **params: Any) -> AsyncIterator[AsyncIterator[Event]]:
        """The items of a call as they come; leaving the block ends the call."""
        context = {"cwd": str(self.cwd), "env": self.environment}
        sent = {"method": f"claudecode.{method}", "params": params, "context": context}
        async with self._daemon.client() as client:
            await client.send("plexus.call", sent)
            await client.receive()

            async def items() -> AsyncIterator[Event]:
                kind = ""
                while kind != "done":
                    item: Event = (await client.receive())["params"]["result"]
                    kind = item["type"]
                    yield item

            yield items()

    async def begin(self, *steps: Step, name: str = "s", prefix: str = "") -> str:
        """Start a chat in the background; the id of its stream."""
        options = {"model": "offline"} if self.engine == "offline" else {}
        prompt = prefix + asking(self.engine, *steps)
        [started] = await self.call(
            "chat_async", name=name, prompt=prompt, allowed_tools=["Bash"], **options
        )
        assert started["engine"] == self.engine
        return str(started["stream_id"])

    async def records(self, stream_id: str) -> list[Event]:
        """Follow a chat to its end; its durable events."""
        events = await self.call("follow", stream_id=stream_id)
        return [record for record in events if record["type"] == "event"]


@asynccontextmanager
async def daemon_and_caller(
    directory: Path, engine: EngineName, monkeypatch: pytest.MonkeyPatch, **variables: str
) -> AsyncIterator[tuple[Daemon, Caller, FakeMessagesApi]]:
    """A daemon with these variables in its environment, and its caller."""
    empty_environment(directory, monkeypatch)
    daemon = Daemon(directory / "home")
    daemon.variables = with_program(engine, variables)
    async with FakeMessagesApi() as api:
        with daemon:
            yield daemon, Caller(daemon, directory, engine, api.url), api
