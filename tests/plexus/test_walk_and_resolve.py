"""Resolve all handles of a tree or of a path, in order, as a stream."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hubd.plexus import resolve
from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from hubd.plexus.root import build_hub
from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.echo import EchoPlugin
from hubd.plugins.solar import Solar
from tests.plugins.arbor.grower import Grower
from tests.support import PATIENCE_SECONDS, Collector, call_error, call_events, hub_with

WALK = "plexus.walk_and_resolve"


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with hub_with(tmp_path, Arbor(), EchoPlugin(), Solar(), Grower()) as built:
        yield built


def grower_of(hub: Hub) -> Grower:
    activation = hub.find(["grower"]).activation
    assert isinstance(activation, Grower)
    return activation


async def plant(hub: Hub) -> str:
    [created] = await call_events(hub, "arbor.tree_create")
    return str(created["tree_id"])


async def add(hub: Hub, tree_id: str, handle: str, parent: str | None = None) -> str:
    params = {"tree_id": tree_id, "handle": handle}
    if parent is not None:
        params["parent"] = parent
    [node] = await call_events(hub, "arbor.node_create_external", **params)
    return str(node["node_id"])


def summaries(events: list[dict[str, Any]]) -> list[str]:
    return [event.get("summary") or event["code"] for event in events]


async def test_the_handles_of_a_tree_are_resolved_in_order_of_creation(hub: Hub) -> None:
    tree_id = await plant(hub)
    first = await add(hub, tree_id, "echo@1.0.0::once:one")
    await call_events(hub, "arbor.node_create_text", tree_id=tree_id, content="a text")
    second = await add(hub, tree_id, "solar.earth.luna@1.0.0::info:luna", first)
    await add(hub, tree_id, "echo@1.0.0::once:three", second)
    events = await call_events(hub, WALK, tree_id=tree_id)
    assert summaries(events) == ["one", "Luna, moon", "three"]
    assert events[0]["handle"] == "echo@1.0.0::once:one"
    assert events[0]["data"]["message"] == "one"
    assert events[1]["origin"]["plugin"] == "solar.earth.luna"
    [handles] = await call_events(hub, "arbor.context_get_handles", tree_id=tree_id)
    assert handles["handles"] == [event["handle"] for event in events]


async def test_a_later_child_comes_after_an_earlier_one(
    hub: Hub,
) -> None:
    """The messages of a turn have this shape: the user's is a branch, the assistant's is not."""
    tree_id = await plant(hub)
    turn = await add(hub, tree_id, "echo@1.0.0::once:turn")
    for message, side in (("user", True), ("assistant", False)):
        handle = f"echo@1.0.0::once:{message}"
        params = {"tree_id": tree_id, "parent": turn, "handle": handle, "side": side}
        await call_events(hub, "grower.grow", **params)
    assert summaries(await call_events(hub, WALK, tree_id=tree_id)) == ["turn", "user", "assistant"]
    [handles] = await call_events(hub, "arbor.context_get_handles", tree_id=tree_id)
    assert [handle[-4:] for handle in handles["handles"]] == ["turn", "user", "tant"]


async def test_only_the_handles_of_the_path_are_resolved(hub: Hub) -> None:
    tree_id = await plant(hub)
    first = await add(hub, tree_id, "echo@1.0.0::once:one")
    await add(hub, tree_id, "echo@1.0.0::once:aside")
    second = await add(hub, tree_id, "echo@1.0.0::once:two", first)
    await add(hub, tree_id, "echo@1.0.0::once:below", second)
    assert summaries(await call_events(hub, WALK, tree_id=tree_id, node_id=second)) == [
        "one",
        "two",
    ]
    # The start of a tree id and the end of a node id are enough.
    assert len(await call_events(hub, WALK, tree_id=tree_id[:8])) == 4
    assert len(await call_events(hub, WALK, tree_id=tree_id, node_id=second[-12:])) == 2


async def test_a_failure_is_reported_in_order_and_does_not_stop_the_others(hub: Hub) -> None:
    tree_id = await plant(hub)
    for handle in (
        "echo@1.0.0::once:one",
        "nobody@1.0.0::thing:x",
        "grower@1.0.0::thing:gone:x",
        "grower@1.0.0::thing:raises:x",
        "echo@9.0.0::once:x",
        "echo@1.0.0::twice:x",
        "echo@1.0.0::once:two",
    ):
        await add(hub, tree_id, handle)
    events = await call_events(hub, WALK, tree_id=tree_id)
    assert summaries(events) == [
        "one",
        "activation_not_found",
        "handle_target_missing",
        "execution_error",
        "version_unsupported",
        "handle_not_supported",
        "two",
    ]
    assert [event["type"] for event in events] == ["resolved", *["unresolved"] * 5, "resolved"]
    assert events[2]["handle"] == "grower@1.0.0::thing:gone:x"
    assert events[2]["message"] == "no thing x"


async def test_only_the_requested_lanes_are_walked(hub: Hub) -> None:
    tree_id = await plant(hub)
    turn = await add(hub, tree_id, "echo@1.0.0::once:turn")
    await call_events(
        hub,
        "grower.grow",
        tree_id=tree_id,
        parent=turn,
        handle="echo@1.0.0::once:event",
        lane="events",
    )
    assert summaries(await call_events(hub, WALK, tree_id=tree_id)) == ["turn"]
    assert summaries(await call_events(hub, WALK, tree_id=tree_id, lanes=["events"])) == ["event"]
    both = await call_events(hub, WALK, tree_id=tree_id, lanes=["main", "events"])
    assert summaries(both) == ["turn", "event"]


async def test_a_tree_of_many_pages_is_resolved_a_few_at_a_time_and_in_order(hub: Hub) -> None:
    tree_id = await plant(hub)
    expected = []
    for start in range(0, 1200, 300):
        handle = f"grower@1.0.0::thing:now:{start}"
        await call_events(hub, "grower.grow", tree_id=tree_id, handle=handle, count=300)
        expected += [str(start)] * 300
    assert summaries(await call_events(hub, WALK, tree_id=tree_id)) == expected
    assert 0 < grower_of(hub).most <= resolve.CONCURRENT


async def test_results_are_streamed_before_the_last_resolver_ends(hub: Hub) -> None:
    """Cancelling the call cancels the running resolvers."""
    tree_id = await plant(hub)
    grower = grower_of(hub)
    await add(hub, tree_id, "echo@1.0.0::once:one")
    for _ in range(3):
        await add(hub, tree_id, "grower@1.0.0::thing:slow:x")
    caller = Collector()
    task = asyncio.create_task(Call(hub, WALK, {"tree_id": tree_id}, caller).run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await caller.arrived.wait()
        await grower.waiting.wait()
        assert summaries([item["content"] for item in caller.items]) == ["one"]
        task.cancel()
        await task
        await grower.idle.wait()
    assert grower.ended == 3
    assert [item["type"] for item in caller.items] == ["data", "error", "done"]
    assert caller.items[1]["code"] == "cancelled"


async def test_resolving_continues_when_a_slow_resolver_ends(hub: Hub) -> None:
    tree_id = await plant(hub)
    grower = grower_of(hub)
    await add(hub, tree_id, "grower@1.0.0::thing:slow:first")
    await add(hub, tree_id, "echo@1.0.0::once:second")
    task = asyncio.create_task(call_events(hub, WALK, tree_id=tree_id))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await grower.waiting.wait()
        grower.released.set()
        assert summaries(await task) == ["first", "second"]


@pytest.mark.parametrize(
    ("params", "code", "named"),
    [
        ({"tree_id": "nope"}, "invalid_params", "'nope'"),
        ({"tree_id": "00000000"}, "not_found", "00000000"),
        ({}, "invalid_params", "'tree_id'"),
        ({"lanes": ["sub"]}, "invalid_params", "'lanes.0'"),
        ({"node_id": "nope"}, "invalid_params", "'nope'"),
        ({"node_id": "00000000-0000-4000-8000-000000000000"}, "not_found", "00000000-0000"),
    ],
)
async def test_invalid_tree_and_node_ids_are_rejected(
    hub: Hub, params: dict[str, Any], code: str, named: str
) -> None:
    tree_id = await plant(hub)
    if params and "tree_id" not in params:
        params = {"tree_id": tree_id, **params}
    error = await call_error(hub, WALK, **params)
    assert error["code"] == code
    assert named in error["message"]


async def test_a_tree_without_handles_has_no_results(hub: Hub) -> None:
    assert await call_events(hub, WALK, tree_id=await plant(hub)) == []


async def test_a_hub_without_a_database_is_unavailable() -> None:
    error = await call_error(build_hub(), WALK, tree_id="00000000")
    assert error["code"] == "unavailable"
