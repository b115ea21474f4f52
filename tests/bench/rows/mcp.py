"""Calls through MCP against calls over the WebSocket, one after another."""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mcp import Client

from tests.bench.clients.process import clients
from tests.bench.measure import Slice, units_per_second
from tests.bench.row import BEFORE, Bench, Row, Samples, Target
from tests.bench.servers.daemon import daemon, settle

CALLS: Final = 100
ROUNDS: Final = 11


async def calls(bench: Bench) -> Samples:
    """Call `echo.once` by the lean clients."""
    async with AsyncExitStack() as stack:
        sides: dict[str, Slice] = {}
        for version, end in zip(bench.versions, ("", BEFORE), strict=False):
            hub = stack.enter_context(daemon(version, bench.directory / f"home{end}"))
            address = {**hub.address, "mcp_url": hub.record["mcp_url"]}
            address |= {"transport": "websocket", "in_flight": 1}
            kinds = {"websocket": "hub:echo", "mcp": "mcp:modern", "legacy": "mcp:legacy"}
            for name, kind in kinds.items():
                starting = clients(f"tests.bench.clients.{kind}", address)
                side = await stack.enter_async_context(starting)
                sides[name + end] = side.slice(bench.count(CALLS))
        await settle()
        return Samples(await units_per_second(sides, bench.rounds_or(ROUNDS)))


async def official_clients(bench: Bench) -> Samples:
    """Call `echo.once` by the official client, in this process."""
    # The SDK takes a second to import, and the list of rows does not need it.
    from tests.mcp.support import LEGACY, MODERN, over_http, over_stdio

    async with AsyncExitStack() as stack:
        hub = stack.enter_context(daemon(bench.versions[0], bench.directory / "home"))
        address = {**hub.address, "transport": "websocket", "in_flight": 1}
        starting = clients("tests.bench.clients.hub:echo", address)
        side = await stack.enter_async_context(starting)
        url, token = hub.record["mcp_url"], hub.address["token"]
        ways = {
            "official": over_http(url, token, MODERN),
            "official legacy": over_http(url, token, LEGACY),
            "official stdio": over_stdio(hub.home, MODERN),
        }
        count = bench.count(CALLS)
        sides: dict[str, Slice] = {"websocket": side.slice(count)}
        for name, way in ways.items():
            sides[name] = _trips(await stack.enter_async_context(way), count)
        await settle()
        return Samples(await units_per_second(sides, bench.rounds_or(ROUNDS)))


def _trips(client: "Client", count: int) -> Slice:
    async def work() -> int:
        for _ in range(count):
            await client.call_tool("echo.once", {"message": "hi"})
        return count

    return work


AGAINST = "a WebSocket call"
ROWS = [
    Row("mcp", "MCP call, lean client", AGAINST, Target(">=", 0.35), "calls/s", calls, "mcp",
        "websocket"),
]  # fmt: skip
MORE = [
    Row("mcp-legacy", "MCP call of the protocol with sessions, lean client", AGAINST, None,
        "calls/s", calls, "legacy", "websocket"),
    Row("mcp-official", "MCP call, official client", AGAINST, None, "calls/s", official_clients,
        "official", "websocket"),
    Row("mcp-official-legacy", "MCP call of the protocol with sessions, official client", AGAINST,
        None, "calls/s", official_clients, "official legacy", "websocket"),
    Row("mcp-stdio", "MCP call over stdio, official client", AGAINST, None, "calls/s",
        official_clients, "official stdio", "websocket"),
]  # fmt: skip
