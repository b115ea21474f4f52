"""Delivery reports: whether the answer to an MCP request was sent.

This module does not import the SDK, because both transports need it before the SDK is loaded.
"""

import asyncio
from contextlib import AbstractContextManager
from typing import Final, Protocol

from hubd.plexus.actors import Actors, Origin

# Key of an HTTP request's connection in the state of its ASGI scope.
CONNECTION: Final = "hubd.connection"
# Key of its body in the same state, if the body arrived with the head.
BODY: Final = "hubd.body"


class Flushable(Protocol):
    """A connection that sends answers."""

    @property
    def is_lost(self) -> bool:
        """Whether the client has disconnected."""

    @property
    def has_sent_all(self) -> bool:
        """Whether the kernel has all written bytes, and the connection stays open."""

    async def flushed(self) -> bool:
        """Wait until the kernel has all written bytes; return False if they can't be sent."""

    def gathering(self) -> AbstractContextManager[None]:
        """Write everything that is written inside the block at once, at its end."""


class HttpPeer(Protocol):
    """A connection of a client over HTTP."""

    @property
    def id(self) -> str:
        """A random id."""

    async def origin(self, actors: Actors) -> Origin:
        """Return the process that made the connection."""


class Delivery:
    """The delivery of the answer to one request."""

    def __init__(self) -> None:
        # None until the answer was sent or has failed.
        self._sent: bool | None = None
        self._waiting: list[asyncio.Future[bool]] = []

    def report_to(self, report: asyncio.Future[bool]) -> None:
        """Set the future when the answer was sent or has failed."""
        if self._sent is None:
            self._waiting.append(report)
        elif not report.done():
            report.set_result(self._sent)

    def settle(self, *, sent: bool) -> None:
        """Report that the answer was sent, or can't be; only the first report counts."""
        if self._sent is not None:
            return
        self._sent = sent
        for report in self._waiting:
            if not report.done():
                report.set_result(sent)
        self._waiting.clear()
