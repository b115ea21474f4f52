"""Start and stop of plugins. A plugin that fails is reported and left out."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import pytest

from hubd.activation import API_VERSION, Activation, Event, Handle, method, resolver
from hubd.plexus import lifecycle
from hubd.plexus.discovery import Source
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import Hub
from hubd.plexus.root import build_hub
from hubd.storage.database import Database
from tests.support import call_error, call_events

history: list[str] = []


class Said(Event):
    text: str


class Living(Activation, namespace="living", version="1.0.0"):
    """Works in the background."""

    def children(self) -> Iterable[Activation]:
        return [Below()]

    async def lifespan(self) -> AsyncIterator[None]:
        history.append("living starts")
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(asyncio.Event().wait())
            yield
            work.cancel()
        history.append("living ends")

    @method
    async def say(self) -> AsyncIterator[Said]:
        """Say something."""
        yield Said(text="alive")


class Below(Activation, namespace="below", version="1.0.0"):
    """A child with its own lifespan."""

    async def lifespan(self) -> AsyncIterator[None]:
        history.append("below starts")
        yield
        history.append("below ends")


class FailsToStart(Activation, namespace="fails", version="1.0.0"):
    """Cannot start."""

    async def lifespan(self) -> AsyncIterator[None]:
        raise OSError("no such device")
        yield


class NeverStarts(Activation, namespace="slow", version="1.0.0"):
    """Never finishes its start."""

    async def lifespan(self) -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield


class FailsLater(Activation, namespace="later", version="1.0.0"):
    """Its background work fails after the start."""

    failed = asyncio.Event()

    async def lifespan(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._fail())
            yield

    async def _fail(self) -> None:
        type(self).failed.set()
        raise ValueError("background work broke")


class NeverStops(Activation, namespace="stuck", version="1.0.0"):
    """Never finishes its clean-up."""

    async def lifespan(self) -> AsyncIterator[None]:
        yield
        await asyncio.Event().wait()


class BadTable(Activation, namespace="greedy", version="1.0.0"):
    """Creates a table with the prefix of another plugin."""

    migrations = ("CREATE TABLE living_things (n INTEGER) STRICT",)


class YieldsNever(Activation, namespace="never", version="1.0.0"):
    """Has a lifespan that ends at once."""

    async def lifespan(self) -> AsyncIterator[None]:
        for _ in range(0):
            yield


class YieldsTwice(Activation, namespace="twice", version="1.0.0"):
    """Has a lifespan that does not end."""

    async def lifespan(self) -> AsyncIterator[None]:
        yield
        yield


class Grown(Activation, version="1.0.0"):
    """A child that is added at run time."""

    def __init__(self, name: str) -> None:
        self.namespace = name
        table = f"CREATE TABLE growing_{name}_rows (n INTEGER) STRICT"
        self.migrations = (table,)  # type: ignore[misc]

    async def lifespan(self) -> AsyncIterator[None]:
        history.append(f"{self.path} starts")
        if self.namespace == "bad":
            raise OSError("no such device")
        yield
        history.append(f"{self.path} ends")

    @method
    async def count(self) -> Said:
        """Count the rows of the child's own table."""
        row = await self.db.fetch_one(f"SELECT count(*) AS n FROM growing_{self.namespace}_rows")
        assert row is not None
        return Said(text=str(row["n"]))

    @method
    async def nest(self) -> Said:
        """Add a child to the child."""
        await self.add_child(Below())
        return Said(text="nested")


class GrowingPlugin(Activation, namespace="growing", version="1.0.0"):
    """Has children that come and go."""

    async def lifespan(self) -> AsyncIterator[None]:
        await self.add_child(Grown("first"))
        yield

    @method
    async def grow(self, name: str) -> Said:
        """Add a child."""
        await self.add_child(Grown(name))
        return Said(text=name)

    @method
    async def shrink(self, name: str) -> Said:
        """Remove a child."""
        await self.remove_child(name)
        return Said(text=name)


class RaisesOnInit(Activation, namespace="raising", version="1.0.0"):
    """Exits when it is created."""

    def __init__(self) -> None:
        raise SystemExit("I will not")


class Action(Handle, method="act", kind="document", summary="an action"):
    """An action."""


class Acted(Event):
    act: Callable[[], None]


class Undescribed(Activation, namespace="undescribed", version="1.0.0"):
    """Resolves a handle to data without JSON Schema."""

    @resolver
    async def action(self, ref: Action) -> Acted:
        """Read the action."""
        return Acted(act=history.clear)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    history.clear()
    async with Database(tmp_path / "hub.db") as database:
        yield build_hub(database=database)


def source(cls: type[Activation]) -> Source:
    return Source(f"{cls.__module__}:{cls.__qualname__}", "a test")


