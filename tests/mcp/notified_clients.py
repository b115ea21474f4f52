"""Clients of a hub in this process, and the notifications that they get."""

import asyncio
import json
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp import Client, MCPDeprecationWarning
from mcp.client.session import IncomingMessage
from mcp.shared.message import SessionMessage

from hubd.mcp.server import HubMcp
from tests.mcp.support import LEGACY, TOKEN, Era, Served, Transport, over_http
from tests.support import PATIENCE_SECONDS

# The SDK's name of the notification stream of a legacy session.
_STANDING = "_GET_stream"


class Notifications:
    """The notifications of one client in order: `tools`, `prompts`, `resources`, or the URI."""

    def __init__(self) -> None:
        self.received: list[str] = []

    async def take(self, message: IncomingMessage) -> None:
        """Record a message; streams of changes call it too."""
        if isinstance(message, types.ToolListChangedNotification):
            self.received.append("tools")
        elif isinstance(message, types.PromptListChangedNotification):
            self.received.append("prompts")
        elif isinstance(message, types.ResourceListChangedNotification):
            self.received.append("resources")
        elif isinstance(message, types.ResourceUpdatedNotification):
            self.received.append(message.params.uri)

    async def wait_for(self, *wanted: str) -> None:
        """Wait for all of these notifications."""
        await until(lambda: set(wanted) <= set(self.received))


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 -- sockets and other tasks make it true
            await asyncio.sleep(0)


async def server_of(served: Served) -> HubMcp:
    """Return the MCP server."""
    return await served.lazy.server()


def client_of(
    served: Served,
    directory: Path,
    transport: Transport,
    era: Era,
    *,
    tools: str | None = None,
    **options: Any,
) -> AbstractAsyncContextManager[Client]:
    """The official client, connected to a hub in this process."""
    if transport == "http":
        query = "" if tools is None else f"?tools={tools}"
        return over_http(served.url + query, TOKEN, era, **options)
    return over_socket(directory / "hub.mcp", era, tools=tools, **options)


@asynccontextmanager
async def over_socket(
    path: Path, era: Era, *, tools: str | None = None, **options: Any
) -> AsyncIterator[Client]:
    """The official client on the socket to which `hubd mcp` carries messages."""
    async with Client(_lines(path, tools), mode=era, **options) as client:
        yield client


@asynccontextmanager
async def listening(
    served: Served,
    directory: Path,
    transport: Transport,
    era: Era,
    *,
    lists: bool = True,
    uris: tuple[str, ...] = (),
    tools: str | None = None,
) -> AsyncIterator[tuple[Client, Notifications]]:
    """A client that is told of changes, in the way of its era."""
    notified = Notifications()
    sessions = (await server_of(served))._changes._sessions
    # Those of clients that just left may still be there.
    before, streams = set(sessions), standing_streams(served)
    way = (served, directory, transport, era)
    async with client_of(*way, tools=tools, message_handler=notified.take) as client:
        if era == LEGACY:
            # What happens before a session can be told of it is in the lists it then asks for.
            await until(lambda: bool(set(sessions) - before))
            await until(lambda: transport != "http" or bool(standing_streams(served) - streams))
            with deprecated():
                for uri in uris:
                    await client.subscribe_resource(uri)
            yield client, notified
        else:
            async with client.listen(
                tools_list_changed=lists,
                prompts_list_changed=lists,
                resources_list_changed=lists,
                resource_subscriptions=uris,
            ):
                yield client, notified


@contextmanager
def deprecated() -> Iterator[None]:
    """The SDK warns of what only the older protocol has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        yield


def standing_streams(served: Served) -> set[str]:
    """The sessions of the older protocol that can be told of changes over HTTP."""
    ready = served.lazy._ready
    if ready is None or not ready.done():
        return set()
    sessions = ready.result().http_handler._server_instances
    return {name for name, session in sessions.items() if _STANDING in session._request_streams}


@asynccontextmanager
async def _lines(path: Path, tools: str | None) -> AsyncIterator[Any]:
    reader, writer = await asyncio.open_unix_connection(str(path), limit=64 * 1024 * 1024)
    writer.write(json.dumps({"context": None, "session_token": None, "tools": tools}).encode())
    writer.write(b"\n")
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)

    async def take() -> None:
        # Closing the client does not wait for notifications.
        with suppress(anyio.BrokenResourceError):
            while (line := await reader.readline()).endswith(b"\n"):
                message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                await incoming.send(SessionMessage(message))
        incoming.close()

    async def give() -> None:
        async with outgoing:
            async for sent in outgoing:
                line = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(line.encode() + b"\n")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        tasks.start_soon(give)
        try:
            yield read, write
        finally:
            tasks.cancel_scope.cancel()
            writer.close()
            incoming.close()
