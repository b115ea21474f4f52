"""An MCP client over HTTP, as small as asking for permission needs it."""

import http.client
import json
import os
import re
import threading
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from hubd import __version__
from hubd.offline_agent.lines import Line
from hubd.offline_agent.options import UsageError
from hubd.offline_agent.pipes import Pipes

PROTOCOL: Final = "2025-11-25"

# A server that does not greet within this time counts as not there.
CONNECT_SECONDS: Final = 10.0

# How long an answer may be silent where the configuration says nothing, as in claude.
ANSWER_SECONDS: Final = 300.0

# How long a broken-off request may take to notice; its thread ends with the program anyway.
CLOSE_SECONDS: Final = 2.0

_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


class McpError(Exception):
    """The server is not there, or answered with an error."""


class McpServer:
    """One server of the configuration. `connect` first; a failure leaves `status` at failed."""

    def __init__(self, name: str, config: Line) -> None:
        self.name = name
        # pending, then connected or failed; disabled if it is of a kind that is not spoken here.
        self.status = "pending" if config.get("type") == "http" else "disabled"
        self._url = urlsplit(expand(config.get("url", "")))
        self._headers = {
            header: expand(value) for header, value in config.get("headers", {}).items()
        }
        self._seconds = config.get("timeout", ANSWER_SECONDS * 1000) / 1000
        # Given by the server with its first answer, if it wants to know us again.
        self._session: str | None = None
        # The names that a flag can have, and the server's own; known once it is connected.
        self._tools: dict[str, str] = {}
        # One more with every request.
        self._requests = 0
        # While a request runs; `close` breaks it off.
        self._connection: http.client.HTTPConnection | None = None

    @property
    def tools(self) -> list[str]:
        """The tools by the names that claude gives to them."""
        return [f"mcp__{self.name}__{tool}" for tool in self._tools]

    def connect(self) -> None:
        """Greet the server and ask what it has."""
        if self.status == "disabled":
            return
        try:
            client = {"name": "hubd-offline-agent", "version": __version__}
            hello = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client}
            self._request("initialize", hello, CONNECT_SECONDS)
            self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, CONNECT_SECONDS)
            listed = self._request("tools/list", {}, CONNECT_SECONDS)
            names = [tool["name"] for tool in listed["tools"]]
            self._tools = {re.sub("[^a-zA-Z0-9_-]", "_", name): name for name in names}
            self.status = "connected"
        except (McpError, OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            self.status = "failed"

    def call(self, pipes: Pipes, tool: str, arguments: Line, tool_use_id: str) -> Line:
        """Call a tool, and hear an interrupt meanwhile: that drops the connection.

        Raises:
            McpError: No result came.
            Interrupted: The turn was interrupted.
        """
        meta = {"claudecode/toolUseId": tool_use_id, "progressToken": self._requests + 1}
        params = {"name": self._tools[tool], "arguments": arguments, "_meta": meta}
        answer: list[Line | Exception] = []
        done, finished = os.pipe()

        def work() -> None:
            try:
                answer.append(self._request("tools/call", params, self._seconds))
            except (McpError, OSError, http.client.HTTPException, ValueError) as problem:
                answer.append(problem)
            finally:
                os.close(finished)

        thread = threading.Thread(target=work, name="mcp", daemon=True)
        thread.start()
        try:
            while not pipes.wait(None, [done]):
                pass
        finally:
            self.close()
            thread.join(CLOSE_SECONDS)
            os.close(done)
        if isinstance(answer[0], Exception):
            raise McpError(str(answer[0]) or type(answer[0]).__name__)
        return answer[0]

    def close(self) -> None:
        """Break off the request that runs, if one does."""
        connection = self._connection
        if connection is not None and connection.sock is not None:
            # `shutdown` wakes a thread that reads; closing alone would not.
            try:
                connection.sock.shutdown(2)
            except OSError:
                return

    def _request(self, method: str, params: Line, seconds: float) -> Line:
        self._requests += 1
        message = {"jsonrpc": "2.0", "id": self._requests, "method": method, "params": params}
        answer = self._post(message, seconds)
        if answer is None:
            raise McpError("the server sent no answer")
        if "error" in answer:
            raise McpError(str(answer["error"].get("message", answer["error"])))
        result: Line = answer["result"]
        return result

    def _post(self, message: Line, seconds: float) -> Line | None:
        """Send one message; returns the answer to it, if it is a request."""
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else None
        connection = (kind or http.client.HTTPConnection)(self._url.netloc, timeout=seconds)
        self._connection = connection
        try:
            path = self._url.path or "/"
            target = f"{path}?{self._url.query}" if self._url.query else path
            connection.request("POST", target, json.dumps(message), self._all_headers())
            response = connection.getresponse()
            if response.status >= 400:
                raise McpError(f"HTTP {response.status}")
            self._session = response.headers.get("Mcp-Session-Id", self._session)
            if response.headers.get_content_type() == "text/event-stream":
                return _from_events(response, message.get("id"))
            raw = response.read()
            answer: Line | None = json.loads(raw) if raw.strip() else None
            return answer
        finally:
            self._connection = None
            connection.close()

    def _all_headers(self) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": PROTOCOL,
            **self._headers,
        }
        return headers | ({"Mcp-Session-Id": self._session} if self._session else {})


def _from_events(response: http.client.HTTPResponse, request_id: object) -> Line | None:
    """The answer to a request in a stream of events; progress and the rest is passed over."""
    data: list[bytes] = []
    while raw := response.readline():
        line = raw.rstrip(b"\r\n")
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            message: Line = json.loads(b"\n".join(data))
            data.clear()
            if message.get("id") == request_id and "method" not in message:
                return message
    return None


def expand(text: str) -> str:
    """Replace ${NAME} and ${NAME:-default} by the environment; what is not set stays as it is."""
    return _VARIABLE.sub(lambda found: os.environ.get(found[1], found[2] or found[0]), text)


def servers(values: tuple[str, ...]) -> list[McpServer]:
    """The servers of --mcp-config: each value is JSON or the name of a file.

    Raises:
        UsageError: A value is neither.
    """
    found: dict[str, Any] = {}
    for value in values:
        try:
            text = value if value.lstrip().startswith("{") else Path(value).read_text()
            found |= json.loads(text)["mcpServers"]
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise UsageError(f"Error: Invalid MCP configuration: {problem!r}") from None
    return [McpServer(name, config) for name, config in found.items()]
