"""Trees far larger than a page: 100,000 nodes one below the other, 50,000 side by side."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from hubd.plexus.hub import Hub
from hubd.plugins.arbor.drawing import MAX_NODES
from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.arbor.render import DEPTH
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.database import Tx
from tests.support import call_error, call_events, hub_with

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEEP, WIDE = 100_000, 50_000


@dataclass(frozen=True)
class Giants:
    """A hub with one deep and one wide tree: their ids, and those of their nodes in order."""

    hub: Hub
    deep: str
    chain: list[str]
    wide: str
    root: str
    children: list[str]

    async def pages(self, method: str, **params: Any) -> list[dict[str, Any]]:
        return await call_events(self.hub, f"arbor.{method}", **params)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def giants(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Giants]:
    """Built in one transaction: making them is not what is tested."""

    def work(tx: Tx) -> tuple[str, list[str], str, str, list[str]]:
        deep = tree.create(tx, "system", 0)
        place = tree.place(tx, deep, None)
        chain = [ids.text(place.id)]
        for number in range(DEEP):
            place = tree.append(tx, place, tree.text(f"{number}"), 0)
            chain.append(ids.text(place.id))
        wide = tree.create(tx, "system", 0)
        root = tree.place(tx, wide, None)
        children = [
            ids.text(tree.append(tx, root, tree.text(f"{number}"), 0).id) for number in range(WIDE)
        ]
        return ids.text(deep.id), chain, ids.text(wide.id), ids.text(wide.root_id), children

    async with hub_with(tmp_path_factory.mktemp("arbor"), Arbor()) as hub:
        assert hub.database is not None
        yield Giants(hub, *await hub.database.transaction(work))


async def test_the_path_to_the_end_of_a_deep_tree_is_whole_and_in_pages(giants: Giants) -> None:
    tip = {"tree_id": giants.deep, "node_id": giants.chain[-1]}
    pages = await giants.pages("node_get_path", **tip)
    assert [node for page in pages for node in page["path"]] == giants.chain
    assert max(len(page["path"]) for page in pages) == 500
    pages = await giants.pages("context_get_path", **tip)
    assert [node["parent"] for page in pages for node in page["path"]] == [
        *(None, *giants.chain[:-1])
    ]


async def test_the_way_between_two_nodes_of_a_deep_tree_goes_up_and_down(giants: Giants) -> None:
    high, low = 10, DEEP - 10
    params = {"start": giants.chain[low], "end": giants.chain[high]}
    pages = await giants.pages("node_get_path_between", tree_id=giants.deep, **params)
    found = [node["id"] for page in pages for node in page["path"]]
    assert found == giants.chain[low : high - 1 : -1]
    assert {page["common"] for page in pages} == {giants.chain[high]}
    params = {"start": giants.chain[high], "end": giants.chain[low]}
    pages = await giants.pages("node_get_path_between", tree_id=giants.deep, **params)
    found = [node["id"] for page in pages for node in page["path"]]
    assert found == giants.chain[high : low + 1]


async def test_the_difference_of_two_far_nodes_is_numbers_and_a_page_of_each(
    giants: Giants,
) -> None:
    [diff] = await giants.pages(
        "context_diff", tree_id=giants.deep, node_id=giants.chain[100], other=giants.chain[-1]
    )
    assert (diff["common"], diff["shared"]) == (giants.chain[100], 101)
    assert (diff["ahead"], diff["behind"]) == (0, DEEP - 100)
    assert diff["only_node"] == []
    assert [node["id"] for node in diff["only_other"]] == giants.chain[101:201]


async def test_a_deep_tree_is_drawn_to_its_limit_and_the_rest_is_counted(giants: Giants) -> None:
    [drawn] = await giants.pages("tree_render", tree_id=giants.deep)
    lines = drawn["render"].split("\n")
    left = DEEP - DEPTH
    assert len(lines) == DEPTH + 2
    assert lines[0] == "└──"
    assert lines[DEPTH] == "    " * DEPTH + f"└── {DEPTH - 1}"
    assert lines[-1] == "    " * (DEPTH + 1) + f"└── … {left} more"
    assert drawn["more"] == left
    assert [node["id"] for node in drawn["nodes"]] == giants.chain[: DEPTH + 1]


async def test_the_skeleton_and_the_leaves_of_a_deep_tree(giants: Giants) -> None:
    pages = await giants.pages("tree_get_skeleton", tree_id=giants.deep)
    nodes = [node for page in pages for node in page["tree"]["nodes"]]
    assert [node["id"] for node in nodes] == giants.chain
    assert [node["depth"] for node in nodes] == list(range(DEEP + 1))
    # Every page but the last says where to go on.
    assert [page.get("next") for page in pages] == [
        *(page["tree"]["nodes"][-1]["id"] for page in pages[:-1]),
        None,
    ]
    [rest] = await giants.pages("tree_get_skeleton", tree_id=giants.deep, after=pages[-2]["next"])
    assert rest == pages[-1]
    [leaves] = await giants.pages("context_list_leaves", tree_id=giants.deep)
    assert leaves["leaves"] == [giants.chain[-1]]


async def test_too_large_a_subtree_is_not_deleted(giants: Giants) -> None:
    error = await call_error(
        giants.hub,
        "arbor.node_delete",
        tree_id=giants.deep,
        node_id=giants.chain[1],
        recursive=True,
    )
    assert error["code"] == "conflict"
    assert (
        f"more than {tree.MAX_DELETED} nodes lie below node {giants.chain[1]}" in (error["message"])
    )
    [leaves] = await giants.pages("context_list_leaves", tree_id=giants.deep)
    assert leaves["leaves"] == [giants.chain[-1]]


async def test_many_children_come_in_pages_in_order_and_from_any_place(giants: Giants) -> None:
    pages = await giants.pages("node_get_children", tree_id=giants.wide)
    assert [node["id"] for page in pages for node in page["children"]] == giants.children
    assert {len(page["children"]) for page in pages} == {500}
    assert "next" not in pages[-1]
    params = {"tree_id": giants.wide, "after": giants.children[39_999], "limit": 700}
    first, second = await giants.pages("node_get_children", **params)
    found = [node["id"] for page in (first, second) for node in page["children"]]
    assert found == giants.children[40_000:40_700]
    assert second["next"] == giants.children[40_699]


async def test_a_wide_tree_is_drawn_to_its_limit_and_the_rest_is_counted(giants: Giants) -> None:
    [drawn] = await giants.pages("tree_render", tree_id=giants.wide)
    lines = drawn["render"].split("\n")
    left = WIDE + 1 - MAX_NODES
    # The root, and so many less one of its children.
    assert lines[:3] == ["└──", "    ├── 0", "    ├── 1"]
    assert lines[-2:] == [f"    ├── {MAX_NODES - 2}", f"    └── … {left} more"]
    assert drawn["more"] == left
    [small] = await giants.pages("tree_render", tree_id=giants.wide, limit=3)
    assert small["render"].split("\n")[1:] == [
        *("    ├── 0", "    ├── 1", f"    └── … {WIDE - 2} more")
    ]


async def test_the_leaves_and_the_whole_of_a_wide_tree(giants: Giants) -> None:
    pages = await giants.pages("context_list_leaves", tree_id=giants.wide)
    assert sorted(leaf for page in pages for leaf in page["leaves"]) == sorted(giants.children)
    pages = await giants.pages("tree_get", tree_id=giants.wide)
    found = [node["id"] for page in pages for node in page["tree"]["nodes"]]
    assert found == [giants.root, *giants.children]
