"""Whether the answer to one MCP request was handed to its connection.

Nothing of the SDK: both framings need it before that is there.
"""

import asyncio
from typing import Final, Protocol

# Where an HTTP request carries its connection, in the state of ASGI's scope.
CONNECTION: Final = "hubd.connection"


class Flushable(Protocol):
    """A connection over which answers go."""

    @property
    def is_lost(self) -> bool:
        """Whether the client is gone."""

    @property
    def has_sent_all(self) -> bool:
        """Whether the kernel has all that was written, and the connection stays open."""

    async def flushed(self) -> bool:
        """Wait until the kernel has all that was written; False if it can't be sent."""


class Delivery:
    """The answer to one request, as the framing that writes it reports it."""

    def __init__(self) -> None:
        # None until the answer is written, or can't be any more.
        self._sent: bool | None = None
        self._waiting: list[asyncio.Future[bool]] = []

    def report_to(self, handed_over: asyncio.Future[bool]) -> None:
        """Set the future when it is known whether the answer was sent."""
        if self._sent is None:
            self._waiting.append(handed_over)
        elif not handed_over.done():
            handed_over.set_result(self._sent)

    def settle(self, *, sent: bool) -> None:
        """The answer was sent, or will never be; only the first report counts."""
        if self._sent is not None:
            return
        self._sent = sent
        for handed_over in self._waiting:
            if not handed_over.done():
                handed_over.set_result(sent)
        self._waiting.clear()
