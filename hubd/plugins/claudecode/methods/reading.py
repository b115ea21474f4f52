"""Read chats while they run and afterwards: follow, poll."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Final, Unpack

from pydantic import Field
from pydantic_core import to_json

from hubd.activation import Encoded, InvalidParams, method
from hubd.activation.params import NodeId
from hubd.plugins.claudecode import events
from hubd.plugins.claudecode.approvals import inline
from hubd.plugins.claudecode.approvals import store as approvals
from hubd.plugins.claudecode.handles import EventRef
from hubd.plugins.claudecode.methods.base import LIST_NAMES, ClaudeBase
from hubd.plugins.claudecode.methods.parameters import STREAM, Limit, Name, Seq, StreamAddress
from hubd.plugins.claudecode.record import followers
from hubd.storage import ids
from hubd.storage.streams import consumers, cursors, streams
from hubd.storage.streams.streams import EventRow, StreamRow

MAX_WAIT_MS: Final = 60_000


class Reading(ClaudeBase):
    """Methods that read the events of chats."""

    @method(
        read_only=True,
        render="chat",
        one_of=STREAM,
        completes=LIST_NAMES,
        produces=[EventRef],
        bidirectional=True,
    )
    async def follow(
        self,
        from_seq: Seq = 0,
        **where: Unpack[StreamAddress],
    ) -> AsyncIterator[events.Followed | events.LiveEvent | Encoded]:
        """Follow a chat to its end: past events, then new ones and text as it is written.

        It waits through approvals. A person at a terminal is asked about them.

        Args:
            from_seq: The first sequence number to return.
        """
        stream = await self.stream_named(where)
        watcher = inline.Watcher(self.db, self.host, stays=True)
        async with (
            watcher.asked(self.host, stream),
            aclosing(self.followers.follow(stream, from_seq)) as entries,
        ):
            async for durable, event in entries:
                if durable is None:
                    yield Encoded(to_json({"type": "live", "event": event}))
                else:
                    yield durable.record

    @method(one_of=STREAM, completes=LIST_NAMES, produces=[EventRef])
    async def poll(
        self,
        from_seq: Seq | None = None,
        cursor: NodeId | None = None,
        consumer: Name | None = None,
        limit: Limit = 100,
        wait_ms: Annotated[int, Field(ge=0, le=MAX_WAIT_MS)] = 0,
        auto_ack: bool = True,
        ack: Seq | None = None,
        **where: Unpack[StreamAddress],
    ) -> events.Polled | Encoded:
        """Read a page of chat events after a sequence number, a node, or a consumer's position.

        With auto_ack, the consumer's position moves once the page was handed to the client's
        connection. A crash of the hub may repeat a page and never skips one; a client that dies
        before it reads loses the page. To lose nothing, give the last seq that was processed as
        `ack` with the next poll.

        Args:
            from_seq: The first sequence number to return. The hub stores no position.
            cursor: The node of an event: its id, or the last 4 or more digits; the events after
                it are returned.
            consumer: A named position that the hub stores; `default` if no position is given.
            limit: The maximum number of events.
            wait_ms: Milliseconds to wait for the first event.
            auto_ack: Move the consumer's position when the page was sent. If false, only `ack`
                and consumers_ack move it.
            ack: Acknowledge all events through this seq for the consumer, then return the events
                that follow. Implies auto_ack=false for this call.
        """
        positions = [entry for entry in (from_seq, cursor, consumer) if entry is not None]
        if len(positions) > 1:
            raise InvalidParams("give one of from_seq, cursor and consumer")
        stream = await self.stream_named(where)
        pages = self.pages
        node_id: bytes | None = None
        if positions and consumer is None:
            if ack is not None:
                raise InvalidParams("ack needs a consumer, not from_seq or cursor")
            start = from_seq or 0
            if cursor is not None:
                node_id = await cursors.node_id(self.db, stream, cursor)
                start = await streams.seq_of(self.db, stream, node_id) + 1
            page = await pages.wait_for_events(
                stream, lambda: pages.read(stream, start, limit), wait_ms
            )
        else:
            reader = consumer or consumers.DEFAULT_CONSUMER
            if ack is not None:
                await pages.acknowledge(stream, reader, ack)
            read = pages.take if auto_ack and ack is None else pages.peek
            page = await pages.wait_for_events(stream, lambda: read(stream, reader, limit), wait_ms)
        of_consumer = bool(consumer) or not positions
        return await self._encode_page(stream, *page, node_id, of_consumer=of_consumer)

    async def _encode_page(
        self,
        stream: StreamRow,
        page: Sequence[EventRow],
        position: int,
        cursor: bytes | None,
        *,
        of_consumer: bool,
    ) -> Encoded:
        # Read after the events: a client that sees the end has all events, or sees `has_more`.
        current = await streams.reread(self.db, stream.key)
        last = page[-1].node_id if page else cursor
        if of_consumer and position and not page:
            # In most cases the consumer has read everything.
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
        pending = []
        if current.status == "awaiting_permission":
            pending = await approvals.read_pending_of(self.db, stream.key)
        tail: dict[str, Any] = {
            "pending_approvals": [row.public() for row in pending],
            "read_position": position,
            "cursor": ids.text(last) if last else None,
            "total_events": current.next_seq,
            "has_more": current.next_seq > position,
        }
        # Stored JSON is sent as it is, without being parsed.
        records = b",".join(followers.event_record(self.path, row) for row in page)
        return Encoded(b'%b,"events":[%b],%b' % (to_json(head)[:-1], records, to_json(tail)[1:]))
