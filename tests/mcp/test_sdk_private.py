"""The undocumented parts of `mcp` and `uvicorn` that sdk_private.py uses are still there."""

import asyncio
import inspect
import re
import socket
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import anyio
import h11
import pytest
from mcp.server import Server
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from hubd.mcp import sdk_private
from hubd.mcp.sdk_private import (
    GatheringTransport,
    HttpConnection,
    HttpState,
    http_config,
    http_handler,
)
from hubd.mcp.transports.delivery import BODY

MCP = Path(sdk_private.__file__).parent


def require(package: str, owner: type, parts: Iterable[str], user: str) -> None:
    """Fail with a sentence that names the missing parts and the code that uses them."""
    source = inspect.getsource(owner)
    missing = [part for part in parts if not re.search(rf"\b{part}\b", source)]
    assert not missing, (
        f"{package} {version(package)} has no {owner.__name__}.{', '.join(missing)}. "
        f"Adapt `{user}` in hubd/mcp/sdk_private.py, then the pin in pyproject.toml."
    )


async def answer_ok(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


class WrittenTransport(asyncio.Transport):
    """A transport that keeps the written bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False
        self.aborted = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = self.closed = True

    def get_write_buffer_size(self) -> int:
        return 0

    def resume_reading(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass


class SwitchingTransport(WrittenTransport):
    """A transport that keeps its next protocol."""

    protocol: asyncio.BaseProtocol | None = None

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol


class Counted(HttpConnection):
    """A connection that counts its responses."""

    responses = 0

    def response_completed(self) -> None:
        self.responses += 1


async def opened(app: Any = answer_ok) -> tuple[Counted, WrittenTransport]:
    connection = Counted(http_config(app, 65536, 60), HttpState(), {})
    transport = WrittenTransport()
    connection.connection_made(transport)
    return connection, transport


def test_a_session_of_the_sdk_has_its_connection() -> None:
    require("mcp", ServerSession, ["_connection"], "connection_of")
    require("mcp", Connection, ["exit_stack"], "connection_of")


def test_the_http_handler_of_the_sdk_has_the_parts_that_make_room() -> None:
    parts = ["_admit_session", "_server_instances", "max_sessions"]
    require("mcp", StreamableHTTPSessionManager, parts, "http_handler")
    require("mcp", StreamableHTTPServerTransport, ["idle_scope"], "http_handler")


async def test_the_http_handler_ends_the_longest_idle_legacy_session_at_its_limit() -> None:
    handler = cast(Any, http_handler(Server("test"), 2, 1000))
    async with handler.run():
        first, second = handler._admit_session(None), handler._admit_session(None)
        # The SDK sets the scope when the session connects.
        first.idle_scope = anyio.CancelScope(deadline=2.0)
        second.idle_scope = anyio.CancelScope(deadline=1.0)
        third = handler._admit_session(None)
        assert list(handler._server_instances.values()) == [first, third], (
            "the SDK admits legacy sessions in another way: adapt `http_handler`"
        )
        first.idle_scope = anyio.CancelScope()
        assert handler._admit_session(None) is None


def test_uvicorns_connection_has_the_parts_that_limits_need() -> None:
    parts = ["cycle", "flow", "conn", "transport", "connections", "tasks", "server_state", "loop"]
    overridden = ["on_response_complete", "send_400_response", "connection_made"]
    require("uvicorn", H11Protocol, [*parts, *overridden], "HttpConnection")
    require("uvicorn", RequestResponseCycle, ["response_complete", "keep_alive"], "HttpConnection")
    assert {"IDLE", "SEND_RESPONSE"} <= set(dir(h11)), "h11 has other states: adapt HttpConnection"


async def test_a_connection_reports_its_request_and_its_response() -> None:
    connection, transport = await opened()
    assert not connection.is_answering
    connection.server_state.default_headers = []
    cast(HttpState, connection.server_state).set_date()
    connection.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert connection.is_answering, "uvicorn no longer keeps the current request in `cycle`"
    await asyncio.gather(*connection.tasks)
    assert not connection.is_answering, "uvicorn no longer sets `cycle.response_complete`"
    assert connection.responses == 1, "uvicorn no longer calls `on_response_complete`"
    assert b"\r\ndate: " in transport.written.lower(), "uvicorn ignores `default_headers`"
    connection.connection_lost(None)


async def test_a_connection_closes_after_the_current_response() -> None:
    connection, transport = await opened()
    connection.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.close_after_response()
    await asyncio.gather(*connection.tasks)
    assert transport.closed, "uvicorn ignores `cycle.keep_alive`"
    connection.connection_lost(None)


@pytest.mark.parametrize(
    ("before", "is_answered"), [(b"", True), (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", False)]
)
async def test_bytes_that_are_not_http_are_refused_only_before_a_response(
    before: bytes, is_answered: bool
) -> None:
    connection, transport = await opened()
    if before:
        connection.data_received(before.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        await asyncio.gather(*connection.tasks)
        transport.written = b""
        connection.send_400_response("Invalid HTTP request received.")
    else:
        connection.data_received(b"\0\r\n\r\n")
    assert transport.written.startswith(b"HTTP/1.1 400 ") is is_answered
    assert transport.aborted is not is_answered
    connection.connection_lost(None)


class Successor(asyncio.Protocol):
    """A protocol that keeps the bytes that it gets."""

    def __init__(self) -> None:
        self.transport: asyncio.BaseTransport | None = None
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data


class Upgraded(Counted):
    """A connection with a WebSocket at one path."""

    successor: Successor | None = None

    def websocket(self, path: str) -> asyncio.Protocol | None:
        self.successor = Successor() if path == "/ws" else None
        return self.successor


UPGRADE = b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def test_uvicorns_connection_has_the_parts_that_a_websocket_needs() -> None:
    parts = ["_should_upgrade", "_get_upgrade", "handle_websocket_upgrade", "scope", "headers"]
    require("uvicorn", H11Protocol, parts, "HttpConnection")
    require("h11", h11.Connection, ["trailing_data"], "HttpConnection")


async def test_a_websocket_request_is_handed_over_with_all_bytes_after_it() -> None:
    connection = Upgraded(http_config(answer_ok, 65536, 60), HttpState(), {})
    transport = SwitchingTransport()
    connection.connection_made(transport)
    connection.data_received(UPGRADE[:30])
    connection.data_received(UPGRADE[30:] + b"frames")
    successor = connection.successor
    assert successor is not None, "uvicorn no longer asks `_should_upgrade`"
    assert connection.is_handed_over
    assert transport.protocol is successor
    assert successor.transport is transport
    lines, _, rest = successor.received.partition(b"\r\n\r\n")
    assert lines.lower() == UPGRADE.rstrip().lower()
    assert rest == b"frames", "h11 no longer keeps the bytes after a request in `trailing_data`"
    assert connection not in connection.connections
    assert (transport.written, connection.responses) == (b"", 0)


@pytest.mark.parametrize(
    "request_bytes",
    [
        UPGRADE.replace(b"/ws", b"/mcp"),
        UPGRADE.replace(b"HTTP/1.1", b"HTTP/1.0"),
        UPGRADE.replace(b"websocket", b"h2c"),
        UPGRADE.replace(b"Connection: Upgrade\r\n", b""),
        # Behind another request.
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + UPGRADE,
    ],
)
async def test_other_requests_are_answered_as_usual(request_bytes: bytes) -> None:
    connection = Upgraded(http_config(answer_ok, 65536, 60), HttpState(), {})
    transport = SwitchingTransport()
    connection.connection_made(transport)
    connection.data_received(request_bytes)
    while connection.tasks:
        await asyncio.gather(*connection.tasks)
    assert not connection.is_handed_over
    assert transport.protocol is None
    assert connection.responses == request_bytes.count(b"HTTP/1.")
    connection.connection_lost(None)


PLAIN = b"POST /mcp?x=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the body in two parts, without its length."""
    message = await receive()
    assert scope["state"].get(BODY, b"{}") == message["body"] == b"{}"
    assert (scope["path"], scope["query_string"]) == ("/mcp", b"x=1")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"b")]})
    await send({"type": "http.response.body", "body": message["body"], "more_body": True})
    await send({"type": "http.response.body", "body": b"end"})
    assert await receive() == {"type": "http.disconnect"}


