"""MCP over stdio, the daemon's half: `hubd mcp` carries the lines here over a Unix socket.

The first line is the bridge's own and says where it runs; all others are the client's messages,
as it wrote them.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from hubd.transport.mcp_facts import Facts, read_profile
from hubd.transport.mcp_lazy import LazyMcp
from hubd.wire.context import Client, read_context

log = logging.getLogger("hubd.transport")

# One message of a client.
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
# The bridge is ours and says hello at once.
HELLO_SECONDS: Final = 10.0
# Far more agents than one user runs.
MAX_BRIDGES: Final = 256


@asynccontextmanager
async def serve_mcp_stdio(lazy: LazyMcp, path: Path) -> AsyncIterator[None]:
    """Accept bridges on a socket that only this user can open."""
    bridges: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(bridges) >= MAX_BRIDGES:
            log.warning("refused an MCP bridge: %d are connected", len(bridges))
            writer.close()
            return
        bridges.add(task)
        try:
            await _serve(lazy, reader, writer)
        except Exception:  # its client's problem, not the daemon's
            log.exception("an MCP bridge failed")
        finally:
            bridges.discard(task)
            writer.close()

    path.unlink(missing_ok=True)  # noqa: ASYNC240 -- once, at start
    server = await asyncio.start_unix_server(accept, str(path), limit=MAX_LINE_BYTES)
    path.chmod(0o600)  # noqa: ASYNC240 -- once, at start
    try:
        yield
    finally:
        server.close()
        for task in bridges:
            task.cancel()
        if bridges:
            await asyncio.wait(bridges, timeout=1.0)
        path.unlink(missing_ok=True)  # noqa: ASYNC240 -- once, at the end


async def _serve(lazy: LazyMcp, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(HELLO_SECONDS):
        hello = json.loads(await reader.readline() or b"null")
    if not isinstance(hello, dict):
        return
    server = await lazy.server()
    from hubd.transport.mcp_lines import serve_lines

    await serve_lines(server.server, _facts(lazy, hello), reader, writer)


def _facts(lazy: LazyMcp, hello: dict[str, Any]) -> Facts:
    token, tools = hello.get("session_token"), hello.get("tools")
    return Facts(
        Client("mcp-stdio", session_token=token if isinstance(token, str) else None),
        read_context(hello.get("context")),
        lazy.options.narrowed(read_profile(tools) if isinstance(tools, str) else None),
    )
