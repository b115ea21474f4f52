"""Every use of parts of `mcp` and `uvicorn` that those packages do not document.

pyproject.toml pins both packages to the minor versions that were tried. The tests in
tests/mcp/test_sdk_private.py name the part that is missing when a new version changes one.

The web server imports this module before it has admitted a client. The MCP SDK takes much longer
to import than uvicorn, so functions that need the SDK import it themselves.
"""

import asyncio
import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from email.utils import formatdate
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import h11
from uvicorn import Config
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from hubd.mcp.transports.delivery import BODY
from hubd.mcp.transports.plain_requests import PlainRequest, read_plain

if TYPE_CHECKING:
    from mcp.server import Server, ServerRequestContext
    from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
    from mcp.server.connection import Connection
    from mcp.server.streamable_http import StreamableHTTPServerTransport
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


def connection_of(ctx: "ServerRequestContext[Any, Any]") -> "Connection":
    """Return the connection of a request's legacy session.

    The SDK has no public way from a session to its connection.
    """
    return ctx.session._connection


def http_handler(
    server: "Server[Any]", max_legacy_sessions: int, max_message_bytes: int
) -> "StreamableHTTPSessionManager":
    """Return the SDK's handler of HTTP requests, with room for new legacy sessions.

    The SDK refuses a new legacy session at the limit. This handler ends the longest-idle one
    instead, because many clients leave without ending theirs.
    """
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    class Handler(StreamableHTTPSessionManager):
        def _admit_session(
            self, requestor: "AuthorizationContext | None"
        ) -> "StreamableHTTPServerTransport | None":
            admitted = super()._admit_session(requestor)
            if admitted is not None:
                return admitted
            # A session with a running request or an open stream has no deadline.
            idle = {
                session_id: session.idle_scope
                for session_id, session in self._server_instances.items()
                if session.idle_scope is not None and session.idle_scope.deadline < math.inf
            }
            if not idle:
                return None
            longest_idle = min(idle, key=lambda session_id: idle[session_id].deadline)
            idle[longest_idle].cancel()
            del self._server_instances[longest_idle]
            return super()._admit_session(requestor)

    return Handler(
        server, max_sessions=max_legacy_sessions, max_request_body_size=max_message_bytes
    )


class HttpState(ServerState):
    """State that all connections of one web server share: `connections` and `tasks`."""

    # The second of the current `Date` header.
    _second = 0

    def set_date(self) -> None:
        """Set the `Date` header of the next responses, as uvicorn's own server does."""
        second = int(time.time())
        if second != self._second:
            self._second = second
            self.default_headers = [(b"date", formatdate(second, usegmt=True).encode())]


