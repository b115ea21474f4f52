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
    """Streams of chats without chats. A stream takes one push at a time."""

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

        def build(tx: Tx) -> tuple[int, list[StreamRow]]:
            origin = tree.origin(tx, HANDLE)
            made = tree.create(tx, "bench", 0)
            root = tree.place(tx, made, None)
            rows = []
            for _ in range(count):
                stream = streams.create(tx, ids.uuid4(), made.key, 0)
                streams.start(tx, stream.key, tree.append(tx, root, tree.text("hi"), 0), 0)
                rows.append(stream)
            return origin, rows

        self._origin, rows = await self.db.transaction(build)
        for stream in rows:
            yield Begun(stream=stream.key, stream_id=ids.text(stream.id))

    @method
    async def push(self, stream: int, data: str) -> Pushed:
        """Write one event: its row, its node, and the head of its stream.

        Args:
            stream: The key of a stream that was begun.
            data: The event as JSON.
        """
        now = int(time.time())
        newest = self._newest.get(stream)

        def push(tx: Tx) -> Place:
            return streams.push(tx, stream, self._origin, "content", data, now, newest)

        place = await self.db.transaction(push)
        seq = newest[1] + 1 if newest else 0
        self._newest[stream] = (place, seq)
        return Pushed(seq=seq)

    @method
    async def push_many(
        self, stream: int, data: Annotated[list[str], Field(min_length=1, max_length=1000)]
    ) -> Pushed:
        """Write several events in one transaction.

        Args:
            stream: The key of a stream that was begun.
            data: The events, each as JSON.
        """
        now = int(time.time())
        newest = self._newest.get(stream)

        def push(tx: Tx) -> tuple[Place, int]:
            events = [("content", each) for each in data]
            return streams.push_many(tx, stream, self._origin, events, now, newest)

        self._newest[stream] = await self.db.transaction(push)
        return Pushed(seq=self._newest[stream][1])
