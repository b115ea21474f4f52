"""A daemon, an agent that asks for approvals, and a person at the daemon's socket."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.fakes.agent_process import agent_environment
from tests.fakes.messages_api import FakeMessagesApi
from tests.plugins.claudecode.chat_support import (
    EngineName,
    Event,
    Step,
    asking,
    empty_environment,
    run,
    say,
    with_program,
)
from tests.plugins.claudecode.test_recovery import pids_of_stream
from tests.support import PATIENCE_SECONDS, Daemon, McpDaemon

OPEN = ("queued", "running", "awaiting_permission")


class Failure(Exception):
    """A call ended with an error."""

    def __init__(self, item: Event) -> None:
        super().__init__(f"{item['code']}: {item['message']}")
        self.code: str = item["code"]
        self.message: str = item["message"]


class Desk:
    """A person who starts chats and answers their approvals."""

    def __init__(
        self, daemon: Daemon, directory: Path, engine: EngineName, api: FakeMessagesApi
    ) -> None:
        self.daemon = daemon
        self.engine: EngineName = engine
        self.api = api
        # Seconds after which a wait has found a hang.
        self.patience = PATIENCE_SECONDS
        self.cwd = directory / "project"
        self.cwd.mkdir()
        self.environment = agent_environment(directory / "agent", api.url)

    async def items(self, method: str, /, **params: Any) -> list[Event]:
        """All items of a call."""
        context = {"cwd": str(self.cwd), "env": self.environment}
        sent = {"method": method, "params": params, "context": context}
        items: list[Event] = []
        async with asyncio.timeout(self.patience), self.daemon.client() as client:
            await client.send("plexus.call", sent)
            await client.receive()
            while not items or items[-1]["type"] != "done":
                items.append((await client.receive())["params"]["result"])
        return items

    async def call(self, method: str, /, **params: Any) -> list[Event]:
        """The events of a call.

        Raises:
            Failure: It ended with an error.
        """
        items = await self.items(method, **params)
        for item in items:
            if item["type"] == "error":
                raise Failure(item)
        return [item["content"] for item in items if item["type"] == "data"]

    async def one(self, method: str, /, **params: Any) -> Event:
        """The only event of a call."""
        [event] = await self.call(method, **params)
        return event

    async def begin(self, *steps: Step, name: str = "s", **options: Any) -> str:
        """Start a chat in the background; the id of its stream."""
        if self.engine == "offline":
            options["model"] = "offline"
        prompt = options.pop("prompt", None) or asking(self.engine, *steps)
        started = await self.one("claudecode.chat_async", name=name, prompt=prompt, **options)
        assert started["engine"] == self.engine
        return str(started["stream_id"])

    async def begin_touch(self, file: str = "ran", **options: Any) -> str:
        """Start a chat whose only call leaves a line in a file and needs an approval."""
        return await self.begin(run(f"echo x >> {file}"), say("Ready."), **options)

    def lines_in(self, file: str = "ran") -> int:
        """How often the call has run."""
        path = self.cwd / file
        return len(path.read_text().splitlines()) if path.exists() else 0

    async def page(self, stream_id: str, wanted: Callable[[Event], bool]) -> Event:
        """Poll a stream from its start until a page fits."""
        async with asyncio.timeout(self.patience):
            seen = -1
            while True:
                page = await self.one(
                    "claudecode.poll", stream_id=stream_id, from_seq=0, limit=1000
                )
                if wanted(page):
                    return page
                assert page["status"] in OPEN or page["has_more"], page
                if page["total_events"] == seen:
                    # Wait for the next event, or for a change of the status.
                    await self.one(
                        "claudecode.poll", stream_id=stream_id, from_seq=seen, wait_ms=200
                    )
                seen = page["total_events"]

    async def pending(self, stream_id: str) -> Event:
        """The approval that a chat waits for."""
        page = await self.page(stream_id, lambda page: bool(page["pending_approvals"]))
        return dict(page["pending_approvals"][0])

    async def next_pending(self, stream_id: str, before: Event) -> Event:
        """The approval that a chat waits for after an earlier one."""

        def is_asked(page: Event) -> bool:
            return any(row["id"] != before["id"] for row in page["pending_approvals"])

        page = await self.page(stream_id, is_asked)
        return next(dict(row) for row in page["pending_approvals"] if row["id"] != before["id"])

    async def until_parked(self, stream_id: str) -> None:
        """Wait until no process of a chat runs, and the hub has noted that."""
        await self.until_ended(stream_id)
        async with asyncio.timeout(self.patience):
            while self._is_noted(stream_id):  # noqa: ASYNC110  the hub sends no event
                await asyncio.sleep(0.01)

    async def until_ended(self, stream_id: str) -> None:
        """Wait until no process of a chat runs."""
        async with asyncio.timeout(self.patience):
            while pids_of_stream(stream_id):  # noqa: ASYNC110  processes end without an event
                await asyncio.sleep(0.01)

    def _is_noted(self, stream_id: str) -> bool:
        """Whether the hub has noted a process of a chat."""
        with closing(sqlite3.connect(f"file:{self.daemon.paths.database}?mode=ro", uri=True)) as db:
            sql = "SELECT 1 FROM claudecode_runs AS r JOIN chat_streams AS s ON s.key = r.stream"
            rows = db.execute(f"{sql} WHERE s.id = ?", (UUID(stream_id).bytes,)).fetchall()
        return bool(rows)

    async def answer(self, approval: Event, approve: bool = True, **more: Any) -> Event:
        """Answer an approval."""
        return await self.one(
            "loopback.respond", approval_id=approval["id"], approve=approve, **more
        )

    async def ended(self, stream_id: str) -> Event:
        """The page with all events of a chat that has ended."""
        # The status is read after the events.
        return await self.page(
            stream_id, lambda page: page["status"] not in OPEN and not page["has_more"]
        )


def events_in(page: Event, *kinds: str) -> list[Event]:
    """The events of some types in a page."""
    events = [record["event"] for record in page["events"]]
    return [event for event in events if not kinds or event["type"] in kinds]


def types_in(page: Event) -> list[str]:
    """The types of the events of a page, without those that tests don't look at."""
    return [event["type"] for event in events_in(page) if event["type"] != "passthrough"]


@asynccontextmanager
async def desk(
    directory: Path, engine: EngineName, monkeypatch: pytest.MonkeyPatch, **variables: str
) -> AsyncIterator[Desk]:
    """A daemon with these variables in its environment, and a person at its socket."""
    empty_environment(directory, monkeypatch)
    async with FakeMessagesApi() as api:
        daemon = McpDaemon(directory / "home")
        # A chat that continues after a restart has the daemon's environment.
        environment = agent_environment(directory / "agent", api.url)
        daemon.variables = with_program(engine, {**environment, **variables})
        with daemon:
            yield Desk(daemon, directory, engine, api)
