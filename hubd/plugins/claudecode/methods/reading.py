"""claudecode: reading chats, by any number of independent readers."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any, NamedTuple

from pydantic import Field
from pydantic_core import from_json, to_json

from hubd.activation import Encoded, InvalidParams, NotFound, method
from hubd.activation.params import NodeId
from hubd.plugins.claudecode import events
from hubd.plugins.claudecode.handles import VERSION, EventRef
from hubd.plugins.claudecode.methods.base import (
    LIST_NAMES,
    STREAM,
    ClaudeBase,
    Limit,
    Name,
    SessionId,
    now,
)
from hubd.plugins.claudecode.methods.consumer_turns import Turns
from hubd.plugins.claudecode.record.live import Shown
from hubd.storage import ids
from hubd.storage.streams import cursors, streams
from hubd.storage.streams.streams import OPEN, EventRow, Page, StreamRow
from hubd.storage.streams.tail import Tails

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
        self._turns = Turns()

    @method(streaming=False, one_of=STREAM, completes=LIST_NAMES, produces=[EventRef])
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
        ack: Annotated[int, Field(ge=0)] | None = None,
    ) -> AsyncIterator[events.Polled | Encoded]:
        """Read a page of chat events after a sequence number, a node, or a consumer's position.

        With auto_ack, the consumer's position moves once the page was handed to the client's
        connection. A crash of the hub may repeat a page and never skips one; a client that dies
        before it reads loses the page. To lose nothing, give the last seq that was processed as
        `ack` with the next poll.

        Args:
            stream_id: The stream.
            session_id: The session whose newest stream is read.
            name: The same, by the session's name.
            from_seq: The first seq to return. The hub stores no position.
            cursor: The node of an event: its id, or the last 4 or more digits; the events after
                it are returned.
            consumer: A named position that the hub stores; `default` if no position is given.
            limit: The maximum number of events.
            wait_ms: Milliseconds to wait if there is no event yet.
            auto_ack: Move the consumer's position when the page was sent. If false, only `ack`
                and consumers_ack move it.
            ack: Acknowledge all events through this seq for the consumer, then return the events
                that follow. Implies auto_ack=false for this call.
        """
        given = [entry for entry in (from_seq, cursor, consumer) if entry is not None]
        if len(given) > 1:
            raise InvalidParams("give one of from_seq, cursor and consumer")
        stream = await self.stream_named(stream_id, session_id, name)
        node_id: bytes | None = None
        if given and consumer is None:
            if ack is not None:
                raise InvalidParams("ack needs a consumer, not from_seq or cursor")
            start = from_seq or 0
            if cursor is not None:
                node_id = await cursors.node_id(self.db, stream, cursor)
                start = await streams.seq_of(self.db, stream, node_id) + 1
            page = await self._when_there(stream, lambda: self._from(stream, start, limit), wait_ms)
        else:
            reader = consumer or streams.DEFAULT_CONSUMER
            if ack is not None:
                await self._acknowledge(stream, reader, ack)
            read = self._take if auto_ack and ack is None else self._peek
            page = await self._when_there(stream, lambda: read(stream, reader, limit), wait_ms)
        yield await self._answer(stream, *page, node_id, of_consumer=bool(consumer) or not given)

    @method(read_only=True, render="chat", one_of=STREAM, completes=LIST_NAMES, produces=[EventRef])
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
        """Acknowledge an event and all before it for a consumer.

        Args:
            consumer: The consumer's name.
            seq: The last event that was processed.
            stream_id: The stream.
            session_id: The session whose newest stream is meant.
            name: The same, by the session's name.
        """
        stream = await self.stream_named(stream_id, session_id, name)
        position = await self._acknowledge(stream, consumer, seq)
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
        async with self._turns.taken(stream.key, consumer):
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
        async with self._turns.taken(stream.key, consumer):
            deleted = await self.db.transaction(lambda tx: streams.forget(tx, stream.key, consumer))
        if not deleted:
            names = [entry.name for entry in await streams.consumers(self.db, stream.key)]
            raise NotFound(f"this stream has no consumer '{consumer}'", available=names)
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
        reported = ""
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
                if current.status == "queued":
                    place = await self.chats.place_in_queue(current)
                    if place != reported:
                        reported = place
                        await self.host.progress(place)
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
                page = await read()
                if page.events or not wait_ms or current.status not in OPEN:
                    return page
                try:
                    # Only waiting may be cut short: reading may reserve a page for its consumer.
                    async with asyncio.timeout_at(deadline):
                        await changed.wait()
                except TimeoutError:
                    return page

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
        """As `_peek`; the consumer moves behind the page when the page was delivered.

        Until then no other poll of the consumer is answered, so that no event goes to both.
        """
        await self._turns.acquire(stream.key, consumer)
        is_under_way = False
        try:
            page = await self._peek(stream, consumer, limit)
            if page.events:
                self.host.when_delivered(partial(self._move, stream.key, consumer, page.next_seq))
                is_under_way = True
        finally:
            if not is_under_way:
                self._turns.release(stream.key, consumer)
        return page

    async def _move(self, stream: int, consumer: str, position: int, delivered: bool) -> None:
        """End the delivery of a page; if it succeeded, the consumer moves to `position`."""
        try:
            if delivered:
                await self.db.transaction(
                    lambda tx: streams.advance(tx, stream, consumer, position, now())
                )
        finally:
            self._turns.release(stream, consumer)

    async def _acknowledge(self, stream: StreamRow, consumer: str, seq: int) -> int:
        """Move a consumer behind an event, never back; returns its position."""
        if seq >= stream.next_seq:
            raise InvalidParams(f"there is no event {seq} yet; the last is {stream.next_seq - 1}")
        position = await streams.position_of(self.db, stream.key, consumer)
        if position > seq:
            return position
        return await self.db.transaction(
            lambda tx: streams.advance(tx, stream.key, consumer, seq + 1, now())
        )

    async def _answer(
        self,
        stream: StreamRow,
        page: Sequence[EventRow],
        position: int,
        cursor: bytes | None,
        *,
        of_consumer: bool,
    ) -> Encoded:
        # Looked at after the events: who hears of the end has all events, or hears of more.
        current = await streams.reread(self.db, stream.key)
        last = page[-1].node_id if page else cursor
        if of_consumer and position and not page:
            # Mostly it has read everything.
            is_at_end = position == current.next_seq
            last = (
                current.head
                if is_at_end
                else await streams.node_of(self.db, stream.key, position - 1)
            )
        head: dict[str, Any] = {
            "type": "ok",
            "stream_id": ids.text(stream.id),
            "session_id": ids.text(stream.session_id),
            "status": current.status,
        }
        tail: dict[str, Any] = {
            "pending_approvals": [],
            "read_position": position,
            "cursor": ids.text(last) if last else None,
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
