"""A lean MCP client over HTTP: one connection that posts the same call and reads each answer."""

import asyncio
import json
from typing import Any, Final
from urllib.parse import urlsplit

from tests.bench.clients.lean import LeanConnection
from tests.bench.clients.worker import Address, Run

MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"


class LeanHttp(LeanConnection):
    """A keep-alive connection. `take` is called for every answer with its head."""

    def data_received(self, data: bytes) -> None:
        self._partial += data
        head, blank, body = self._partial.partition(b"\r\n\r\n")
        if not blank:
            return
        lower = head.lower()
        if b"content-length:" in lower:
            size = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
            whole = len(body) >= size
        else:
            whole = body.endswith(b"0\r\n\r\n") or b" 202 " in head.split(b"\r\n")[0]
        if whole:
            answer, self._partial = self._partial, b""
            self.take(answer)

    async def post(self, request: bytes) -> bytes:
        """Send a request and return its answer."""
        answered = asyncio.get_running_loop().create_future()
        self.take = answered.set_result
        self.send(request)
        answer: bytes = await answered
        return answer


async def modern(address: Address, producers: range) -> Run:
    """Call `echo.once` by the newest protocol, in which each request stands alone."""
    prefix = "io.modelcontextprotocol"
    about = {f"{prefix}/protocolVersion": MODERN, f"{prefix}/clientCapabilities": {}}
    headers = [f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/call", "Mcp-Name: echo.once"]
    return _calls(address, _request(address, _call(_meta=about), headers))


async def legacy(address: Address, producers: range) -> Run:
    """Call `echo.once` by the protocol with sessions."""
    connection = await _connect(address)
    client = {"name": "bench", "version": "1"}
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client}
    opening = {"id": 0, "method": "initialize", "params": params}
    answer = (await connection.post(_request(address, opening, []))).lower()
    session = answer.split(b"mcp-session-id:")[1].split(b"\r\n")[0].strip().decode()
    headers = [f"Mcp-Session-Id: {session}", f"MCP-Protocol-Version: {LEGACY}"]
    await connection.post(_request(address, {"method": "notifications/initialized"}, headers))
    connection.close()
    return _calls(address, _request(address, _call(), headers))


def _call(**more: Any) -> dict[str, Any]:
    params = {"name": "echo.once", "arguments": {"message": "hi"}, **more}
    return {"id": 1, "method": "tools/call", "params": params}


def _calls(address: Address, request: bytes) -> Run:
    async def run(calls: int) -> None:
        # For each slice, because the server closes a connection that is idle for seconds.
        connection = await _connect(address)
        for _ in range(calls):
            answer = await connection.post(request)
            assert b'"count":1' in answer, answer
        connection.close()

    return run


async def _connect(address: Address) -> LeanHttp:
    place = urlsplit(address["mcp_url"])
    assert place.hostname is not None
    assert place.port is not None
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(LeanHttp, place.hostname, place.port)
    return connection


def _request(address: Address, message: dict[str, Any], headers: list[str]) -> bytes:
    place = urlsplit(address["mcp_url"])
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    head = [
        f"POST {place.path} HTTP/1.1",
        f"Host: {place.netloc}",
        f"Authorization: Bearer {address['token']}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body
