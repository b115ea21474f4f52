"""The part of a client's connection that is the same for every transport."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, cast

from hubd.plexus.actors import AGENT_ENDED, Origin
from hubd.rpc.clients import Clients
from hubd.rpc.connection import Connection
from hubd.rpc.deadline import Deadline
from hubd.rpc.inbox import Inbox
from hubd.rpc.outbox import AddFrame, Outbox
from hubd.wire.caller import UNKNOWN, Actor
from hubd.wire.jsonrpc import Malformed

log = logging.getLogger(__name__)


class ClientProtocol(asyncio.Protocol):
    """The messages of one client in both directions. A subclass adds the framing."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        # Set when the transport is connected.
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._inbox: Inbox | None = None
        # None before the client is accepted, and after it was refused.
        self._connection: Connection | None = None
        # Finds the actor behind the connection. Messages wait for it.
        self._identifying: asyncio.Task[None] | None = None
        # Ends the watch for the end of the agent that made the connection.
        self._end_watch: Callable[[], None] | None = None
        self._max_bytes = clients.max_message_bytes
        self._deadline = Deadline(clients.message_seconds, self._refuse)

    def _attach(
        self,
        transport: asyncio.BaseTransport,
        add_frame: AddFrame,
        take: Callable[[bytes], None],
    ) -> None:
        """Create the queues of a new connection.

        Args:
            transport: The connection.
            add_frame: Appends a message with its framing to a list.
            take: Handles one message of the client.
        """
        # Transports of uvloop do not derive from asyncio's class.
        stream = cast(asyncio.Transport, transport)
        self._transport = stream
        self._outbox = Outbox(stream, add_frame, self._clients.flushes)
        self._inbox = Inbox(stream, take)

    def _identify(self, finding: Coroutine[Any, Any, tuple[Origin, Actor]]) -> None:
        """Let messages wait until the actor behind the connection is found."""
        assert self._inbox is not None
        self._inbox.hold()
        self._identifying = asyncio.create_task(self._finish_identifying(finding))

    async def _finish_identifying(self, finding: Coroutine[Any, Any, tuple[Origin, Actor]]) -> None:
        try:
            origin, actor = await finding
        except Exception:  # the connection has no rights then
            log.exception("cannot find the process behind a connection")
            origin, actor = Origin(UNKNOWN), UNKNOWN
        self._set_actor(origin, actor)
        assert self._inbox is not None
        self._inbox.release()

    def _set_actor(self, origin: Origin, actor: Actor) -> None:
        if self._connection is not None:
            self._connection.set_actor(actor)
            actors = self._clients.hub.actors
            self._end_watch = actors.watch(origin, lambda: self.evict(AGENT_ENDED))

    def pause_writing(self) -> None:
        assert self._outbox is not None
        self._outbox.pause()

    def resume_writing(self) -> None:
        assert self._outbox is not None
        self._outbox.resume()

    def connection_lost(self, error: Exception | None) -> None:
        assert self._outbox is not None
        assert self._inbox is not None
        if self._identifying is not None:
            self._identifying.cancel()
        if self._end_watch is not None:
            self._end_watch()
        self._inbox.clear()
        self._deadline.stop()
        self._outbox.close()
        self._clients.disconnect(self)

    def hang_up(self) -> None:
        """Send the queued frames, then close."""
        raise NotImplementedError

    def evict(self, reason: str) -> None:
        """Close to make room for another client; the client receives the reason."""
        raise NotImplementedError

    def _refuse(self, error: Malformed) -> None:
        """Send an error, then close."""
        raise NotImplementedError

    def _send_last(self, error: Malformed) -> None:
        """Queue an error as the last frame, and ignore everything else that the client sends."""
        assert self._outbox is not None
        assert self._inbox is not None
        self._connection = None
        self._inbox.clear()
        self._deadline.stop()
        self._outbox.write(error.frame)