def test_uvicorns_connection_has_the_parts_that_a_plain_request_needs() -> None:
    parts = ["_unset_keepalive_if_required", "data_received", "app_state", "asgi_version", "app"]
    require("uvicorn", H11Protocol, parts, "HttpConnection")
    used = ["run_asgi", "send", "body", "more_body", "message_event", "response_started"]
    used += ["disconnected", "on_response", "default_headers", "flow"]
    require("uvicorn", RequestResponseCycle, used, "_PlainCycle")


async def answered(app: Any, *parts: bytes) -> tuple[Counted, WrittenTransport]:
    """Return a connection that got these bytes, after its last response."""
    connection, transport = await opened(app)
    connection.server_state.default_headers = []
    for part in parts:
        connection.data_received(part)
    while connection.tasks:
        await asyncio.gather(*connection.tasks)
    return connection, transport


def read_all(written: bytes, count: int) -> list[tuple[int, list[tuple[bytes, bytes]], bytes]]:
    """Return responses as h11 reads them."""
    client = h11.Connection(h11.CLIENT)
    client.receive_data(written)
    responses = []
    for _ in range(count):
        client.send(h11.Request(method="POST", target="/", headers=[("Host", "x")]))
        client.send(h11.EndOfMessage())
        head, body = client.next_event(), b""
        assert isinstance(head, h11.Response)
        while isinstance(event := client.next_event(), h11.Data):
            body += event.data
        responses.append((head.status_code, list(head.headers), body))
        client.start_next_cycle()
    assert client.trailing_data[0] == b""
    return responses


