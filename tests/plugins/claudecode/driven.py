"""A chat that a test drives itself, fact by fact, in a hub in this process: no program runs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.chat import Chat, Request
from hubd.plugins.claudecode.plugin import ClaudeCode
from hubd.plugins.claudecode.program.argv import ChatOptions
from hubd.plugins.claudecode.program.engine import Engine
from hubd.plugins.claudecode.protocol.accumulator import Accumulator
from hubd.plugins.claudecode.protocol.facts import (
    BlockDelta,
    BlockFinished,
    BlockStarted,
    Fact,
    MessageStarted,
)
from hubd.plugins.claudecode.protocol.messages import Message
from hubd.plugins.claudecode.record.mirror import Mirror
from hubd.plugins.claudecode.record.recording import Recording
from hubd.storage import ids
from hubd.storage.database import Tx
from hubd.storage.streams import streams
from hubd.storage.streams.streams import StreamRow
from hubd.wire.item import Item
from tests.support import PATIENCE_SECONDS, Collector, hub_with

NOW = 1_700_000_000


class DrivenChat:
    """A chat that says what the test tells it to say."""

    def __init__(
        self, plugin: ClaudeCode, session: store.SessionRow, stream: StreamRow, chat: Chat
    ) -> None:
        self.plugin = plugin
        self.session = session
        self.stream = stream
        self.recording: Recording = chat.recording
        self.accumulator = Accumulator()
        self._said = 0

    @property
    def stream_id(self) -> str:
        """Its id."""
        return ids.text(self.stream.id)

    async def take(self, facts: Sequence[Fact]) -> None:
        """Facts as the driver would hand them over."""
        await self.recording.take(facts)

    async def feed(self, messages: Iterable[Message]) -> None:
        """Lines of the program."""
        for message in messages:
            await self.take(self.accumulator.feed(message))

    async def push(self, *numbers: int) -> None:
        """Durable events that carry these numbers."""

        def push(tx: Tx) -> None:
            for number in numbers:
                fields = {"event_type": "number", "data": {"number": number}}
                self.recording.mirror.push(tx, "passthrough", fields, NOW)

        await self.plugin.db.transaction(push)

    async def say(self, *pieces: str) -> None:
        """A block of text that comes piece by piece."""
        await self.begin_block()
        for offset, piece in enumerate(pieces):
            await self.grow_block(piece, offset)
        await self.end_block("".join(pieces))

    async def begin_block(self) -> None:
        """A block of text begins; its message did so with the first one."""
        facts: list[Fact] = [BlockStarted("m", None, self._said, "content", None, None)]
        await self.take(facts if self._said else [MessageStarted("m", None, None), *facts])

    async def grow_block(self, piece: str, offset: int = 0) -> None:
        """It grows."""
        await self.take([BlockDelta("m", None, self._said, "content", offset, piece, None)])

    async def end_block(self, text: str) -> None:
        """It is whole."""
        block = {"type": "text", "text": text}
        await self.take([BlockFinished("m", None, self._said, "content", block, True, None)])
        self._said += 1

    async def end(self, status: streams.Status = "complete") -> None:
        """The chat is over, in the order in which the real one lets go."""
        await self.recording.end(status, None if status == "complete" else status)
        self.plugin.chats._running.pop(self.stream.key)
        self.plugin.db.waiters.wake(self.stream.topic)


@asynccontextmanager
async def claude_hub(directory: Path) -> AsyncIterator[tuple[Hub, ClaudeCode]]:
    """A hub with Arbor and claudecode, the latter alive."""
    plugin = ClaudeCode()
    async with (
        hub_with(directory, Arbor(), plugin) as hub,
        asynccontextmanager(plugin.lifespan)(),
    ):
        yield hub, plugin


def in_a_hub(directory: Path, test: Callable[[Hub, ClaudeCode], Awaitable[None]]) -> None:
    """Run one example of a property."""

    async def example() -> None:
        async with claude_hub(directory) as (hub, plugin), asyncio.timeout(PATIENCE_SECONDS):
            await test(hub, plugin)

    asyncio.run(example())


async def begin_chat(plugin: ClaudeCode, name: str = "s", prompt: str = "hello") -> DrivenChat:
    """A chat of a session that is made for it, or has ended its last one."""
    known = [row for row in await store.page_of_sessions(plugin.db, 0) if row.name == name]
    session = known[0] if known else await plugin.make_session(name, "/", "{}")

    def begin(tx: Tx) -> tuple[StreamRow, Mirror]:
        stream = streams.create(tx, session.id, session.tree, NOW)
        mirror = Mirror(session, stream.key, "offline", ephemeral=False)
        mirror.begin(tx, store.place_of(tx, session.head), prompt, 0, NOW)
        return streams.by_key(tx, stream.key), mirror

    stream, mirror = await plugin.db.transaction(begin)
    request = Request((), ChatOptions(), "/", {})
    chat = Chat(plugin.db, stream, mirror, Engine("offline", ()), request)
    # What `chats` would do for one that it has started a program for.
    plugin.chats._running[stream.key] = chat
    return DrivenChat(plugin, session, stream, chat)


class Reader(Collector):
    """A client of a streaming call that takes as long for each item as it is told."""

    def __init__(self, pauses: Iterable[int] = ()) -> None:
        super().__init__()
        self._pauses = iter(pauses)

    async def send(self, item: Item) -> None:
        for _ in range(next(self._pauses, 0)):
            await asyncio.sleep(0)
        self.post(item)

    @property
    def events(self) -> list[dict[str, Any]]:
        """What it has got."""
        return [item["content"] for item in self.items if item["type"] == "data"]

    @property
    def durable(self) -> list[dict[str, Any]]:
        """The durable events among that."""
        return [event for event in self.events if event["type"] == "event"]

    @property
    def live(self) -> list[dict[str, Any]]:
        """The live ones."""
        return [event["event"] for event in self.events if event["type"] == "live"]

    async def until(self, wanted: Callable[[], bool]) -> None:
        """Wait for something among what it gets."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not wanted():
                self.arrived.clear()
                await self.arrived.wait()


def follow(hub: Hub, reader: Reader, **params: Any) -> asyncio.Task[None]:
    """A reader follows a chat until it ends or the task is cancelled."""
    return asyncio.create_task(Call(hub, "claudecode.follow", params, reader).run())
