"""Every event matches the schema of its method, also events written without a model."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from hubd.plexus.hub import Hub
from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.echo import EchoPlugin
from hubd.storage.arbor.references import DAY
from tests.plugins.arbor.grower import Grower
from tests.support import call_events, hub_with

Events = list[dict[str, Any]]


class Checking:
    """Calls methods and holds every event against their schema."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        # The methods, the tags of their events, and the optional fields so far.
        self.seen: dict[str, set[str]] = {}
        self._validators: dict[str, Draft202012Validator] = {}

    async def __call__(self, method: str, /, **params: Any) -> Events:
        validator = await self._validator(method)
        events = await call_events(self.hub, f"arbor.{method}", **params)
        assert events, method
        for event in events:
            validator.validate(event)
            assert not validator.is_valid({**event, "type": "another"})
            self.seen.setdefault(method, set()).add(event["type"])
        return events

    async def _validator(self, method: str) -> Draft202012Validator:
        if method not in self._validators:
            [schema] = await call_events(self.hub, "arbor.schema", method=method)
            Draft202012Validator.check_schema(schema["returns"])
            self._validators[method] = Draft202012Validator(schema["returns"])
        return self._validators[method]


@pytest.fixture
async def check(tmp_path: Path) -> AsyncIterator[Checking]:
    async with hub_with(tmp_path, Arbor(), EchoPlugin(), Grower()) as hub:
        yield Checking(hub)


async def read_everything(check: Checking, tree_id: str, node: str, other: str) -> None:
    """Call every method that reads one tree, with and without optional params."""
    for lanes in ({}, {"lanes": ["main", "events"]}, {"lanes": ["events"]}):
        common: dict[str, Any] = {"tree_id": tree_id, **lanes}
        for method in ("tree_get", "tree_get_skeleton", "context_list_leaves"):
            await check(method, **common)
        await check("node_get_children", **common)
        await check("node_get_children", **common, node_id=node, limit=1)
        await check("tree_render", **common)
        await check("tree_render", **common, resolve=True, depth=1, limit=2, width=5)
        for method in ("node_get_path", "context_get_path", "context_get_handles"):
            await check(method, **common, node_id=node)
        await check("context_get_handles", **common)
        await check("node_get_path_between", **common, start=node, end=other)
        await check("context_diff", **common, node_id=node, other=other)
    for entry in (node, other):
        await check("node_get", tree_id=tree_id, node_id=entry)
        await check("node_get_parent", tree_id=tree_id, node_id=entry)
    await check("tree_get_refs", tree_id=tree_id)


