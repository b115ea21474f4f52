"""Pages of a stream's events: from a sequence number, or from the position of a consumer."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

from hubd.activation import Host, InvalidParams
from hubd.plugins.claudecode.record.consumer_locks import ConsumerLocks
from hubd.storage.database import Database
from hubd.storage.streams import consumers, streams
from hubd.storage.streams.streams import OPEN, Page, StreamRow


class EventPages:
    """Reads pages, and moves the positions of consumers."""

    def __init__(self, db: Database, host: Host) -> None:
        self._db = db
        self._host = host
        self.locks = ConsumerLocks()

    async def wait_for_events(
        self, stream: StreamRow, read: Callable[[], Awaitable[Page]], wait_ms: int
    ) -> Page:
        """Read a page; while it is empty and the chat runs, wait for events and read again.

        Args:
            stream: The stream.
            read: Reads the page.
            wait_ms: The longest wait, in milliseconds.
        """
        deadline = asyncio.get_running_loop().time() + wait_ms / 1000
        with self._db.waiters.waiting_for(stream.topic) as changed:
            while True:
                changed.clear()
                # Read before the events: if the chat has ended by now, all events are there.
                current = await streams.reread(self._db, stream.key)
                page = await read()
                if page.events or not wait_ms or current.status not in OPEN:
                    return page
                try:
                    # Only the wait may be cut short: a read may reserve a page for its consumer.
                    async with asyncio.timeout_at(deadline):
                        await changed.wait()
                except TimeoutError:
                    return page

    async def read(self, stream: StreamRow, start: int, limit: int) -> Page:
        """Read events from a sequence number on.

        Raises:
            CursorExpired: These events were removed.
        """
        if start < stream.first_seq:
            raise streams.expired(stream)
        return streams.page_of(await streams.events(self._db, stream.key, start, limit), start)

    async def peek(self, stream: StreamRow, consumer: str, limit: int) -> Page:
        """Read events from a consumer's position on, and leave the position as it is."""
        start = await consumers.position_of(self._db, stream.key, consumer)
        return await self.read(stream, start, limit)

    async def take(self, stream: StreamRow, consumer: str, limit: int) -> Page:
        """As `peek`; the position moves behind the page when the page was delivered.

        Until then no other poll of the consumer is answered, so each event is delivered once.
        """
        await self.locks.acquire(stream.key, consumer)
        is_under_way = False
        try:
            page = await self.peek(stream, consumer, limit)
            if page.events:
                self._host.after_sent(partial(self._delivered, stream.key, consumer, page.next_seq))
                is_under_way = True
        finally:
            if not is_under_way:
                self.locks.release(stream.key, consumer)
        return page

    async def _delivered(self, stream: int, consumer: str, position: int, sent: bool) -> None:
        """End the delivery of a page; if it was sent, move the consumer to `position`."""
        try:
            if sent:
                await self._advance(stream, consumer, position)
        finally:
            self.locks.release(stream, consumer)

    async def acknowledge(self, stream: StreamRow, consumer: str, seq: int) -> int:
        """Move a consumer behind an event, never back; return its position.

        Raises:
            InvalidParams: The stream has no such event yet.
        """
        if seq >= stream.next_seq:
            raise InvalidParams(
                f"event {seq} does not exist yet; the last event is {stream.next_seq - 1}"
            )
        position = await consumers.position_of(self._db, stream.key, consumer)
        if position > seq:
            return position
        return await self._advance(stream.key, consumer, seq + 1)

    async def _advance(self, stream: int, consumer: str, position: int) -> int:
        now = int(time.time())
        return await self._db.transaction(
            lambda tx: consumers.advance(tx, stream, consumer, position, now)
        )
