"""Clients that cost next to nothing, so that a benchmark measures the server.

Both send requests that were put together beforehand and call a function for what comes back: no
task, no future, no parsing but the search for the end of an answer.
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


class LeanSocket(asyncio.Protocol):
    """A WebSocket. `take` is called for every message."""

    def __init__(self) -> None:
        self.take: Callable[[bytes], None] = lambda message: None
        self._opened = asyncio.get_running_loop().create_future()
        self._partial = b""

    @classmethod
    async def connect(cls, url: str, token: str) -> "LeanSocket":
        """Connect to a daemon."""
        host, _, port = url.removeprefix("ws://").partition(":")
        _, made = await asyncio.get_running_loop().create_connection(cls, host, int(port))
        key = base64.b64encode(os.urandom(16)).decode()
        made.send(
            f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
            f"Authorization: Bearer {token}\r\n\r\n".encode()
        )
        await made._opened
        return made

    def send(self, data: bytes) -> None:
        """Send frames."""
        self._transport.write(data)

    def close(self) -> None:
        """Hang up."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

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


def call(number: int, method: str, **params: Any) -> bytes:
    """A call as a frame."""
    request = jsonrpc.request(number, "plexus.call", {"method": method, "params": params})
    return Frame(Opcode.TEXT, request).serialize(mask=True)


class LeanRedis(asyncio.Protocol):
    """A connection to Redis. `take` is called for every answer of so many lines."""

    def __init__(self, lines: int) -> None:
        self.take: Callable[[bytes], None] = lambda answer: None
        self._lines = lines
        self._partial = b""

    @classmethod
    async def connect(cls, port: int, lines: int) -> "LeanRedis":
        """Connect."""
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(lambda: cls(lines), "127.0.0.1", port)
        return made

    def send(self, data: bytes) -> None:
        """Send commands."""
        self._transport.write(data)

    def close(self) -> None:
        """Hang up."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._partial += data
        if self._partial.count(b"\r\n") >= self._lines:
            answer, self._partial = self._partial, b""
            self.take(answer)


def command(*words: object) -> bytes:
    """A command of Redis."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n%b" % (
        len(parts),
        b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts),
    )


async def produce(
    connections: Sequence[LeanSocket | LeanRedis],
    requests: Sequence[bytes],
    is_answer: Callable[[bytes], bool],
    each: int,
) -> None:
    """On every connection one request after the other, each when the one before is answered."""
    finished = asyncio.get_running_loop().create_future()
    open_connections = len(connections)

    def begin(connection: LeanSocket | LeanRedis, request: bytes) -> None:
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
