"""HTTP/1.1 on a listening socket: uvicorn's protocol, with the limits that it lacks.

Knows nothing of MCP. Importing this imports uvicorn: only http.py does, at the first request.
uvicorn's own server is not used: it wakes up ten times a second for ever, handles signals, and
ends requests by cancelling them, with a stack trace in the log for each.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import formatdate
from typing import Any, Final

import h11
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from hubd.mcp.delivery import CONNECTION
from hubd.rpc.acceptor import Acceptor

# The head of a request, and how long a client may take to send it.
MAX_HEAD_BYTES: Final = 64 * 1024
HEAD_SECONDS: Final = 10.0
# Between two requests on one connection.
KEEP_ALIVE_SECONDS: Final = 60
# File descriptors are for everybody.
MAX_CONNECTIONS: Final = 512
# Who was refused while still sending can read why, if this is all that was to come.
MAX_UNREAD_BYTES: Final = 16 * 1024 * 1024
# At the end: how long answers under way may take, and then requests whose client was hung up on.
GRACE_SECONDS: Final = 0.5
ABORT_SECONDS: Final = 0.5


class WebServer:
    """Answers on one socket."""

    def __init__(self, app: Any) -> None:
        self._state = _State()
        self._config = Config(
            _Limited(app, self._state),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        self._config.load()
        self._acceptor: Acceptor | None = None

    async def start(self, listener: socket.socket) -> None:
        """Accept connections on a socket that listens."""
        self._acceptor = Acceptor(listener, lambda: _Connection(self._config, self._state))

    def close(self) -> None:
        """Take no more requests; those that are being answered go on."""
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in list(self._state.connections):
            assert isinstance(connection, _Connection)
            connection.take_no_more()

    async def answered(self, seconds: float) -> None:
        """Wait for requests to be answered, but not longer than this."""
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=seconds)

    async def end(self) -> None:
        """Let answers under way finish for a moment, then hang up. Bounded."""
        await self.answered(GRACE_SECONDS)
        for connection in list(self._state.connections):
            assert isinstance(connection, _Connection)
            connection.abort()
        # Whoever answers learns that its client is gone and ends by itself.
        await self.answered(ABORT_SECONDS)
        for task in self._state.tasks:
            task.cancel()


@asynccontextmanager
async def web_server(app: Any, listener: socket.socket) -> AsyncIterator[WebServer]:
    """Answer on a socket that listens already."""
    server = WebServer(app)
    await server.start(listener)
    try:
        yield server
    finally:
        server.close()
        await server.end()


class _State(ServerState):
    """What the connections of one server share."""

    def __init__(self) -> None:
        super().__init__()
        # Connections on which no request is being answered, the longest so first.
        self.waiting: dict[_Connection, None] = {}


class _Limited:
    """The application, for as many connections as there may be. Each has a request then."""

    def __init__(self, app: Any, state: _State) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or tell the client why not."""
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


class _Connection(H11Protocol):
    """One connection. Whatever comes must become a request in bounded time and space."""

    server_state: _State

    def __init__(self, config: Config, state: _State) -> None:
        # Requests find their connection in the state of their scope.
        super().__init__(config, state, {CONNECTION: self})
        # Set if the connection ends before all that was written is sent.
        self._failed = False
        self._lost = asyncio.Event()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Set while a head is awaited, or the rest of a body that nobody wants.
        self._deadline: asyncio.TimerHandle | None = None
        # What came since the last request.
        self._unread = 0
        self._arm()
        self._note()
        if len(self.connections) > MAX_CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self.server_state.waiting.pop(self, None)
        self._failed = self._failed or exc is not None
        super().connection_lost(exc)
        self._lost.set()

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            self._arm()
            self._unread += len(data)
            if self._unread > MAX_UNREAD_BYTES:
                self.transport.abort()
                return
        self.server_state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._note()

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            # It has had an answer, or part of one.
            self.transport.abort()

    def abort(self) -> None:
        """Close at once; what is unsent is dropped."""
        self._failed = True
        self.transport.abort()

    @property
    def is_lost(self) -> bool:
        """Whether the client is gone."""
        return self._lost.is_set()

    @property
    def has_sent_all(self) -> bool:
        """Whether the kernel has all that was written, and the connection stays open."""
        return not self.transport.is_closing() and not self.transport.get_write_buffer_size()

    async def flushed(self) -> bool:
        """Wait until the kernel has all that was written; False if it can't be sent."""
        if self.transport.get_write_buffer_size():
            self.transport.set_write_buffer_limits(high=0)
            await self.flow.drain()
            self.transport.set_write_buffer_limits()
        if self.transport.is_closing():
            # After the answer, as was agreed, or because a write has failed.
            await self._lost.wait()
        return not self._failed

    def take_no_more(self) -> None:
        """Close, if need be after the request that is being answered."""
        if self._busy:
            self.cycle.keep_alive = False
        else:
            self.transport.close()

    @property
    def _busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _note(self) -> None:
        if self._busy:
            self._disarm()
            self._unread = 0
            self.server_state.waiting.pop(self, None)
        else:
            self.server_state.waiting.setdefault(self)

    def _make_room(self) -> None:
        """Hang up on whoever has said nothing for longest, so that silence locks nobody out."""
        silent = next(iter(self.server_state.waiting))
        if silent is not self:
            del self.server_state.waiting[silent]
            silent.transport.abort()

    def _arm(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
