"""The limit of commands that run at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from hubd.errors import Overloaded

# The longest wait without the end of any command. Commands that start commands could wait for each
# other for ever.
WAIT_SECONDS: Final = 60.0


class Places:
    """Lets a number of commands run; others wait in order of their calls."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._free = asyncio.Semaphore(count)
        # The limits of the commands that wait. Each end of another command renews them.
        self._waiting: set[asyncio.Timeout] = set()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Hold a place inside the block.

        Raises:
            Overloaded: No command ended in time.
        """
        try:
            await self._acquire()
        except TimeoutError:
            raise Overloaded(
                f"{self._count} commands are running, and none ended within {WAIT_SECONDS:g} s",
                suggestion="Wait for some of them, or set max_running below [bash] in config.toml",
            ) from None
        try:
            yield
        finally:
            self._free.release()
            until = asyncio.get_running_loop().time() + WAIT_SECONDS
            for limit in self._waiting:
                limit.reschedule(until)

    async def _acquire(self) -> None:
        async with asyncio.timeout(WAIT_SECONDS) as limit:
            self._waiting.add(limit)
            try:
                await self._free.acquire()
            finally:
                self._waiting.discard(limit)