@pytest.mark.parametrize(
    "parts",
    [
        [PLAIN],
        [PLAIN[:30], PLAIN[30:]],
        [PLAIN, PLAIN, PLAIN],
        [PLAIN + PLAIN, PLAIN],
        [PLAIN, PLAIN[:-1], PLAIN[-1:] + PLAIN],
        [PLAIN + PLAIN[:-1], PLAIN[-1:], PLAIN],
        [PLAIN.replace(b"{}", b"{}" + PLAIN)],
    ],
    ids=["whole", "halves", "ahead", "joined first", "split later", "split first", "after a body"],
)
async def test_requests_are_answered_alike_with_and_without_h11(parts: list[bytes]) -> None:
    count = b"".join(parts).count(b"POST")
    connection, transport = await answered(echo, *parts)
    assert connection.responses == count
    headers = [(b"x-a", b"b"), (b"transfer-encoding", b"chunked")]
    assert read_all(transport.written, count) == [(200, headers, b"{}end")] * count
    assert not transport.closed
    connection.connection_lost(None)


async def test_h11_takes_turns_with_plain_requests() -> None:
    unusual = PLAIN.replace(b"Host: x", b"Host:x")
    connection, transport = await opened(echo)
    connection.server_state.default_headers = []
    for request in (PLAIN, unusual, PLAIN, unusual, unusual, PLAIN):
        connection.data_received(request)
        assert (type(connection.cycle) is RequestResponseCycle) is (request is unusual), (
            "plain requests pass through h11, or others do not"
        )
        await asyncio.gather(*connection.tasks)
    assert len(read_all(transport.written, 6)) == 6
    connection.connection_lost(None)


async def test_a_plain_request_can_close_its_connection() -> None:
    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"2"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        await send({"type": "http.response.body", "body": b"no"})

    connection, transport = await answered(refuse, PLAIN, PLAIN)
    assert transport.closed
    assert connection.responses == 1
    assert transport.written.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert transport.written.endswith(b"\r\n\r\nno")
    connection.connection_lost(None)


async def test_a_response_header_cannot_add_lines() -> None:
    async def inject(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"x-a", b"b\r\nx-c: d")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

    connection, transport = await answered(inject, PLAIN)
    assert b"x-c" not in transport.written
    assert transport.closed
    connection.connection_lost(None)


async def test_a_plain_request_notices_that_its_client_disconnected() -> None:
    received: list[str] = []
    is_read = asyncio.Event()

    async def wait(scope: Any, receive: Any, send: Any) -> None:
        received.append((await receive())["type"])
        is_read.set()
        received.append((await receive())["type"])

    connection, transport = await opened(wait)
    connection.data_received(PLAIN)
    [task] = connection.tasks
    await is_read.wait()
    connection.connection_lost(None)
    await task
    assert received == ["http.request", "http.disconnect"]
    assert transport.written == b""


def test_no_other_module_uses_undocumented_parts() -> None:
    reaches = []
    for path in MCP.rglob("*.py"):
        text = path.read_text()
        if path.name == "sdk_private.py":
            continue
        found = re.findall(r"^(?:from|import) (?:h11|uvicorn\.\S+).*$", text, re.MULTILINE)
        found += re.findall(r"^from mcp\S* import .*\b_\w+.*$", text, re.MULTILINE)
        found += re.findall(r"\b(?:ctx|session|server|connection)\._\w+", text)
        reaches += [f"{path.relative_to(MCP)}: {line}" for line in found]
    assert not reaches, "move these into hubd/mcp/sdk_private.py"


async def test_gathered_writes_are_sent_together_and_before_the_connection_closes() -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    _, writer = await asyncio.open_connection(sock=ours)
    transport = GatheringTransport(cast("asyncio.Transport", writer.transport))
    with theirs:
        with transport.gathering():
            transport.write(b"head ")
            transport.write(b"body")
            with pytest.raises(BlockingIOError):
                theirs.recv(100)
        assert theirs.recv(100) == b"head body"
        transport.write(b"at once")
        assert theirs.recv(100) == b"at once"
        with transport.gathering():
            transport.write(b"last")
            transport.close()
        await writer.wait_closed()
        assert theirs.recv(100) == b"last"
        assert theirs.recv(100) == b""
