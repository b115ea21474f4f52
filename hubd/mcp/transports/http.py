"""MCP over HTTP: the checks of a request, then the SDK's handling of `/mcp`.

A site can have other paths of the port. Its requests do not need the SDK.

The port listens from the start. The first connection waits until the web server is imported, and
the first admitted request until the SDK is.
"""

import asyncio
import importlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from hubd.errors import InvalidParams, Unauthenticated, Unavailable
from hubd.mcp.access import ACCESS, Access, check_profile, read_profile
from hubd.mcp.on_demand import LazyMcp
from hubd.mcp.transports.delivery import BODY, CONNECTION, Delivery, Flushable, HttpPeer
from hubd.plexus.actors import process_id
from hubd.plexus.params.large import parse, pause
from hubd.rpc.gate import Gate, Refusal, own_origins
from hubd.rpc.site import Response, Site
from hubd.wire import jsonrpc
from hubd.wire.caller import Actor, Client, Context
from hubd.wire.limits import LARGE_BYTES, MCP_COUNTS, MESSAGE_SECONDS

if TYPE_CHECKING:
    from hubd.mcp.server import HubMcp
    from hubd.mcp.transports.http_server import WebServer

log = logging.getLogger("hubd.transport")
# uvicorn logs mistakes of clients as warnings.
logging.getLogger("uvicorn").setLevel(logging.ERROR)

PATH: Final = "/mcp"
# The bytes that tell a result from a notification in a stream of messages.
RESULT: Final = b'"result":'
# Seconds that a client has to send one message.
BODY_SECONDS: Final = MESSAGE_SECONDS
# When the server stops: seconds to write the answers to calls that were just ended.
ANSWER_SECONDS: Final = 0.3
# Seconds that the end of the web server may take if clients do not read.
STOP_SECONDS: Final = 1.5

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


@asynccontextmanager
async def serve_mcp_http(
    lazy: LazyMcp, gate: Gate, listener: socket.socket, site: Site | None = None
) -> AsyncIterator[None]:
    """Serve MCP, and a site beside it, on a listening socket.

    On leaving, running calls are ended and answered, streams of changes end, and connections are
    closed. Bounded.
    """
    own = own_origins(listener.getsockname()[1])
    app = _App(lazy, replace(gate, allowed_origins=gate.allowed_origins | own), site)
    web: asyncio.Future[WebServer] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(_serve(app, listener, web), name="MCP over HTTP")
    try:
        yield
    finally:
        server = web.result() if web.done() else None
        if server is not None:
            server.close()
        await lazy.clients.end_calls()
        if server is not None:
            await server.answered(ANSWER_SECONDS)
        await lazy.end()
        task.cancel()
        await asyncio.wait([task], timeout=STOP_SECONDS)


async def _serve(app: "_App", listener: socket.socket, ready: "asyncio.Future[WebServer]") -> None:
    try:
        await _first_connection(listener)
        module = await asyncio.to_thread(importlib.import_module, "hubd.mcp.transports.http_server")
        async with module.web_server(app, listener, app.site) as server:
            ready.set_result(server)
            await asyncio.Event().wait()
    except Exception:  # the rest of the daemon goes on; clients are disconnected
        log.exception("MCP over HTTP is not available")
        listener.close()


async def _first_connection(listener: socket.socket) -> None:
    """Wait for the first connection, without accepting it."""
    loop = asyncio.get_running_loop()
    connected = asyncio.Event()
    loop.add_reader(listener, connected.set)
    try:
        await connected.wait()
    finally:
        loop.remove_reader(listener)


