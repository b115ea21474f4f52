"""MCP over HTTP: the gate, and behind it the SDK's own handling of `/mcp`.

The port is open from the start; who knocks first waits for the web server to be imported, and
who may come in waits for the SDK.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from hubd.transport.gate import Gate, Refusal
from hubd.transport.mcp_facts import FACTS, SESSION_HEADER, Facts, read_profile
from hubd.transport.mcp_lazy import LazyMcp
from hubd.wire.context import Client, Context

if TYPE_CHECKING:
    import uvicorn

# It reports every start and stop; ours are in the log already.
logging.getLogger("uvicorn").setLevel(logging.WARNING)

PATH: Final = "/mcp"
# The head of a request, and how long a client may take to send it.
MAX_HEAD_BYTES: Final = 64 * 1024
HEAD_SECONDS: Final = 10.0
# Between two requests on one connection.
KEEP_ALIVE_SECONDS: Final = 60
# File descriptors are for everybody.
MAX_CONNECTIONS: Final = 512
# How long answers under way may take once the daemon is asked to stop.
GRACE_SECONDS: Final = 1

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@asynccontextmanager
async def serve_mcp_http(lazy: LazyMcp, gate: Gate, listener: socket.socket) -> AsyncIterator[None]:
    """Answer on a socket that listens already."""
    port = listener.getsockname()[1]
    own = frozenset(f"http://{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))
    app = _App(lazy, replace(gate, allowed_origins=gate.allowed_origins | own))
    task = asyncio.create_task(_serve(app, listener), name="MCP over HTTP")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=GRACE_SECONDS + 0.5)


async def _serve(app: "_App", listener: socket.socket) -> None:
    await _first_connection(listener)
    server = await asyncio.to_thread(_web_server, app)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await serving
        raise


async def _first_connection(listener: socket.socket) -> None:
    """Return when somebody connects, without accepting."""
    loop = asyncio.get_running_loop()
    knocked = asyncio.Event()
    loop.add_reader(listener, knocked.set)
    try:
        await knocked.wait()
    finally:
        loop.remove_reader(listener)


def _web_server(app: "_App") -> "uvicorn.Server":
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Protocol(H11Protocol):
        """Hangs up on a client that does not finish the head of its first request."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._give_up)

        def connection_lost(self, exc: Exception | None) -> None:
            self._deadline.cancel()
            super().connection_lost(exc)

        def _give_up(self) -> None:
            if self.cycle is None:
                self.transport.abort()

    class Server(uvicorn.Server):
        """Leaves signals to the daemon."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    return Server(
        uvicorn.Config(
            app,
            http=Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )


class _App:
    """The ASGI application."""

    def __init__(self, lazy: LazyMcp, gate: Gate) -> None:
        self._lazy = lazy
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = _Headers(scope["headers"])
        # Without the query: a token in a URL ends in somebody's history.
        refusal = self._gate.check(scope["path"], headers)
        if refusal is None and scope["path"] != PATH:
            refusal = Refusal(404, f"MCP is at {PATH}")
        if refusal is not None:
            await _refuse(refusal, send)
            return
        scope[FACTS] = self._facts(headers, scope["query_string"])
        server = await self._lazy.server()
        await server.sessions.handle_request(scope, receive, send)

    def _facts(self, headers: "_Headers", query: bytes) -> Facts:
        tokens = headers.get_all(SESSION_HEADER)
        client = Client("mcp-http", session_token=tokens[0] if len(tokens) == 1 else None)
        wanted = parse_qs(query.decode("latin-1")).get("tools")
        profile = read_profile(",".join(wanted)) if wanted else None
        return Facts(client, Context(), self._lazy.options.narrowed(profile))


class _Headers:
    """The headers of a request, as the gate reads them."""

    def __init__(self, pairs: list[tuple[bytes, bytes]]) -> None:
        self._pairs = pairs

    def get_all(self, key: str) -> list[str]:
        wanted = key.lower().encode()
        return [value.decode("latin-1") for name, value in self._pairs if name.lower() == wanted]


async def _refuse(refusal: Refusal, send: Send) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="hubd"'))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{refusal.message}\n".encode()})
