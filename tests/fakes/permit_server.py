"""An MCP server with one tool, which decides whether an agent may use its own tools."""

import asyncio
import json
from typing import Any, Final

from tests.fakes.http import HttpRequest, HttpServer, Reply

TOOL: Final = "loopback.permit"
# The name by which a flag calls it, if the server is configured as `plexus`.
FLAG: Final = "mcp__plexus__loopback_permit"

PROTOCOL: Final = "2025-11-25"


class PermitServer(HttpServer):
    """Gives its answers in order, and the last of them again and again."""

    def __init__(self, *answers: object, streams: bool = False, token: str = "sekret") -> None:
        super().__init__()
        self._answers = list(answers)
        # Whether it answers with a stream of events or with JSON.
        self._streams = streams
        self._token = token
        # The arguments of every call, in order.
        self.calls: list[dict[str, Any]] = []
        # Set with every call that comes in.
        self.called = asyncio.Event()
        # Set when the client broke off a call that had not been answered.
        self.withdrawn = asyncio.Event()
        # Calls are answered while it is set.
        self.open = asyncio.Event()
        self.open.set()

    def config(self, token: str | None = None, **more: Any) -> str:
        """The value of --mcp-config for this server."""
        headers = {"Authorization": f"Bearer {token or self._token}"}
        server = {"type": "http", "url": f"{self.url}/mcp", "headers": headers, **more}
        return json.dumps({"mcpServers": {"plexus": server}})

    async def answer(self, request: HttpRequest, reply: Reply) -> None:
        """Answer one MCP message."""
        if request.headers.get("authorization") != f"Bearer {self._token}":
            await reply.send(401, {"error": "unauthorized"})
        elif request.method != "POST":
            await reply.send(405)
        elif "id" not in request.body:
            await reply.send(202)
        else:
            await self._request(request, reply)

    async def _request(self, request: HttpRequest, reply: Reply) -> None:
        method, params = request.body["method"], request.body.get("params", {})
        headers: dict[str, str] = {}
        if method == "initialize":
            headers = {"Mcp-Session-Id": "permits"}
            about = {"name": "permits", "version": "1"}
            tools = {"capabilities": {"tools": {}}, "serverInfo": about}
            result: dict[str, Any] = {"protocolVersion": PROTOCOL, **tools}
        elif request.headers.get("mcp-session-id") != "permits":
            # It also makes claude fall back from the newer protocol, which has no sessions.
            await reply.send(400, {"error": "no session"})
            return
        elif method == "tools/list":
            result = {"tools": [{"name": TOOL, "inputSchema": {"type": "object"}}]}
        elif method == "tools/call":
            result = await self._permit(params)
        else:
            error = {"code": -32601, "message": f"no such method: {method}"}
            await reply.send(200, {"jsonrpc": "2.0", "id": request.body["id"], "error": error})
            return
        message = {"jsonrpc": "2.0", "id": request.body["id"], "result": result}
        if self._streams:
            await reply.start_stream(**headers)
            await reply.event("message", {"jsonrpc": "2.0", "method": "notifications/progress"})
            await reply.event("message", message)
            await reply.end_stream()
        else:
            await reply.send(200, message, **headers)

    async def _permit(self, params: dict[str, Any]) -> dict[str, Any]:
        assert params["name"] == TOOL
        self.calls.append(params["arguments"])
        self.called.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.withdrawn.set()
            raise
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, dict) and "content" in answer:
            return answer
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return {"content": [{"type": "text", "text": text}]}