class _App:
    """The ASGI application."""

    def __init__(self, lazy: LazyMcp, gate: Gate, site: Site | None) -> None:
        self._lazy = lazy
        self._gate = gate
        self.site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _Headers(scope["headers"])
        if self.site is not None:
            response = self.site.respond(scope["method"], scope["path"], headers)
            if response is not None:
                await _send(response, send)
                return
        refusal = self._refusal(scope["path"], headers)
        if refusal is not None:
            await _refuse(refusal, send)
            return
        body = await self._read_body(scope, receive, headers)
        if isinstance(body, Refusal):
            await _refuse(body, send)
        elif isinstance(body, jsonrpc.Malformed):
            await _refuse_message(body, send)
        elif body is None:
            return
        else:
            message = _parsed(body) if scope["method"] == "POST" else None
            if isinstance(message, jsonrpc.Malformed):
                await _refuse_message(message, send)
                return
            try:
                client = await self._client(scope["state"][CONNECTION], headers)
                large = len(body) > LARGE_BYTES
                access = self._access(headers, scope["query_string"], client, large=large)
                scope[ACCESS] = access
                if access.large:
                    await pause()
                server = await self._lazy.server()
            except InvalidParams as error:
                reason = f"{error.message}. {error.suggestion}"
                await _refuse_message(jsonrpc.Malformed(jsonrpc.INVALID_REQUEST, reason), send)
                return
            except Unavailable as error:
                await _refuse(Refusal(503, error.message), send)
                return
            except Unauthenticated as error:
                await _refuse(Refusal(401, f"{error.message}. {error.suggestion}"), send)
                return
            if "tools/call" in headers.get_all("Mcp-Method"):
                await server.load_tools()
            answer = _Answer(send, scope["state"][CONNECTION], access.delivery)
            again = _after(body, receive, is_unread=BODY in scope["state"])
            try:
                await self._answer(server, message, headers, scope, again, answer)
                await answer.finish()
            finally:
                access.delivery.settle(sent=False)

    async def _answer(
        self,
        server: "HubMcp",
        message: Any,
        headers: "_Headers",
        scope: Scope,
        receive: Receive,
        answer: "_Answer",
    ) -> None:
        """Answer an admitted request: a plain call that ends soon here, others by the SDK."""
        access: Access = scope[ACCESS]
        begun = None if access.large else server.plain_calls.begin(headers.values, message, access)
        if begun is None:
            await server.http_handler.handle_request(scope, receive, answer.send)
            return
        try:
            response = await begun.response(access.delivery)
            if response is not None:
                await _send(response, answer.send)
            else:
                scope[ACCESS] = replace(access, begun=begun.run)
                await server.http_handler.handle_request(scope, receive, answer.send)
        finally:
            begun.run.abandon()

    def _refusal(self, path: str, headers: "_Headers") -> Refusal | None:
        """Return why a request is refused before its body is read; None if it is not."""
        # Without the path, because a token in a URL ends up in histories and logs.
        refusal = self._gate.check("", headers)
        if refusal is not None:
            return refusal
        if path != PATH:
            return Refusal(404, f"MCP is at {PATH}")
        lengths = headers.get_all("Content-Length")
        if lengths and headers.get_all("Transfer-Encoding"):
            # A proxy may choose the other header, and see another end of the request.
            return Refusal(400, "send Content-Length or Transfer-Encoding, not both")
        return None

    async def _read_body(
        self, scope: Scope, receive: Receive, headers: "_Headers"
    ) -> bytes | Refusal | jsonrpc.TooLarge | None:
        """Return the body, or why it is refused; None if the client has disconnected."""
        limit = self._lazy.clients.max_message_bytes
        whole: bytes | None = scope["state"].get(BODY)
        if whole is not None:
            return whole if len(whole) <= limit else jsonrpc.TooLarge.in_bytes(limit)
        lengths = headers.get_all("Content-Length")
        if lengths and int(lengths[0]) > limit:
            return jsonrpc.TooLarge.in_bytes(limit)
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    if len(body) > limit:
                        return jsonrpc.TooLarge.in_bytes(limit)
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            return Refusal(408, f"the request was not complete within {BODY_SECONDS:g} s")

    async def _client(self, connection: HttpPeer, headers: "_Headers") -> Client:
        """Return the client behind a request.

        Raises:
            Unauthenticated: Its session token is not registered.
        """
        actors, token = self._lazy.clients.hub.actors, self._gate.session_token(headers)
        # Once for each connection, which belongs to one process.
        origin = await connection.origin(actors)
        sessions = headers.get_all("Mcp-Session-Id")
        unidentified = f"http:{sessions[0] if sessions else connection.id}"
        outside = Actor("client", process_id(origin.process) or unidentified)
        actor = actors.admit(origin, outside, token, origin.process)
        return Client("mcp-http", session_token=token, actor=actor)

    def _access(self, headers: "_Headers", query: bytes, client: Client, *, large: bool) -> Access:
        if not query:
            return Access(client, Context(), self._lazy.options.profile, large=large)
        # An empty list is a list: it offers nothing, not everything.
        wanted = parse_qs(query.decode("latin-1"), keep_blank_values=True).get("tools")
        profile = read_profile(",".join(wanted)) if wanted is not None else None
        if not headers.get_all("Mcp-Session-Id"):
            # A legacy session goes on, even if a plugin was detached since.
            check_profile(profile or (), self._lazy.options, self._lazy.clients.hub)
        return Access(client, Context(), self._lazy.options.narrowed(profile), large=large)


