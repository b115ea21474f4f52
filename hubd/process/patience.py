"""The wait for the output of a child: without limit, limited by its silence, or by its end."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from hubd.errors import Timeout

T = TypeVar("T")

# Seconds for the last output after the child has ended: another process may hold the pipe open.
LINGER_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


class Patience:
    """Limits each wait for output of a child.

    Args:
        silence_seconds: The longest wait while the child runs; None for no limit.
        name: The child, for messages.
        extra: Fields of log records about the child.
    """

    def __init__(self, silence_seconds: float | None, name: str, extra: dict[str, str]) -> None:
        self.name = name
        self.extra = extra
        self._silence_seconds = silence_seconds
        # Set while a reader waits.
        self._waiting: asyncio.Timeout | None = None
        # True once the child and its descendants have ended.
        self._lingering = False

    def linger(self) -> None:
        """Limit the wait for further output, because the child has ended."""
        self._lingering = True
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time() + LINGER_SECONDS)

    async def wait_for(self, output: Coroutine[Any, Any, T], at_end: T) -> T:
        """Return the result of a wait for output; `at_end` if the pipe outlives the child.

        Raises:
            Timeout: The child runs, and printed nothing for `silence_seconds`.
        """
        limit = LINGER_SECONDS if self._lingering else self._silence_seconds
        try:
            async with asyncio.timeout(limit) as self._waiting:
                return await output
        except TimeoutError:
            if not self._lingering:
                seconds = f"{self._silence_seconds:g} s"
                raise Timeout(f"{self.name} printed nothing for {seconds}") from None
            log.warning("%s has ended, but its output is still open", self.name, extra=self.extra)
            return at_end
        finally:
            self._waiting = None
