"""Connections that cost next to nothing, so that a benchmark measures the server.

They send requests that were put together beforehand and call a function for each answer: no task,
no future, no parsing except for the end of an answer.
"""

import asyncio
import base64
import os
from collections.abc import Callable, Sequence
from typing import Any

from websockets.frames import Frame, Opcode

from hubd.wire import jsonrpc

DONE = b'"result":{"type":"done"'
FAILED = b'"result":{"type":"error"'


class LeanConnection(asyncio.Protocol):
    """A connection. `take` is called for every message or answer."""

    def __init__(self) -> None:
        self.take: Callable[[bytes], None] = lambda message: None
        self._partial = b""

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._transport.write(data)

    def close(self) -> None:
        """Hang up."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport


class LeanSocket(LeanConnection):
    """A WebSocket."""

    def __init__(self) -> None:
        super().__init__()
        self._opened = asyncio.get_running_loop().create_future()

    @classmethod
    async def connect(cls, url: str, token: str) -> "LeanSocket":
        """Connect to a daemon, or to a bare server, which ignores the token."""
        host, _, port = url.removeprefix("ws://").partition(":")
        _, socket = await asyncio.get_running_loop().create_connection(cls, host, int(port))
        key = base64.b64encode(os.urandom(16)).decode()
        socket.send(
            f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
            f"Authorization: Bearer {token}\r\n\r\n".encode()
        )
        await socket._opened
        return socket

    def data_received(self, data: bytes) -> None:
        data = self._partial + data
        if not self._opened.done():
            head, blank, data = data.partition(b"\r\n\r\n")
            if not blank:
                self._partial = head
                return
            assert b" 101 " in head, head
            self._opened.set_result(None)
        at = 0
        while len(data) >= at + 2:
            size, start = data[at + 1], at + 2
            if size == 126:
                size, start = int.from_bytes(data[at + 2 : at + 4]), at + 4
            assert data[at + 1] < 127, "no message of a benchmark is so long"
            if len(data) < start + size:
                break
            at = start + size
            self.take(data[start:at])
        self._partial = data[at:]


class LeanLines(LeanConnection):
    """A Unix socket with a message in each line."""

    @classmethod
    async def connect(cls, path: str) -> "LeanLines":
        """Connect."""
        _, lines = await asyncio.get_running_loop().create_unix_connection(cls, path)
        return lines

    def data_received(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self.take(line)


class LeanRedis(LeanConnection):
    """A connection to Redis. An answer has a known number of lines."""

    def __init__(self, lines: int) -> None:
        super().__init__()
        self._lines = lines

    @classmethod
    async def connect(cls, port: int, lines: int) -> "LeanRedis":
        """Connect."""
        loop = asyncio.get_running_loop()
        _, redis = await loop.create_connection(lambda: cls(lines), "127.0.0.1", port)
        return redis

    def data_received(self, data: bytes) -> None:
        self._partial += data
        if self._partial.count(b"\r\n") >= self._lines:
            answer, self._partial = self._partial, b""
            self.take(answer)


def frame(message: bytes) -> bytes:
    """Return a message of a client as a WebSocket frame."""
    return Frame(Opcode.TEXT, message).serialize(mask=True)


def message(number: int, method: str, **params: Any) -> bytes:
    """Return a call as a message."""
    return jsonrpc.request(number, "plexus.call", {"method": method, "params": params})


def call(number: int, method: str, **params: Any) -> bytes:
    """Return a call as a WebSocket frame."""
    return frame(message(number, method, **params))


def command(*words: object) -> bytes:
    """Return a command of Redis."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n%b" % (
        len(parts),
        b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts),
    )


async def produce(
    connections: Sequence[LeanConnection],
    requests: Sequence[bytes],
    is_answer: Callable[[bytes], bool],
    each: int,
) -> None:
    """Send `each` requests on every connection, each when the one before is answered."""
    finished = asyncio.get_running_loop().create_future()
    open_connections = len(connections)

    def begin(connection: LeanConnection, request: bytes) -> None:
        left = each

        def take(message: bytes) -> None:
            nonlocal left, open_connections
            if not is_answer(message):
                return
            left -= 1
            if left:
                connection.send(request)
                return
            open_connections -= 1
            if not open_connections:
                finished.set_result(None)

        connection.take = take
        connection.send(request)

    for connection, request in zip(connections, requests, strict=True):
        begin(connection, request)
    await finished
