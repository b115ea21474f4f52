"""JSON-RPC over the Unix socket: each message is one line."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from hubd.errors import HubError
from hubd.plexus.actors import Actors, Origin
from hubd.rpc.acceptor import Acceptor
from hubd.rpc.client_protocol import ClientProtocol
from hubd.rpc.clients import MAX_CLIENTS, Clients
from hubd.wire import jsonrpc
from hubd.wire.caller import PERSON, UNKNOWN, Actor, Client


class UnixListener:
    """A listening Unix socket that only this user can open.

    The caller holds the lock of the home, so an existing file at the path is stale.
    """

    def __init__(self, path: Path, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        self.path = path
        self._make_protocol = make_protocol
        self._acceptor: Acceptor | None = None
        # Device and inode of the socket.
        self._inode: tuple[int, int] | None = None

    def open(self) -> None:
        """Listen, also after the socket was removed. Connected clients stay connected.

        Raises:
            OSError: The socket cannot be created.
        """
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        self.path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(str(self.path))
            self.path.chmod(0o600)
            listener.listen(MAX_CLIENTS)
        except BaseException:
            listener.close()
            raise
        if self._acceptor is not None:
            self._acceptor.close()
        self._acceptor = Acceptor(listener, self._make_protocol)
        self._inode = self._find()

    def is_in_place(self) -> bool:
        """Return whether the socket at the path is the one that listens."""
        return self._find() == self._inode

    def close(self) -> None:
        """Accept no more clients."""
        if self._acceptor is not None:
            self._acceptor.close()
        # If the home was replaced, the path belongs to another daemon.
        if self.is_in_place():
            self.path.unlink(missing_ok=True)

    def _find(self) -> tuple[int, int] | None:
        try:
            entry = self.path.lstat()
        except OSError:
            return None
        return entry.st_dev, entry.st_ino


@asynccontextmanager
async def serve_unix(clients: Clients, path: Path) -> AsyncIterator[UnixListener]:
    """Accept clients on a socket that only this user can open."""
    listener = UnixListener(path, lambda: _LineProtocol(clients))
    listener.open()
    try:
        yield listener
    finally:
        listener.close()


class _LineProtocol(ClientProtocol):
    """Splits bytes into lines, and ends each frame with a newline."""

    def __init__(self, clients: Clients) -> None:
        super().__init__(clients)
        # The start of an incomplete line.
        self._partial = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._attach(transport, _add_line, self._take)
        assert self._outbox is not None
        actors = self._clients.hub.actors
        connection = transport.get_extra_info("socket")
        # At once, because the client's process may end soon.
        origin = actors.find_unix(connection)
        try:
            client = Client("unix", actor=UNKNOWN)
            self._connection = self._clients.connect(
                self, self._outbox, client, trusts_context=True
            )
        except HubError as error:
            self.evict(error.message)
            return
        if origin is None:
            self._identify(_find_actor(actors, connection))
        else:
            self._set_actor(origin, origin.actor or PERSON)

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

    def hang_up(self) -> None:
        """Send the queued frames, then close."""
        assert self._outbox is not None
        assert self._transport is not None
        self._outbox.flush()
        self._transport.close()

    def evict(self, reason: str) -> None:
        """Close to make room for another client; the client receives the reason."""
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
        """Send an error, then close."""
        self._partial.clear()
        self._send_last(error)
        self.hang_up()


async def _find_actor(actors: Actors, connection: socket.socket) -> tuple[Origin, Actor]:
    origin = await actors.of_unix(connection)
    return origin, origin.actor or PERSON


def _add_line(lines: list[bytes], message: bytes) -> int:
    lines += (message, b"\n")
    return len(message) + 1
