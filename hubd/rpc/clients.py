"""The clients that are connected to the daemon, and their calls."""

import logging
from types import TracebackType
from typing import Final, Protocol, Self

from hubd.errors import HubError, Overloaded, Unavailable
from hubd.plexus.hub import Hub
from hubd.plexus.questions import Questions
from hubd.rpc.calls import Calls
from hubd.rpc.connection import Connection, FrameWriter
from hubd.rpc.flushes import Flushes
from hubd.wire.caller import Client
from hubd.wire.limits import MAX_MESSAGE_MIB, MESSAGE_SECONDS, MIB

log = logging.getLogger(__name__)

# Connections per transport: far more than the programs of one user need, and few enough that file
# descriptors suffice.
MAX_CLIENTS: Final = 512


class Link(Protocol):
    """The protocol object of a connected client."""

    def hang_up(self) -> None:
        """Send the queued frames, then close."""

    def evict(self, reason: str) -> None:
        """Close to make room for another client; the client receives the reason."""


class Clients:
    """The connected clients. Leaving the context ends all calls in bounded time."""

    # The longest time from the first byte of a message to its last, in seconds.
    message_seconds = MESSAGE_SECONDS

    def __init__(
        self, hub: Hub, questions: Questions, max_message_bytes: int = MAX_MESSAGE_MIB * MIB
    ) -> None:
        self.hub = hub
        self.questions = questions
        self.max_message_bytes = max_message_bytes
        self.calls = Calls()
        # Sends the queued frames of all connections.
        self.flushes = Flushes()
        # Each entry is removed when its connection is lost.
        self._connected: dict[Link, Connection] = {}
        # Set when the block ends: new clients and new calls are refused.
        self.closing = False

    async def __aenter__(self) -> Self:
        """Return the clients."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all calls and close all connections. Takes bounded time."""
        await self.end_calls()
        for link in list(self._connected):
            link.hang_up()

    async def end_calls(self) -> None:
        """Refuse new calls, let running ones finish for a moment, then cancel them.

        Takes bounded time. A second call returns at once.
        """
        if self.closing:
            return
        self.closing = True
        for connection in self._connected.values():
            connection.stopping = True
        await self.calls.end()

    def connect(
        self, link: Link, writer: FrameWriter, client: Client, *, trusts_context: bool
    ) -> Connection:
        """Return a connection for a new client.

        Raises:
            Unavailable: The daemon is stopping.
            Overloaded: All connections of the transport are in use and have a running call.
        """
        try:
            if self.closing:
                raise Unavailable("the daemon is stopping")
            self._make_room(client.transport)
        except HubError as error:
            log.warning("refused a connection: %s", error.message)
            raise
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

    def _make_room(self, transport: str) -> None:
        """Close the longest-idle connection of a transport if it has too many."""
        if len(self._connected) < MAX_CLIENTS:
            return
        links = {
            link: connection
            for link, connection in self._connected.items()
            if connection.transport == transport
        }
        if len(links) < MAX_CLIENTS:
            return
        idle = [link for link, connection in links.items() if not connection.is_busy]
        if not idle:
            raise Overloaded(
                f"all {MAX_CLIENTS} connections of this kind have a running call; try again later"
            )
        longest_idle = min(idle, key=lambda link: links[link].idle_since)
        self.disconnect(longest_idle)
        log.warning("closed the longest-idle of %d %s connections", len(links), transport)
        longest_idle.evict(
            f"closed to make room: of {MAX_CLIENTS} clients, this one was idle for longest"
        )

    def disconnect(self, link: Link) -> None:
        """Remove a client and cancel its calls."""
        connection = self._connected.pop(link, None)
        if connection is not None:
            connection.cancel_all("the client disconnected")
