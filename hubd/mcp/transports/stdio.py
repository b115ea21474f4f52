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

from hubd.errors import HubError, Internal, InvalidParams, Overloaded
from hubd.mcp.access import Activity, Facts, check_profile, read_profile
from hubd.mcp.on_demand import LazyMcp
from hubd.rpc.unix import UnixListener
from hubd.wire import jsonrpc
from hubd.wire.caller import Client, read_context
from hubd.wire.mcp_bridge import REFUSED

log = logging.getLogger("hubd.transport")

# The bridge is ours and says hello at once.
HELLO_SECONDS: Final = 10.0
# A client speaks first, and at once; its first request is what a refusal is an answer to.
FIRST_SECONDS: Final = 2.0
# Far more agents than one user runs.
MAX_BRIDGES: Final = 512
EVICTED: Final = "closed to make room: of {} MCP clients over stdio, this one was idle for longest"
# How long bridges may take to be told that the daemon stops.
STOP_SECONDS: Final = 1.0


@asynccontextmanager
async def serve_mcp_stdio(lazy: LazyMcp, path: Path) -> AsyncIterator[UnixListener]:
    """Accept bridges on a socket that only this user can open."""
    bridges: dict[asyncio.Task[None], Activity] = {}

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        crowded = len(bridges) >= MAX_BRIDGES and not _make_room(bridges)
        activity = bridges[task] = Activity()
        try:
            await _attend(lazy, reader, writer, activity, crowded=crowded)
        except asyncio.CancelledError:
            # The daemon stops, or another client needs the room. asyncio would complain of a task
            # that ends as cancelled.
            if activity.is_evicted:
                _refuse(writer, Overloaded(EVICTED.format(MAX_BRIDGES)), None)
        finally:
            bridges.pop(task, None)
            writer.close()

    limit = lazy.clients.max_message_bytes
    listener = UnixListener(
        path, lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=limit), accept)
    )
    listener.open()
    try:
        yield listener
    finally:
        listener.close()
        for task in bridges:
            task.cancel()
        if bridges:
            await asyncio.wait(bridges, timeout=STOP_SECONDS)


def _make_room(bridges: dict[asyncio.Task[None], Activity]) -> bool:
    """Close the longest-idle connection without a running request; returns whether there is one."""
    idle = [task for task, activity in bridges.items() if not activity.is_busy]
    if not idle:
        return False
    longest_idle = min(idle, key=lambda task: bridges[task].idle_since)
    bridges.pop(longest_idle).is_evicted = True
    longest_idle.cancel()
    log.warning("closed the longest-idle of %d MCP clients over stdio", MAX_BRIDGES)
    return True


async def _attend(
    lazy: LazyMcp,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    activity: Activity,
    *,
    crowded: bool,
) -> None:
    """Serve one client, or tell it why not."""
    hello = await _read_object(reader, HELLO_SECONDS)
    if hello is None:
        log.warning("somebody who is no bridge of ours knocked at the socket of MCP")
        writer.write(_failure(None, "only `hubd mcp` speaks here"))
        return
    try:
        if crowded:
            raise Overloaded(f"all {MAX_BRIDGES} MCP clients over stdio have a running request")
        await _serve(lazy, _facts(lazy, hello), reader, writer, activity)
    except jsonrpc.Incomplete as error:
        log.warning("closed an MCP bridge: %s", error.message)
        told = {"code": InvalidParams.code, "message": error.message, "suggestion": ""}
        writer.write(error.frame + b"\n" + REFUSED + jsonrpc.dump(told))
    except HubError as error:
        log.warning("refused an MCP bridge: %s", error.message)
        first = await _read_object(reader, FIRST_SECONDS)
        _refuse(writer, error, first.get("id") if first else None)
    except Exception:  # its client's problem, not the daemon's
        log.exception("an MCP bridge failed")
        _refuse(writer, Internal("the daemon cannot go on with this client"), None)


async def _read_object(reader: asyncio.StreamReader, seconds: float) -> dict[str, Any] | None:
    """The next line; None if it does not come in time, or is no JSON object."""
    try:
        async with asyncio.timeout(seconds):
            found = json.loads(await reader.readline())
    except (TimeoutError, ValueError, RecursionError, ConnectionError):
        return None
    return found if isinstance(found, dict) else None


async def _serve(
    lazy: LazyMcp,
    facts: Facts,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    activity: Activity,
) -> None:
    server = await lazy.server()
    # Not before there is a client: it imports the SDK.
    from hubd.mcp.transports.lines import Lines, serve_lines

    incoming = Lines(reader, lazy.clients.max_message_bytes, lazy.clients.message_seconds)
    await serve_lines(server.server, facts, incoming, writer, activity)


def _facts(lazy: LazyMcp, hello: dict[str, Any]) -> Facts:
    token, tools = hello.get("session_token"), hello.get("tools")
    wanted = read_profile(tools) if isinstance(tools, str) else None
    check_profile(wanted or (), lazy.options, lazy.clients.hub)
    return Facts(
        Client("mcp-stdio", session_token=token if isinstance(token, str) else None),
        read_context(hello.get("context")),
        lazy.options.narrowed(wanted),
    )


def _refuse(writer: asyncio.StreamWriter, error: HubError, request_id: object) -> None:
    """Say why before hanging up: to the client, and to whoever looks at the bridge."""
    answer = _failure(request_id, f"{error.message}. {error.suggestion}")
    told = {"code": error.code, "message": error.message, "suggestion": error.suggestion}
    writer.write(answer + REFUSED + jsonrpc.dump(told))


def _failure(request_id: object, reason: str) -> bytes:
    known = request_id if isinstance(request_id, int | str) else None
    return jsonrpc.failure(known, jsonrpc.INVALID_REQUEST, reason) + b"\n"
