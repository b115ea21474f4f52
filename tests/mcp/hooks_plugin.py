"""A plugin that goes wrong in everything it does for MCP outside of calls."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from hubd.activation import (
    Activation,
    Event,
    NotFound,
    Prompt,
    PromptArgument,
    PromptMessage,
    method,
)

# A file name with a lone surrogate.
ODD = b"caf\xe9".decode(errors="surrogateescape")


class Said(Event):
    text: str


class Hooks(Activation, namespace="hooks", version="1.0.0"):
    """Goes wrong in the way it is told."""

    def __init__(self, way: str = "exits") -> None:
        self.way = way

    @method(read_only=True, mcp={"resource": {"name": "name"}})
    async def look(self, name: str) -> AsyncIterator[Said]:
        """Find something."""
        raise NotFound(f"there is no {ODD}")
        yield Said(text=name)

    async def offer_prompts(self) -> Sequence[Prompt]:
        argument = PromptArgument("where", f"near the {ODD}")
        return [Prompt("write", f"as in {ODD}", (argument,))]

    async def fill_prompt(self, name: str, arguments: Mapping[str, str]) -> Sequence[PromptMessage]:
        await self.go_wrong()
        return [PromptMessage("user", ODD)]

    async def changes(self, method: str, params: Mapping[str, Any]) -> AsyncIterator[None]:
        await self.go_wrong()
        yield

    def extend_mcp(self, registry: Any) -> None:
        """Add one of each kind."""
        # In here, so that a daemon that loads this has the SDK no sooner than others.
        import mcp_types as types

        async def call(ctx: Any, params: Any) -> types.CallToolResult:
            await self.go_wrong()
            return types.CallToolResult(content=[types.TextContent(text=ODD)])

        async def read(ctx: Any, uri: str, variables: Any) -> types.ReadResourceResult:
            await self.go_wrong()
            content = types.TextResourceContents(uri=uri, text=ODD)
            return types.ReadResourceResult(contents=[content])

        async def get(ctx: Any, params: Any) -> types.GetPromptResult:
            await self.go_wrong()
            message = types.PromptMessage(role="user", content=types.TextContent(text=ODD))
            return types.GetPromptResult(messages=[message])

        async def handle(ctx: Any, params: Any) -> types.EmptyResult:
            await self.go_wrong()
            return types.EmptyResult()

        registry.add_tool(types.Tool(name="hook", input_schema={"type": "object"}), call)
        registry.add_resource(types.Resource(uri="hook://one", name="one"), read)
        registry.add_prompt(types.Prompt(name="hook"), get)
        registry.add_request("hooks/go", types.RequestParams, handle)

    async def go_wrong(self) -> None:
        """Do it, unless it is told to do nothing."""
        if self.way == "exits":
            sys.exit(3)
        if self.way == "raises":
            raise ZeroDivisionError("a mistake")
        if self.way == "refuses":
            raise NotFound(f"there is no {ODD}")
        if self.way == "is cancelled":
            raise asyncio.CancelledError
        if self.way == "waits":
            await asyncio.Event().wait()
        if self.way == "speaks the protocol":
            from mcp.shared.exceptions import MCPError

            raise MCPError(-31999, "in its own words")
