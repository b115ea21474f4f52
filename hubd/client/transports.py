"""The Unix socket and the WebSocket, as messages."""

import asyncio
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from hubd.errors import PermissionDenied, StartupFailed, Unauthenticated, Unavailable
from hubd.wire.paths import Paths, distrusted

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

# The largest message that a client accepts.
MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
# Seconds for the server to answer the end of a connection.
CLOSE_SECONDS: Final = 2.0
START: Final = "Start the daemon with `hubd start`, or connect with autostart=True"


class UnixTransport:
    """One message is one line."""

    carries_context = True

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, message: bytes) -> None:
        """As `Transport.send`."""
        with suppress(ConnectionError):
            self._writer.write(message + b"\n")
            await self._writer.drain()

    async def receive(self) -> bytes:
        """As `Transport.receive`."""
        try:
            line = await self._reader.readline()
        except ConnectionError:
            line = b""
        except ValueError:
            raise Unavailable(
                f"the hub sent a message with more than {MAX_MESSAGE_BYTES:,} bytes"
            ) from None
        if not line.endswith(b"\n"):
            raise _lost()
        return line

    async def close(self) -> None:
        """As `Transport.close`."""
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


class WebSocketTransport:
    """One message is one text frame."""

    carries_context = False

    def __init__(self, socket: "ClientConnection") -> None:
        self._socket = socket

    async def send(self, message: bytes) -> None:
        """As `Transport.send`."""
        from websockets.exceptions import ConnectionClosed

        with suppress(ConnectionClosed):
            await self._socket.send(message, text=True)

    async def receive(self) -> bytes:
        """As `Transport.receive`."""
        from websockets.exceptions import ConnectionClosed

        try:
            return await self._socket.recv(decode=False)
        except ConnectionClosed:
            raise _lost() from None

    async def close(self) -> None:
        """As `Transport.close`."""
        # The server's answer comes after all messages that were not read.
        discarding = asyncio.create_task(self._discard())
        await self._socket.close()
        await discarding

    async def _discard(self) -> None:
        from websockets.exceptions import ConnectionClosed

        with suppress(ConnectionClosed):
            while True:
                await self._socket.recv(decode=False)


async def connect_unix(home: str | None, *, autostart: bool) -> UnixTransport:
    """Connect to the daemon of a home.

    Raises:
        PermissionDenied: Another user could have created the socket.
        Unavailable: No daemon runs, or it cannot be started.
    """
    path = Paths(home).socket
    if reason := distrusted(path):
        raise PermissionDenied(f"{path} is not safe to use: {reason}")
    try:
        return await _open(path)
    except OSError:
        if not autostart:
            raise Unavailable(f"no daemon listens on {path}", suggestion=START) from None
    await asyncio.to_thread(_start_daemon, home)
    return await _open(path)


async def connect_websocket(url: str, token: str | None) -> WebSocketTransport:
    """Connect to the WebSocket of a hub.

    Raises:
        Unauthenticated: The hub refused the token.
        Unavailable: No hub answers.
    """
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI

    headers = {"Authorization": f"Bearer {token}"} if token else None
    try:
        socket = await connect(
            url,
            additional_headers=headers,
            compression=None,
            max_size=MAX_MESSAGE_BYTES,
            max_queue=1,
            close_timeout=CLOSE_SECONDS,
            proxy=None,
        )
    except InvalidStatus as error:
        status = error.response.status_code
        if status == 401:
            raise Unauthenticated(
                f"{url} refused the token", suggestion="Pass the hub's token_file="
            ) from None
        if status == 403:
            raise PermissionDenied(f"{url} refused the connection (HTTP 403)") from None
        raise Unavailable(f"{url} is not a hub (HTTP {status})") from None
    except (InvalidURI, InvalidHandshake, OSError, ValueError) as error:
        raise Unavailable(f"no hub answers at {url}: {error}", suggestion=START) from None
    return WebSocketTransport(socket)


async def _open(path: str) -> UnixTransport:
    reader, writer = await asyncio.open_unix_connection(path, limit=MAX_MESSAGE_BYTES)
    return UnixTransport(reader, writer)


def _start_daemon(home: str | None) -> None:
    options = () if home is None else ("--home", home)
    # -P: a file of the current directory must not replace a module of hubd.
    command = [sys.executable, "-P", "-m", "hubd", "start", *options]
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if result.returncode:
        reason = result.stderr.strip() or f"exit status {result.returncode}"
        raise StartupFailed(f"the daemon did not start: {reason}", status=result.returncode)


def _lost() -> Unavailable:
    return Unavailable("the hub closed the connection", suggestion="See: hubd logs")
