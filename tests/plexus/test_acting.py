"""Actors of nested calls, of background tasks, and of code that acts as another actor."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hubd.activation import Activation, Actor, Cancelled, Client, Context, Event, method
from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from tests.support import Collector, hub_with

AGENT = Actor("session", "one", grants=("actors.background", "actors.look", "actors.nested"))


class Seen(Event):
    kind: str
    id: str
    cwd: str | None
    transport: str


class Actors(Activation, namespace="actors", version="1.0.0"):
    """Reports the actor of its caller."""

    def __init__(self) -> None:
        self.task: asyncio.Task[dict[str, str]] | None = None
        self.go = asyncio.Event()

    @method
    async def look(self) -> Seen:
        """Show the actor of the caller."""
        client = self.host.client
        return Seen(
            kind=client.actor.kind,
            id=client.actor.id,
            cwd=self.host.context.cwd,
            transport=client.transport,
        )

    @method(bidirectional=True)
    async def ask(self) -> Seen:
        """Ask the caller."""
        await self.host.confirm("Sure?", timeout_seconds=None)
        return await self.look()

    @method
    async def nested(self) -> AsyncIterator[Seen]:
        """Show the actors of nested calls."""
        yield Seen(**await self.host.call_one("actors.look"))
        other = Actor("session", "another", grants=("actors.relay", "actors.look"))
        with self.host.acting(other):
            assert self.host.client == Client(actor=other)
            # Two levels below, the actor is the same.
            yield Seen(**await self.host.call_one("actors.relay"))
        assert self.host.client.actor == AGENT

    @method
    async def relay(self) -> Seen:
        """Show the actor of a call of this method."""
        await self.host.progress("relaying")
        return Seen(**await self.host.call_one("actors.look"))

    @method
    async def background(self, to: str) -> Seen:
        """Start a task that calls a method after this call has ended."""

        async def later() -> dict[str, str]:
            await self.go.wait()
            return await self.host.call_one(to)

        self.task = asyncio.create_task(later())
        return await self.look()

    @method(bidirectional=True)
    async def ask_as_another(self) -> Seen:
        """Ask while acting as another actor, who is not there."""
        with self.host.acting(Actor("session", "another")):
            return Seen(**await self.host.call_one("actors.ask"))


@pytest.fixture
def plugin() -> Actors:
    return Actors()


@pytest.fixture
async def hub(tmp_path: Path, plugin: Actors) -> AsyncIterator[Hub]:
    async with hub_with(tmp_path, plugin) as built:
        yield built


async def items(hub: Hub, name: str, actor: Actor = AGENT, **params: str) -> Collector:
    caller = Collector(Context("/caller"), Client("test", actor=actor))
    await Call(hub, f"actors.{name}", params, caller).run()
    return caller


async def test_nested_calls_act_as_the_caller_or_as_another_actor(hub: Hub) -> None:
    caller = await items(hub, "nested")
    own, other = [item["content"] for item in caller.items if item["type"] == "data"]
    assert own == {
        "type": "seen",
        "kind": "session",
        "id": "one",
        "cwd": "/caller",
        "transport": "test",
    }
    # It has neither the connection nor the context of the caller.
    assert other == {
        "type": "seen",
        "kind": "session",
        "id": "another",
        "cwd": None,
        "transport": "",
    }


async def test_a_background_task_keeps_the_actor_of_its_call(hub: Hub, plugin: Actors) -> None:
    await items(hub, "background", to="actors.look")
    plugin.go.set()
    assert plugin.task is not None
    assert (await plugin.task)["id"] == "one"


async def test_a_background_task_cannot_ask_the_caller_of_an_ended_call(
    hub: Hub, plugin: Actors
) -> None:
    caller = await items(hub, "background", Actor("person"), to="actors.ask")
    before = len(caller.items)
    plugin.go.set()
    assert plugin.task is not None
    with pytest.raises(Cancelled, match="no caller to ask"):
        await plugin.task
    assert len(caller.items) == before


async def test_another_actor_cannot_ask_the_caller(hub: Hub) -> None:
    caller = await items(hub, "ask_as_another", Actor("person"))
    assert [item["type"] for item in caller.items] == ["error", "done"]
    assert "no caller to ask" in caller.items[0]["message"]
