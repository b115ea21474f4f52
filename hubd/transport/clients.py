"""All clients that are connected to the daemon, and the calls that run for them."""

import logging
from types import TracebackType
from typing import Final, Protocol, Self

from hubd.plexus.host import Questions
from hubd.plexus.hub import Hub
from hubd.transport.connection import Connection, FrameWriter
from hubd.transport.running import Calls
from hubd.wire.context import Client

log = logging.getLogger("hubd.transport")

# Far more than one user's programs need; beyond it file descriptors run out.
MAX_CLIENTS: Final = 512


class Link(Protocol):
    """A connected client, as its framing sees it."""

    def hang_up(self) -> None:
        """Send what is queued, say goodbye and close."""


class Clients:
    """Who is connected. An async context manager; leaving it ends all calls, in bounded time."""

    def __init__(self, hub: Hub, questions: Questions) -> None:
        self.hub = hub
        self.questions = questions
        self.calls = Calls()
        # Connected clients; an entry goes when its connection is lost.
        self._connected: dict[Link, Connection] = {}
        # Set by leaving: no more clients, and no more calls of those that are there.
        self.closing = False

    async def __aenter__(self) -> Self:
        """Ready for clients."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all calls, say goodbye. Bounded."""
        await self.end_calls()
        for link in list(self._connected):
            link.hang_up()

    async def end_calls(self) -> None:
        """Start no more calls, let those that run finish for a moment, cancel the rest. Bounded.

        Once is enough: what did not end then is not waited for again.
        """
        if self.closing:
            return
        self.closing = True
        for connection in self._connected.values():
            connection.stopping = True
        await self.calls.end()

    def connect(
        self, link: Link, writer: FrameWriter, client: Client, *, trusts_context: bool
    ) -> Connection | None:
        """A connection for a new client; None when there are too many or the daemon stops."""
        if self.closing or len(self._connected) >= MAX_CLIENTS:
            log.warning("refused a client: %d are connected", len(self._connected))
            return None
        connection = Connection(
            self.hub,
            self.questions,
            writer,
            self.calls,
            client,
            trusts_context=trusts_context,
        )
        self._connected[link] = connection
        return connection

    def disconnect(self, link: Link) -> None:
        """A client is gone, and its calls with it."""
        connection = self._connected.pop(link, None)
        if connection is not None:
            connection.cancel_all("the client disconnected")
