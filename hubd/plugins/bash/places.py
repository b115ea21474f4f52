"""The limit of commands that run at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from hubd.errors import Overloaded

# The longest wait for a place. Commands that start commands could wait for each other for ever.
WAIT_SECONDS: Final = 60.0


class Places:
    """Lets a number of commands run; others wait in order of their calls."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._free = asyncio.Semaphore(count)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Hold a place inside the block.

        Raises:
            Overloaded: No place was free in time.
        """
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            raise Overloaded(
                f"{self._count} commands are running, and none ended within {WAIT_SECONDS:g} s",
                suggestion="Wait for some of them, or set max_running below [bash] in config.toml",
            ) from None
        try:
            yield
        finally:
            self._free.release()
