"""Calls through MCP against the WebSocket, and the cost of MCP for a daemon without MCP clients.

`python -m tests.bench.mcp`. The clients are as lean as they can be, so that it is the daemon that
is measured; the official client is shown beside them.
"""

import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mcp import Client
from websockets.asyncio.client import connect

from tests.bench.measure import rates, report
from tests.bench.startup import ready_seconds
from tests.bench.transport import OverWebSocket, hub_trips
from tests.mcp.support import LEGACY, MODERN, over_http, over_stdio
from tests.support import HUBD, Daemon

CALLS = 100
STARTS = 15

# The daemon with everything of MCP taken out, to compare with.
WITHOUT_MCP = """
import sys, types
from contextlib import asynccontextmanager
@asynccontextmanager
async def nothing(*_): yield
for name, entry in (("on_demand", "LazyMcp"), ("transports.stdio", "serve_mcp_stdio"),
                    ("transports.http", "serve_mcp_http")):
    module = types.ModuleType(f"hubd.mcp.{name}")
    setattr(module, entry, nothing)
    sys.modules[module.__name__] = module
from hubd.cli import main
sys.exit(main())
"""


class RawHttp:
    """One keep-alive connection that posts calls and reads each answer to its end."""

    def __init__(self, url: str, token: str, *, modern: bool) -> None:
        self._address = urlsplit(url)
        self._token = token
        self._modern = modern
        self._session = ""
        self._reader: asyncio.StreamReader | None = None

    async def open(self) -> "RawHttp":
        """Connect, and shake hands where that is needed."""
        assert self._address.hostname is not None
        self._reader, self._writer = await asyncio.open_connection(
            self._address.hostname, self._address.port
        )
        if not self._modern:
            about = {"name": "bench", "version": "1"}
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about}
            await self._post({"id": 0, "method": "initialize", "params": params})
            await self._post({"method": "notifications/initialized"})
        return self

    async def call(self) -> None:
        """One call of echo.once."""
        params: dict[str, Any] = {"name": "echo.once", "arguments": {"message": "hi"}}
        if self._modern:
            prefix = "io.modelcontextprotocol"
            params["_meta"] = {
                f"{prefix}/protocolVersion": MODERN,
                f"{prefix}/clientCapabilities": {},
            }
        answer = await self._post({"id": 1, "method": "tools/call", "params": params})
        assert b'"count":1' in answer, answer

    async def _post(self, message: dict[str, Any]) -> bytes:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        head = [
            f"POST {self._address.path} HTTP/1.1",
            f"Host: {self._address.netloc}",
            f"Authorization: Bearer {self._token}",
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
            f"Content-Length: {len(body)}",
        ]
        if self._modern:
            head += [
                f"MCP-Protocol-Version: {MODERN}",
                f"Mcp-Method: {message['method']}",
                "Mcp-Name: echo.once",
            ]
        elif self._session:
            head += [f"Mcp-Session-Id: {self._session}", "MCP-Protocol-Version: 2025-11-25"]
        self._writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        return await self._answer()

    async def _answer(self) -> bytes:
        assert self._reader is not None
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        for line in head.split("\r\n"):
            name, _, value = line.partition(":")
            if name == "mcp-session-id":
                self._session = value.strip()
            elif name == "content-length":
                return await self._reader.readexactly(int(value))
        body = b""
        while size := int(await self._reader.readline(), 16):
            body += await self._reader.readexactly(size)
            await self._reader.readline()
        await self._reader.readline()
        return body


def trips(call: Callable[[], Any]) -> Callable[[], Any]:
    """Calls one after another."""

    async def work() -> int:
        for _ in range(CALLS):
            await call()
        return CALLS

    return work


async def calls(name: str) -> None:
    """Calls a second by every way in."""
    with Daemon(Path(name) / "home") as daemon:
        url, token = daemon.record["mcp_url"], daemon.token
        header = {"Authorization": f"Bearer {token}"}
        modern = await RawHttp(url, token, modern=True).open()
        legacy = await RawHttp(url, token, modern=False).open()
        async with (
            connect(daemon.record["ws_url"], additional_headers=header, compression=None) as socket,
            over_http(url, token, MODERN) as official,
            over_http(url, token, LEGACY) as official_legacy,
            over_stdio(daemon.home, MODERN) as stdio,
        ):
            measured = await rates(
                {
                    "WebSocket": hub_trips(OverWebSocket(socket), 1),
                    "MCP 2026-07-28, lean client": trips(modern.call),
                    "MCP 2025-11-25, lean client": trips(legacy.call),
                    "MCP 2026-07-28, official client": trips(_official(official)),
                    "MCP 2025-11-25, official client": trips(_official(official_legacy)),
                    "MCP 2026-07-28 over stdio, official client": trips(_official(stdio)),
                },
                rounds=7,
            )
        report("echo.once, one after another", measured, "calls/s", "WebSocket", "none set")


def _official(client: Client) -> Callable[[], Any]:
    return lambda: client.call_tool("echo.once", {"message": "hi"})


def starts(name: str) -> None:
    """Start-up and memory with and without MCP, taking turns."""
    home = Path(name) / "start"
    sides = {"with MCP, unused": HUBD, "without MCP": (sys.executable, "-c", WITHOUT_MCP)}
    samples: dict[str, list[tuple[float, int]]] = {side: [] for side in sides}
    for number in range(STARTS + 1):
        for side, program in sides.items():
            measured = ready_seconds(home, program)
            if number:
                samples[side].append(measured)
    print("\nstart-up and idle memory")
    base = [statistics.median(column) for column in zip(*samples["without MCP"], strict=True)]
    for side, values in samples.items():
        seconds, memory = (statistics.median(column) for column in zip(*values, strict=True))
        print(
            f"  {side:<44} {seconds * 1000:>8.0f} ms x{seconds / base[0]:.2f}"
            f" {memory / 1024:>8.1f} MiB x{memory / base[1]:.2f}"
        )


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(calls(name))
        starts(name)


if __name__ == "__main__":
    main()
