"""Locks of consumers: the next poll of a consumer waits until the page before it was delivered."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import field
from typing import Final

from hubd.activation import Conflict
from hubd.wire.lazy_dataclass import dataclass

# A page is delivered in milliseconds, unless its client has stopped reading.
LOCK_SECONDS: Final = 10.0

Key = tuple[int, str]


@dataclass
class _Entry:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Calls that have the lock or wait for it.
    calls: int = 0


class ConsumerLocks:
    """A lock for each consumer of each stream, held while a page of the consumer is under way."""

    def __init__(self) -> None:
        # An entry is removed with the last call that uses it.
        self._entries: dict[Key, _Entry] = {}

    async def acquire(self, stream: int, consumer: str) -> None:
        """Wait until no page of the consumer is under way, and take its lock.

        Raises:
            Conflict: The client that gets that page does not read it.
        """
        key = (stream, consumer)
        entry = self._entries.setdefault(key, _Entry())
        entry.calls += 1
        try:
            if not entry.lock.locked():
                await entry.lock.acquire()  # at once
                return
            async with asyncio.timeout(LOCK_SECONDS):
                await entry.lock.acquire()
        except TimeoutError:
            self._leave(key, entry)
            raise Conflict(
                f"another client polls as consumer '{consumer}' and has not read its page",
                suggestion="Poll with another consumer name, or end that client",
            ) from None
        except BaseException:
            self._leave(key, entry)
            raise

    def release(self, stream: int, consumer: str) -> None:
        """Release the lock after the page was delivered or dropped."""
        key = (stream, consumer)
        entry = self._entries[key]
        entry.lock.release()
        self._leave(key, entry)

    @asynccontextmanager
    async def held(self, stream: int, consumer: str) -> AsyncIterator[None]:
        """Hold the lock inside the block. Raises as `acquire`."""
        await self.acquire(stream, consumer)
        try:
            yield
        finally:
            self.release(stream, consumer)

    def _leave(self, key: Key, entry: _Entry) -> None:
        entry.calls -= 1
        if not entry.calls:
            del self._entries[key]