class _Headers:
    """The headers of a request, in the form that the gate expects."""

    def __init__(self, pairs: list[tuple[bytes, bytes]]) -> None:
        # By lowercase name, as ASGI has them.
        self.values: dict[str, list[str]] = {}
        for name, value in pairs:
            self.values.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))

    def get_all(self, key: str) -> list[str]:
        return self.values.get(key.lower(), [])


def _parsed(body: bytes) -> Any:
    """Return the value of a body, or a `Malformed` if it is not acceptable JSON.

    The SDK accepts UTF-16, lone surrogates, NaN and a thousand levels in newer requests, and
    fails later.
    """
    try:
        return parse(body, MCP_COUNTS)
    except jsonrpc.TooLarge as error:
        return error
    except ValueError as error:
        return jsonrpc.Malformed(jsonrpc.PARSE_ERROR, f"the body is not JSON: {error}")


def _after(body: bytes, receive: Receive, *, is_unread: bool) -> Receive:
    """Return a `receive` that begins with a known body, then continues.

    Args:
        body: The whole body.
        receive: The `receive` of the connection.
        is_unread: Whether that one has the body too.
    """
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        if not first:
            return await receive()
        if is_unread:
            await receive()
        return first.pop()

    return replay


class _Answer:
    """The answer to one request; it reports when the kernel has all of it."""

    def __init__(self, send: Send, connection: Flushable, delivery: Delivery) -> None:
        self._send = send
        self._connection = connection
        self._delivery = delivery
        # Set when the result was written while the client was connected.
        self._written = False
        # The head of an answer whose body follows at once; both are written together.
        self._head: Message | None = None

    async def send(self, message: Message) -> None:
        """Send a message, as ASGI's `send` does."""
        if message["type"] != "http.response.body":
            if any(name == b"content-length" for name, _ in message.get("headers", ())):
                self._head = message
            else:
                await self._send(message)
            return
        head, self._head = self._head, None
        if head is None:
            await self._send(message)
        else:
            with self._connection.gathering():
                await self._send(head)
                await self._send(message)
        is_last = not message.get("more_body", False)
        if not is_last and RESULT not in message.get("body", b""):
            return
        self._written = self._written or not self._connection.is_lost
        if self._connection.has_sent_all:
            self._delivery.settle(sent=True)
        elif not is_last:
            # After the last part the client may disconnect, which cancels this task.
            self._delivery.settle(sent=await self._connection.flushed())

    async def finish(self) -> None:
        """Report the delivery after the last write."""
        self._delivery.settle(sent=self._written and await self._connection.flushed())


async def _refuse(refusal: Refusal, send: Send) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="hubd"'))
    if refusal.status in (400, 408):
        # The start of the next request is unknown. Other requests are read to their end.
        headers.append((b"connection", b"close"))
    await _send(Response(refusal.status, headers, f"{refusal.message}\n".encode()), send)


async def _refuse_message(error: jsonrpc.Malformed, send: Send) -> None:
    """Refuse a message with a JSON-RPC error."""
    status = 413 if isinstance(error, jsonrpc.TooLarge) else 400
    await _send(Response(status, [(b"content-type", b"application/json")], error.frame), send)


async def _send(response: Response, send: Send) -> None:
    headers = list(response.headers)
    if response.status != 304:
        headers.append((b"content-length", b"%d" % len(response.body)))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})
