"""A client on the SDK's first major version: creates a tree, draws it, prints the results.

Runs in an environment of its own, with another `mcp` than everything else here; what it takes
from it is therefore imported by name, and has no types.

    python -m tests.fakes.old_mcp_client http URL TOKEN
    python -m tests.fakes.old_mcp_client stdio COMMAND ARGUMENT…
"""

import asyncio
import importlib
import json
import os
import sys
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import Any

from tests.mcp.seed import make_tree


async def main(transport: str, target: str, *rest: str) -> None:
    """Connect, list, call."""
    async with AsyncExitStack() as stack:
        if transport == "http":
            http = importlib.import_module("mcp.client.streamable_http")
            headers = {"Authorization": f"Bearer {rest[0]}"}
            opened = http.streamablehttp_client(target, headers=headers)
        else:
            stdio = importlib.import_module("mcp.client.stdio")
            server = stdio.StdioServerParameters(command=target, args=rest, env=dict(os.environ))
            opened = stdio.stdio_client(server)
        reading, writing, *_ = await stack.enter_async_context(opened)
        session_type = importlib.import_module("mcp").ClientSession
        session = await stack.enter_async_context(session_type(reading, writing))
        hello = await session.initialize()

        async def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            result = await session.call_tool(name, arguments)
            assert not result.isError, result
            [event] = result.structuredContent["events"]
            return dict(event)

        tools = await session.list_tools()
        tree_id = await make_tree(call)
        drawn = await session.call_tool("arbor.tree_render", {"tree_id": tree_id})
        resource = await session.read_resource(f"plexus://arbor/{tree_id}")
        seen = {
            "sdk": version("mcp"),
            "protocol": hello.protocolVersion,
            "tools": [tool.name for tool in tools.tools],
            "content": [block.model_dump(exclude_none=True) for block in drawn.content],
            "is_error": drawn.isError,
            "resource": resource.contents[0].text,
        }
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
