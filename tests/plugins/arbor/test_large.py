"""Trees far larger than a page: nodes one below the other, and nodes side by side."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from hubd.plexus.hub import Hub
from hubd.plugins.arbor.box_drawing import DEPTH
from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.arbor.rendering import MAX_NODES
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.database import Tx
from tests.support import call_error, call_events, few, hub_with

pytestmark = pytest.mark.asyncio(loop_scope="module")

# The numbers of nodes of the deep and the wide tree, beyond all limits of the plugin.
SIZES = [(21_000, 11_000), (100_000, 50_000)]


@dataclass(frozen=True)
class Giants:
    """A hub with one deep and one wide tree: their ids, and those of their nodes in order."""

    hub: Hub
    depth: int
    width: int
    deep: str
    chain: list[str]
    wide: str
    root: str
    children: list[str]

    async def pages(self, method: str, **params: Any) -> list[dict[str, Any]]:
        return await call_events(self.hub, f"arbor.{method}", **params)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=few(SIZES, 1))
async def giants(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[Giants]:
    """Both trees, built in one transaction."""
    depth, width = request.param

    def work(tx: Tx) -> tuple[str, list[str], str, str, list[str]]:
        deep = tree.create(tx, "system", 0)
        place = tree.place(tx, deep, None)
        chain = [ids.text(place.id)]
        for number in range(depth):
            place = tree.append(tx, place, tree.text(f"{number}"), 0)
            chain.append(ids.text(place.id))
        wide = tree.create(tx, "system", 0)
        root = tree.place(tx, wide, None)
        children = [
            ids.text(tree.append(tx, root, tree.text(f"{number}"), 0).id) for number in range(width)
        ]
        return ids.text(deep.id), chain, ids.text(wide.id), ids.text(wide.root_id), children

    async with hub_with(tmp_path_factory.mktemp("arbor"), Arbor()) as hub:
        assert hub.database is not None
        yield Giants(hub, depth, width, *await hub.database.transaction(work))


async def test_the_path_through_a_deep_tree_is_complete_and_in_pages(giants: Giants) -> None:
    tip = {"tree_id": giants.deep, "node_id": giants.chain[-1]}
    pages = await giants.pages("node_get_path", **tip)
    assert [node for page in pages for node in page["path"]] == giants.chain
    assert max(len(page["path"]) for page in pages) == 500
    pages = await giants.pages("context_get_path", **tip)
    assert [node["parent"] for page in pages for node in page["path"]] == [
        *(None, *giants.chain[:-1])
    ]


async def test_the_path_between_two_nodes_of_a_deep_tree_leads_up_and_down(giants: Giants) -> None:
    high, low = 10, giants.depth - 10
    params = {"start": giants.chain[low], "end": giants.chain[high]}
    pages = await giants.pages("node_get_path_between", tree_id=giants.deep, **params)
    node_ids = [node["id"] for page in pages for node in page["path"]]
    assert node_ids == giants.chain[low : high - 1 : -1]
    assert {page["common"] for page in pages} == {giants.chain[high]}
    params = {"start": giants.chain[high], "end": giants.chain[low]}
    pages = await giants.pages("node_get_path_between", tree_id=giants.deep, **params)
    node_ids = [node["id"] for page in pages for node in page["path"]]
    assert node_ids == giants.chain[high : low + 1]


async def test_the_diff_of_distant_nodes_has_counts_and_a_page_of_each(
    giants: Giants,
) -> None:
    [diff] = await giants.pages(
        "context_diff", tree_id=giants.deep, node_id=giants.chain[100], other=giants.chain[-1]
    )
    assert (diff["common"], diff["shared"]) == (giants.chain[100], 101)
    assert (diff["ahead"], diff["behind"]) == (0, giants.depth - 100)
    assert diff["only_node"] == []
    assert [node["id"] for node in diff["only_other"]] == giants.chain[101:201]


async def test_a_deep_tree_is_drawn_to_its_limit_and_the_rest_is_counted(giants: Giants) -> None:
    [drawn] = await giants.pages("tree_render", tree_id=giants.deep)
    lines = drawn["render"].split("\n")
    left = giants.depth - DEPTH
    assert len(lines) == DEPTH + 2
    assert lines[0] == "└──"
    assert lines[DEPTH] == "    " * DEPTH + f"└── {DEPTH - 1}"
    assert lines[-1] == "    " * (DEPTH + 1) + f"└── … {left} more"
    assert drawn["more"] == left
    assert [node["id"] for node in drawn["nodes"]] == giants.chain[: DEPTH + 1]


async def test_the_skeleton_and_the_leaves_of_a_deep_tree_are_complete(giants: Giants) -> None:
    pages = await giants.pages("tree_get_skeleton", tree_id=giants.deep)
    nodes = [node for page in pages for node in page["tree"]["nodes"]]
    assert [node["id"] for node in nodes] == giants.chain
    assert [node["depth"] for node in nodes] == list(range(giants.depth + 1))
    # Every page but the last says where to go on.
    assert [page.get("next") for page in pages] == [
        *(page["tree"]["nodes"][-1]["id"] for page in pages[:-1]),
        None,
    ]
    [rest] = await giants.pages("tree_get_skeleton", tree_id=giants.deep, after=pages[-2]["next"])
    assert rest == pages[-1]
    [leaves] = await giants.pages("context_list_leaves", tree_id=giants.deep)
    assert leaves["leaves"] == [giants.chain[-1]]


async def test_deleting_a_too_large_subtree_is_rejected(giants: Giants) -> None:
    error = await call_error(
        giants.hub,
        "arbor.node_delete",
        tree_id=giants.deep,
        node_id=giants.chain[1],
        recursive=True,
    )
    assert error["code"] == "conflict"
    assert (
        f"node {giants.chain[1]} has more than {tree.MAX_DELETED} nodes below it"
        in (error["message"])
    )
    [leaves] = await giants.pages("context_list_leaves", tree_id=giants.deep)
    assert leaves["leaves"] == [giants.chain[-1]]


async def test_many_children_are_read_in_ordered_pages_from_any_start(giants: Giants) -> None:
    pages = await giants.pages("node_get_children", tree_id=giants.wide)
    assert [node["id"] for page in pages for node in page["children"]] == giants.children
    assert {len(page["children"]) for page in pages} == {500}
    assert "next" not in pages[-1]
    params = {"tree_id": giants.wide, "after": giants.children[4_999], "limit": 700}
    first, second = await giants.pages("node_get_children", **params)
    node_ids = [node["id"] for page in (first, second) for node in page["children"]]
    assert node_ids == giants.children[5_000:5_700]
    assert second["next"] == giants.children[5_699]


async def test_a_wide_tree_is_drawn_to_its_limit_and_the_rest_is_counted(giants: Giants) -> None:
    [drawn] = await giants.pages("tree_render", tree_id=giants.wide)
    lines = drawn["render"].split("\n")
    left = giants.width + 1 - MAX_NODES
    # The root, and so many less one of its children.
    assert lines[:3] == ["└──", "    ├── 0", "    ├── 1"]
    assert lines[-2:] == [f"    ├── {MAX_NODES - 2}", f"    └── … {left} more"]
    assert drawn["more"] == left
    [small] = await giants.pages("tree_render", tree_id=giants.wide, limit=3)
    assert small["render"].split("\n")[1:] == [
        *("    ├── 0", "    ├── 1", f"    └── … {giants.width - 2} more")
    ]


async def test_the_leaves_and_the_nodes_of_a_wide_tree_are_complete(giants: Giants) -> None:
    pages = await giants.pages("context_list_leaves", tree_id=giants.wide)
    assert sorted(leaf for page in pages for leaf in page["leaves"]) == sorted(giants.children)
    pages = await giants.pages("tree_get", tree_id=giants.wide)
    node_ids = [node["id"] for page in pages for node in page["tree"]["nodes"]]
    assert node_ids == [giants.root, *giants.children]
