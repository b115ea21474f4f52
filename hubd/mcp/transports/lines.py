"""One MCP client over stdio: passes its lines to the SDK's server and writes the answers."""

import asyncio
import json
import logging
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import Server
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)

from hubd.mcp.access import Access, Activity
from hubd.mcp.transports.delivery import Delivery
from hubd.plexus.params.large import collection_paused
from hubd.wire.jsonrpc import Incomplete, TooLarge
from hubd.wire.limits import LARGE_BYTES, MCP_COUNTS, excess
from hubd.wire.mcp_bridge import END

log = logging.getLogger("hubd.transport")

# Upper bound for draining: a dead peer may go unnoticed.
DRAIN_SECONDS: Final = 600.0
# Requests that stay open until the client disconnects; draining does not wait for them.
_ENDLESS: Final = frozenset({"subscriptions/listen"})
_CHUNK: Final = 64 * 1024

Incoming = MemoryObjectSendStream[SessionMessage | Exception]


class Lines:
    """The lines of one client, each within the limits of a message."""

    def __init__(self, reader: asyncio.StreamReader, max_bytes: int, seconds: float) -> None:
        self._reader = reader
        self._max_bytes = max_bytes
        self._seconds = seconds
        # The received part of the next line.
        self._partial = bytearray()

    async def next(self) -> bytes:
        """Return the next line that is not empty; an empty one at the end of the input.

        Raises:
            TooLarge: The line exceeds a limit. It was skipped.
            Incomplete: The line did not end in time.
        """
        while True:
            line = await self._next()
            if (reason := excess(line, MCP_COUNTS)) is not None:
                raise TooLarge(reason)
            if not line or line.strip():
                return line.strip()

    async def discard(self) -> None:
        """Read to the end."""
        while await self._reader.read(_CHUNK):
            pass

    async def _next(self) -> bytes:
        """Return the next line with its end."""
        searched, deadline, is_too_long = 0, None, False
        while (end := self._partial.find(b"\n", searched)) < 0:
            if len(self._partial) > self._max_bytes:
                is_too_long = True
                self._partial.clear()
            searched = len(self._partial)
            if deadline is None and (self._partial or is_too_long):
                deadline = asyncio.get_running_loop().time() + self._seconds
            try:
                async with asyncio.timeout_at(deadline):
                    data = await self._reader.read(_CHUNK)
            except TimeoutError:
                raise Incomplete(self._seconds) from None
            if not data:
                end = len(self._partial) - 1
                break
            self._partial += data
        line = bytes(self._partial[: end + 1])
        del self._partial[: end + 1]
        if is_too_long or len(line) > self._max_bytes + 1:
            raise TooLarge.in_bytes(self._max_bytes)
        return line