async def test_lifespans_start_before_calls_and_end_in_reverse_order(hub: Hub) -> None:
    async with lifecycle.plugins(hub, PlexusHost(hub), [source(Living)]):
        assert history == ["living starts", "below starts"]
        [event] = await call_events(hub, "living.say")
        assert event["text"] == "alive"
    assert history[2:] == ["below ends", "living ends"]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (source(FailsToStart), "OSError: no such device"),
        (source(YieldsNever), f"TypeError: {__name__}.YieldsNever.lifespan ended without `yield`"),
        (source(BadTable), "migration 1 of greedy may not make living_things"),
        (source(Undescribed), "PydanticInvalidForJsonSchema: "),
        (source(RaisesOnInit), "SystemExit: I will not"),
        (source(Living), "the name 'living' is taken in 'plexus'"),
        (Source("nowhere.to.be.found:Plugin", "a test"), "ModuleNotFoundError"),
        (Source("tests.plexus.test_lifecycle:history", "a test"), "TypeError"),
        (Source("tests.plexus.test_lifecycle:Nothing", "a test"), "AttributeError"),
        (Source("no colon", "a test"), "TypeError: 'no colon' is not module:Class"),
    ],
)
async def test_a_failed_plugin_is_reported_and_the_others_work(
    hub: Hub, broken: Source, reason: str
) -> None:
    async with lifecycle.plugins(hub, PlexusHost(hub), [source(Living), broken]):
        assert list(hub.root.children) == ["living"]
        [(name, why)] = hub.broken
        assert name == str(broken)
        assert why.startswith(reason)
        assert await call_events(hub, "living.say")


async def test_a_plugin_for_another_version_of_the_api_is_reported(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "future_plugin.py").write_text(
        "from hubd.activation import Activation\n"
        "class Future(Activation, namespace='future', version='1.0.0', requires_api='99.1'):\n"
        "    'From the future.'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    async with lifecycle.plugins(hub, PlexusHost(hub), [Source("future_plugin:Future", "a test")]):
        [(_, reason)] = hub.broken
    assert reason == (
        "future_plugin.Future requires version 99.1 of the plugin API, and this hubd has "
        f"{API_VERSION}. Install a newer hubd"
    )


async def test_a_second_yield_of_a_lifespan_is_reported(hub: Hub) -> None:
    async with lifecycle.plugins(hub, PlexusHost(hub), [source(YieldsTwice), source(Living)]):
        assert not hub.broken
    [(_, reason)] = hub.broken
    assert reason.endswith(f"{__name__}.YieldsTwice.lifespan yielded twice; it must yield once")
    assert "living ends" in history


async def test_a_plugin_that_never_starts_is_left_out(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "START_SECONDS", 0.01)
    async with lifecycle.plugins(hub, PlexusHost(hub), [source(NeverStarts), source(Living)]):
        assert list(hub.root.children) == ["living"]
        assert "took longer than" in hub.broken[0][1]


async def test_failed_background_work_does_not_affect_other_plugins(hub: Hub) -> None:
    async with lifecycle.plugins(hub, PlexusHost(hub), [source(FailsLater), source(Living)]):
        await FailsLater.failed.wait()
        assert await call_events(hub, "living.say")
    assert history[-1] == "living ends"


async def test_a_plugin_that_never_stops_does_not_block_the_stop(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "STOP_SECONDS", 0.3)
    async with lifecycle.plugins(hub, PlexusHost(hub), [source(NeverStops), source(Living)]):
        pass
    assert history[-1] == "living ends"


async def test_children_come_and_go_while_the_hub_runs(hub: Hub) -> None:
    async with lifecycle.plugins(hub, PlexusHost(hub), [source(GrowingPlugin), source(Living)]):
        changes: list[str] = []
        with hub.listening(changes.append):
            before, described = hub.hash, hub.find(["growing"]).schema
            await call_events(hub, "growing.grow", name="new")
            assert changes
            assert hub.hash != before
            assert hub.find(["growing"]).schema["self_hash"] == described["self_hash"]
            [event] = await call_events(hub, "growing.new.count")
            assert event["text"] == "0"
            await call_events(hub, "growing.new.nest")
            changes.clear()
            await call_events(hub, "growing.shrink", name="new")
            assert changes
            assert hub.hash == before
        assert history[-2:] == ["below ends", "growing.new ends"]
        error = await call_error(hub, "growing.new.count")
        assert error["code"] == "activation_not_found"
        await call_events(hub, "growing.grow", name="new")
    assert {"growing.new ends", "growing.first ends"} <= set(history[-4:])


async def test_a_child_that_fails_to_start_is_not_attached(hub: Hub) -> None:
    async with lifecycle.plugins(hub, PlexusHost(hub), [source(GrowingPlugin)]):
        before = hub.hash
        error = await call_error(hub, "growing.grow", name="bad")
        assert error["message"] == "OSError: no such device"
        error = await call_error(hub, "growing.grow", name="first")
        assert error["message"] == "the name 'first' is taken in 'growing'"
        error = await call_error(hub, "growing.shrink", name="second")
        assert error["message"] == "growing has not added a child 'second'"
        assert hub.hash == before
        assert list(hub.find(["growing"]).children) == ["first"]


async def test_children_can_be_added_only_while_the_hub_runs() -> None:
    hub = build_hub()
    plugin = GrowingPlugin()
    hub.attach(plugin, PlexusHost(hub))
    with pytest.raises(RuntimeError, match="only while the hub runs"):
        await plugin.add_child(Below())
