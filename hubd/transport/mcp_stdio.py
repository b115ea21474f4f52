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
from hubd.wire import jsonrpc
from hubd.wire.context import Client, read_context

log = logging.getLogger("hubd.transport")

# One message of a client.
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
# The bridge is ours and says hello at once.
HELLO_SECONDS: Final = 10.0
# Far more agents than one user runs.
MAX_BRIDGES: Final = 256
# How long bridges may take to be told that the daemon stops.
STOP_SECONDS: Final = 1.0


@asynccontextmanager
async def serve_mcp_stdio(lazy: LazyMcp, path: Path) -> AsyncIterator[None]:
    """Accept bridges on a socket that only this user can open."""
    bridges: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        bridges.add(task)
        try:
            hello = await _hello(reader)
            if hello is None:
                log.warning("somebody who is no bridge of ours knocked at the socket of MCP")
                _refuse(writer, "only `hubd mcp` speaks here")
            elif len(bridges) > MAX_BRIDGES:
                log.warning("refused an MCP bridge: %d are connected", MAX_BRIDGES)
                _refuse(writer, f"{MAX_BRIDGES} MCP clients are connected over stdio already")
            else:
                await _serve(lazy, hello, reader, writer)
        except Exception:  # its client's problem, not the daemon's
            log.exception("an MCP bridge failed")
            _refuse(writer, "the daemon cannot go on with this client; see: hubd logs")
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
            await asyncio.wait(bridges, timeout=STOP_SECONDS)
        path.unlink(missing_ok=True)  # noqa: ASYNC240 -- once, at the end


async def _hello(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            hello = json.loads(await reader.readline())
    except (TimeoutError, ValueError, RecursionError, ConnectionError):
        return None
    return hello if isinstance(hello, dict) else None


async def _serve(
    lazy: LazyMcp,
    hello: dict[str, Any],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    server = await lazy.server()
    # Not before there is a client: it imports the SDK.
    from hubd.transport.mcp_lines import serve_lines

    await serve_lines(server.server, _facts(lazy, hello), reader, writer, MAX_LINE_BYTES)


def _facts(lazy: LazyMcp, hello: dict[str, Any]) -> Facts:
    token, tools = hello.get("session_token"), hello.get("tools")
    return Facts(
        Client("mcp-stdio", session_token=token if isinstance(token, str) else None),
        read_context(hello.get("context")),
        lazy.options.narrowed(read_profile(tools) if isinstance(tools, str) else None),
    )


def _refuse(writer: asyncio.StreamWriter, reason: str) -> None:
    """Say why before hanging up."""
    writer.write(jsonrpc.failure(None, jsonrpc.INVALID_REQUEST, reason) + b"\n")
