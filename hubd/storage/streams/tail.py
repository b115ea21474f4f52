"""The newest events of a stream, shared by all its followers.

All followers of a stream wake together and need the same rows. A commit hands its new events over
in memory; other rows are read once for all and kept until the next write.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from hubd.storage.database import Database
from hubd.storage.streams import streams
from hubd.storage.streams.streams import EventRow, StreamRow

T = TypeVar("T")

# Rows with more characters than this are not kept.
MAX_KEPT_CHARACTERS: Final = 256 * 1024
# The number of new events that are kept.
MAX_KEPT: Final = 200


class Tail(Generic[T]):
    """The rows that the followers of one stream share. `Tails` creates it."""

    def __init__(self, db: Database, stream: int, make: Callable[[EventRow], T]) -> None:
        self._db = db
        self._stream = stream
        self._make = make
        # The number of writes. A read that started before the last one is not kept.
        self._writes = 0
        self._row: StreamRow | None = None
        # A page that was read, and the sequence number of its first event.
        self._page: tuple[int, Sequence[T]] | None = None
        # The newest events, which commits handed over, and the sequence number of the first.
        self._new: list[T] = []
        self._new_from = 0
        self._new_characters = 0

    def take(self, rows: Sequence[EventRow] | None) -> None:
        """Take the events of a commit; None if the commit also changed the stream itself."""
        self._writes += 1
        self._page = None
        if rows is None:
            self._row = None
            self._new, self._new_characters = [], 0
            return
        first, last = rows[0], rows[-1]
        if self._row is not None and self._row.next_seq == first.seq:
            root = self._row.root or first.node_id
            self._row = self._row._replace(root=root, head=last.node_id, next_seq=last.seq + 1)
        else:
            self._row = None
        characters = sum(len(row.data) for row in rows)
        is_next = first.seq == self._new_from + len(self._new)
        is_small = self._new_characters + characters <= MAX_KEPT_CHARACTERS
        if not is_next or not is_small or len(self._new) + len(rows) > MAX_KEPT:
            self._new = []
            self._new_from, self._new_characters = first.seq, 0
        if characters <= MAX_KEPT_CHARACTERS and len(rows) <= MAX_KEPT:
            self._new += [self._make(row) for row in rows]
            self._new_characters += characters

    async def row(self) -> StreamRow:
        """Return the current row of the stream.

        Raises:
            NotFound: The stream was deleted.
        """
        if self._row is not None:
            return self._row
        writes = self._writes
        row = await streams.reread(self._db, self._stream)
        if writes == self._writes:
            self._row = row
        return row

    async def page(self, seq: int, limit: int) -> Sequence[T]:
        """Return events from a sequence number on, converted for the followers.

        Args:
            seq: The sequence number of the first event.
            limit: The maximum number of events, the same for all followers.
        """
        position = seq - self._new_from
        if 0 <= position < len(self._new):
            return self._new[position : position + limit]
        if self._page is not None and self._page[0] == seq:
            return self._page[1]
        writes = self._writes
        rows = await streams.events(self._db, self._stream, seq, limit)
        events = [self._make(row) for row in rows]
        is_small = sum(len(row.data) for row in rows) <= MAX_KEPT_CHARACTERS
        if is_small and writes == self._writes:
            self._page = (seq, events)
        return events


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
            tail = Tail(db, stream.key, self._make)
            watch = ExitStack()
            watch.enter_context(db.waiters.listening_to(stream.topic, tail.take))
            entry = _Followed(tail, watch)
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
