"""MCP clients for tests: the official one, in both eras, over HTTP and stdio; and raw HTTP.

`Served` is a hub in this process behind real sockets, for tests that bring their own plugins and
look into them; a `Daemon` is the real process.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from hubd.activation import Activation, Actor
from hubd.daemon.run import LOOPBACK, _listen
from hubd.mcp.access import McpOptions
from hubd.mcp.on_demand import LazyMcp
from hubd.mcp.transports.http import serve_mcp_http
from hubd.mcp.transports.stdio import serve_mcp_stdio
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import Hub
from hubd.rpc.clients import Clients
from hubd.rpc.gate import Gate
from tests.support import PATIENCE_SECONDS, Daemon, environment, hub_with

LEGACY: Final = "legacy"
MODERN: Final = "2026-07-28"

Era = Literal["legacy", "2026-07-28"]
ERAS: Final[tuple[Era, ...]] = (LEGACY, MODERN)
Transport = Literal["http", "stdio"]
TRANSPORTS: Final[tuple[Transport, ...]] = ("http", "stdio")

TOKEN = "the-token-of-this-test"


@dataclass
class Served:
    """A hub in this process, behind real sockets."""

    hub: Hub
    lazy: LazyMcp
    url: str


@asynccontextmanager
async def serving(
    directory: Path, *activations: Activation, options: McpOptions | None = None
) -> AsyncIterator[Served]:
    """Serve a hub with these plugins over MCP, as the daemon does."""
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(hub_with(directory, *activations))
        # The one that the plugins have: questions are answered where they were asked.
        host = activations[0].host if activations else PlexusHost(hub)
        assert isinstance(host, PlexusHost)
        clients = await stack.enter_async_context(Clients(hub, host.questions))
        lazy = LazyMcp(clients, host, options or McpOptions(), directory / "results")
        await stack.enter_async_context(lazy)
        listener = stack.enter_context(_listen(0))
        await stack.enter_async_context(serve_mcp_http(lazy, Gate(TOKEN), listener))
        await stack.enter_async_context(serve_mcp_stdio(lazy, directory / "hub.mcp"))
        yield Served(hub, lazy, f"http://{LOOPBACK}:{listener.getsockname()[1]}/mcp")


@asynccontextmanager
async def registered(served: Served, *tokens: str) -> AsyncIterator[None]:
    """Register session tokens at a hub in this process, each for another session."""
    for token in tokens:
        served.hub.actors.register_token(token, Actor("session", f"of {token}"))
    yield


@asynccontextmanager
async def over_http(
    url: str, token: str | None, era: Era, *, headers: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[Client]:
    """The official client, connected by HTTP. `options` are those of `mcp.Client`."""
    sent = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
    async with (
        # Certificates are for TLS, which is not spoken here, and take a while to read.
        httpx2.AsyncClient(headers=sent, timeout=PATIENCE_SECONDS, verify=False) as http,
        Client(streamable_http_client(url, http_client=http), mode=era, **options) as client,
    ):
        yield client


@asynccontextmanager
async def over_stdio(
    home: Path, era: Era, *arguments: str, env: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[Client]:
    """The official client, connected to `hubd mcp` of a home."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "hubd", "--home", str(home), "mcp", *arguments],
        env=environment(**(env or {})),
    )
    async with Client(server, mode=era, **options) as client:
        yield client


@asynccontextmanager
async def connected(
    daemon: Daemon, transport: Transport, era: Era, **options: Any
) -> AsyncIterator[Client]:
    """The official client, connected to a daemon."""
    if transport == "http":
        async with over_http(daemon.record["mcp_url"], daemon.token, era, **options) as client:
            yield client
    else:
        async with over_stdio(daemon.home, era, **options) as client:
            yield client