class GatheringTransport:
    """A transport that can gather writes: uvicorn writes each part of a response by itself."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        # The parts of the next write; None if each is written at once.
        self._parts: list[bytes] | None = None

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Write everything that is written inside the block at once, at its end."""
        self._parts = []
        try:
            yield
        finally:
            self._flush()

    def write(self, data: bytes) -> None:
        """Write the data, or keep it for the end of the block."""
        if self._parts is None:
            self._transport.write(data)
        else:
            self._parts.append(data)

    def is_closing(self) -> bool:
        """Return whether the connection is closing."""
        return self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes the kernel has not taken."""
        return self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Close the connection after everything was written."""
        self._flush()
        self._transport.close()

    @property
    def inner(self) -> asyncio.Transport:
        """The transport that writes each part at once."""
        return self._transport

    def _flush(self) -> None:
        parts, self._parts = self._parts, None
        if parts:
            self._transport.write(b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _PlainCycle(RequestResponseCycle):
    """A plain request and its response, which is written without h11."""

    # Whether the end of the body follows from chunks, because its length was not announced.
    _is_chunked = False

    async def send(self, message: Any) -> None:
        """Send a message, as ASGI's `send` does."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == "http.response.start":
            self.response_started = True
            self.transport.write(self._head(message["status"], message.get("headers", [])))
            return
        body, is_last = message.get("body", b""), not message.get("more_body", False)
        if self._is_chunked:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body = chunk + (b"0\r\n\r\n" if is_last else b"")
        if body:
            self.transport.write(body)
        if is_last:
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()

    def _head(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        headers = [*self.default_headers, *headers]
        if not any(name == b"content-length" for name, _ in headers):
            self._is_chunked = True
            headers.append((b"transfer-encoding", b"chunked"))
        if CLOSE_HEADER in headers:
            self.keep_alive = False
        lines = [b"HTTP/1.1 %d %b" % (status, STATUS_PHRASES[status])]
        lines += [b"%b: %b" % header for header in headers]
        head = b"\r\n".join([*lines, b"", b""])
        if head.count(b"\n") != len(lines) + 1:
            raise ValueError("a header of a response has more than one line")
        return head


class HttpConnection(H11Protocol):
    """uvicorn's HTTP/1.1 connection, with the state that limits need under plain names.

    A plain request does not pass through h11. It becomes a cycle of uvicorn as any other.
    """

    def __init__(self, config: Config, state: HttpState, app_state: dict[str, Any]) -> None:
        super().__init__(config, state, app_state)
        # Bytes after the plain request that is being answered; None if h11 has the connection.
        self._ahead: bytes | None = None
        # Whether h11 waits for a new request and has no byte of it.
        self._is_h11_idle = True
        # Has the connection after a WebSocket request; None before.
        self._successor: asyncio.Protocol | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the transport, which can gather writes from now on."""
        self._gathered = GatheringTransport(transport)
        super().connection_made(self._gathered)  # type: ignore[arg-type]

    def gathering(self) -> AbstractContextManager[None]:
        """Write everything inside the block at once, at its end."""
        return self._gathered.gathering()

    def data_received(self, data: bytes) -> None:
        """Answer a plain request; h11 gets everything else."""
        if self._ahead is not None:
            self._ahead += data
            self.flow.pause_reading()
        elif self._is_h11_idle and (request := read_plain(data)) is not None:
            self._unset_keepalive_if_required()
            self._answer(request)
        else:
            self._is_h11_idle = False
            super().data_received(data)

    def _answer(self, request: PlainRequest) -> None:
        """Begin the answer to a plain request, as uvicorn does for a request of h11."""
        self._ahead = b""
        path, _, query = request.target.partition(b"?")
        self.headers = request.headers
        self.scope = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme or "http",
            "method": "POST",
            "root_path": "",
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "headers": self.headers,
            "state": {**self.app_state, BODY: request.body},
        }
        self.cycle = _PlainCycle(
            scope=self.scope,
            conn=self.conn,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            on_response=self.on_response_complete,
        )
        self.cycle.body += request.body
        self.cycle.more_body = False
        self.cycle.message_event.set()
        task = self.loop.create_task(self.cycle.run_asgi(self.app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    @property
    def is_handed_over(self) -> bool:
        """Whether a WebSocket protocol has the connection."""
        return self._successor is not None

    def websocket(self, path: str) -> asyncio.Protocol | None:
        """Return a protocol for a WebSocket request; None to answer it as any other request."""
        return None

    def _should_upgrade(self) -> bool:
        # Only as the first request: nothing of an earlier answer can follow then.
        if (
            self._get_upgrade() == b"websocket"
            and self.scope["http_version"] == "1.1"
            and self.cycle is None
        ):
            self._successor = self.websocket(self.scope["path"])
        return self.is_handed_over

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Pass the connection to the successor, with the request and all bytes after it."""
        assert self._successor is not None
        self.connections.discard(self)
        self.handed_over()
        lines = [b"%b %b HTTP/1.1" % (event.method, event.target)]
        lines += [b"%b: %b" % header for header in self.headers]
        rest, _ = self.conn.trailing_data
        transport = self._gathered.inner
        transport.set_protocol(self._successor)
        self._successor.connection_made(transport)
        self._successor.data_received(b"\r\n".join([*lines, b"", rest]))

    def handed_over(self) -> None:
        """Called when a WebSocket protocol gets the connection, for subclasses."""

    @property
    def is_answering(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def close_after_response(self) -> None:
        """Close the connection when the current request is answered."""
        self.cycle.keep_alive = False

    async def drain(self) -> None:
        """Wait until the kernel has taken all bytes that were written."""
        if self.transport.get_write_buffer_size():
            self.transport.set_write_buffer_limits(high=0)
            await self.flow.drain()
            self.transport.set_write_buffer_limits()

    def on_response_complete(self) -> None:
        """Call `response_completed` after uvicorn's own work."""
        super().on_response_complete()
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            states = (self.conn.our_state, self.conn.their_state)
            self._is_h11_idle = states == (h11.IDLE, h11.IDLE) and not self.conn.trailing_data[0]
        self.response_completed()
        if ahead and not self.transport.is_closing():
            self.data_received(ahead)

    def response_completed(self) -> None:
        """Do what a subclass has to do after each response."""

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP; abort if a response was already sent."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()


def http_config(app: Any, max_head_bytes: int, keep_alive_seconds: int) -> Config:
    """Return uvicorn's configuration for connections that run without uvicorn's server."""
    config = Config(
        app,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        # Headers of a proxy would need an extra layer around each request.
        proxy_headers=False,
        h11_max_incomplete_event_size=max_head_bytes,
        timeout_keep_alive=keep_alive_seconds,
    )
    config.load()
    return config
