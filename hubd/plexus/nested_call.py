"""Calls that a plugin makes through its host."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, NoReturn, TypeAlias

from pydantic_core import from_json

from hubd.errors import by_code
from hubd.plexus.dispatch import Call
from hubd.wire.caller import Client, Context
from hubd.wire.item import Data, Done, Error, Guidance, Item, Request, RequestClosed

Events: TypeAlias = AsyncIterator[dict[str, Any]]

# The reason why a question can't be asked outside of a call.
NO_CALLER: Final = "there is no caller to ask: this code does not run in a call"


class NestedEvents:
    """The block of `host.call`. Other uses of it are explained."""

    def __init__(self, block: AbstractAsyncContextManager[Events], method: str) -> None:
        self._block = block
        self._method = method

    async def __aenter__(self) -> Events:
        """Start the call."""
        return await self._block.__aenter__()

    async def __aexit__(self, *failure: Any) -> bool | None:
        """End the call."""
        return await self._block.__aexit__(*failure)

    def __aiter__(self) -> NoReturn:
        """Refuse `async for` without the block."""
        raise self._misused()

    def __await__(self) -> NoReturn:
        """Refuse `await`."""
        raise self._misused()

    def _misused(self) -> TypeError:
        return TypeError(
            f"host.call({self._method!r}, …) is a block: write `async with host.call(…) as events` "
            "and read the events inside; for one event, write `await host.call_one(…)`"
        )


class NestedCaller:
    """The caller of a nested call: passes its events to the plugin that called."""

    # Events go through `send`, which waits until the plugin takes them.
    has_room = False

    def __init__(self, outer: Call | None, client: Client, method: str) -> None:
        # The call of the plugin. Questions go to its caller until it ends.
        self._outer = outer
        # The calls of a plugin have the grants of its caller.
        self.client = client
        # The path of the nested call.
        self._method = method
        self._items: asyncio.Queue[Item] = asyncio.Queue()
        # Room for one event, so that a slow reader slows the nested method down.
        self._room = asyncio.Semaphore(1)
        # Set when the last event is taken, if the nested method uses `after_sent`.
        self._handed_over: asyncio.Future[bool] | None = None

    @property
    def context(self) -> Context:
        return self._outer.caller.context if self._outer else Context()

    @property
    def unanswerable(self) -> str | None:
        outer = self._outer
        return NO_CALLER if outer is None or outer.ended else outer.caller.unanswerable

    def offers(self, namespace: str) -> bool:
        # The namespaces that a connection offers do not limit the calls of plugins.
        return True

    async def send(self, item: Item) -> None:
        if isinstance(item, Data):
            await self._room.acquire()
            self._items.put_nowait(item)
        elif isinstance(item, Request) and self._outer is not None:
            await self._outer.send(item)

    def post(self, *items: Item) -> None:
        for item in items:
            if not isinstance(item, RequestClosed):
                self._items.put_nowait(item)
            elif self._outer is not None:
                self._outer.post(item)

    def report_delivery(self, handed_over: asyncio.Future[bool]) -> None:
        if self._room.locked():
            self._handed_over = handed_over
        else:
            handed_over.set_result(True)

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of the nested call.

        Raises:
            HubError: The error that the nested call ended with.
        """
        guidance = Guidance(b"", "", "", [])
        while not isinstance(item := await self._items.get(), Done):
            if isinstance(item, Data):
                self._room.release()
                if self._handed_over is not None and not self._handed_over.done():
                    self._handed_over.set_result(True)
                yield from_json(item.content)
            elif isinstance(item, Guidance):
                guidance = item
            elif isinstance(item, Error):
                error = by_code(
                    item.code,
                    item.message,
                    suggestion=guidance.suggestion,
                    available=guidance.available,
                )
                error.nested_in = self._method
                # The nested call logged it.
                error.logged = True
                raise error
