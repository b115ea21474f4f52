"""A chat that a test drives itself, update by update, in a hub in this process: no program runs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.chat import Chat, Launch
from hubd.plugins.claudecode.chat_events import Passthrough
from hubd.plugins.claudecode.plugin import ClaudeCode
from hubd.plugins.claudecode.program.argv import ChatOptions
from hubd.plugins.claudecode.program.engine import Engine
from hubd.plugins.claudecode.protocol.accumulator import Accumulator
from hubd.plugins.claudecode.protocol.messages import Message
from hubd.plugins.claudecode.protocol.updates import (
    BlockDelta,
    BlockFinished,
    BlockStarted,
    MessageStarted,
    Update,
)
from hubd.plugins.claudecode.record.mirror import Mirror
from hubd.plugins.claudecode.record.recording import Recording
from hubd.plugins.claudecode.sessions import SESSIONS, TABLE, Columns, SessionRow
from hubd.storage import ids
from hubd.storage.database import Tx
from hubd.storage.streams import streams
from hubd.storage.streams.streams import StreamRow
from hubd.wire.item import Item
from tests.support import PATIENCE_SECONDS, Collector, hub_with

NOW = 1_700_000_000


class ScriptedChat:
    """A chat that the test scripts."""

    def __init__(
        self, plugin: ClaudeCode, session: SessionRow, stream: StreamRow, chat: Chat
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

    async def take(self, updates: Sequence[Update]) -> None:
        """Updates as the driver would hand them over."""
        await self.recording.take(updates)

    async def feed(self, messages: Iterable[Message]) -> None:
        """Lines of the program."""
        for message in messages:
            await self.take(self.accumulator.feed(message))

    async def push(self, *numbers: int) -> None:
        """Durable events that carry these numbers."""

        def push(tx: Tx) -> None:
            for number in numbers:
                event = Passthrough.fields(event_type="number", data={"number": number})
                self.recording.mirror.push(tx, event, NOW)

        await self.plugin.db.transaction(push)

    async def say(self, *pieces: str) -> None:
        """A block of text that comes piece by piece."""
        await self.begin_block()
        for offset, piece in enumerate(pieces):
            await self.grow_block(piece, offset)
        await self.end_block("".join(pieces))

    async def begin_block(self) -> None:
        """A block of text begins; its message did so with the first one."""
        updates: list[Update] = [BlockStarted("m", None, self._said, "content", None, None)]
        await self.take(updates if self._said else [MessageStarted("m", None, None), *updates])

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
        self.plugin.queue._places.running.pop(self.stream.key)
        self.plugin.db.waiters.wake(self.stream.topic)


@asynccontextmanager
async def claude_hub(directory: Path) -> AsyncIterator[tuple[Hub, ClaudeCode]]:
    """A hub with Arbor and claudecode, the latter alive."""
    plugin = ClaudeCode()
    async with hub_with(directory, Arbor(), plugin) as hub:
        yield hub, plugin


def in_a_hub(directory: Path, test: Callable[[Hub, ClaudeCode], Awaitable[None]]) -> None:
    """Run one example of a property."""

    async def example() -> None:
        async with claude_hub(directory) as (hub, plugin), asyncio.timeout(PATIENCE_SECONDS):
            await test(hub, plugin)

    asyncio.run(example())


async def begin_chat(plugin: ClaudeCode, name: str = "s", prompt: str = "hello") -> ScriptedChat:
    """A chat of a session that is made for it, or has ended its last one."""
    rows = [row for row in await TABLE.page(plugin.db, 0, 500) if row.name == name]
    session = rows[0] if rows else await create_session(plugin, name)

    def begin(tx: Tx) -> tuple[StreamRow, Mirror]:
        stream = streams.create(tx, session.id, session.tree, NOW)
        mirror = Mirror(session, stream.key, "offline", ephemeral=False)
        mirror.begin(tx, store.place_of(tx, session.head), prompt, 0, NOW)
        return streams.by_key(tx, stream.key), mirror

    stream, mirror = await plugin.db.transaction(begin)
    launch = Launch((), ChatOptions(), "/", {})
    chat = Chat(plugin.host, plugin.db, stream, mirror, Engine("offline", ()), launch)
    # As `Queue` does for a chat with a running program.
    plugin.queue._places.running[stream.key] = chat
    return ScriptedChat(plugin, session, stream, chat)


async def create_session(plugin: ClaudeCode, name: str) -> SessionRow:
    """Create a session on a new tree."""
    return await plugin.db.transaction(lambda tx: SESSIONS.create(tx, name, Columns("/"), NOW))


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
        """The contents of the data items so far."""
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
        """Wait until a condition on the items holds."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not wanted():
                self.arrived.clear()
                await self.arrived.wait()


def follow(hub: Hub, reader: Reader, **params: Any) -> asyncio.Task[None]:
    """A reader follows a chat until it ends or the task is cancelled."""
    return asyncio.create_task(Call(hub, "claudecode.follow", params, reader).run())
