"""Followers of a chat: its durable events in order, and live ones in between, until it ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic_core import from_json

from hubd.activation import Encoded, Host
from hubd.plugins.claudecode import chat_events
from hubd.plugins.claudecode.approvals import store as approvals
from hubd.plugins.claudecode.handles import VERSION
from hubd.plugins.claudecode.record.live import SentText
from hubd.storage import ids
from hubd.storage.database import Database
from hubd.storage.streams import streams
from hubd.storage.streams.streams import OPEN, EventRow, StreamRow
from hubd.storage.streams.tail import Tails

if TYPE_CHECKING:
    from hubd.plugins.claudecode.queue import Queue

# Durable events that a follower reads at a time.
EVENTS_AT_ONCE: Final = 100


class DurableEvent(NamedTuple):
    """A durable event as all its followers share it."""

    row: EventRow
    event: dict[str, Any]
    # The event as `follow` yields it.
    record: Encoded


class Followers:
    """The followers of all chats. Those of one stream share one read of its end."""

    def __init__(self, db: Database, host: Host, path: str, queue: Callable[[], Queue]) -> None:
        self._db = db
        self._host = host
        self._path = path
        self._queue = queue
        self._tails = Tails(self._durable)

    async def follow(
        self,
        stream: StreamRow,
        seq: int,
        leaves: Callable[[StreamRow], Awaitable[bool]] | None = None,
    ) -> AsyncGenerator[tuple[DurableEvent | None, dict[str, Any]], None]:
        """Yield durable events from `seq` on, and live ones with None, until the chat has ended.

        Use it inside `aclosing`. The set of pending approvals is a live event whenever it changes.

        Args:
            stream: The stream.
            seq: The first sequence number.
            leaves: Whether to end before the chat does, because it waits for an approval.

        Raises:
            CursorExpired: Events that were not read yet were removed.
        """
        if seq < stream.first_seq:
            raise streams.expired(stream)
        sent = SentText()
        reported = ""
        pending: tuple[int, ...] = ()
        with (
            self._db.waiters.waiting_for(stream.topic) as changed,
            self._tails.of(self._db, stream) as tail,
        ):
            while True:
                changed.clear()
                # Read before the events: if the chat has ended by now, all events are there. A
                # later write wakes this loop again.
                current = await tail.row()
                while seq < current.next_seq:
                    page = await tail.page(seq, EVENTS_AT_ONCE)
                    if not page:
                        break
                    seq = page[-1].row.seq + 1
                    for durable in page:
                        for live_event in sent.finish(durable.event):
                            yield None, live_event
                        yield durable, durable.event
                    # A page may be large, and the next event may come much later.
                    del page, durable
                if seq < current.next_seq:
                    raise streams.expired(await streams.reread(self._db, stream.key))
                live = self._queue().live(stream.key)
                for live_event in sent.new_events(live, seq) if live else ():
                    yield None, live_event
                if current.status not in OPEN:
                    return
                if current.status == "awaiting_permission" or pending:
                    rows = await approvals.read_pending_of(self._db, stream.key)
                    if pending != (keys := tuple(row.key for row in rows)):
                        pending = keys
                        yield None, pending_event(current, rows)
                    if leaves is not None and rows and await leaves(current):
                        return
                if current.status == "queued":
                    place = await self._queue().place_in_queue(current)
                    if place != reported:
                        reported = place
                        await self._host.progress(place)
                await changed.wait()

    def _durable(self, row: EventRow) -> DurableEvent:
        shared = Encoded(event_record(self._path, row, tag=b'"type":"event",'))
        return DurableEvent(row, from_json(row.data), shared)


def pending_event(stream: StreamRow, rows: Sequence[approvals.ApprovalRow]) -> dict[str, Any]:
    """Return the live event with the approvals that a chat waits for."""
    return chat_events.Pending.fields(
        stream_id=ids.text(stream.id),
        session_id=ids.text(stream.session_id),
        status=stream.status,
        pending_approvals=[row.public() for row in rows],
    )


def event_record(path: str, row: EventRow, tag: bytes = b"") -> bytes:
    """Return a durable event with its place in the stream, as JSON."""
    node_id = ids.text(row.node_id)
    return b'{%b"seq":%d,"node_id":"%b","timestamp":%d,"event":%b}' % (
        tag,
        row.seq,
        node_id.encode(),
        row.timestamp,
        with_handle(path, row),
    )


def with_handle(path: str, row: EventRow) -> bytes:
    """Return a durable event with its handle, as JSON. The handle is not stored with it."""
    handle = f"{path}@{VERSION}::chat_event:{ids.text(row.node_id)}:{row.event_type}"
    return b'%b,"handle":"%b"}' % (row.data[:-1].encode(), handle.encode())
