"""The newest events of a stream, read once for all followers.

All followers of a stream wake together and need the same rows, so they share one read. The rows
are kept until the next write.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, Generic, TypeVar

from hubd.storage.database import Database
from hubd.storage.streams import streams
from hubd.storage.streams.streams import EventRow, StreamRow
from hubd.wire.lazy_dataclass import dataclass

T = TypeVar("T")

# A page with more characters than this is not kept.
MAX_KEPT_CHARACTERS: Final = 256 * 1024


class Tail(Generic[T]):
    """The rows that the followers of one stream share. `Tails` creates it."""

    def __init__(
        self, db: Database, stream: int, make: Callable[[EventRow], T], changed: asyncio.Event
    ) -> None:
        self._db = db
        self._stream = stream
        self._make = make
        # Set by each write to the stream; cleared when the kept rows are dropped.
        self._changed = changed
        # The number of drops. A read that started before the last drop is not kept.
        self._dropped = 0
        self._row: StreamRow | None = None
        # The newest page, and the sequence number of its first event.
        self._page: tuple[int, Sequence[T]] | None = None

    async def row(self) -> StreamRow:
        """Return the current row of the stream.

        Raises:
            NotFound: The stream was deleted.
        """
        self._drop_if_changed()
        if self._row is not None:
            return self._row
        dropped = self._dropped
        row = await streams.reread(self._db, self._stream)
        if dropped == self._dropped:
            self._row = row
        return row

    async def page(self, seq: int, limit: int) -> Sequence[T]:
        """Return events from a sequence number on, converted for the followers.

        Args:
            seq: The sequence number of the first event.
            limit: The maximum number of events, the same for all followers.
        """
        self._drop_if_changed()
        if self._page is not None and self._page[0] == seq:
            return self._page[1]
        dropped = self._dropped
        rows = await streams.events(self._db, self._stream, seq, limit)
        events = [self._make(row) for row in rows]
        is_small = sum(len(row.data) for row in rows) <= MAX_KEPT_CHARACTERS
        if is_small and dropped == self._dropped:
            self._page = (seq, events)
        return events

    def _drop_if_changed(self) -> None:
        if self._changed.is_set():
            self._changed.clear()
            self._dropped += 1
            self._row = self._page = None


class Tails(Generic[T]):
    """The tails of all streams with followers.

    Args:
        make: Converts an event, once for all followers. They must not change the result.
    """

    def __init__(self, make: Callable[[EventRow], T]) -> None:
        self._make = make
        # By stream. Each entry is removed with its last follower.
        self._followed: dict[int, _Followed[T]] = {}

    @contextmanager
    def of(self, db: Database, stream: StreamRow) -> Iterator[Tail[T]]:
        """Yield the tail of a stream, which all its followers share."""
        entry = self._followed.get(stream.key)
        if entry is None:
            watch = ExitStack()
            changed = watch.enter_context(db.waiters.waiting_for(stream.topic))
            entry = _Followed(Tail(db, stream.key, self._make, changed), watch)
            self._followed[stream.key] = entry
        entry.followers += 1
        try:
            yield entry.tail
        finally:
            entry.followers -= 1
            if not entry.followers:
                del self._followed[stream.key]
                entry.watch.close()


@dataclass
class _Followed(Generic[T]):
    """A tail, the number of its followers, and the subscription that ends with the last one."""

    tail: Tail[T]
    watch: ExitStack
    followers: int = 0
