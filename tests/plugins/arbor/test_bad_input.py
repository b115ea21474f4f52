"""Invalid calls: the error code, the message, and no change."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from hubd.plexus.hub import Hub
from hubd.plugins.arbor.base import MAX_METADATA, MAX_TEXT
from hubd.plugins.arbor.events import NodeCreated
from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.echo import EchoPlugin
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.arbor.tree import MAX_HANDLE
from hubd.storage.database import Tx
from tests.support import call_error, call_events, hub_with

# One hub for all: every test shows that it left no trace.
pytestmark = pytest.mark.asyncio(loop_scope="module")

# Stands for a node of the tree that a call is about.
NODE = "{node}"
TWINS = ("abcdef12-0000-4000-8000-000000000001", "abcdef12-0000-4000-8000-000000000002")
TWIN_NODES = tuple(bytes.fromhex(f"0199{n:04}77777777aaaa000012345678") for n in (1, 2))
UNKNOWN = "00000000-0000-4000-8000-000000000000"

# Every method that names a tree, with params that it accepts.
READING: dict[str, dict[str, Any]] = {
    "tree_get": {"after": NODE},
    "tree_get_skeleton": {"after": NODE},
    "tree_get_refs": {},
    "tree_render": {},
    "tree_export": {},
    "node_get": {"node_id": NODE},
    "node_get_children": {"node_id": NODE, "after": NODE},
    "node_get_parent": {"node_id": NODE},
    "node_get_path": {"node_id": NODE},
    "node_get_path_between": {"start": NODE, "end": NODE},
    "context_list_leaves": {},
    "context_get_path": {"node_id": NODE},
    "context_get_handles": {"node_id": NODE},
    "context_diff": {"node_id": NODE, "other": NODE},
}
WRITING: dict[str, dict[str, Any]] = {
    "tree_update_metadata": {"metadata": {}},
    "tree_claim": {},
    "tree_release": {},
    "tree_archive": {},
    "node_create_text": {"parent": NODE, "content": "x"},
    "node_create_external": {"parent": NODE, "handle": "echo@1.0.0::once:x"},
    "node_label": {"node_id": NODE, "label": "x"},
    "node_delete": {"node_id": NODE},
}
ALL = {**READING, **WRITING, "tree_delete": {}}
WITHOUT_TREE = {
    *("tree_create", "tree_list", "tree_list_scheduled", "tree_list_archived", "tree_query"),
    *("tree_import", "cleanup"),
}
NODES = [(method, name) for method, given in ALL.items() for name in given if given[name] == NODE]


@dataclass(frozen=True)
class World:
    """A hub with a few trees, and their ids by name."""

    hub: Hub
    names: dict[str, str]

    def params(self, given: dict[str, Any], tree_name: str = "tree") -> dict[str, Any]:
        """Params with the ids put in."""
        node = "node" if tree_name == "tree" else f"{tree_name}_node"
        names = {**self.names, "node": self.names[node]}
        return {
            "tree_id": names[tree_name],
            **{
                name: value.format(**names) if isinstance(value, str) else value
                for name, value in given.items()
            },
        }

    async def everything(self) -> list[Any]:
        """All that can be known of all trees."""
        existing: list[Any] = []
        for method in ("tree_list", "tree_list_scheduled", "tree_list_archived"):
            for page in await call_events(self.hub, f"arbor.{method}"):
                existing += page["trees"]
        for entry in list(existing):
            for method in ("tree_export", "tree_get_refs"):
                existing += await call_events(self.hub, f"arbor.{method}", tree_id=entry["tree_id"])
        return existing


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with hub_with(tmp_path_factory.mktemp("arbor"), Arbor(), EchoPlugin()) as hub:
        names = {}
        for name in ("tree", "other", "archived"):
            [created] = await call_events(hub, "arbor.tree_create", metadata={"name": name})
            names[name] = created["tree_id"]
            [node] = await call_events(
                hub, "arbor.node_create_text", tree_id=created["tree_id"], content=name
            )
            names[f"{name}_node"] = node["node_id"]
        names["node"] = names["tree_node"]
        await call_events(hub, "arbor.tree_archive", tree_id=names["archived"])
        assert hub.database is not None
        for twin in TWINS:
            wanted = bytes.fromhex(twin.replace("-", ""))
            await hub.database.transaction(
                lambda tx, wanted=wanted: tree.create(tx, "system", 0, tree_id=wanted)  # type: ignore[misc]
            )
        names["twin"], names["twin_node"] = TWINS[0], ids.text(TWIN_NODES[0])
        await hub.database.transaction(_add_twin_nodes)
        yield World(hub, names)


def _add_twin_nodes(tx: Tx) -> None:
    twin = tree.find(tx, TWINS[0])
    for node in TWIN_NODES:
        tree.append(tx, tree.place(tx, twin, None), tree.text("x"), 0, node_id=node)


async def refused(
    world: World, method: str, params: dict[str, Any], code: str, *named: str
) -> dict[str, Any]:
    """The error of a call that must fail and change nothing."""
    before = await world.everything()
    error = await refusal(world, method, params, code, *named)
    assert await world.everything() == before
    return error


async def refusal(
    world: World, method: str, params: dict[str, Any], code: str, *named: str
) -> dict[str, Any]:
    """The error of a call that must fail."""
    error = await call_error(world.hub, f"arbor.{method}", **params)
    assert error["code"] == code, (method, error)
    for name in named:
        assert name in error["message"], (method, error)
    assert error["guidance"]["suggestion"], method
    return error


async def test_every_method_is_covered_here(world: World) -> None:
    methods = world.hub.find(["arbor"]).activation.methods
    assert ALL.keys() | WITHOUT_TREE == methods.keys()
    for method, given in ALL.items():
        nodes = {
            name
            for name, entry in methods[method].params.model_fields.items()
            if "last 4 or more digits" in str(entry.description)
            or name in ("after", "end", "other")
        }
        assert nodes == {name for name, value in given.items() if value == NODE}, method


# Trees


@pytest.mark.parametrize(
    ("tree_id", "code", "named"),
    [
        (UNKNOWN, "not_found", f"no tree {UNKNOWN}"),
        ("00000000", "not_found", "no tree 00000000"),
        ("nope", "invalid_params", "'nope' is not the id of a tree"),
        ("abcdef1", "invalid_params", "'abcdef1'"),
        ("../../etc", "invalid_params", "'../../etc'"),
        ("", "invalid_params", "'tree_id'"),
        ("f" * 65, "invalid_params", "'tree_id'"),
        (7, "invalid_params", "'tree_id'"),
        (None, "invalid_params", "'tree_id'"),
        ("abcdef12", "ambiguous", "abcdef12"),
    ],
)
async def test_invalid_tree_ids_are_rejected_by_every_method(
    world: World, tree_id: object, code: str, named: str
) -> None:
    before = await world.everything()
    for method, given in ALL.items():
        params = {**world.params(given), "tree_id": tree_id}
        error = await refusal(world, method, params, code, named)
        if code == "ambiguous":
            assert sorted(error["guidance"]["available"]) == sorted(TWINS), method
    assert await world.everything() == before


@pytest.mark.parametrize("method", ALL)
async def test_missing_and_unknown_params_are_rejected(world: World, method: str) -> None:
    params = world.params(ALL[method])
    del params["tree_id"]
    await refused(world, method, params, "invalid_params", "'tree_id' is missing")
    params = {**world.params(ALL[method]), "colour": "red"}
    await refused(world, method, params, "invalid_params", "'colour'")


@pytest.mark.parametrize("method", WRITING)
async def test_an_archived_tree_rejects_writes(world: World, method: str) -> None:
    params = world.params(WRITING[method], "archived")
    await refused(world, method, params, "conflict", world.names["archived"])


@pytest.mark.parametrize("method", READING)
async def test_an_archived_tree_can_be_read(world: World, method: str) -> None:
    before = await world.everything()
    assert await call_events(
        world.hub, f"arbor.{method}", **world.params(READING[method], "archived")
    )
    assert await world.everything() == before


# Nodes


@pytest.mark.parametrize(("method", "name"), NODES)
async def test_nodes_of_other_trees_are_rejected(world: World, method: str, name: str) -> None:
    others = world.names["other_node"], world.names["archived_node"]
    before = await world.everything()
    for wrong in (str(uuid4()), *others, others[0][-12:], "00000000"):
        params = {**world.params(ALL[method]), name: wrong}
        message = f"no node {wrong} in tree {world.names['tree']}"
        await refusal(world, method, params, "not_found", message)
    assert await world.everything() == before


@pytest.mark.parametrize(("method", "name"), NODES)
async def test_invalid_node_ids_are_rejected(world: World, method: str, name: str) -> None:
    before = await world.everything()
    for wrong in ("nope", "abc", "-abcd", "0-00000000", "x" * 40, "' OR 1=1 --"):
        params = {**world.params(ALL[method]), name: wrong}
        message = f"'{wrong}' is not the id of a node"
        await refusal(world, method, params, "invalid_params", message)
    for misfit in ("", 7, ["x"], "0" * 65):
        params = {**world.params(ALL[method]), name: misfit}
        await refusal(world, method, params, "invalid_params", f"'{name}'")
    assert await world.everything() == before


@pytest.mark.parametrize(("method", "name"), NODES)
async def test_an_ambiguous_node_id_is_rejected_with_both_candidates(
    world: World, method: str, name: str
) -> None:
    params = {**world.params(ALL[method], "twin"), name: "5678"}
    error = await refused(world, method, params, "ambiguous", "2 nodes", "end with 5678")
    assert error["guidance"]["available"] == [ids.text(node) for node in TWIN_NODES]


# Everything else


def too_large() -> dict[str, Any]:
    return {"a": "x" * MAX_METADATA}


CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("tree_release", {"count": 2}, "conflict", "system has 1 reference to tree {tree}, not 2"),
    ("tree_release", {"owner_id": "bob"}, "conflict", "bob has 0 references to tree {tree}"),
    ("tree_release", {"count": 0}, "invalid_params", "'count'"),
    ("tree_release", {"count": 1_000_001}, "invalid_params", "'count'"),
    ("tree_claim", {"count": -1}, "invalid_params", "'count'"),
    ("tree_claim", {"count": 1.5}, "invalid_params", "'count'"),
    ("tree_claim", {"count": "1"}, "invalid_params", "'count'"),
    ("tree_claim", {"owner_id": ""}, "invalid_params", "'owner_id'"),
    ("tree_claim", {"owner_id": "x" * 201}, "invalid_params", "'owner_id'"),
    ("tree_delete", {"owner_id": "bob"}, "conflict", "system still has references to tree {tree}"),
    ("tree_archive", {"owner_id": "bob"}, "conflict", "system still has references to tree {tree}"),
    ("tree_update_metadata", {"metadata": too_large()}, "invalid_params", f"{MAX_METADATA} bytes"),
    ("tree_update_metadata", {"metadata": [1]}, "invalid_params", "'metadata'"),
    ("tree_get", {"lanes": ["sub"]}, "invalid_params", "'lanes.0'"),
    ("tree_get", {"depth": -1}, "invalid_params", "'depth'"),
    ("tree_render", {"depth": 100_001}, "invalid_params", "'depth'"),
    ("tree_render", {"width": 0}, "invalid_params", "'width'"),
    ("tree_render", {"width": 1001}, "invalid_params", "'width'"),
    ("tree_render", {"limit": 0}, "invalid_params", "'limit'"),
    ("tree_render", {"limit": 10_001}, "invalid_params", "'limit'"),
    ("node_get_children", {"limit": 0}, "invalid_params", "'limit'"),
    ("context_diff", {"node_id": NODE, "other": NODE, "limit": -1}, "invalid_params", "'limit'"),
    ("context_diff", {"node_id": NODE, "other_id": NODE, "other": NODE}, "invalid_params", "same"),
    ("node_create_text", {}, "invalid_params", "'content' is missing"),
    ("node_create_text", {"content": "x" * (MAX_TEXT + 1)}, "invalid_params", "'content'"),
    ("node_create_text", {"content": "x" * 10_000_000}, "invalid_params", "'content'"),
    ("node_create_text", {"content": "x", "label": "x" * 201}, "invalid_params", "'label'"),
    ("node_create_text", {"content": "x", "metadata": too_large()}, "invalid_params", "metadata"),
    ("node_create_text", {"content": None}, "invalid_params", "'content'"),
    ("node_label", {"node_id": NODE, "label": "x" * 201}, "invalid_params", "'label'"),
    ("node_create_external", {}, "invalid_params", "'handle' is missing"),
    ("node_create_external", {"handle": "nope"}, "handle_invalid", "'nope'"),
    ("node_create_external", {"handle": ""}, "handle_invalid", "''"),
    ("node_create_external", {"handle": "a@1::b:50%"}, "handle_invalid", "'50%'"),
    ("node_create_external", {"handle": "a@1::b:\x1b"}, "handle_invalid", "control character"),
    ("node_create_external", {"handle": {"plugin": "a"}}, "handle_invalid", "'version'"),
    ("node_create_external", {"handle": 7}, "handle_invalid", "7"),
    (
        "node_create_external",
        {"handle": "a@1.0.0::b:" + "x" * MAX_HANDLE},
        "invalid_params",
        f"{MAX_HANDLE} characters",
    ),
]


@pytest.mark.parametrize(("method", "given", "code", "named"), CASES)
async def test_invalid_values_are_rejected(
    world: World, method: str, given: dict[str, Any], code: str, named: str
) -> None:
    await refused(world, method, world.params(given), code, named.format(**world.names))


@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        ("tree_create", {"metadata": "x"}, "'metadata'"),
        ("tree_create", {"metadata": too_large()}, f"{MAX_METADATA} bytes"),
        ("tree_create", {"owner_id": ""}, "'owner_id'"),
        ("tree_list", {"owner_id": ""}, "'owner_id'"),
        ("tree_query", {}, "'metadata' is missing"),
        ("tree_query", {"metadata": None}, "'metadata'"),
        ("tree_import", {}, "data, file"),
        ("tree_import", {"data": "", "file": ""}, "data and file"),
        ("cleanup", {"dry_run": "yes"}, "'dry_run'"),
    ],
)
async def test_invalid_params_of_methods_without_a_tree_are_rejected(
    world: World, method: str, params: dict[str, Any], named: str
) -> None:
    await refused(world, method, params, "invalid_params", named)


@pytest.mark.parametrize("number", [1e999, -1e999])
async def test_infinite_numbers_are_rejected(world: World, number: float) -> None:
    """`1e999` is valid JSON, but infinite after parsing, which JSON can't express."""
    for method, given in (
        ("tree_create", {}),
        ("tree_update_metadata", world.params({})),
        ("node_create_text", world.params({"content": "x"})),
    ):
        params = {**given, "metadata": {"a": [number]}}
        await refused(world, method, params, "invalid_params", "too large for JSON")