async def test_all_events_of_all_methods_match_their_schemas(check: Checking) -> None:
    [bare] = await check("tree_create")
    [created] = await check("tree_create", metadata={"a": {"b": 1}}, owner_id="ann")
    tree_id, root = created["tree_id"], created["root"]
    [text] = await check("node_create_text", tree_id=tree_id, content="x")
    [external] = await check(
        "node_create_external",
        tree_id=tree_id,
        handle={"source": "echo", "source_version": "1.0.0", "identifier": "once"},
        parent=text["node_id"],
        label="named",
        metadata={"n": 1},
    )
    node = external["node_id"]
    await call_events(check.hub, "grower.grow", tree_id=tree_id, count=600, side=True, chain=False)
    await call_events(
        check.hub, "grower.grow", tree_id=tree_id, parent=node, lane="events", count=2
    )
    # Pages before the last one have a field more.
    assert "next" in (await check("tree_get", tree_id=tree_id))[0]
    assert "next" in (await check("tree_get_skeleton", tree_id=tree_id))[0]
    assert "next" in (await check("node_get_children", tree_id=tree_id))[0]
    await read_everything(check, tree_id, node, root)
    await read_everything(check, bare["tree_id"], bare["root"], bare["root"])

    await check("node_label", tree_id=tree_id, node_id=node)
    await check("node_label", tree_id=tree_id, node_id=node, label="renamed")
    await check("tree_update_metadata", tree_id=tree_id, metadata={"c": []})
    await check("tree_query", metadata={"c": []})
    await check("tree_update_metadata", tree_id=tree_id)
    await check("tree_list")
    await check("tree_list", owner_id="nobody")

    lines = await check("tree_export", tree_id=bare["tree_id"])
    lines = await check("tree_export", tree_id=tree_id)
    assert {"label", "metadata"} <= {name for line in lines[1:] for name in line}
    data = "\n".join(map(json.dumps, lines))
    await check("tree_import", data=data, new_ids=True)

    await check("node_delete", tree_id=tree_id, node_id=text["node_id"], recursive=True)
    await check("tree_claim", tree_id=tree_id, count=2)
    await check("tree_release", tree_id=tree_id, count=2)
    await check("tree_release", tree_id=tree_id, owner_id="ann")
    await check("tree_list_scheduled")
    await check("tree_archive", tree_id=bare["tree_id"])
    await check("tree_list_archived")
    await read_everything(check, bare["tree_id"], bare["root"], bare["root"])
    assert check.hub.database is not None
    await check.hub.database.execute(
        "UPDATE arbor_trees SET state_since = state_since - ?", 31 * DAY
    )
    await check("cleanup", dry_run=True)
    await check("cleanup")
    await check("tree_get_refs", tree_id=bare["tree_id"])
    await check("tree_delete", tree_id=tree_id)

    assert check.seen.keys() == check.hub.find(["arbor"]).activation.methods.keys()
    assert check.seen["cleanup"] == {"cleanup_step", "cleanup_done"}
    assert check.seen["tree_export"] == {"tree", "node"}


async def test_events_have_the_names_and_fields_of_the_contract(check: Checking) -> None:
    """The table of events, as it was promised."""
    [created] = await check("tree_create", metadata={"a": 1})
    assert created["type"] == "tree_created"
    assert {"tree_id", "owner_id", "metadata"} <= created.keys()
    tree_id = created["tree_id"]
    [node] = await check("node_create_text", tree_id=tree_id, content="x")
    assert node["type"] == "node_created"
    assert {"tree_id", "node_id", "parent", "content"} <= node.keys()
    [data] = await check("tree_get", tree_id=tree_id)
    assert data["type"] == "tree_data"
    wanted = {"tree_id", "owner_id", "ref_count", "owners", "metadata", "state", "root", "nodes"}
    assert wanted <= data["tree"].keys()
    assert data["tree"]["nodes"][1] == {
        "id": node["node_id"],
        "tree_id": tree_id,
        "parent": created["root"],
        "depth": 1,
        "lane": "main",
        "data": {"type": "text", "content": "x"},
        "created_at": data["tree"]["nodes"][1]["created_at"],
    }
    common = {"tree_id": tree_id, "node_id": node["node_id"]}
    for method, tag, fields in (
        ("tree_list", "tree_list", {"trees"}),
        ("tree_list_scheduled", "trees_scheduled", {"trees"}),
        ("tree_list_archived", "trees_archived", {"trees"}),
        ("node_get", "node_data", {"node"}),
        ("node_get_children", "node_children", {"children"}),
        ("context_get_path", "context_path", {"tree_id", "node_id", "path"}),
        ("context_list_leaves", "context_leaves", {"tree_id", "leaves"}),
        ("context_get_handles", "context_handles", {"tree_id", "handles"}),
        ("tree_render", "tree_render", {"tree_id", "render", "nodes"}),
        ("tree_claim", "tree_claimed", {"tree_id", "owner_id", "new_count"}),
        ("tree_release", "tree_released", {"tree_id", "owner_id", "new_count"}),
    ):
        takes = check.hub.find(["arbor"]).activation.methods[method].params.model_fields
        params = {name: value for name, value in common.items() if name in takes}
        [event] = await check(method, **params)
        assert event["type"] == tag
        assert fields <= event.keys()
