"""A plugin with resources that tests change, and trees that change."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from hubd.activation import Activation, Event, NotFound, method
from hubd.mcp import changes as mcp_changes
from tests.mcp.support import Served
from tests.support import call_events


class Said(Event):
    text: str


class Weather(Activation, namespace="weather", version="1.0.0"):
    """Changes when a test says so."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        # Cleared to delay new watchers.
        self.may_begin = asyncio.Event()
        self.may_begin.set()
        self.asked: list[str] = []
        self.watched: list[str] = []
        self.ended: list[str] = []

    @method(read_only=True, mcp={"resource": {"place": "place"}})
    async def now(self, place: str) -> AsyncIterator[Said]:
        """How it is there."""
        yield Said(text=f"fine in {place}")

    async def changes(self, method: str, params: Mapping[str, Any]) -> AsyncIterator[None]:
        place = params["place"]
        self.asked.append(place)
        await self.may_begin.wait()
        if place == "nowhere":
            raise NotFound("there is no such place")
        if place == "broken":
            raise RuntimeError("a plugin's own mistake")
        self.watched.append(place)
        try:
            while True:
                yield
                await self.changed.wait()
                self.changed.clear()
        finally:
            self.ended.append(place)


def long_pauses(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Make the pause after each change last until this event is set."""
    resume = asyncio.Event()

    async def pause(seconds: float) -> None:
        assert seconds in (mcp_changes.PAUSE_SECONDS, mcp_changes.LIST_PAUSE_SECONDS)
        await resume.wait()

    class Asyncio:
        """The module with another `sleep`."""

        sleep = staticmethod(pause)

        def __getattr__(self, name: str) -> Any:
            return getattr(asyncio, name)

    monkeypatch.setattr(mcp_changes, "asyncio", Asyncio())
    return resume


def watching() -> list[str]:
    """The tasks that wait for changes of resources."""
    names = [task.get_name() for task in asyncio.all_tasks()]
    return sorted(name for name in names if name.startswith("watch "))


async def new_tree(served: Served) -> str:
    [made] = await call_events(served.hub, "arbor.tree_create")
    return str(made["tree_id"])


async def grow(served: Served, tree: str, text: str = "a leaf") -> None:
    await call_events(served.hub, "arbor.node_create_text", tree_id=tree, content=text)
