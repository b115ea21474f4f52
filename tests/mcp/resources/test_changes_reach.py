"""Notifications go to all clients that see a list or resource, and to no other."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import ReadResourceResult, Resource, TextResourceContents

from hubd.activation import Activation, Event, McpRegistry, method
from hubd.mcp.registry import Ctx
from hubd.plexus.host import PlexusHost
from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.echo import EchoPlugin
from hubd.storage.arbor import tree
from hubd.wire.jsonrpc import dump
from tests.mcp.notified_clients import client_of, listening, server_of, until
from tests.mcp.support import ERAS, MODERN, TRANSPORTS, Era, Served, Transport, serving
from tests.mcp.weather import Weather, grow, long_pauses, new_tree
from tests.support import call_events

every_era = pytest.mark.parametrize("era", ERAS)
every_transport = pytest.mark.parametrize("transport", TRANSPORTS)


class Shed(Activation, namespace="shed", version="1.0.0"):
    """Has a door that no method describes."""

    def __init__(self) -> None:
        self.registry: McpRegistry

    def extend_mcp(self, registry: McpRegistry) -> None:
        async def read(ctx: Ctx, uri: str, variables: dict[str, str]) -> ReadResourceResult:
            return ReadResourceResult(contents=[TextResourceContents(uri=uri, text="a door")])

        self.registry = registry
        registry.add_resource(Resource(uri="shed://door", name="door"), read)


class Animal(Event):
    name: str


class Zoo(Activation, namespace="zoo", version="1.0.0"):
    """Lists its animals, and says when there are others."""

    def __init__(self, *animals: str) -> None:
        self.animals = list(animals)
        self.moved = asyncio.Event()
        # Tasks that wait for a change.
        self.waiting: list[str] = []

    @method(read_only=True, mcp={"resource": {"animal": "name"}}, completes={"name": "zoo.names"})
    async def look(self, name: str) -> AsyncIterator[Animal]:
        """Look at one."""
        yield Animal(name=name)

    @method(read_only=True)
    async def names(self) -> AsyncIterator[Animal]:
        """List them."""
        for animal in self.animals:
            yield Animal(name=animal)

    async def changes(self, method: str, params: Mapping[str, Any]) -> AsyncIterator[None]:
        who = " ".join((method, *params.values()))
        self.waiting.append(who)
        try:
            while True:
                yield
                await self.moved.wait()
                self.moved.clear()
        finally:
            self.waiting.remove(who)

    def let_in(self, animal: str) -> None:
        self.animals.append(animal)
        self.moved.set()


async def _listed(client: Client) -> set[str]:
    """The concrete resources, without the schemas that are always there."""
    uris = [entry.uri for entry in (await client.list_resources()).resources]
    return {uri for uri in uris if not uri.startswith("plexus://schema/")}


@every_transport
@every_era
async def test_a_client_cannot_watch_a_resource_that_it_may_not_read(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    weather, shed = Weather(), Shed()
    async with serving(tmp_path, weather, shed, Arbor(), EchoPlugin()) as served:
        plant = await new_tree(served)
        uris = (
            "plexus://weather/home",
            "shed://door",
            f"plexus://arbor/{plant}",
            "plexus://schema/weather",
            "plexus://schema/plexus.weather",
        )
        way = (served, tmp_path, transport, era)
        async with (
            listening(*way, uris=(*uris, "plexus://schema/echo"), tools="echo,plexus") as (
                limited,
                nothing,
            ),
        ):
            # The plugin was not even asked.
            assert weather.asked == []
            async with listening(*way, uris=uris) as (_, notified):
                weather.changed.set()
                shed.registry.changes.resource_updated("shed://door")
                await grow(served, plant)
                await notified.wait_for(*uris[:3])
                served.hub.detach(served.hub.find(["shed"]))
                await notified.wait_for(*uris)
            # An answer comes after all that was said before it.
            await limited.list_tools()
            assert set(nothing.received).isdisjoint(uris)
            assert "plexus://schema/echo" in nothing.received


@every_transport
async def test_a_stream_confirms_only_the_resources_that_are_watched(
    tmp_path: Path, transport: Transport
) -> None:
    uris = ("plexus://schema/weather", "plexus://schema/echo", "plexus://nowhere/x", "shed://door")
    async with (
        serving(tmp_path, Weather(), EchoPlugin()) as served,
        client_of(served, tmp_path, transport, MODERN, tools="echo") as client,
        client.listen(prompts_list_changed=True, resource_subscriptions=uris) as changes,
    ):
        assert changes.honored.resource_subscriptions == ["plexus://schema/echo"]
        assert changes.honored.prompts_list_changed
        assert not changes.honored.tools_list_changed


@every_transport
@every_era
async def test_a_limited_client_can_watch_the_resources_that_it_may_read(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    weather, shed = Weather(), Shed()
    uris = ("plexus://weather/home", "shed://door")
    async with (
        serving(tmp_path, weather, shed, EchoPlugin()) as served,
        listening(served, tmp_path, transport, era, uris=uris, tools="weather,shed") as (
            _,
            notified,
        ),
    ):
        weather.changed.set()
        shed.registry.changes.resource_updated("shed://door")
        await notified.wait_for(*uris)


class Barn(Shed, namespace="barn", version="1.0.0"):
    """Has a door of the same name."""


@every_era
async def test_watchers_get_no_notifications_of_plugins_that_they_may_not_use(
    tmp_path: Path, era: Era
) -> None:
    barn, door = Barn(), "shed://door"
    async with (
        serving(tmp_path, Shed(), EchoPlugin()) as served,
        listening(served, tmp_path, "stdio", era, uris=(door,), tools="shed,echo") as (
            limited,
            nothing,
        ),
        listening(served, tmp_path, "stdio", era, uris=(door,)) as (_, notified),
    ):
        served.hub.detach(served.hub.find(["shed"]))
        served.hub.attach(barn, PlexusHost(served.hub))
        barn.registry.changes.resource_updated(door)
        await notified.wait_for(door)
        await limited.list_tools()
        assert door not in nothing.received


@every_era
async def test_a_resource_of_a_plugin_that_was_replaced_is_watched_on(
    tmp_path: Path, era: Era
) -> None:
    old, new = Zoo("ape"), Zoo("ape")
    uri = "plexus://zoo/ape"
    async with (
        serving(tmp_path, old) as served,
        listening(served, tmp_path, "http", era, uris=(uri,)) as (_, notified),
    ):
        assert "look ape" in old.waiting
        served.hub.detach(served.hub.find(["zoo"]))
        await until(lambda: old.waiting == [])
        served.hub.attach(new, PlexusHost(served.hub))
        await notified.wait_for(uri)
        await until(lambda: "look ape" in new.waiting)
        notified.received.clear()
        new.moved.set()
        await notified.wait_for(uri)


async def _create(served: Served, there: str) -> None:
    await new_tree(served)


async def _by_another_plugin(served: Served, there: str) -> None:
    assert served.hub.database is not None
    await served.hub.database.transaction(lambda tx: tree.create(tx, "somebody", 0))


async def _import(served: Served, there: str) -> None:
    lines = await call_events(served.hub, "arbor.tree_export", tree_id=there)
    data = b"\n".join(map(dump, lines)).decode()
    await call_events(served.hub, "arbor.tree_import", data=data, new_ids=True)


async def _delete(served: Served, there: str) -> None:
    await call_events(served.hub, "arbor.tree_delete", tree_id=there)


async def _release(served: Served, there: str) -> None:
    await call_events(served.hub, "arbor.tree_release", tree_id=there)


async def _archive(served: Served, there: str) -> None:
    await call_events(served.hub, "arbor.tree_archive", tree_id=there)


Step = Callable[[Served, str], Awaitable[None]]


@pytest.mark.parametrize(
    "step", [_create, _by_another_plugin, _import, _delete, _release, _archive]
)
@every_era
async def test_clients_are_notified_of_new_and_removed_trees(
    tmp_path: Path, era: Era, step: Step
) -> None:
    async with serving(tmp_path, Arbor()) as served:
        there = await new_tree(served)
        async with listening(served, tmp_path, "http", era) as (client, notified):
            before = await _listed(client)
            await step(served, there)
            await notified.wait_for("resources")
            assert await _listed(client) != before
            assert notified.received == ["resources"]


async def test_clients_are_notified_of_a_tree_that_is_claimed_again(tmp_path: Path) -> None:
    async with serving(tmp_path, Arbor()) as served:
        there = await new_tree(served)
        await _release(served, there)
        async with listening(served, tmp_path, "stdio", "legacy") as (client, notified):
            assert await _listed(client) == set()
            await call_events(served.hub, "arbor.tree_claim", tree_id=there)
            await notified.wait_for("resources")
            assert await _listed(client) == {f"plexus://arbor/{there}"}


@every_era
async def test_a_change_within_a_tree_does_not_change_the_list(tmp_path: Path, era: Era) -> None:
    async with serving(tmp_path, Arbor()) as served:
        there = await new_tree(served)
        uri = f"plexus://arbor/{there}"
        async with listening(served, tmp_path, "http", era, uris=(uri,)) as (client, notified):
            await grow(served, there)
            await notified.wait_for(uri)
            await client.list_tools()
            assert notified.received == [uri]


@every_transport
@every_era
async def test_a_thousand_new_trees_cause_two_notifications(
    tmp_path: Path, transport: Transport, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    resume = long_pauses(monkeypatch)
    async with (
        serving(tmp_path, Arbor()) as served,
        listening(served, tmp_path, transport, era) as (client, notified),
    ):
        database = served.hub.database
        assert database is not None
        for _ in range(10):
            await asyncio.gather(
                *(database.transaction(lambda tx: tree.create(tx, "me", 0)) for _ in range(100))
            )
        await notified.wait_for("resources")
        await client.list_tools()
        assert notified.received == ["resources"]
        resume.set()
        await until(lambda: len(notified.received) == 2)
        await client.list_tools()
        assert notified.received == ["resources"] * 2


@every_transport
@every_era
async def test_list_changes_are_sent_only_to_clients_that_see_the_list(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    zoo, way = Zoo("ape"), (tmp_path, transport, era)
    async with (
        serving(tmp_path, zoo, EchoPlugin()) as served,
        listening(served, *way, tools="echo,plexus") as (limited, nothing),
        listening(served, *way, tools="zoo") as (client, notified),
    ):
        assert await _listed(client) == {"plexus://zoo/ape"}
        await until(lambda: zoo.waiting == ["names"])
        zoo.let_in("bear")
        await notified.wait_for("resources")
        assert await _listed(client) == {"plexus://zoo/ape", "plexus://zoo/bear"}
        await limited.list_tools()
        assert nothing.received == []


@every_era
async def test_the_list_of_a_plugin_is_followed_for_as_long_as_it_is_there(
    tmp_path: Path, era: Era
) -> None:
    async with (
        serving(tmp_path, EchoPlugin()) as served,
        listening(served, tmp_path, "http", era) as (_, notified),
    ):

        async def come_and_go(zoo: Zoo) -> None:
            node = served.hub.attach(zoo, PlexusHost(served.hub))
            await notified.wait_for("resources")
            await until(lambda: zoo.waiting == ["names"])
            notified.received.clear()
            zoo.let_in("bear")
            await notified.wait_for("resources")
            served.hub.detach(node)
            await until(lambda: zoo.waiting == [])
            notified.received.clear()

        await come_and_go(Zoo("ape"))
        # Another one of the same name.
        await come_and_go(Zoo("ape"))


async def test_a_list_that_cannot_be_watched_is_harmless(tmp_path: Path) -> None:
    class Lost(Zoo, namespace="lost", version="1.0.0"):
        """A plugin without a listing method and without changes."""

        @method(read_only=True, mcp={"resource": {"x": "x"}}, completes={"x": "nobody.names"})
        async def find(self, x: str) -> AsyncIterator[Animal]:
            """Find it."""
            yield Animal(name=x)

        async def changes(self, method: str, params: Mapping[str, Any]) -> AsyncIterator[None]:
            raise RuntimeError("a plugin's own mistake")
            yield

    async with (
        serving(tmp_path, Lost(), Arbor()) as served,
        listening(served, tmp_path, "http", "legacy") as (client, notified),
    ):
        made = await new_tree(served)
        await notified.wait_for("resources")
        assert f"plexus://arbor/{made}" in await _listed(client)


async def test_lists_are_not_followed_when_the_server_has_ended(tmp_path: Path) -> None:
    zoo = Zoo("ape")
    async with serving(tmp_path, zoo) as served:
        await server_of(served)
        await until(lambda: zoo.waiting == ["names"])
        await served.lazy.end()
        await until(lambda: zoo.waiting == [])
