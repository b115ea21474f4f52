"""The Unix socket: one JSON message a line."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hubd.errors import HubError
from hubd.transport.clients import MAX_CLIENTS, Clients
from hubd.transport.connection import Connection
from hubd.transport.deadline import Deadline
from hubd.transport.inbox import Inbox
from hubd.transport.outbox import Outbox
from hubd.wire import jsonrpc
from hubd.wire.context import Client


@asynccontextmanager
async def serve_unix(clients: Clients, path: Path) -> AsyncIterator[None]:
    """Accept clients on a socket that only this user can open.

    The caller owns the home by its lock, so a socket file that is there already is a stale one.
    """
    path.unlink(missing_ok=True)  # noqa: ASYNC240 -- once, at start
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(
        lambda: _LineProtocol(clients), str(path), backlog=MAX_CLIENTS
    )
    path.chmod(0o600)  # noqa: ASYNC240 -- once, at start
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)  # noqa: ASYNC240 -- once, at the end


class _LineProtocol(asyncio.Protocol):
    """Bytes to lines and back."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._inbox: Inbox | None = None
        # None once the client is refused; what it still sends is dropped.
        self._connection: Connection | None = None
        # The beginning of a line whose end has not come yet.
        self._partial = bytearray()
        self._max_bytes = clients.max_message_bytes
        self._deadline = Deadline(clients.message_seconds, self._refuse)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._outbox = Outbox(transport, _as_line)
        self._inbox = Inbox(transport, self._take)
        try:
            self._connection = self._clients.connect(
                self, self._outbox, Client("unix"), trusts_context=True
            )
        except HubError as error:
            self.evict(error.message)

    def data_received(self, data: bytes) -> None:
        assert self._inbox is not None
        self._inbox.begin_turn()
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._partial += end
            line = bytes(self._partial)
            self._partial.clear()
            self._inbox.put(line)
        if self._connection is None:
            return
        self._partial += rest
        if len(self._partial) > self._max_bytes:
            self._refuse(jsonrpc.TooLarge.in_bytes(self._max_bytes))
        else:
            self._deadline.note(is_unfinished=bool(self._partial), is_new=bool(ends))

    def pause_writing(self) -> None:
        assert self._outbox is not None
        self._outbox.pause()

    def resume_writing(self) -> None:
        assert self._outbox is not None
        self._outbox.resume()

    def connection_lost(self, error: Exception | None) -> None:
        assert self._outbox is not None
        assert self._inbox is not None
        self._inbox.clear()
        self._deadline.stop()
        self._outbox.close()
        self._clients.disconnect(self)

    def hang_up(self) -> None:
        """Send what is queued and close."""
        assert self._outbox is not None
        assert self._transport is not None
        self._outbox.flush()
        self._transport.close()

    def evict(self, reason: str) -> None:
        """Close to make room; the client is told the reason."""
        self._refuse(jsonrpc.Malformed(jsonrpc.OVERLOADED, reason))

    def _take(self, line: bytes) -> None:
        if self._connection is None:
            return
        try:
            if len(line) > self._max_bytes:
                raise jsonrpc.TooLarge.in_bytes(self._max_bytes)
            if line.strip():
                self._connection.receive(line)
        except jsonrpc.TooLarge as error:
            self._refuse(error)

    def _refuse(self, error: jsonrpc.Malformed) -> None:
        """Answer with an error and close. Anything else that the client sends is dropped."""
        assert self._outbox is not None
        assert self._inbox is not None
        self._connection = None
        self._inbox.clear()
        self._partial.clear()
        self._deadline.stop()
        self._outbox.write(error.frame)
        self.hang_up()


def _as_line(frame: bytes) -> bytes:
    return frame + b"\n"
