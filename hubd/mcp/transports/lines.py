"""One MCP client over lines: feeds the SDK's server with messages and writes its answers."""

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

from hubd.mcp.access import Activity, Facts
from hubd.mcp.delivery import Delivery
from hubd.plexus.large import collection_paused
from hubd.wire.jsonrpc import Incomplete, TooLarge
from hubd.wire.limits import LARGE_BYTES, MCP_COUNTS, excess
from hubd.wire.mcp_bridge import END

log = logging.getLogger("hubd.transport")

# Longer than any call that somebody pipes in; but should nobody be left who waits for it, and
# nobody be able to tell, it must not run for ever.
DRAIN_SECONDS: Final = 600.0
# Requests that are open for as long as the client is there; it gets no answer to wait for.
_ENDLESS: Final = frozenset({"subscriptions/listen"})
_CHUNK: Final = 64 * 1024

Incoming = MemoryObjectSendStream[SessionMessage | Exception]


class Lines:
    """The lines of one client, each within the limits of a message."""

    def __init__(self, reader: asyncio.StreamReader, max_bytes: int, seconds: float) -> None:
        self._reader = reader
        self._max_bytes = max_bytes
        self._seconds = seconds
        # What has come and is not a whole line yet.
        self._partial = bytearray()

    async def next(self) -> bytes:
        """Return the next line that is not empty; nothing if the client has closed.

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
    facts: Facts,
    lines: Lines,
    writer: asyncio.StreamWriter,
    activity: Activity,
) -> None:
    """Serve one client until it hangs up, or has said all and got its answers.

    Args:
        server: Answers.
        facts: What is known of the client.
        lines: Its messages.
        writer: Where the answers go.
        activity: Is told when the client waits for answers.

    Raises:
        Incomplete: A message did not end in time. The caller tells the client and closes.
    """
    inbound, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    answers, outbound = anyio.create_memory_object_stream[SessionMessage](0)
    client = _Client(facts, lines, writer, activity)
    # An answer counts as sent when the kernel has taken all of it: then `drain` returns.
    writer.transport.set_write_buffer_limits(high=0)
    try:
        async with inbound, messages, answers, outbound, anyio.create_task_group() as tasks:
            tasks.start_soon(client.take, inbound, answers.clone())
            # Ends by itself, when the last answer is written.
            tasks.start_soon(client.give, outbound)
            await server.run(messages, answers, server.create_initialization_options())
            client.taking.cancel()
        if client.refusal is not None:
            raise client.refusal
        if client.has_ended:
            writer.write(END)
    except* (ConnectionError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # the client is gone
    finally:
        client.forget_deliveries()


class _Client:
    """What is open between the client and the server."""

    def __init__(
        self, facts: Facts, lines: Lines, writer: asyncio.StreamWriter, activity: Activity
    ) -> None:
        # Said all it had to say, and still wants what it is owed.
        self.has_ended = False
        # Set when a message did not end in time; nothing is read after it.
        self.refusal: Incomplete | None = None
        # Cancelled when the server takes nothing more.
        self.taking = anyio.CancelScope()
        self._facts = facts
        self._lines = lines
        self._writer = writer
        self._activity = activity
        # Answers to come, by the ids of the requests; a client may use one twice.
        self._owed: Counter[RequestId] = Counter()
        # Whether those answers were written; of several with one id in the order they came.
        self._deliveries: defaultdict[RequestId, list[Delivery]] = defaultdict(list)
        self._settled = asyncio.Event()
        self._settled.set()

    async def take(
        self, inbound: Incoming, answers: MemoryObjectSendStream[SessionMessage]
    ) -> None:
        """Hand every message to the server; what is none is answered here."""
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

    def forget_deliveries(self) -> None:
        """The client is gone; what it has not got it will not get."""
        for deliveries in self._deliveries.values():
            for delivery in deliveries:
                delivery.settle(sent=False)
        self._deliveries.clear()

    async def _next(self, answers: MemoryObjectSendStream[SessionMessage]) -> bytes:
        """Return the next line that may be parsed; nothing if no other will come."""
        while True:
            try:
                return await self._lines.next()
            except TooLarge as error:
                await answers.send(_error(None, error.code, error.message))
            except Incomplete as error:
                self.refusal = error
                return b""

    def _expect(self, message: JSONRPCMessage, line: bytes) -> ServerMessageMetadata:
        text = line if len(line) > LARGE_BYTES else b""
        facts = replace(self._facts, text=text, delivery=Delivery())
        metadata = ServerMessageMetadata(request_context=facts)
        if isinstance(message, JSONRPCRequest) and message.method not in _ENDLESS:
            request_id = message.id
            self._owed[request_id] += 1
            self._deliveries[request_id].append(facts.delivery)
            self._settled.clear()
            self._activity.note(is_busy=True)

            async def unanswered() -> None:
                self._settle(request_id, sent=False)

            # One that the client has cancelled gets no answer.
            metadata.on_request_unanswered = unanswered
        return metadata

    def _settle(self, request_id: RequestId | None, *, sent: bool) -> None:
        if request_id is not None and self._owed[request_id] > 0:
            self._owed[request_id] -= 1
            deliveries = self._deliveries[request_id]
            deliveries.pop(0).settle(sent=sent)
            if not deliveries:
                del self._deliveries[request_id]
        self._owed += Counter()  # forgets those that are zero
        if not self._owed:
            self._settled.set()
            self._activity.note(is_busy=False)

    async def _drain(self) -> None:
        """Wait until everything is answered, or nobody is there for it."""

        async def hung_up() -> None:
            await self._lines.discard()
            tasks.cancel_scope.cancel()

        with anyio.move_on_after(DRAIN_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hung_up)
                await self._settled.wait()
                tasks.cancel_scope.cancel()


def _message(line: bytes) -> JSONRPCMessage:
    """The message in a line.

    Raises:
        ValueError: It is none.
    """
    with collection_paused():
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    # To the SDK a request whose id is none is a notification, and its client would wait for ever.
    if isinstance(message, JSONRPCNotification) and b'"id"' in line and "id" in json.loads(line):
        raise ValueError("an id is a text or a whole number")
    return message


def _refusal(line: bytes) -> SessionMessage:
    """The answer to what is no message, with its id where one can be found."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return _error(None, PARSE_ERROR, "this line is not JSON, or nested too deeply")
    request_id = found.get("id") if isinstance(found, dict) else None
    if isinstance(request_id, bool) or not isinstance(request_id, int | str):
        request_id = None
    return _error(request_id, INVALID_REQUEST, "this is not one JSON-RPC message")


def _error(request_id: RequestId | None, code: int, reason: str) -> SessionMessage:
    error = ErrorData(code=code, message=reason)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error))
