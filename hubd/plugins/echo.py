"""echo: returns its input. A small plugin for a first call."""

from collections.abc import AsyncIterator
from typing import Annotated

from pydantic import Field

from hubd.activation import Activation, Event, Handle, method, resolver


class Echoed(Handle, method="once", kind="output", summary="{message}"):
    """The handle of a message. The handle itself holds the text."""

    message: str = Field(description="The message")


class Echo(Event, summary="{message}"):
    """A returned message."""

    message: str
    count: int
    handle: Echoed


class Pong(Event, summary="{message}"):
    """The answer to a ping."""

    message: str


class EchoPlugin(Activation, namespace="echo", version="1.0.0"):
    """Return messages, to try the hub or to test a connection."""

    @method(read_only=True)
    async def echo(
        self, message: str, count: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    ) -> AsyncIterator[Echo]:
        """Return a message once or several times.

        Args:
            message: The message.
            count: The number of times.
        """
        handle = Echoed(message=message)
        for number in range(1, count + 1):
            yield Echo(message=message, count=number, handle=handle)

    @method(read_only=True)
    async def once(self, message: str) -> Echo:
        """Return a message once.

        Args:
            message: The message.
        """
        return Echo(message=message, count=1, handle=Echoed(message=message))

    @method(read_only=True)
    async def ping(self) -> Pong:
        """Check whether the hub answers."""
        return Pong(message="pong")

    @resolver
    async def resolve_message(self, handle: Echoed) -> Echo:
        """Return the message of a handle."""
        return Echo(message=handle.message, count=1, handle=handle)