async def test_the_root_and_nodes_with_children_cannot_be_deleted(world: World) -> None:
    [refs] = await call_events(world.hub, "arbor.tree_get", tree_id=world.names["tree"], depth=0)
    root = refs["tree"]["root"]
    params = {"tree_id": world.names["tree"], "node_id": root}
    await refused(world, "node_delete", params, "conflict", "root")
    await refused(world, "node_delete", {**params, "recursive": True}, "conflict", "root")
    below = NodeCreated.model_validate(
        (
            await call_events(
                world.hub,
                "arbor.node_create_text",
                tree_id=world.names["tree"],
                parent=world.names["node"],
                content="below",
            )
        )[0]
    )
    params = {"tree_id": world.names["tree"], "node_id": world.names["node"]}
    await refused(world, "node_delete", params, "conflict", world.names["node"], "has children")
    await call_events(world.hub, "arbor.node_delete", **{**params, "node_id": below.node_id})


async def test_text_at_the_limit_is_stored_completely(world: World) -> None:
    content = "ü" * MAX_TEXT
    common = {"tree_id": world.names["tree"]}
    [node] = await call_events(world.hub, "arbor.node_create_text", content=content, **common)
    common["node_id"] = node["node_id"]
    [stored] = await call_events(world.hub, "arbor.node_get", **common)
    assert stored["node"]["data"]["content"] == content
    await call_events(world.hub, "arbor.node_delete", **common)
