"""A plugin for benchmarks: a call is one durable event, written as the claudecode plugin does."""

import time
from collections.abc import AsyncIterator
from typing import Annotated

from pydantic import Field

from hubd.activation import Activation, Event, method
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.arbor.tree import Place
from hubd.storage.database import Tx
from hubd.storage.streams import streams
from hubd.storage.streams.streams import StreamRow
from hubd.wire.handle import WireHandle

HANDLE = WireHandle("claudecode", "1.0.0", "chat_event")


class Begun(Event):
    """A stream that can be pushed to."""

    stream: int
    stream_id: str


class Pushed(Event):
    """An event is on disk."""

    seq: int


class Pusher(Activation, namespace="pusher", version="1.0.0"):
    """Streams of chats without chats."""

    def __init__(self) -> None:
        # The origin of all events; known once the first stream has begun.
        self._origin = 0
        # The newest event of every stream and its seq, as a running chat remembers its own.
        self._newest: dict[int, tuple[Place, int]] = {}

    @method
    async def begin(self, count: Annotated[int, Field(ge=1, le=1000)] = 1) -> AsyncIterator[Begun]:
        """Make a tree with streams that run.

        Args:
            count: How many.
        """

        def build(tx: Tx) -> list[StreamRow]:
            self._origin = tree.origin(tx, HANDLE)
            made = tree.create(tx, "bench", 0)
            root = tree.place(tx, made, None)
            found = []
            for _ in range(count):
                stream = streams.create(tx, ids.uuid4(), made.key, 0)
                streams.start(tx, stream.key, tree.append(tx, root, tree.text("hi"), 0), 0)
                found.append(stream)
            return found

        for stream in await self.db.transaction(build):
            yield Begun(stream=stream.key, stream_id=ids.text(stream.id))

    @method(streaming=False)
    async def push(self, stream: int, data: str) -> AsyncIterator[Pushed]:
        """Write one event: its row, its node, and the head of its stream.

        Args:
            stream: The key of a stream that was begun.
            data: The event as JSON.
        """
        now = int(time.time())

        def push(tx: Tx) -> int:
            after = self._newest.get(stream)
            place = streams.push(tx, stream, self._origin, "content", data, now, after)
            seq = after[1] + 1 if after else 0
            self._newest[stream] = (place, seq)
            return seq

        yield Pushed(seq=await self.db.transaction(push))
