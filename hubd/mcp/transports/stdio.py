"""MCP over stdio, the daemon's part: `hubd mcp` carries the lines here over a Unix socket.

The first line is the greeting of the bridge, with its caller context. All others are the client's
messages, unchanged.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from hubd.errors import HubError, Internal, InvalidParams, Overloaded
from hubd.mcp.access import Access, Activity, check_profile, read_profile
from hubd.mcp.on_demand import LazyMcp
from hubd.plexus.actors import Origin, process_id
from hubd.rpc.unix import UnixListener
from hubd.wire import jsonrpc
from hubd.wire.caller import Actor, Client, read_context
from hubd.wire.mcp_bridge import REFUSED

log = logging.getLogger("hubd.transport")

# Seconds until the greeting, which the bridge sends at once.
HELLO_SECONDS: Final = 10.0
# Seconds until the client's first request, which a refusal answers.
FIRST_SECONDS: Final = 2.0
# More clients than one user runs.
MAX_BRIDGES: Final = 512
EVICTED: Final = "disconnected: this client was the longest-idle of {} MCP clients over stdio"
# Seconds to tell bridges that the daemon stops.
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
        actors = lazy.clients.hub.actors
        end_watch: Callable[[], None] | None = None
        try:
            # At once, because the process may end soon.
            origin = await actors.of_unix(writer.get_extra_info("socket"))
            end_watch = actors.watch(origin, writer.transport.abort)
            await _serve_bridge(lazy, reader, writer, activity, origin, crowded=crowded)
        except asyncio.CancelledError:
            # The daemon stops, or another client needs the place. asyncio would log a task that
            # ends as cancelled.
            if activity.is_evicted:
                _refuse(writer, Overloaded(EVICTED.format(MAX_BRIDGES)), None)
        finally:
            if end_watch is not None:
                end_watch()
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
    """Disconnect the longest-idle client; return False if all have a running request."""
    idle = [task for task, activity in bridges.items() if not activity.is_busy]
    if not idle:
        return False
    longest_idle = min(idle, key=lambda task: bridges[task].idle_since)
    bridges.pop(longest_idle).is_evicted = True
    longest_idle.cancel()
    log.warning("closed the longest-idle of %d MCP clients over stdio", MAX_BRIDGES)
    return True


async def _serve_bridge(
    lazy: LazyMcp,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    activity: Activity,
    origin: Origin,
    *,
    crowded: bool,
) -> None:
    """Serve one client, or send it the reason for a refusal."""
    hello = await _read_object(reader, HELLO_SECONDS)
    if hello is None:
        log.warning("rejected a connection to the MCP socket that is not `hubd mcp`")
        writer.write(_failure(None, "only `hubd mcp` may connect to this socket"))
        return
    try:
        if crowded:
            raise Overloaded(f"all {MAX_BRIDGES} MCP clients over stdio have a running request")
        await _serve(lazy, _access(lazy, hello, origin), reader, writer, activity)
    except jsonrpc.Incomplete as error:
        log.warning("closed an MCP bridge: %s", error.message)
        reason = {"code": InvalidParams.code, "message": error.message, "suggestion": ""}
        writer.write(error.frame + b"\n" + REFUSED + jsonrpc.dump(reason))
    except HubError as error:
        log.warning("refused an MCP bridge: %s", error.message)
        first = await _read_object(reader, FIRST_SECONDS)
        _refuse(writer, error, first.get("id") if first else None)
    except Exception:  # the other clients are not affected
        log.exception("an MCP bridge failed")
        _refuse(writer, Internal("the daemon failed to serve this client; see the log"), None)


async def _read_object(reader: asyncio.StreamReader, seconds: float) -> dict[str, Any] | None:
    """Return the next line; None if it is late or not a JSON object."""
    try:
        async with asyncio.timeout(seconds):
            value = json.loads(await reader.readline())
    except (TimeoutError, ValueError, RecursionError, ConnectionError):
        return None
    return value if isinstance(value, dict) else None


async def _serve(
    lazy: LazyMcp,
    access: Access,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    activity: Activity,
) -> None:
    server = await lazy.server()
    # Imported here, because it imports the SDK.
    from hubd.mcp.transports.lines import Lines, serve_lines

    incoming = Lines(reader, lazy.clients.max_message_bytes, lazy.clients.message_seconds)
    await serve_lines(server.server, access, incoming, writer, activity)


def _access(lazy: LazyMcp, hello: dict[str, Any], origin: Origin) -> Access:
    given, tools = hello.get("session_token"), hello.get("tools")
    token = given if isinstance(given, str) else None
    # The parent of the bridge is the MCP client.
    program = origin.parent or origin.process
    outside = Actor("client", process_id(program))
    actor = lazy.clients.hub.actors.admit(origin, outside, token, program)
    wanted = read_profile(tools) if isinstance(tools, str) else None
    check_profile(wanted or (), lazy.options, lazy.clients.hub)
    return Access(
        Client("mcp-stdio", session_token=token, actor=actor),
        read_context(hello.get("context")),
        lazy.options.narrowed(wanted),
    )


def _refuse(writer: asyncio.StreamWriter, error: HubError, request_id: object) -> None:
    """Send the reason to the client and to the bridge, which prints it."""
    answer = _failure(request_id, f"{error.message}. {error.suggestion}")
    reason = {"code": error.code, "message": error.message, "suggestion": error.suggestion}
    writer.write(answer + REFUSED + jsonrpc.dump(reason))


def _failure(request_id: object, reason: str) -> bytes:
    valid_id = request_id if isinstance(request_id, int | str) else None
    return jsonrpc.failure(valid_id, jsonrpc.INVALID_REQUEST, reason) + b"\n"
