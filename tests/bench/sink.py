"""A plugin for benchmarks that takes any JSON, so that only reading a message is measured."""

from collections.abc import AsyncIterator
from typing import Any

from hubd.activation import Activation, Event, method


class Taken(Event):
    """A value was received."""


class Sink(Activation, namespace="sink", version="1.0.0"):
    """Takes values."""

    @method(streaming=False)
    async def take(self, value: Any) -> AsyncIterator[Taken]:
        """Take a value."""
        yield Taken()
