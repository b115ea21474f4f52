"""A plugin with a method for each behaviour of tool calls, and clients for its tests.

`attached` connects the official client to a hub in this process: over HTTP, or over the socket
of `hubd mcp`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import (
    CallToolResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    jsonrpc_message_adapter,
)

from hubd.activation import Activation, Actor, Encoded, Event, NotFound, Option, method
from hubd.errors import by_code
from hubd.wire.mcp_bridge import REFUSED
from tests.mcp.support import ERAS, LEGACY, MODERN, TOKEN, Era, Served, Transport, over_http
from tests.support import PATIENCE_SECONDS

# Each transport and each era once, then the other combinations for the longer runs.
WAYS: list[tuple[Transport, Era]] = [
    ("http", LEGACY),
    ("stdio", MODERN),
    ("http", MODERN),
    ("stdio", LEGACY),
]
every_way = pytest.mark.parametrize(
    ("transport", "era"),
    [
        pytest.param(*way, id="-".join(way), marks=[pytest.mark.soak] if n > 1 else [])
        for n, way in enumerate(WAYS)
    ],
)
both_eras = pytest.mark.parametrize("era", ERAS)


class Said(Event):
    text: str


class Sum(Event):
    value: int


class Drawn(Event):
    render: str


class Desk(Activation, namespace="desk", version="1.0.0"):
    """A plugin with a method for each behaviour."""

    def __init__(self) -> None:
        # How often `add` ran.
        self.ran = 0
        # A method has begun, and its `finally` has run.
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
        self.open = asyncio.Event()
        # How many calls of `block` and `meet` are under way.
        self.inside = 0

    @method(streaming=False)
    async def add(self, left: int, right: int = 0) -> AsyncIterator[Sum]:
        """Add two numbers.

        Args:
            left: One.
            right: The other.
        """
        self.ran += 1
        yield Sum(value=left + right)

    @method
    async def say(self, texts: list[str]) -> AsyncIterator[Said]:
        """Say several things."""
        for text in texts:
            yield Said(text=text)

    @method(streaming=False)
    async def draw(self, render: str) -> AsyncIterator[Drawn]:
        """Draw something."""
        yield Drawn(render=render)

    @method
    async def raw(self, events: list[str]) -> AsyncIterator[Encoded]:
        """Pass on JSON as it is."""
        for event in events:
            yield Encoded(event.encode())

    @method
    async def fill(self, count: int, size: int) -> AsyncIterator[Said]:
        """Say very much."""
        self.begun.set()
        for n in range(count):
            yield Said(text=f"{n}:" + "ü" * (size // 2))

    @method
    async def fill_and_wait(self, size: int) -> AsyncIterator[Said]:
        """Say very much, then wait for ever."""
        try:
            yield Said(text="x" * size)
            self.begun.set()
            await asyncio.Event().wait()
        finally:
            self.ended.set()

    @method(streaming=False, mcp={"text_only": True})
    async def permit(self, size: int) -> AsyncIterator[Encoded]:
        """Answer one text, as a permission tool must."""
        yield Encoded(json.dumps({"behavior": "allow", "padding": "x" * size}).encode())

    @method
    async def fail(
        self, code: str, message: str = "it did not work", before: int = 0
    ) -> AsyncIterator[Said]:
        """End with an error."""
        for n in range(before):
            yield Said(text=f"before {n}")
        await self.host.advise("weather", "It may rain")
        raise by_code(code, message, suggestion="Do otherwise", available=["this", "that"])

    @method
    async def crash(self, message: str = "a mistake") -> AsyncIterator[Said]:
        """Raise an exception that methods should not raise."""
        yield Said(text="so far so good")
        raise ZeroDivisionError(message)

    @method(streaming=False)
    async def note(self, advice: str) -> AsyncIterator[Said]:
        """Answer, with a piece of advice."""
        await self.host.advise("weather", advice)
        yield Said(text="done")

    @method
    async def odd(self) -> AsyncIterator[Said]:
        """Mention a file name with a lone surrogate."""
        name = b"caf\xe9".decode(errors="surrogateescape")
        await self.host.progress(f"looking for {name}")
        await self.host.advise("files", f"Rename {name}")
        raise NotFound(f"no {name}", available=[name])
        yield Said(text="unreachable")

    @method(streaming=False)
    async def climb(self, percentages: list[float], message: str = "up") -> AsyncIterator[Said]:
        """Tell percentages."""
        for percentage in percentages:
            await self.host.progress(message, percentage)
        yield Said(text="there")

    @method(streaming=False)
    async def block(self, seconds: float | None = None) -> AsyncIterator[Said]:
        """Wait so long, or until the test opens the door."""
        self.inside += 1
        self.begun.set()
        try:
            if seconds is not None:
                await asyncio.sleep(seconds)
            else:
                await self.open.wait()
            yield Said(text="through")
        finally:
            self.inside -= 1
            self.ended.set()

    @method(streaming=False)
    async def meet(self, name: str, others: int) -> AsyncIterator[Said]:
        """Answer when so many are here."""
        self.inside += 1
        if self.inside == others:
            self.open.set()
        await self.open.wait()
        yield Said(text=f"here is {name}")

    @method(streaming=False)
    async def who(self) -> AsyncIterator[Encoded]:
        """Describe the caller."""
        client = self.host.client
        known = [client.transport, client.name, client.version, client.session_token]
        yield Encoded(json.dumps({"client": known}).encode())

    @method(streaming=False, bidirectional=True)
    async def confirm(
        self, default: bool | None = None, wait: float = PATIENCE_SECONDS
    ) -> AsyncIterator[Said]:
        """Ask yes or no."""
        self.begun.set()
        try:
            sure = await self.host.confirm("Sure?", default=default, timeout_seconds=wait)
            yield Said(text=f"sure: {sure}")
        finally:
            self.ended.set()

    @method(streaming=False, bidirectional=True)
    async def prompt(
        self, default: str | None = None, placeholder: str | None = None
    ) -> AsyncIterator[Said]:
        """Ask for a text."""
        name = await self.host.prompt("Name?", default=default, placeholder=placeholder)
        yield Said(text=f"name: {name}")

    @method(streaming=False, bidirectional=True)
    async def select(self, multi: bool = False) -> AsyncIterator[Said]:
        """Ask to choose."""
        options = [Option("r", "Red", "as blood"), Option("g", "Green"), Option("b", "Blue")]
        chosen = await self.host.select("Colour?", options, multi=multi)
        yield Said(text=f"chosen: {' '.join(chosen)}")

    @method(streaming=False, bidirectional=True)
    async def custom(self) -> AsyncIterator[Said]:
        """Ask a question that no form can show."""
        yield Said(text=str(await self.host.custom({"draw": "a picture"})))

    @method(bidirectional=True)
    async def interview(self, questions: int) -> AsyncIterator[Said]:
        """Ask one thing after the other."""
        for n in range(questions):
            yield Said(text=f"{n}: {await self.host.prompt(f'Question {n}?')}")

    @method(bidirectional=True)
    async def ask_and_block(self) -> AsyncIterator[Said]:
        """Ask, and wait for ever after the answer."""
        try:
            yield Said(text=await self.host.prompt("Name?"))
            await asyncio.Event().wait()
        finally:
            self.ended.set()

    @method(streaming=False, bidirectional=True)
    async def fill_after_asking(self, wait: float, size: int) -> AsyncIterator[Said]:
        """Ask, do not wait long for the answer, and say very much."""
        try:
            await self.host.confirm("Sure?", default=True, timeout_seconds=wait)
            yield Said(text="x" * size)
        finally:
            self.ended.set()

    @method(streaming=False, bidirectional=True)
    async def impatient(self) -> AsyncIterator[Said]:
        """Ask, and go on without waiting for the answer."""
        await self._ask_in_vain()
        yield Said(text="never mind")

    @method(streaming=False, bidirectional=True)
    async def change_its_mind(self) -> AsyncIterator[Said]:
        """Ask, and ask something else without waiting for the answer."""
        await self._ask_in_vain()
        yield Said(text=f"name: {await self.host.prompt('Name?')}")

    @method
    async def register(self, token: str) -> Said:
        """Register a session token, for an agent that may call this plugin."""
        self.host.register_token(token, Actor("session", "of a token", grants=("desk",)))
        return Said(text="registered")

    async def _ask_in_vain(self) -> None:
        asking = asyncio.create_task(self.host.confirm("Sure?"))
        await self.open.wait()
        asking.cancel()


def text_in(result: CallToolResult) -> str:
    """The text of a result that has one block only."""
    [block] = result.content
    assert block.type == "text"
    return block.text


def said_in(result: CallToolResult) -> str:
    """The text of the last event of a result."""
    assert not result.is_error, result
    assert result.structured_content is not None
    return str(result.structured_content["events"][-1]["text"])


def events_in(result: CallToolResult) -> list[Any]:
    """The events of a result, none of which is elsewhere."""
    assert not result.is_error, result
    assert result.structured_content is not None
    assert not result.structured_content["truncated"]
    events: list[Any] = result.structured_content["events"]
    return events


Answer = Callable[[ElicitRequestFormParams], ElicitResult | Awaitable[ElicitResult]]


class Person:
    """Answers elicitations and records them."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[ElicitRequestFormParams] = []
        self._answer = answer

    async def __call__(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        self.asked.append(params)
        answer = self._answer(params)
        return answer if isinstance(answer, ElicitResult) else await answer


def saying(*values: str | bool | int | list[str]) -> Person:
    """Return a person that gives these answers in order, and repeats the last."""
    left = list(values)

    def answer(form: ElicitRequestFormParams) -> ElicitResult:
        value = left.pop(0) if len(left) > 1 else left[0]
        return ElicitResult(action="accept", content={"value": value})

    return Person(answer)


def refusing(action: Literal["decline", "cancel"]) -> Person:
    """A person that does not answer."""
    return Person(lambda form: ElicitResult(action=action))


@asynccontextmanager
async def lines(path: Path, hello: Mapping[str, Any]) -> AsyncIterator[TransportStreams]:
    """A client's end of the socket that `hubd mcp` connects to."""
    reader, writer = await asyncio.open_unix_connection(str(path), limit=64 * 1024 * 1024)
    inbound, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outbound = anyio.create_memory_object_stream[SessionMessage](0)

    async def take() -> None:
        async with inbound:
            # A refusal goes on for the bridge, which is not here.
            while (line := await reader.readline()) and not line.startswith(REFUSED):
                await inbound.send(SessionMessage(jsonrpc_message_adapter.validate_json(line)))

    async def give() -> None:
        async with outbound:
            async for message in outbound:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(line.encode() + b"\n")
                await writer.drain()

    writer.write(json.dumps(hello).encode() + b"\n")
    try:
        async with read, write, anyio.create_task_group() as tasks:
            tasks.start_soon(take)
            tasks.start_soon(give)
            yield read, write
            tasks.cancel_scope.cancel()
    finally:
        writer.close()


@asynccontextmanager
async def attached(
    served: Served,
    directory: Path,
    transport: Transport,
    era: Era,
    *,
    session_token: str | None = None,
    tools: str | None = None,
    **options: Any,
) -> AsyncIterator[Client]:
    """The official client on a hub in this process. `options` are those of `mcp.Client`."""
    async with AsyncExitStack() as stack:
        if transport == "http":
            headers = {"X-Plexus-Session": session_token} if session_token else {}
            url = served.url + (f"?tools={tools}" if tools is not None else "")
            client = over_http(url, TOKEN, era, headers=headers, **options)
        else:
            hello = {"session_token": session_token, "tools": tools}
            streams = lines(directory / "hub.mcp", hello)
            client = Client(streams, mode=era, **options)  # type: ignore[assignment]
        yield await stack.enter_async_context(client)
