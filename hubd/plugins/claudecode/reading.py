"""claudecode: reading chats, by any number of independent readers."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Annotated, Any, NamedTuple

from pydantic import Field
from pydantic_core import from_json, to_json

from hubd.activation import Encoded, InvalidParams, NotFound, method
from hubd.activation.params import NodeId
from hubd.plugins.claudecode import events
from hubd.plugins.claudecode.base import (
    LIST_NAMES,
    STREAM,
    ClaudeBase,
    Limit,
    Name,
    SessionId,
    now,
)
from hubd.plugins.claudecode.handles import VERSION
from hubd.plugins.claudecode.live import Shown
from hubd.storage import cursors, ids, streams
from hubd.storage.database import Tx
from hubd.storage.streams import OPEN, EventRow, Page, StreamRow
from hubd.storage.tail import Tails

# Durable events that a follower reads at a time.
EVENTS_AT_ONCE = 100
MAX_WAIT_MS = 60_000


class _Durable(NamedTuple):
    """A durable event as all its followers share it."""

    row: EventRow
    event: dict[str, Any]
    # What `follow` yields.
    record: Encoded


class Reading(ClaudeBase, version=VERSION):
    """Methods that read streams."""

    def __init__(self) -> None:
        super().__init__()
        self._tails = Tails(self._durable)

    @method(streaming=False, one_of=STREAM, completes=LIST_NAMES)
    async def poll(
        self,
        stream_id: SessionId | None = None,
        session_id: SessionId | None = None,
        name: Name | None = None,
        from_seq: Annotated[int, Field(ge=0)] | None = None,
        cursor: NodeId | None = None,
        consumer: Name | None = None,
        limit: Limit = 100,
        wait_ms: Annotated[int, Field(ge=0, le=MAX_WAIT_MS)] = 0,
        auto_ack: bool = True,
    ) -> AsyncIterator[events.Polled | Encoded]:
        """Read events of a chat: from a seq, behind a node, or from where a consumer stands.

        Args:
            stream_id: The stream.
            session_id: The newest stream of this session.
            name: The same, by the session's name.
            from_seq: The first seq wanted; nothing is remembered.
            cursor: The node of an event: its id, or the last 4 or more digits; the events after
                it are returned.
            consumer: A name under which the hub remembers what was read; `default` unless one of
                the other two is given.
            limit: How many events at most.
            wait_ms: How long to wait if there is none yet.
            auto_ack: Remember the position when the poll returns; else only by consumers_ack.
        """
        given = [entry for entry in (from_seq, cursor, consumer) if entry is not None]
        if len(given) > 1:
            raise InvalidParams("give one of from_seq, cursor and consumer")
        stream = await self.stream_named(stream_id, session_id, name)
        if given and consumer is None:
            start = from_seq or 0
            if cursor is not None:
                node_id = await cursors.node_id(self.db, stream, cursor)
                start = await streams.seq_of(self.db, stream, node_id) + 1
                cursor = ids.text(node_id)
            found = await self._when_there(
                stream, lambda: self._from(stream, start, limit), wait_ms
            )
        else:
            reader = consumer or streams.DEFAULT_CONSUMER
            read = self._take if auto_ack else self._peek
            found = await self._when_there(stream, lambda: read(stream, reader, limit), wait_ms)
        yield await self._answer(stream, *found, cursor)

    @method(read_only=True, render="chat", one_of=STREAM, completes=LIST_NAMES)
    async def follow(
        self,
        stream_id: SessionId | None = None,
        session_id: SessionId | None = None,
        name: Name | None = None,
        from_seq: Annotated[int, Field(ge=0)] = 0,
    ) -> AsyncIterator[events.Followed | events.LiveEvent | Encoded]:
        """Follow a chat to its end: the events so far, then new ones and what is being said.

        Args:
            stream_id: The stream.
            session_id: The newest stream of this session.
            name: The same, by the session's name.
            from_seq: The first seq wanted.
        """
        stream = await self.stream_named(stream_id, session_id, name)
        async with aclosing(self._entries(stream, from_seq)) as entries:
            async for durable, event in entries:
                if durable is None:
                    yield Encoded(to_json({"type": "live", "event": event}))
                else:
                    yield durable.record

    @method(streaming=False, read_only=True, one_of=STREAM, completes=LIST_NAMES)
    async def consumers_list(
        self,
        stream_id: SessionId | None = None,
        session_id: SessionId | None = None,
        name: Name | None = None,
    ) -> AsyncIterator[events.Consumers]:
        """Who reads a stream under a name, and how far behind each is.

        Args:
            stream_id: The stream.
            session_id: The newest stream of this session.
            name: The same, by the session's name.
        """
        stream = await self.stream_named(stream_id, session_id, name)
        found = await streams.consumers(self.db, stream.key)
        yield events.Consumers(
            stream_id=ids.text(stream.id),
            total_events=stream.next_seq,
            consumers=[
                events.ConsumerInfo(
                    consumer=entry.name,
                    position=entry.position,
                    lag=max(stream.next_seq - entry.position, 0),
                    updated_at=entry.updated_at,
                )
                for entry in found
            ],
        )

    @method(streaming=False, one_of=STREAM, completes=LIST_NAMES)
    async def consumers_ack(
        self,
        consumer: Name,
        seq: Annotated[int, Field(ge=0)],
        stream_id: SessionId | None = None,
        session_id: SessionId | None = None,
        name: Name | None = None,
    ) -> AsyncIterator[events.ConsumerMoved]:
        """A consumer is done with an event and all before it.

        Args:
            consumer: Which one.
            seq: The last event it is done with.
            stream_id: The stream.
            session_id: The newest stream of this session.
            name: The same, by the session's name.
        """
        stream = await self.stream_named(stream_id, session_id, name)
        if seq >= stream.next_seq:
            raise InvalidParams(f"there is no event {seq} yet; the last is {stream.next_seq - 1}")

        def acknowledge(tx: Tx) -> int:
            # Never back: that would be a reset.
            position = max(streams.position(tx, stream.key, consumer), seq + 1)
            streams.set_position(tx, stream.key, consumer, position, now())
            return position

        position = await self.db.transaction(acknowledge)
        yield events.ConsumerMoved(
            stream_id=ids.text(stream.id), consumer=consumer, position=position
        )

    @method(streaming=False, one_of=STREAM, completes=LIST_NAMES)
    async def consumers_reset(
        self,
        consumer: Name,
        seq: Annotated[int, Field(ge=0)] = 0,
        stream_id: SessionId | None = None,
        session_id: SessionId | None = None,
        name: Name | None = None,
    ) -> AsyncIterator[events.ConsumerMoved]:
        """Let a consumer read again from an event on.

        Args:
            consumer: Which one.
            seq: The next event it will get.
            stream_id: The stream.
            session_id: The newest stream of this session.
            name: The same, by the session's name.
        """
        stream = await self.stream_named(stream_id, session_id, name)
        position = min(seq, stream.next_seq)
        await self.db.transaction(
            lambda tx: streams.set_position(tx, stream.key, consumer, position, now())
        )
        yield events.ConsumerMoved(
            stream_id=ids.text(stream.id), consumer=consumer, position=position
        )

    @method(streaming=False, destructive=True, one_of=STREAM, completes=LIST_NAMES)
    async def consumers_delete(
        self,
        consumer: Name,
        stream_id: SessionId | None = None,
        session_id: SessionId | None = None,
        name: Name | None = None,
    ) -> AsyncIterator[events.ConsumerDeleted]:
        """Forget a consumer.

        Args:
            consumer: Which one.
            stream_id: The stream.
            session_id: The newest stream of this session.
            name: The same, by the session's name.
        """
        stream = await self.stream_named(stream_id, session_id, name)
        if not await self.db.transaction(lambda tx: streams.forget(tx, stream.key, consumer)):
            known = [entry.name for entry in await streams.consumers(self.db, stream.key)]
            raise NotFound(f"no consumer '{consumer}' of this stream", available=known)
        yield events.ConsumerDeleted(stream_id=ids.text(stream.id), consumer=consumer)

    async def followed(
        self, stream: StreamRow, seq: int
    ) -> AsyncIterator[tuple[EventRow | None, dict[str, Any]]]:
        """Durable events with their rows, and live ones without, until the chat has ended."""
        async with aclosing(self._entries(stream, seq)) as entries:
            async for durable, event in entries:
                yield (durable.row if durable else None), event

    async def _entries(
        self, stream: StreamRow, seq: int
    ) -> AsyncGenerator[tuple[_Durable | None, dict[str, Any]], None]:
        """As `followed`, with all that followers share of a durable event."""
        if seq < stream.first_seq:
            raise streams.expired(stream)
        shown = Shown()
        with (
            self.db.waiters.waiting_for(stream.topic) as changed,
            self._tails.of(self.db, stream) as tail,
        ):
            while True:
                changed.clear()
                # Looked at before the events: what has ended by then has all of them. What is
                # written after it wakes us again.
                current = await tail.row()
                while seq < current.next_seq:
                    page = await tail.page(seq, EVENTS_AT_ONCE)
                    if not page:
                        break
                    seq = page[-1].row.seq + 1
                    for durable in page:
                        for live_event in shown.finish(durable.event):
                            yield None, live_event
                        yield durable, durable.event
                    # It may be large, and the next event far away.
                    del page, durable
                if seq < current.next_seq:
                    raise streams.expired(await streams.reread(self.db, stream.key))
                live = self.chats.live(stream.key)
                for live_event in shown.news(live, seq) if live else ():
                    yield None, live_event
                if current.status not in OPEN:
                    return
                await changed.wait()

    def _durable(self, row: EventRow) -> _Durable:
        shared = Encoded(record(self.path, row, tag=b'"type":"event",'))
        return _Durable(row, from_json(row.data), shared)

    async def _when_there(
        self, stream: StreamRow, read: Callable[[], Awaitable[Page]], wait_ms: int
    ) -> Page:
        """Read; again when there is more, as long as there was nothing and may be something."""
        deadline = asyncio.get_running_loop().time() + wait_ms / 1000
        with self.db.waiters.waiting_for(stream.topic) as changed:
            while True:
                changed.clear()
                # Looked at before the events: what has ended by then has all of them.
                current = await streams.reread(self.db, stream.key)
                found = await read()
                if found.events or not wait_ms or current.status not in OPEN:
                    return found
                try:
                    # Only waiting may be cut short: reading moves consumers.
                    async with asyncio.timeout_at(deadline):
                        await changed.wait()
                except TimeoutError:
                    return found

    async def _from(self, stream: StreamRow, start: int, limit: int) -> Page:
        """Events from a position on."""
        if start < stream.first_seq:
            raise streams.expired(stream)
        return streams.page_of(await streams.events(self.db, stream.key, start, limit), start)

    async def _peek(self, stream: StreamRow, consumer: str, limit: int) -> Page:
        """Events from where a consumer stands, and it stays there."""
        start = await streams.position_of(self.db, stream.key, consumer)
        return await self._from(stream, start, limit)

    async def _take(self, stream: StreamRow, consumer: str, limit: int) -> Page:
        """As `_peek`, and it moves on."""
        found = await self._peek(stream, consumer, 1)
        # Who is known and up to date costs no transaction. In one, two polls of the same
        # consumer follow each other, so that no event is returned to both.
        if not found.events and found.next_seq:
            return found
        return await self.db.transaction(
            lambda tx: streams.take(tx, stream.key, consumer, limit, now())
        )

    async def _answer(
        self, stream: StreamRow, page: Sequence[EventRow], position: int, cursor: str | None
    ) -> Encoded:
        # Looked at after the events: who hears of the end has all events, or hears of more.
        current = await streams.reread(self.db, stream.key)
        last = ids.text(page[-1].node_id) if page else cursor
        head: dict[str, Any] = {
            "type": "ok",
            "stream_id": ids.text(stream.id),
            "session_id": ids.text(stream.session_id),
            "status": current.status,
        }
        tail: dict[str, Any] = {
            "pending_approvals": [],
            "read_position": position,
            "cursor": last,
            "total_events": current.next_seq,
            "has_more": current.next_seq > position,
        }
        # Stored JSON goes through as it is.
        listed = b",".join(record(self.path, row) for row in page)
        return Encoded(b'%b,"events":[%b],%b' % (to_json(head)[:-1], listed, to_json(tail)[1:]))


def record(path: str, row: EventRow, tag: bytes = b"") -> bytes:
    """A durable event with its place in the stream, as JSON."""
    node_id = ids.text(row.node_id)
    return b'{%b"seq":%d,"node_id":"%b","timestamp":%d,"event":%b}' % (
        tag,
        row.seq,
        node_id.encode(),
        row.timestamp,
        with_handle(path, row),
    )


def with_handle(path: str, row: EventRow) -> bytes:
    """A durable event with its handle, as JSON; it is not stored with every event."""
    handle = f"{path}@{VERSION}::chat_event:{ids.text(row.node_id)}:{row.event_type}"
    return b'%b,"handle":"%b"}' % (row.data[:-1].encode(), handle.encode())
