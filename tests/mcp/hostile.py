"""Plugins for the tests of security: one that sees what reaches it, and some that mean no good.

Imports nothing of MCP: a daemon that loads this must not have the SDK because of it.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from hubd.activation import Activation, Event, method

# A port without a listener; a request there would fail.
ELSEWHERE = "http://127.0.0.1:1/schema.json"
# Takes for ever on `aaaa…!`, where matching goes by trial and error.
CATASTROPHE = r"^(a+)+$"


def deep(levels: int) -> dict[str, Any]:
    """A schema that is nested so deep."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"allOf": [schema]}
    return schema


class Noted(Event):
    texts: list[str]


class Loaded(Event):
    modules: list[str]


class Heard(Event):
    text: str
    number: float


class Witness(Activation, namespace="witness", version="1.0.0"):
    """Sees what reaches it."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    @method(streaming=False)
    async def note(self, text: str) -> AsyncIterator[Noted]:
        """Remember that this was called."""
        self.texts.append(text)
        yield Noted(texts=[text])

    @method(streaming=False)
    async def noted(self) -> AsyncIterator[Noted]:
        """Return the recorded texts."""
        yield Noted(texts=self.texts)

    @method(streaming=False)
    async def loaded(self) -> AsyncIterator[Loaded]:
        """Which packages of the MCP server the daemon has imported."""
        heavy = {"mcp", "mcp_types", "starlette", "uvicorn", "jsonschema"}
        yield Loaded(modules=sorted(heavy & sys.modules.keys()))

    @method(streaming=False)
    async def hear(self, text: str = "", number: float = 0.0) -> AsyncIterator[Heard]:
        """Say it back."""
        yield Heard(text=text, number=number)

    @method(streaming=False)
    async def shout(self) -> AsyncIterator[Heard]:
        """Print a text that must not reach clients."""
        print("a plugin says this", flush=True)  # noqa: T201 -- this is tested
        sys.stdout.write("and this\n")
        yield Heard(text="printed", number=0.0)

    @method(streaming=False, bidirectional=True)
    async def ask(self, about: str = "") -> AsyncIterator[Heard]:
        """Ask its caller."""
        sure = await self.host.confirm(f"Sure about {about}?", timeout_seconds=600.0)
        yield Heard(text=str(sure), number=0.0)

    @method(streaming=False, bidirectional=True)
    async def ask_too(self, about: str = "") -> AsyncIterator[Heard]:
        """Ask its caller, as another tool."""
        sure = await self.host.confirm(f"Sure about {about}?", timeout_seconds=600.0)
        yield Heard(text=str(sure), number=0.0)

    @method
    async def wait(self, ear: int) -> AsyncIterator[Heard]:
        """Wait for a line from the listener at a port, which also learns when this ends.

        Args:
            ear: The port.
        """
        reader, writer = await asyncio.open_connection("127.0.0.1", ear)
        try:
            line = await reader.readline()
            yield Heard(text=line.decode(), number=0.0)
        finally:
            writer.close()


class Remote(Activation, namespace="remote", version="1.0.0"):
    """Its schema leads elsewhere."""

    @method(streaming=False)
    async def fetch(
        self, text: Annotated[str, WithJsonSchema({"$ref": ELSEWHERE})] = ""
    ) -> AsyncIterator[Heard]:
        """Has a parameter that is described elsewhere."""
        yield Heard(text=text, number=0.0)

    @method(streaming=False)
    async def fine(self, text: str = "") -> AsyncIterator[Heard]:
        """Nothing is wrong with this one."""
        yield Heard(text=text, number=0.0)


class Deep(Activation, namespace="deep", version="1.0.0"):
    """Its schema goes down, and down."""

    @method(streaming=False)
    async def down(
        self, text: Annotated[str, WithJsonSchema(deep(200))] = ""
    ) -> AsyncIterator[Heard]:
        """Has a parameter with a deep schema."""
        yield Heard(text=text, number=0.0)

    @method(streaming=False)
    async def fine(self, text: str = "") -> AsyncIterator[Heard]:
        """Nothing is wrong with this one."""
        yield Heard(text=text, number=0.0)


class Slow(Activation, namespace="slow", version="1.0.0"):
    """Has patterns that take forever to match."""

    @method(streaming=False)
    async def match(
        self, text: Annotated[str, Field(pattern=CATASTROPHE)] = "a"
    ) -> AsyncIterator[Heard]:
        """Has a parameter with a checked pattern."""
        yield Heard(text=text, number=0.0)

    @method(streaming=False)
    async def claim(
        self,
        text: Annotated[str, WithJsonSchema({"type": "string", "pattern": CATASTROPHE})] = "a",
    ) -> AsyncIterator[Heard]:
        """Has a parameter with a pattern that is not checked."""
        yield Heard(text=text, number=0.0)


class Lower(Activation, namespace="down", version="1.0.0"):
    """Below another."""

    @method(streaming=False)
    async def deep(self) -> AsyncIterator[Heard]:
        """Says which one it is."""
        yield Heard(text="low.down.deep", number=0.0)


class Low(Activation, namespace="low", version="1.0.0"):
    """Has a method that without the dots would have the name of one below it."""

    def children(self) -> Iterable[Activation]:
        return (Lower(),)

    @method(streaming=False)
    async def down_deep(self) -> AsyncIterator[Heard]:
        """Says which one it is."""
        yield Heard(text="low.down_deep", number=0.0)
