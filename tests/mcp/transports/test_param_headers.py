"""Arguments that are repeated in headers for proxies: both must be equal."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from mcp_types import CallToolRequestParams, CallToolResult, Tool
from pydantic import Field

from hubd.activation import Activation, Event, McpRegistry, method
from hubd.mcp.registry import Ctx
from hubd.plexus.host import PlexusHost
from tests.mcp.raw_http import Answer, RawClient, modern, request
from tests.mcp.support import TOKEN, Served, serving

REPEATED: dict[str, Any] = {"x-mcp-header": "Region"}


class Went(Event):
    region: str


class Train(Activation, namespace="travel", version="1.0.0"):
    """Goes where it is told, and headers tell it too."""

    def __init__(self) -> None:
        self.went: list[str] = []

    @method(streaming=False)
    async def go(
        self, region: Annotated[str, Field(json_schema_extra=REPEATED)]
    ) -> AsyncIterator[Went]:
        """Go there."""
        self.went.append(region)
        yield Went(region=region)

    def extend_mcp(self, registry: McpRegistry) -> None:
        async def fly(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
            self.went.append((params.arguments or {})["region"])
            return CallToolResult(content=[])

        schema = {"type": "object", "properties": {"region": {"type": "string", **REPEATED}}}
        registry.add_tool(Tool(name="fly", input_schema=schema), fly)


class Walk(Activation, namespace="travel", version="1.0.0"):
    """Goes where it is told, and no header tells it."""

    @method(streaming=False)
    async def go(self, region: str) -> AsyncIterator[Went]:
        """Go there."""
        yield Went(region=region)


async def go(served: Served, tool: str, *headers: str) -> Answer:
    """Go north; the headers may say otherwise."""
    raw_client = RawClient(int(served.url.rpartition(":")[2].partition("/")[0]), TOKEN)
    body = request("tools/call", {"name": tool, "arguments": {"region": "north"}})
    sent = [*modern("tools/call", tool), *(("Mcp-Param-Region", text) for text in headers)]
    return await asyncio.to_thread(raw_client.post, body, sent)


@pytest.mark.parametrize("tool", ["travel.go", "travel_go", "fly"])
async def test_a_header_that_differs_from_its_argument_is_refused_from_the_first_call(
    tmp_path: Path, tool: str
) -> None:
    train = Train()
    async with serving(tmp_path, train) as served:
        for headers in (["south"], [], ["north", "south"]):
            answer = await go(served, tool, *headers)
            assert (answer.status, answer.code) == (400, -32020)
        assert train.went == []
        assert (await go(served, tool, "north")).status == 200
        assert train.went == ["north"]


async def test_headers_are_checked_against_the_plugin_that_is_there_now(tmp_path: Path) -> None:
    train = Train()
    async with serving(tmp_path, train) as served:
        assert (await go(served, "travel.go", "north")).status == 200
        served.hub.detach(served.hub.find(["travel"]))
        node = served.hub.attach(Walk(), PlexusHost(served.hub))
        # It never asked for the header.
        assert (await go(served, "travel.go")).status == 200
        served.hub.detach(node)
        served.hub.attach(train, PlexusHost(served.hub))
        assert (await go(served, "travel.go", "south")).code == -32020
        assert train.went == ["north"]
