"""A small MCP client over HTTP, for permission prompts."""

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
from hubd.wire import envelope

PROTOCOL: Final = "2025-11-25"

# Time limit of the first requests; a slower server counts as failed.
CONNECT_SECONDS: Final = 10.0

# Default timeout of a response, as in claude.
ANSWER_SECONDS: Final = 300.0

# Time to wait for the thread of a cancelled request; it ends with the program anyway.
CLOSE_SECONDS: Final = 2.0

_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


class McpError(Exception):
    """The server did not answer, or answered with an error."""


class McpServer:
    """One server of the configuration. Call `connect` first; `status` is failed if it fails."""

    def __init__(self, name: str, config: Line) -> None:
        self.name = name
        # pending, then connected or failed; disabled if its transport is not HTTP.
        self.status = "pending" if config.get("type") == "http" else "disabled"
        self._url = urlsplit(expand(config.get("url", "")))
        self._headers = {
            header: expand(value) for header, value in config.get("headers", {}).items()
        }
        self._seconds = config.get("timeout", ANSWER_SECONDS * 1000) / 1000
        # The legacy session id from the first response, if the server sends one.
        self._session: str | None = None
        # Tool names as flags can have them, and as the server has them; set by `connect`.
        self._tools: dict[str, str] = {}
        # The number of requests so far.
        self._requests = 0
        # The connection of the running request; `close` cancels it.
        self._connection: http.client.HTTPConnection | None = None

    @property
    def tools(self) -> list[str]:
        """The tools, with the names that claude gives them."""
        return [f"mcp__{self.name}__{tool}" for tool in self._tools]

    def connect(self) -> None:
        """Initialize the connection and list the tools."""
        if self.status == "disabled":
            return
        try:
            client = {"name": "hubd-offline-agent", "version": __version__}
            params = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client}
            self._request("initialize", params, CONNECT_SECONDS)
            self._post(envelope.notification("notifications/initialized"), CONNECT_SECONDS)
            listed = self._request("tools/list", {}, CONNECT_SECONDS)
            names = [tool["name"] for tool in listed["tools"]]
            self._tools = {re.sub("[^a-zA-Z0-9_-]", "_", name): name for name in names}
            self.status = "connected"
        except (McpError, OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            self.status = "failed"

    def call(self, pipes: Pipes, tool: str, arguments: Line, tool_use_id: str) -> Line:
        """Call a tool. An interrupt closes the connection.

        Raises:
            McpError: There is no result.
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
        """Cancel the running request."""
        connection = self._connection
        if connection is not None and connection.sock is not None:
            # `shutdown` wakes the reading thread; `close` would not.
            try:
                connection.sock.shutdown(2)
            except OSError:
                return

    def _request(self, method: str, params: Line, seconds: float) -> Line:
        self._requests += 1
        message = envelope.request(self._requests, method, json.dumps(params))
        answer = self._post(message, seconds)
        if answer is None:
            raise McpError("the server sent no answer")
        if "error" in answer:
            raise McpError(str(answer["error"].get("message", answer["error"])))
        result: Line = answer["result"]
        return result

    def _post(self, message: bytes, seconds: float) -> Line | None:
        """Send one message; return the reply if it is a request."""
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else None
        connection = (kind or http.client.HTTPConnection)(self._url.netloc, timeout=seconds)
        self._connection = connection
        try:
            path = self._url.path or "/"
            target = f"{path}?{self._url.query}" if self._url.query else path
            connection.request("POST", target, message, self._all_headers())
            response = connection.getresponse()
            if response.status >= 400:
                raise McpError(f"HTTP {response.status}")
            self._session = response.headers.get("Mcp-Session-Id", self._session)
            if response.headers.get_content_type() == "text/event-stream":
                return _from_events(response, self._requests)
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
    """Return the response in a stream of events. Other messages are skipped."""
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
    """Replace ${NAME} and ${NAME:-default} with environment variables; unset ones stay."""
    return _VARIABLE.sub(lambda match: os.environ.get(match[1], match[2] or match[0]), text)


def servers(values: tuple[str, ...]) -> list[McpServer]:
    """Return the servers of --mcp-config. Each value is JSON or the name of a file.

    Raises:
        UsageError: A value is neither.
    """
    configs: dict[str, Any] = {}
    for value in values:
        try:
            text = value if value.lstrip().startswith("{") else Path(value).read_text()
            configs |= json.loads(text)["mcpServers"]
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise UsageError(f"Error: Invalid MCP configuration: {problem!r}") from None
    return [McpServer(name, config) for name, config in configs.items()]
