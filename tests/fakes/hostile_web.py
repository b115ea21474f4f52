"""An HTTP server on 127.0.0.1 that misbehaves in the way that the path names."""

import asyncio
import gzip
import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpcore2

# The body that a small input expands to; far over the limits of the tests.
BOMB_BYTES = 16 * 1024 * 1024
# Seconds between two bytes of a page that drips.
DRIP_SECONDS = 0.02


def response(
    body: bytes = b"",
    *headers: str,
    status: str = "200 OK",
    length: int | None = None,
) -> bytes:
    """Return a whole response. `length` replaces the right Content-Length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join((*lines, *headers, "", "")).encode("latin-1") + body


def redirect(location: str, status: str = "302 Found") -> bytes:
    """Return a redirect."""
    return response(b"moved", f"Location: {location}", status=status)


class HostileWeb:
    """A server with an answer for each path. It records the heads of all requests."""

    def __init__(self) -> None:
        self.port = 0
        # The whole answer to each path.
        self.answers: dict[str, bytes] = {}
        # The heads of the requests, in order.
        self.requests: list[str] = []
        # Set when the first request has arrived.
        self.asked = asyncio.Event()
        # Set when a client has closed an answer that does not end.
        self.left = asyncio.Event()
        self._endless: dict[str, Callable[[], bytes]] = {
            "/endless": lambda: b"x" * 65536,
            "/chunks": lambda: b"1\r\nx\r\n" * 4096,
            "/informational": lambda: b"HTTP/1.1 100 Continue\r\n\r\n" * 1000,
            "/header": lambda: b"x" * 65536,
        }
        self._beginnings = {
            "/endless": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n",
            "/chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "/informational": b"",
            "/header": b"HTTP/1.1 200 OK\r\nX-Long: ",
        }

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def paths(self) -> list[str]:
        """The paths of the requests, in order."""
        return [head.split(" ")[1] for head in self.requests]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close the connection."""
        try:
            first = await reader.readexactly(1)
            if first == b"\x16":  # a client that speaks TLS
                writer.write(b"this is not TLS\r\n")
                return
            head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.requests.append(head)
            self.asked.set()
            path = head.split(" ")[1]
            if path in self._endless:
                writer.write(self._beginnings[path])
                while True:
                    writer.write(self._endless[path]())
                    await writer.drain()
            if path == "/drip":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                while True:
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(DRIP_SECONDS)
            if path == "/silent":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly a little")
                await reader.read()  # until the client leaves
                self.left.set()
            else:
                writer.write(self.answers[path])
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left.set()
        finally:
            writer.close()


@asynccontextmanager
async def hostile_web(tls: ssl.SSLContext | None = None) -> AsyncIterator[HostileWeb]:
    """Run the server for as long as the block lasts."""
    web = HostileWeb()
    server = await asyncio.start_server(web.serve, "127.0.0.1", 0, ssl=tls)
    web.port = server.sockets[0].getsockname()[1]
    async with server:
        yield web


class Names:
    """A name server: each lookup of a name takes its next answer; the last one stays."""

    def __init__(self, **answers: list[list[str]]) -> None:
        self._answers = {name.replace("_", "."): list(each) for name, each in answers.items()}
        # The names that were looked up, in order.
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        if host not in self._answers:
            return [host]  # an address is its own answer
        answers = self._answers[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]


class RecordingNetwork(httpcore2.AnyIOBackend):
    """Leads every connection to one port of this machine, and records where it was to go."""

    def __init__(self, port: int) -> None:
        self._port = port
        # The addresses that were to be connected to, in order.
        self.connected: list[str] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 -- the signature of httpcore2
        local_address: str | None = None,
        socket_options: object = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.connected.append(host)
        return await super().connect_tcp("127.0.0.1", self._port, timeout)


def bombs() -> dict[str, bytes]:
    """Return small bodies by their content encoding that are huge when decoded."""
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    content = bytes(BOMB_BYTES)
    return {
        "gzip": gzip.compress(content, 1),
        "deflate": zlib.compress(content, 1),
        "raw deflate": raw.compress(content) + raw.flush(),
        "gzip, gzip": gzip.compress(gzip.compress(content, 1), 1),
    }
