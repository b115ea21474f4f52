"""HTTP as an attacker writes it: bytes on a socket, and parsed answers."""

import json
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import Any

from tests.mcp.support import MODERN
from tests.support import PATIENCE_SECONDS, Daemon, events_of

LEGACY_VERSION = "2025-11-25"
ACCEPT = ("Accept", "application/json, text/event-stream")
JSON = ("Content-Type", "application/json")
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
}

Pairs = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Answer:
    """One parsed answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        """The JSON-RPC message: the body, or the last event of a stream."""
        body = self.body
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            lines = [line for line in body.splitlines() if line.startswith(b"data: {")]
            body = lines[-1].removeprefix(b"data: ")
        return json.loads(body)

    @property
    def code(self) -> int | None:
        """The code of the JSON-RPC error, if it is one."""
        code: int | None = self.message.get("error", {}).get("code")
        return code


def ports(daemon: Daemon) -> tuple[int, int]:
    """The port of the WebSocket and that of MCP."""
    ws, mcp = daemon.record["ws_url"], daemon.record["mcp_url"]
    return int(ws.rpartition(":")[2]), int(mcp.rpartition(":")[2].partition("/")[0])


@contextmanager
def connection(port: int) -> Iterator[socket.socket]:
    """A TCP connection."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as opened:
        yield opened


def head(method: str, target: str, headers: Pairs, *, version: str = "1.1") -> bytes:
    """The head of a request."""
    lines = [f"{method} {target} HTTP/{version}", *(f"{key}: {value}" for key, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def read_answer(opened: socket.socket, method: str = "GET") -> Answer:
    """The next answer on a connection."""
    response = HTTPResponse(opened, method=method)
    try:
        response.begin()
        body = b"" if response.status == 101 else response.read()
        headers = {key.lower(): value for key, value in response.getheaders()}
        return Answer(response.status, headers, body)
    finally:
        response.close()


def exchange(port: int, data: bytes, method: str = "GET") -> Answer:
    """Send bytes and take the answer."""
    with connection(port) as opened:
        opened.sendall(data)
        return read_answer(opened, method)


def status_line(port: int, data: bytes) -> int | None:
    """Return the status of the answer; None without an answer."""
    with connection(port) as opened:
        opened.sendall(data)
        with opened.makefile("rb") as answer:
            line = answer.readline().split()
    return int(line[1]) if line else None


def refused(port: int, data: bytes) -> bool:
    """Whether a request gets an error, or is hung up on while it is still being sent."""
    try:
        status = status_line(port, data)
    except ConnectionError:
        return True
    return status is None or 400 <= status < 500


def no_cors(answer: Answer) -> bool:
    """Whether nothing in it lets a page read it."""
    return not any(name.startswith("access-control-") for name in answer.headers)


def upgrade(headers: Pairs, *, target: str = "/", version: str = "1.1") -> bytes:
    """A WebSocket handshake."""
    asked = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Version", "13"),
    ]
    return head("GET", target, [*headers, *asked], version=version)


def own_host(port: int) -> tuple[str, str]:
    """The Host that every client sends."""
    return ("Host", f"127.0.0.1:{port}")


def bearer(token: str) -> tuple[str, str]:
    """The token as it should be sent."""
    return ("Authorization", f"Bearer {token}")


def request(method: str, params: Mapping[str, Any] | None = None, *, id: Any = 1) -> dict[str, Any]:
    """A request of 2026-07-28."""
    return {
        "jsonrpc": "2.0",
        "id": id,
        "method": method,
        "params": {**(params or {}), "_meta": META},
    }


def modern(method: str, name: str | None = None) -> list[tuple[str, str]]:
    """The headers of a request of 2026-07-28."""
    named = [("Mcp-Name", name)] if name is not None else []
    return [ACCEPT, JSON, ("MCP-Protocol-Version", MODERN), ("Mcp-Method", method), *named]


def noted(daemon: Daemon) -> list[str]:
    """Return the texts of the calls that were executed."""
    [event] = events_of(daemon.home, "witness.noted")
    texts: list[str] = event["texts"]
    return texts


def note(text: str) -> dict[str, Any]:
    """A call with an effect."""
    return request("tools/call", {"name": "witness.note", "arguments": {"text": text}})


# The headers of that call.
NOTE = modern("tools/call", "witness.note")


class Ear:
    """Where `witness.wait` reports. A context manager."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PATIENCE_SECONDS)
        self.port: int = self._listener.getsockname()[1]
        self._method: socket.socket | None = None

    def __enter__(self) -> "Ear":
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        if self._method is not None:
            self._method.close()

    def wait_for_begin(self) -> None:
        """Until the method runs."""
        self._method, _ = self._listener.accept()
        self._method.settimeout(PATIENCE_SECONDS)

    def wait_for_end(self) -> None:
        """Wait until the method has ended."""
        assert self._method is not None
        assert self._method.recv(1) == b""

    def say(self, text: str) -> None:
        """Let it finish."""
        assert self._method is not None
        self._method.sendall(text.encode() + b"\n")


class RawClient:
    """A client that knows the MCP port of a daemon, and a token."""

    def __init__(self, port: int, token: str | None) -> None:
        self.port = port
        self.token = token

    @property
    def own(self) -> list[tuple[str, str]]:
        """The headers that every request needs."""
        return [own_host(self.port), *([bearer(self.token)] if self.token else [])]

    def post(
        self, body: bytes | str | object, headers: Pairs, *, target: str = "/mcp", own: bool = True
    ) -> Answer:
        """Post a body, by default with the token."""
        with connection(self.port) as opened:
            opened.sendall(self.written(body, headers, target=target, own=own))
            return read_answer(opened, "POST")

    def written(
        self, body: bytes | str | object, headers: Pairs, *, target: str = "/mcp", own: bool = True
    ) -> bytes:
        """The bytes of a POST."""
        if not isinstance(body, bytes | str):
            body = json.dumps(body)
        data = body if isinstance(body, bytes) else body.encode()
        length = ("Content-Length", str(len(data)))
        return head("POST", target, [*(self.own if own else []), *headers, length]) + data

    def call(self, tool: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> Answer:
        """Call a tool, by 2026-07-28."""
        params = {"name": tool, "arguments": arguments or {}, **more}
        return self.post(request("tools/call", params), modern("tools/call", tool))

    def initialize(self) -> Answer:
        """Open a session, by 2025-11-25."""
        params = {
            "protocolVersion": LEGACY_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        return self.post(body, [ACCEPT, JSON])

    def in_session(self, session: str) -> list[tuple[str, str]]:
        """The headers of a request of 2025-11-25."""
        return [
            ACCEPT,
            JSON,
            ("MCP-Protocol-Version", LEGACY_VERSION),
            ("Mcp-Session-Id", session),
        ]
