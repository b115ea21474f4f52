"""The end of a stream, read once for all who follow it.

Who follows a stream is woken with all the others, and all of them want to know the same. What
was read stays here until something is written.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from hubd.storage.database import Database
from hubd.storage.streams import streams
from hubd.storage.streams.streams import EventRow, StreamRow

T = TypeVar("T")

# A page whose events are larger than this together is not kept while followers wait.
MAX_KEPT_CHARACTERS: Final = 256 * 1024


class Tail(Generic[T]):
    """What the followers of one stream share. Made by `Tails`."""

    def __init__(
        self, db: Database, stream: int, make: Callable[[EventRow], T], changed: asyncio.Event
    ) -> None:
        self._db = db
        self._stream = stream
        self._make = make
        # Set when the stream is written; cleared when what is kept here has been dropped.
        self._changed = changed
        # How many times it was dropped: what was read before is not to be kept after.
        self._dropped = 0
        self._row: StreamRow | None = None
        # The page that was read last, and the seq at which it begins.
        self._page: tuple[int, Sequence[T]] | None = None

    async def row(self) -> StreamRow:
        """The stream as it is now.

        Raises:
            NotFound: It went meanwhile.
        """
        self._drop_if_changed()
        if self._row is not None:
            return self._row
        dropped = self._dropped
        found = await streams.reread(self._db, self._stream)
        if dropped == self._dropped:
            self._row = found
        return found

    async def page(self, seq: int, limit: int) -> Sequence[T]:
        """Events from a seq on, made into what the followers want of them.

        Args:
            seq: The first one.
            limit: How many at most; the same for all.
        """
        self._drop_if_changed()
        if self._page is not None and self._page[0] == seq:
            return self._page[1]
        dropped = self._dropped
        rows = await streams.events(self._db, self._stream, seq, limit)
        found = [self._make(row) for row in rows]
        small = sum(len(row.data) for row in rows) <= MAX_KEPT_CHARACTERS
        if small and dropped == self._dropped:
            self._page = (seq, found)
        return found

    def _drop_if_changed(self) -> None:
        if self._changed.is_set():
            self._changed.clear()
            self._dropped += 1
            self._row = self._page = None


class Tails(Generic[T]):
    """The tails of all streams that are being followed.

    Args:
        make: What an event becomes, once for all followers; none of them may change it.
    """

    def __init__(self, make: Callable[[EventRow], T]) -> None:
        self._make = make
        # By stream; an entry goes with its last follower.
        self._followed: dict[int, _Followed[T]] = {}

    @contextmanager
    def of(self, db: Database, stream: StreamRow) -> Iterator[Tail[T]]:
        """The tail of a stream, shared with all who follow it at the same time."""
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
    """A tail, how many share it, and what ends when none does."""

    tail: Tail[T]
    watch: ExitStack
    followers: int = 0
