"""Cones: created, found, forked, moved and deleted."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from hubd.plexus.hub import Hub
from hubd.plugins.cone.plugin import Cone
from tests.plugins.cone.support import cones, conversation, everything, head, only, tree_of
from tests.support import call_error, call_events, call_items


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with cones(tmp_path) as hub:
        yield hub


async def test_a_new_cone_is_at_the_root_of_a_new_tree_and_owns_it(hub: Hub) -> None:
    created = await only(hub, "cone.create", name="c")
    assert created["type"] == "cone_created"
    assert UUID(created["cone_id"]).version == 4
    tree = (await call_events(hub, "arbor.tree_get", tree_id=created["head"]["tree_id"]))[0]["tree"]
    assert tree["root"] == created["head"]["node_id"]
    assert tree["owners"] == {f"cone:{created['cone_id']}": 1}
    assert await conversation(hub, "c") == []


async def test_a_system_prompt_is_the_first_node_and_has_a_handle(hub: Hub) -> None:
    created = await only(hub, "cone.create", name="c", system_prompt="Be brief.")
    assert await conversation(hub, "c") == [("system", "Be brief.")]
    assert (await only(hub, "cone.get", identifier="c"))["system_prompt"] == "Be brief."
    resolved = await only(hub, "plexus.resolve_handle", handle=created["handle"])
    assert resolved["kind"] == "message"
    assert resolved["data"] == {
        "type": "resolved_message",
        "id": created["handle"].split(":")[3].removeprefix("msg-"),
        "role": "system",
        "content": "Be brief.",
        "model": None,
        "name": "system",
    }


@pytest.mark.parametrize("by", ["name", "id", "prefix", "alias"])
async def test_a_cone_is_found_by_name_id_or_first_digits_of_its_id(hub: Hub, by: str) -> None:
    created = await only(hub, "cone.create", name="c")
    await only(hub, "cone.create", name="other")
    identifier = {"name": "c", "id": created["cone_id"], "prefix": created["cone_id"][:8]}
    params = {"name": "c"} if by == "alias" else {"identifier": identifier[by]}
    assert (await only(hub, "cone.get", **params))["cone"]["cone_id"] == created["cone_id"]


async def test_a_taken_name_is_rejected_and_leaves_nothing_behind(hub: Hub) -> None:
    created = await only(hub, "cone.create", name="c", system_prompt="first")
    error = await call_error(hub, "cone.create", name="c", system_prompt="second")
    assert error["code"] == "conflict"
    error = await call_error(hub, "cone.fork", identifier="c", new_name="c")
    assert error["code"] == "conflict"
    trees = (await call_events(hub, "arbor.tree_list"))[0]["trees"]
    assert [tree["tree_id"] for tree in trees] == [created["head"]["tree_id"]]
    assert trees[0]["ref_count"] == 1


@pytest.mark.parametrize("method", ["get", "delete", "get_conversation", "export"])
async def test_an_unknown_cone_is_not_found(hub: Hub, method: str) -> None:
    error = await call_error(hub, f"cone.{method}", identifier="unknown")
    assert error["code"] == "not_found"
    assert "synapse cone create" in error["guidance"]["suggestion"]


async def test_all_cones_are_listed_without_their_prompts(hub: Hub) -> None:
    assert await call_events(hub, "cone.list") == [{"type": "cone_list", "cones": []}]
    for name in ("b", "a"):
        await only(hub, "cone.create", name=name, system_prompt="x" * 1000, model_id="m")
    [page] = await call_events(hub, "cone.list")
    assert [cone["name"] for cone in page["cones"]] == ["b", "a"]
    assert "x" * 10 not in str(page)


async def test_a_fork_shares_the_tree_and_claims_it(hub: Hub) -> None:
    await only(hub, "cone.create", name="c", system_prompt="s")
    await everything(hub, "cone.chat", identifier="c", prompt="one")
    fork = await only(hub, "cone.fork", identifier="c", new_name="d", model_id="openai/tiny")
    assert fork["head"] == (await only(hub, "cone.get", identifier="c"))["cone"]["head"]
    assert fork["model_id"] == "openai/tiny"
    assert (await only(hub, "cone.get", identifier="d"))["system_prompt"] == "s"
    tree_id = await tree_of(hub, "c")
    await only(hub, "cone.delete", identifier="c")
    refs = (await call_events(hub, "arbor.tree_get", tree_id=tree_id))[0]["tree"]
    assert (refs["state"], refs["ref_count"]) == ("active", 1)
    assert [role for role, _ in await conversation(hub, "d")] == ["system", "user", "assistant"]


async def test_cones_diverge_after_a_fork(hub: Hub) -> None:
    await only(hub, "cone.create", name="c")
    await everything(hub, "cone.chat", identifier="c", prompt="one")
    await only(hub, "cone.fork", identifier="c", new_name="d")
    for name in "cd":
        await everything(hub, "cone.chat", identifier=name, prompt=f"two of {name}")
    texts = {name: [text for _, text in await conversation(hub, name)] for name in "cd"}
    assert texts["c"][:2] == texts["d"][:2]
    assert (texts["c"][2], texts["d"][2]) == ("two of c", "two of d")


async def test_a_fork_can_start_at_an_earlier_node(hub: Hub) -> None:
    await only(hub, "cone.create", name="c")
    await everything(hub, "cone.chat", identifier="c", prompt="one")
    earlier = await head(hub, "c")
    await everything(hub, "cone.chat", identifier="c", prompt="two")
    await only(hub, "cone.fork", identifier="c", new_name="d", at=earlier)
    assert [text for role, text in await conversation(hub, "d") if role == "user"] == ["one"]


async def test_deleting_the_last_cone_releases_its_tree(hub: Hub) -> None:
    created = await only(hub, "cone.create", name="c", system_prompt="s")
    deleted = await only(hub, "cone.delete", identifier="c")
    assert deleted == {"type": "cone_deleted", "cone_id": created["cone_id"], "name": "c"}
    tree = (await call_events(hub, "arbor.tree_get", tree_id=created["head"]["tree_id"]))[0]["tree"]
    assert tree["state"] == "scheduled"
    # Messages live as long as their tree.
    await only(hub, "plexus.resolve_handle", handle=created["handle"])
    await call_events(hub, "arbor.tree_delete", tree_id=created["head"]["tree_id"], force=True)
    error = await call_error(hub, "plexus.resolve_handle", handle=created["handle"])
    assert error["code"] == "handle_target_missing"


@pytest.mark.parametrize("step", ["tree_archive", "tree_release", "tree_claim"])
async def test_a_cone_can_be_deleted_with_any_owners_of_its_tree(hub: Hub, step: str) -> None:
    created = await only(hub, "cone.create", name="c")
    where = {"tree_id": created["head"]["tree_id"], "owner_id": f"cone:{created['cone_id']}"}
    await call_events(hub, f"arbor.{step}", **where)
    await only(hub, "cone.delete", identifier="c")
    tree = (await only(hub, "arbor.tree_get", tree_id=where["tree_id"]))["tree"]
    assert tree["owners"] == {}
    assert tree["state"] == ("archived" if step == "tree_archive" else "scheduled")


async def test_a_forced_deletion_of_a_tree_deletes_its_cones(hub: Hub) -> None:
    await only(hub, "cone.create", name="c", system_prompt="s")
    await call_events(hub, "arbor.tree_delete", tree_id=await tree_of(hub, "c"), force=True)
    assert (await call_error(hub, "cone.get", identifier="c"))["code"] == "not_found"


async def test_a_cone_can_start_at_a_node_of_an_existing_tree(hub: Hub) -> None:
    tree = (await call_events(hub, "arbor.tree_create"))[0]["tree_id"]
    [first] = await call_events(hub, "arbor.node_create_text", tree_id=tree, content="notes")
    created = await only(
        hub,
        "cone.create",
        name="c",
        tree_id=tree,
        node_id=first["node_id"],
        system_prompt="Read the notes.",
    )
    assert created["head"]["tree_id"] == tree
    assert await conversation(hub, "c") == [("user", "notes"), ("system", "Read the notes.")]
    owners = (await call_events(hub, "arbor.tree_get", tree_id=tree))[0]["tree"]["owners"]
    assert owners == {"system": 1, f"cone:{created['cone_id']}": 1}


async def test_set_head_accepts_only_nodes_of_the_tree(hub: Hub) -> None:
    await only(hub, "cone.create", name="c")
    root = await head(hub, "c")
    await everything(hub, "cone.chat", identifier="c", prompt="one")
    # The last digits of a node's id are enough.
    moved = await only(hub, "cone.set_head", identifier="c", node_id=root[-12:])
    assert moved["head"]["node_id"] == root == await head(hub, "c")
    await only(hub, "cone.create", name="d")
    foreign = await head(hub, "d")
    for node_id in (foreign, str(uuid4())):
        error = await call_error(hub, "cone.set_head", identifier="c", node_id=node_id)
        assert error["code"] == "not_found"
    assert await head(hub, "c") == root


async def test_the_head_of_a_cone_cannot_be_deleted(hub: Hub) -> None:
    await only(hub, "cone.create", name="c", system_prompt="s")
    where = {"tree_id": await tree_of(hub, "c"), "node_id": await head(hub, "c")}
    error = await call_error(hub, "arbor.node_delete", **where)
    assert error["code"] == "conflict"


@pytest.mark.parametrize(
    "params",
    [
        {"name": ""},
        {"name": "x" * 201},
        {"name": "c", "system_prompt": ""},
        {"name": "c", "model_id": ""},
        {"name": "c", "node_id": str(uuid4())},
        {"identifier": "c"},
    ],
)
async def test_invalid_params_create_nothing(hub: Hub, params: dict[str, str]) -> None:
    assert (await call_error(hub, "cone.create", **params))["code"] == "invalid_params"
    assert (await call_events(hub, "cone.list"))[0]["cones"] == []
    assert (await call_events(hub, "arbor.tree_list"))[0]["trees"] == []


async def test_create_warns_if_the_model_is_offline_by_default(hub: Hub) -> None:
    items = await call_items(hub, "cone.create", name="c")
    [advice] = [item for item in items if item["type"] == "guidance"]
    assert "offline" in advice["suggestion"]
    assert "ANTHROPIC_API_KEY" in advice["suggestion"]
    items = await call_items(hub, "cone.create", name="d", model_id="offline")
    assert [item["type"] for item in items] == ["data", "done"]


async def test_a_handle_with_a_wrong_role_does_not_resolve(hub: Hub) -> None:
    created = await only(hub, "cone.create", name="c", system_prompt="s")
    wrong_role = created["handle"].replace(":system:system", ":user:system")
    assert (await call_error(hub, "plexus.resolve_handle", handle=wrong_role))["code"] == (
        "handle_target_missing"
    )
    for wrong in (
        created["handle"].replace(":system:system", ":judge"),
        "cone@1.0.0::chat:msg-1:user",
    ):
        error = await call_error(hub, "plexus.resolve_handle", handle=wrong)
        assert error["code"] == "handle_invalid"


def test_every_handle_field_is_marked_in_the_schema() -> None:
    for spec in Cone.methods.values():
        schema = spec.returns_schema
        models = [schema, *schema.get("$defs", {}).values()]
        handles = [
            model["properties"]["handle"]
            for model in models
            if "handle" in model.get("properties", {})
        ]
        assert all("plexus-handle" in str(handle) for handle in handles), spec.name
        if any(handles):
            assert [handle.method for handle in spec.produces] == ["chat"], spec.name


async def test_the_object_form_of_a_handle_resolves(hub: Hub) -> None:
    created = await only(hub, "cone.create", name="c", system_prompt="s")
    identifier = created["handle"].partition("::chat:")[2]
    older = {"source": "cone", "source_version": "1.0.0", "identifier": identifier}
    resolved = await only(hub, "plexus.resolve_handle", handle=older)
    assert (resolved["handle"], resolved["data"]["content"]) == (created["handle"], "s")


async def test_a_list_of_cones_can_be_limited(hub: Hub) -> None:
    for name in "abc":
        await only(hub, "cone.create", name=name)
    listed = await only(hub, "cone.list", limit=2)
    assert [cone["name"] for cone in listed["cones"]] == ["a", "b"]