async def serve_lines(
    server: Server[Any],
    access: Access,
    lines: Lines,
    writer: asyncio.StreamWriter,
    activity: Activity,
) -> None:
    """Serve one client until it disconnects, or until its input has ended and is answered.

    Args:
        server: The SDK's server.
        access: The access of the client.
        lines: The messages of the client.
        writer: The writer for the answers.
        activity: The record of running requests.

    Raises:
        Incomplete: A message did not end in time. The caller reports it and disconnects.
    """
    inbound, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    answers, outbound = anyio.create_memory_object_stream[SessionMessage](0)
    client = _Client(access, lines, writer, activity)
    # An answer counts as sent when the kernel has taken all of it: then `drain` returns.
    writer.transport.set_write_buffer_limits(high=0)
    try:
        async with inbound, messages, answers, outbound, anyio.create_task_group() as tasks:
            tasks.start_soon(client.take, inbound, answers.clone())
            # It ends after the last answer.
            tasks.start_soon(client.give, outbound)
            await server.run(messages, answers, server.create_initialization_options())
            client.taking.cancel()
        if client.refusal is not None:
            raise client.refusal
        if client.has_ended:
            writer.write(END)
    except* (ConnectionError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # the client has disconnected
    finally:
        client.fail_deliveries()


class _Client:
    """One client: its open requests, and the directions in and out."""

    def __init__(
        self, access: Access, lines: Lines, writer: asyncio.StreamWriter, activity: Activity
    ) -> None:
        # Set at the end of the input, when the client still waits for answers.
        self.has_ended = False
        # Set when a message did not end in time; nothing is read after it.
        self.refusal: Incomplete | None = None
        # Cancelled when the server has ended.
        self.taking = anyio.CancelScope()
        self._access = access
        self._lines = lines
        self._writer = writer
        self._activity = activity
        # The number of unanswered requests by id; a client may use an id twice.
        self._open: Counter[RequestId] = Counter()
        # The deliveries of those answers; with the same id, in the order of the requests.
        self._deliveries: defaultdict[RequestId, list[Delivery]] = defaultdict(list)
        self._settled = asyncio.Event()
        self._settled.set()

    async def take(
        self, inbound: Incoming, answers: MemoryObjectSendStream[SessionMessage]
    ) -> None:
        """Pass every message to the server; refuse malformed lines."""
        async with inbound, answers:
            with self.taking:
                await self._take(inbound, answers)

    async def _take(
        self, inbound: Incoming, answers: MemoryObjectSendStream[SessionMessage]
    ) -> None:
        while line := await self._next(answers):
            if line == END:
                self.has_ended = True
                await self._drain()
                return
            try:
                message = _message(line)
            except ValueError:
                await answers.send(_refusal(line))
            else:
                await inbound.send(SessionMessage(message, self._expect(message, line)))

    async def give(self, outbound: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write every answer."""
        async for answer in outbound:
            line = answer.message.model_dump_json(by_alias=True, exclude_unset=True)
            self._writer.write(line.encode() + b"\n")
            await self._writer.drain()
            if isinstance(answer.message, JSONRPCResponse | JSONRPCError):
                self._settle(answer.message.id, sent=True)

    def fail_deliveries(self) -> None:
        """Report that the remaining answers can't be sent."""
        for deliveries in self._deliveries.values():
            for delivery in deliveries:
                delivery.settle(sent=False)
        self._deliveries.clear()

    async def _next(self, answers: MemoryObjectSendStream[SessionMessage]) -> bytes:
        """Return the next line within the limits; an empty one at the end of the input."""
        while True:
            try:
                return await self._lines.next()
            except TooLarge as error:
                await answers.send(_error(None, error.code, error.message))
            except Incomplete as error:
                self.refusal = error
                return b""

    def _expect(self, message: JSONRPCMessage, line: bytes) -> ServerMessageMetadata:
        large = len(line) > LARGE_BYTES
        access = replace(self._access, large=large, delivery=Delivery())
        metadata = ServerMessageMetadata(request_context=access)
        if isinstance(message, JSONRPCRequest) and message.method not in _ENDLESS:
            request_id = message.id
            self._open[request_id] += 1
            self._deliveries[request_id].append(access.delivery)
            self._settled.clear()
            self._activity.note(is_busy=True)

            async def unanswered() -> None:
                self._settle(request_id, sent=False)

            # A request that the client has cancelled gets no answer.
            metadata.on_request_unanswered = unanswered
        return metadata

    def _settle(self, request_id: RequestId | None, *, sent: bool) -> None:
        if request_id is not None and self._open[request_id] > 0:
            self._open[request_id] -= 1
            deliveries = self._deliveries[request_id]
            deliveries.pop(0).settle(sent=sent)
            if not deliveries:
                del self._deliveries[request_id]
        self._open += Counter()  # removes zero counts
        if not self._open:
            self._settled.set()
            self._activity.note(is_busy=False)

    async def _drain(self) -> None:
        """Wait until all requests are answered, or the client has disconnected."""

        async def watch_disconnect() -> None:
            await self._lines.discard()
            tasks.cancel_scope.cancel()

        with anyio.move_on_after(DRAIN_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch_disconnect)
                await self._settled.wait()
                tasks.cancel_scope.cancel()


def _message(line: bytes) -> JSONRPCMessage:
    """Return the message in a line.

    Raises:
        ValueError: The line is not a JSON-RPC message.
    """
    with collection_paused():
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    # The SDK takes a request with an invalid id for a notification; its client would wait forever.
    if isinstance(message, JSONRPCNotification) and b'"id"' in line and "id" in json.loads(line):
        raise ValueError("an id must be a string or an integer")
    return message


def _refusal(line: bytes) -> SessionMessage:
    """Return the answer to a malformed line, with its id if it has one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return _error(None, PARSE_ERROR, "this line is not JSON, or nested too deeply")
    request_id = value.get("id") if isinstance(value, dict) else None
    if isinstance(request_id, bool) or not isinstance(request_id, int | str):
        request_id = None
    return _error(request_id, INVALID_REQUEST, "this line is not a single JSON-RPC message")


def _error(request_id: RequestId | None, code: int, reason: str) -> SessionMessage:
    error = ErrorData(code=code, message=reason)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error))
