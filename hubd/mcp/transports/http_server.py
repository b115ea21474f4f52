"""HTTP/1.1 on a listening socket: uvicorn's protocol, with the limits that it lacks.

This module knows nothing of MCP. Importing it imports uvicorn, so http.py does that at the first
connection. uvicorn's own server is not used: it wakes up ten times a second, handles signals, and
ends requests by cancelling them, with a stack trace in the log for each.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import uuid4

from uvicorn import Config

from hubd.mcp.sdk_private import HttpConnection, HttpState, http_config
from hubd.mcp.transports.delivery import CONNECTION
from hubd.plexus.actors import Actors, Origin
from hubd.rpc.acceptor import Acceptor
from hubd.rpc.site import Site

# The largest head of a request, and the seconds that a client has to send it.
MAX_HEAD_BYTES: Final = 64 * 1024
HEAD_SECONDS: Final = 10.0
# Seconds between two requests on one connection.
KEEP_ALIVE_SECONDS: Final = 60
# The whole daemon shares its file descriptors.
MAX_CONNECTIONS: Final = 512
# A refused client can read the reason if it still had at most this much to send.
MAX_UNREAD_BYTES: Final = 16 * 1024 * 1024
# When the server stops: seconds for running answers, then for requests that lost their connection.
GRACE_SECONDS: Final = 0.5
ABORT_SECONDS: Final = 0.5


class WebServer:
    """A web server on one socket."""

    def __init__(self, app: Any, site: Site | None = None) -> None:
        self._state = _State(site)
        limited = _LimitedApp(app, self._state)
        self._config = http_config(limited, MAX_HEAD_BYTES, KEEP_ALIVE_SECONDS)
        self._acceptor: Acceptor | None = None

    async def start(self, listener: socket.socket) -> None:
        """Accept connections on a listening socket."""
        self._acceptor = Acceptor(listener, lambda: _Connection(self._config, self._state))

    def close(self) -> None:
        """Accept no more requests; running ones continue."""
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in list(self._state.connections):
            assert isinstance(connection, _Connection)
            connection.close_when_idle()

    async def answered(self, seconds: float) -> None:
        """Wait until all requests are answered, at most this long."""
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=seconds)

    async def end(self) -> None:
        """Let running answers finish for a moment, then close all connections. Bounded."""
        await self.answered(GRACE_SECONDS)
        for connection in list(self._state.connections):
            assert isinstance(connection, _Connection)
            connection.abort()
        # A request ends by itself when its connection is lost.
        await self.answered(ABORT_SECONDS)
        for task in self._state.tasks:
            task.cancel()


@asynccontextmanager
async def web_server(
    app: Any, listener: socket.socket, site: Site | None = None
) -> AsyncIterator[WebServer]:
    """Serve an ASGI application, and the WebSockets of a site, on a listening socket."""
    server = WebServer(app, site)
    await server.start(listener)
    try:
        yield server
    finally:
        server.close()
        await server.end()


class _State(HttpState):
    """State that the connections of one server share."""

    def __init__(self, site: Site | None) -> None:
        super().__init__()
        # Has the protocols of WebSocket requests.
        self.site = site
        # Connections without a running request, the longest-idle first.
        self.idle: dict[_Connection, None] = {}


class _LimitedApp:
    """The application, with a limit on the number of connections.

    A connection above the limit exists only while every other one has a running request.
    """

    def __init__(self, app: Any, state: _State) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or refuse it with status 503."""
        if len(self._state.connections) <= MAX_CONNECTIONS:
            await self._app(scope, receive, send)
            return
        body = f"all {MAX_CONNECTIONS} connections have a running request; try again later\n"
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": body.encode()})


class _Connection(HttpConnection):
    """One connection. Its bytes must become a request in bounded time and space."""

    server_state: _State

    def __init__(self, config: Config, state: _State) -> None:
        # A request finds its connection in the state of its scope.
        super().__init__(config, state, {CONNECTION: self})
        self.id = uuid4().hex
        # Finds the process that made the connection; created for the first admitted request.
        self._finding: asyncio.Task[Origin] | None = None
        # Ends the watch for the end of the agent that made the connection.
        self._end_watch: Callable[[], None] | None = None
        # Set if the connection ends before all written bytes are sent.
        self._failed = False
        self._lost = asyncio.Event()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Runs while the head of a request, or the rest of an unwanted body, is awaited.
        self._deadline: asyncio.TimerHandle | None = None
        # Bytes received since the last request.
        self._unread = 0
        self._start_deadline()
        self._update_idle()
        if len(self.connections) > MAX_CONNECTIONS:
            self._close_longest_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        self.handed_over()
        if self._end_watch is not None:
            self._end_watch()
        self._failed = self._failed or exc is not None
        super().connection_lost(exc)
        self._lost.set()

    def handed_over(self) -> None:
        self._stop_deadline()
        self.server_state.idle.pop(self, None)

    def websocket(self, path: str) -> asyncio.Protocol | None:
        site = self.server_state.site
        return None if site is None else site.websocket(path)

    def data_received(self, data: bytes) -> None:
        if not self.is_answering:
            self._unread += len(data)
            if self._unread > MAX_UNREAD_BYTES:
                self.transport.abort()
                return
        self.server_state.set_date()
        super().data_received(data)
        if not self.is_handed_over:
            self._update_idle()
            if not self.is_answering:
                self._start_deadline()

    async def origin(self, actors: Actors) -> Origin:
        """Return the process that made the connection. It is looked up once."""
        if self._finding is not None and self._finding.done():
            return self._finding.result()
        if self._finding is None:
            self._finding = asyncio.create_task(self._find(actors))
        # A request that is cancelled does not end the search for the next one.
        return await asyncio.shield(self._finding)

    async def _find(self, actors: Actors) -> Origin:
        origin = await actors.of_tcp(self.transport.get_extra_info("socket"))
        end_watch = actors.watch(origin, self.abort)
        if self.is_lost:
            end_watch()
        self._end_watch = end_watch
        return origin

    def response_completed(self) -> None:
        self._update_idle()

    def abort(self) -> None:
        """Close at once; unsent bytes are dropped."""
        self._failed = True
        self.transport.abort()

    @property
    def is_lost(self) -> bool:
        """Whether the client has disconnected."""
        return self._lost.is_set()

    @property
    def has_sent_all(self) -> bool:
        """Whether the kernel has all written bytes, and the connection stays open."""
        return not self.transport.is_closing() and not self.transport.get_write_buffer_size()

    async def flushed(self) -> bool:
        """Wait until the kernel has all written bytes; return False if they can't be sent."""
        await self.drain()
        if self.transport.is_closing():
            # After the response, as its headers announced, or because a write failed.
            await self._lost.wait()
        return not self._failed

    def close_when_idle(self) -> None:
        """Close now, or after the request that is being answered."""
        if self.is_answering:
            self.close_after_response()
        else:
            self.transport.close()

    def _update_idle(self) -> None:
        if self.is_answering:
            self._stop_deadline()
            self._unread = 0
            self.server_state.idle.pop(self, None)
        else:
            self.server_state.idle.setdefault(self)

    def _close_longest_idle(self) -> None:
        """Close the longest-idle connection, so that idle clients can't exhaust the limit."""
        longest_idle = next(iter(self.server_state.idle))
        if longest_idle is not self:
            del self.server_state.idle[longest_idle]
            longest_idle.transport.abort()

    def _start_deadline(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
