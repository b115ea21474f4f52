"""A small HTTP/1.1 server on 127.0.0.1, for fakes that real programs talk to.

Enough for JSON and server-sent events, no more. Leaving it drops every connection.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True)
class HttpRequest:
    """One request as it came in."""

    method: str
    # With the query: claude asks for /v1/messages?beta=true.
    path: str
    headers: dict[str, str]
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        """The path without its query."""
        return self.path.partition("?")[0]


class Reply:
    """The answer to one request: sent whole, or streamed event by event."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def send(self, status: int, content: object = None, **headers: str) -> None:
        """Send an answer as JSON; without content, an empty one."""
        body = b"" if content is None else json.dumps(content).encode()
        fields = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
        self._writer.write(_head(status, fields) + body)
        await self._writer.drain()

    async def send_bytes(self, body: bytes, content_type: str, **headers: str) -> None:
        """Send an answer as it is."""
        fields = {"Content-Type": content_type, "Content-Length": str(len(body)), **headers}
        self._writer.write(_head(200, fields) + body)
        await self._writer.drain()

    async def start_stream(self, **headers: str) -> None:
        """Begin a stream of events."""
        fields = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **headers}
        self._writer.write(_head(200, fields))
        await self._writer.drain()

    async def event(self, name: str, data: object) -> None:
        """Send one event."""
        await self._chunk(f"event: {name}\ndata: {json.dumps(data)}\n\n")

    async def data(self, text: str) -> None:
        """Send an event without a name; its data need not be JSON."""
        await self._chunk(f"data: {text}\n\n")

    async def end_stream(self) -> None:
        """End the stream as it should end."""
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def _chunk(self, text: str) -> None:
        frame = text.encode()
        self._writer.write(b"%x\r\n%s\r\n" % (len(frame), frame))
        await self._writer.drain()

    def cut(self) -> None:
        """Drop the connection in the middle of everything."""
        self._writer.transport.abort()
        raise ConnectionResetError("cut, as asked")


class HttpServer:
    """The server, as an async context manager. A fake implements `answer`."""

    def __init__(self) -> None:
        # One task per open connection.
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def answer(self, request: HttpRequest, reply: Reply) -> None:
        """Answer one request."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        """Where it listens."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            ahead = b""
            while (request := await _read_request(reader, ahead)) is not None:
                ahead = await self._answer_until_gone(request, reader, Reply(writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client closed the connection, as after an interrupt
        except asyncio.CancelledError:
            writer.transport.abort()  # the test is over; asyncio's own callback wants no exception
        finally:
            self._connections.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer_until_gone(
        self, request: HttpRequest, reader: asyncio.StreamReader, reply: Reply
    ) -> bytes:
        """Answer, unless the client closes; return the bytes that were read of its next request."""
        answering = asyncio.ensure_future(self.answer(request, reply))
        # A client that waits for an answer sends nothing, so this ends when it closes.
        listening = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait([answering, listening], return_when=asyncio.FIRST_COMPLETED)
            if not answering.done() and not listening.result():
                raise ConnectionResetError("the client left")
            await answering
            return listening.result() if listening.done() else b""
        finally:
            answering.cancel()
            listening.cancel()
            await asyncio.gather(answering, listening, return_exceptions=True)


async def _read_request(reader: asyncio.StreamReader, ahead: bytes) -> HttpRequest | None:
    """The next request of a connection, of which the first bytes are known; None at its end."""
    opening = ahead + await reader.readline()
    if not opening.strip():
        return None
    method, path, _ = opening.decode("latin-1").split(" ", 2)
    headers: dict[str, str] = {}
    while (line := await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    raw = b"".join([part async for part in _read_body(reader, headers)])
    return HttpRequest(method, path, headers, json.loads(raw) if raw else {})


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> AsyncIterator[bytes]:
    if headers.get("transfer-encoding") == "chunked":
        while size := int((await reader.readline()).partition(b";")[0], 16):
            yield await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
    else:
        yield await reader.readexactly(int(headers.get("content-length", "0")))


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Fake", *(f"{name}: {text}" for name, text in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
