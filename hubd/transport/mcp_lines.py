"""One MCP client over lines: feeds the SDK's server with messages and writes its answers."""

import asyncio
import logging
from typing import Any, Final

import anyio
from mcp.server import Server
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter
from mcp_types.jsonrpc import JSONRPCError, JSONRPCResponse

from hubd.transport.mcp_facts import Facts

log = logging.getLogger("hubd.transport")

# A client that has said all it has to say still gets the answers that come this soon.
DRAIN_SECONDS: Final = 5.0


async def serve_lines(
    server: Server[Any], facts: Facts, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Serve one client until it hangs up."""
    inbound, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    answers, outbound = anyio.create_memory_object_stream[SessionMessage](0)
    unanswered = 0
    drained = asyncio.Event()
    drained.set()

    async def take() -> None:
        nonlocal unanswered
        async with inbound:
            while line := await _line(reader):
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError as error:
                    await inbound.send(error)
                    continue
                if isinstance(message, JSONRPCRequest):
                    unanswered += 1
                    drained.clear()
                metadata = ServerMessageMetadata(request_context=facts)
                await inbound.send(SessionMessage(message, metadata))
            with anyio.move_on_after(DRAIN_SECONDS):
                await drained.wait()

    async def give() -> None:
        nonlocal unanswered
        async with outbound:
            async for answer in outbound:
                line = answer.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(line.encode() + b"\n")
                await writer.drain()
                if isinstance(answer.message, JSONRPCResponse | JSONRPCError):
                    unanswered -= 1
                    if unanswered <= 0:
                        drained.set()

    async def take_until_told() -> None:
        with taking:
            await take()

    taking = anyio.CancelScope()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take_until_told)
            # Ends by itself, when the last answer is written.
            tasks.start_soon(give)
            await server.run(messages, answers, server.create_initialization_options())
            taking.cancel()
    except* (ConnectionError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # the client is gone


async def _line(reader: asyncio.StreamReader) -> bytes:
    """The next line; nothing at the end, or when a line is longer than any may be."""
    try:
        while line := await reader.readline():
            if line.strip():
                return line
    except ValueError:
        log.warning("an MCP client sent a longer line than any may be; it was hung up on")
    return b""
