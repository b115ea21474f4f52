"""Polls of one consumer take turns: the next one starts after the page before it was delivered."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from hubd.activation import Conflict

# A page is delivered in milliseconds, unless its client has stopped reading.
TURN_SECONDS: Final = 10.0

Key = tuple[int, str]


@dataclass
class _Turn:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Calls that have the lock or wait for it.
    calls: int = 0


class Turns:
    """At most one page of each consumer of a stream is under way."""

    def __init__(self) -> None:
        # An entry goes with the last call that uses it.
        self._turns: dict[Key, _Turn] = {}

    async def acquire(self, stream: int, consumer: str) -> None:
        """Wait until no page of the consumer is under way.

        Raises:
            Conflict: The client that gets that page does not read it.
        """
        key = (stream, consumer)
        turn = self._turns.setdefault(key, _Turn())
        turn.calls += 1
        try:
            if not turn.lock.locked():
                await turn.lock.acquire()  # at once
                return
            async with asyncio.timeout(TURN_SECONDS):
                await turn.lock.acquire()
        except TimeoutError:
            self._leave(key, turn)
            raise Conflict(
                f"another client polls as consumer '{consumer}' and has not read its page",
                suggestion="Poll with another consumer name, or end that client",
            ) from None
        except BaseException:
            self._leave(key, turn)
            raise

    def release(self, stream: int, consumer: str) -> None:
        """The page was delivered, or never will be."""
        key = (stream, consumer)
        turn = self._turns[key]
        turn.lock.release()
        self._leave(key, turn)

    @asynccontextmanager
    async def taken(self, stream: int, consumer: str) -> AsyncIterator[None]:
        """No page of the consumer is under way inside the block. Raises as `acquire`."""
        await self.acquire(stream, consumer)
        try:
            yield
        finally:
            self.release(stream, consumer)

    def _leave(self, key: Key, turn: _Turn) -> None:
        turn.calls -= 1
        if not turn.calls:
            del self._turns[key]
