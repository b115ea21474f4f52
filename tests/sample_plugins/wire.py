"""Plugins for the tests of messages and of the event loop; real daemons load them by --plugin."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from hubd.activation import Activation, Event, method


class Accepted(Event):
    """The params of a call."""

    number: int
    # The size of `anything` as JSON.
    size: int


class Accepting(Activation, namespace="accepting", version="1.0.0"):
    """Takes params of several types."""

    @method(streaming=False, aliases={"number": ["count"]})
    async def accept(
        self, number: int, text: str = "", id: UUID | None = None, anything: Any = None
    ) -> AsyncIterator[Accepted]:
        """Return the size of the params."""
        yield Accepted(number=number, size=len(json.dumps(anything)))


class Blocked(Event):
    """The event loop was blocked."""


class Blocking(Activation, namespace="blocking", version="1.0.0"):
    """Blocks the event loop in several ways, longer than a method may."""

    @method(streaming=False)
    async def sleep(self) -> AsyncIterator[Blocked]:
        """Sleep in the method."""
        time.sleep(0.3)  # noqa: ASYNC251 -- the mistake that is tested
        yield Blocked()

    @method(streaming=False)
    async def call_back(self) -> AsyncIterator[Blocked]:
        """Sleep in a callback."""
        done = asyncio.Event()

        def block() -> None:
            time.sleep(0.3)
            done.set()

        asyncio.get_running_loop().call_soon(block)
        await done.wait()
        yield Blocked()

    @method(streaming=False)
    async def nested(self) -> AsyncIterator[Blocked]:
        """Call a method that sleeps."""
        async with self.host.call("blocking.sleep") as events:
            async for _ in events:
                pass
        yield Blocked()

    async def lifespan(self) -> AsyncIterator[None]:
        """Have a task that sleeps when `wake` is called."""
        task = asyncio.create_task(self._background(), name="blocking background")
        yield
        task.cancel()

    @method(streaming=False)
    async def wake(self) -> AsyncIterator[Blocked]:
        """Let the task sleep."""
        self._wanted.set()
        await self._slept.wait()
        yield Blocked()

    def __init__(self) -> None:
        self._wanted = asyncio.Event()
        self._slept = asyncio.Event()

    async def _background(self) -> None:
        await self._wanted.wait()
        time.sleep(0.3)  # noqa: ASYNC251 -- the mistake that is tested
        self._slept.set()
