"""echo: says what it hears. The smallest plugin there is, and the first call anybody makes."""

from collections.abc import AsyncIterator
from typing import Annotated

from pydantic import Field

from hubd.activation import Activation, Event, Handle, method, resolver


class Echoed(Handle, method="once", kind="output", summary="{message}"):
    """Points at something that was said; the handle itself carries it."""

    message: str = Field(description="What was said")


class Echo(Event):
    """What was heard."""

    message: str
    count: int
    handle: Echoed


class Pong(Event):
    """The hub is there."""

    message: str


class EchoPlugin(Activation, namespace="echo", version="1.0.0"):
    """Say back what was said: a first call, and a test of the way there and back."""

    @method(read_only=True)
    async def echo(
        self, message: str, count: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    ) -> AsyncIterator[Echo]:
        """Say something back, once or many times.

        Args:
            message: What to say.
            count: How many times.
        """
        handle = Echoed(message=message)
        for number in range(1, count + 1):
            yield Echo(message=message, count=number, handle=handle)

    @method(streaming=False, read_only=True)
    async def once(self, message: str) -> AsyncIterator[Echo]:
        """Say something back once.

        Args:
            message: What to say.
        """
        yield Echo(message=message, count=1, handle=Echoed(message=message))

    @method(streaming=False, read_only=True)
    async def ping(self) -> AsyncIterator[Pong]:
        """Ask whether the hub is there."""
        yield Pong(message="pong")

    @resolver
    async def said(self, handle: Echoed) -> AsyncIterator[Echo]:
        """Say it once more."""
        yield Echo(message=handle.message, count=1, handle=handle)
