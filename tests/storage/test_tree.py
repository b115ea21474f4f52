"""Trees and their nodes, by the functions that run inside a transaction."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pytest

from hubd.errors import Ambiguous, Conflict, InvalidParams, NotFound
from hubd.storage import ids
from hubd.storage.arbor import tree, walk
from hubd.storage.arbor.tree import EVENTS, MAIN, Place, TreeRow
from hubd.storage.database import Database, Tx
from hubd.wire import handle as grammar

T = TypeVar("T")

NOW = 1_700_000_000
TWIN = bytes.fromhex("abcdef12000000000000000000000001")
OTHER_TWIN = bytes.fromhex("abcdef12000000000000000000000002")


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(tmp_path / "hub.db") as opened:
        yield opened


@pytest.fixture
async def oak(db: Database) -> TreeRow:
    return await db.transaction(lambda tx: tree.create(tx, "system", NOW))


async def grow(
    db: Database, oak: TreeRow, work: Callable[[Tx, Place], T], node: bytes | None = None
) -> T:
    """Run a function with the place of a node, in a new transaction."""
    return await db.transaction(lambda tx: work(tx, tree.place(tx, oak, node)))


def add(tx: Tx, parent: Place, text: str = "x", *, lane: int = MAIN, side: bool = False) -> Place:
    return tree.append(tx, parent, tree.text(text), NOW, lane=lane, side=side)


def chain(tx: Tx, parent: Place, length: int, lane: int = MAIN) -> list[Place]:
    """Nodes one below the other."""
    created = []
    for _ in range(length):
        parent = add(tx, parent, lane=lane)
        created.append(parent)
    return created


async def count(db: Database) -> int:
    [(nodes_left,)] = await db.fetch_rows("SELECT count(*) FROM arbor_nodes")
    return int(nodes_left)


# How nodes lie


async def test_a_chain_is_one_stretch_and_a_branch_starts_another(
    db: Database, oak: TreeRow
) -> None:
    first, second, third = await grow(db, oak, lambda tx, root: chain(tx, root, 3))
    branch = await grow(db, oak, add, second.id)
    assert {first.segment, second.segment, third.segment} == {oak.root}
    assert branch.segment == branch.key
    assert (branch.depth, third.depth) == (3, 3)


async def test_another_lane_starts_a_stretch_and_continues_in_it(
    db: Database, oak: TreeRow
) -> None:
    [turn] = await grow(db, oak, lambda tx, root: chain(tx, root, 1))
    events = await grow(db, oak, lambda tx, place: chain(tx, place, 3, EVENTS), turn.id)
    assert {event.segment for event in events} == {events[0].key}
    assert await walk.path(db, events[-1]) == [
        walk.Stretch(oak.root, 0, 1, MAIN),
        walk.Stretch(events[0].key, 2, 4, EVENTS),
    ]


async def test_a_side_node_leaves_its_parents_segment_to_a_later_child(
    db: Database, oak: TreeRow
) -> None:
    aside = await grow(db, oak, lambda tx, root: add(tx, root, side=True))
    after = await grow(db, oak, add)
    assert aside.segment == aside.key
    assert after.segment == oak.root
    root = await tree.look_up_place(db, oak, None)
    children = await walk.children(db, root, frozenset({MAIN}))
    assert [child.id for child in children] == [aside.id, after.id]


async def test_a_free_place_is_used_again_and_the_order_of_creation_stays(
    db: Database, oak: TreeRow
) -> None:
    first = await grow(db, oak, add)
    second = await grow(db, oak, add)
    await db.transaction(lambda tx: tree.delete(tx, first, recursive=False))
    third = await grow(db, oak, add)
    assert third.segment == oak.root
    root = await tree.look_up_place(db, oak, None)
    children = await walk.children(db, root, frozenset({MAIN}))
    assert [child.id for child in children] == [second.id, third.id]


async def test_a_later_failure_in_a_transaction_removes_its_nodes(
    db: Database, oak: TreeRow
) -> None:
    def work(tx: Tx, root: Place) -> None:
        chain(tx, root, 5)
        raise ValueError("the caller's own mistake")

    with pytest.raises(ValueError, match="own mistake"):
        await grow(db, oak, work)
    assert await count(db) == 1


async def test_handles_are_read_as_they_were_written_and_share_their_origin(
    db: Database, oak: TreeRow
) -> None:
    texts = [
        "cone@1.0.0::chat:msg-aaa:system:a%3Ab",
        "cone@1.0.0::chat:msg-bbb:user:",
        "cone@1.0.0::chat",
        "cone@1.1.0::chat:msg-aaa",
        "11429815-0a5e-5fcc-baf2-842ab3666e77@1.0.0::chat:x",
    ]

    def work(tx: Tx, root: Place) -> list[Place]:
        return [
            tree.append(tx, root, tree.external(tx, grammar.parse(text)), NOW) for text in texts
        ]

    places = await grow(db, oak, work)
    assert [(await walk.node(db, place)).handle for place in places] == texts
    rows = await db.fetch_rows("SELECT plugin_id, plugin, version FROM arbor_origins ORDER BY key")
    cone = UUID("11429815-0a5e-5fcc-baf2-842ab3666e77")
    assert rows == [
        (cone.bytes, "cone", "1.0.0"),
        (cone.bytes, "cone", "1.1.0"),
        (cone.bytes, str(cone), "1.0.0"),
    ]


# Finding


async def test_a_tree_is_found_by_its_id_and_by_a_prefix(db: Database, oak: TreeRow) -> None:
    written = ids.text(oak.id)
    for name in (written, written.upper(), oak.id.hex(), written[:8], written[:15]):
        assert await tree.look_up(db, name) == oak
        assert await db.transaction(lambda tx, name=name: tree.find(tx, name)) == oak  # type: ignore[misc]


async def test_a_prefix_of_two_tree_ids_is_ambiguous_and_lists_both(db: Database) -> None:
    for wanted in (TWIN, OTHER_TWIN):
        await db.transaction(
            lambda tx, wanted=wanted: tree.create(tx, "system", NOW, tree_id=wanted)  # type: ignore[misc]
        )
    with pytest.raises(Ambiguous, match="abcdef12") as raised:
        await tree.look_up(db, "abcdef12")
    assert sorted(raised.value.available) == [ids.text(TWIN), ids.text(OTHER_TWIN)]
    assert (await tree.look_up(db, ids.text(TWIN))).id == TWIN


@pytest.mark.parametrize("written", ["abcdef1", "nope", "", "%", "abcdef12-"[:8] + "x"])
async def test_text_that_is_not_an_id_is_refused_and_quoted(db: Database, written: str) -> None:
    with pytest.raises(InvalidParams, match=f"'{written}' is not the id of a tree"):
        await tree.look_up(db, written)


@pytest.mark.parametrize("removed", [False, True])
async def test_a_tree_is_invisible_while_it_is_imported(db: Database, removed: bool) -> None:
    imported = await db.transaction(lambda tx: tree.create(tx, "system", NOW, state="importing"))
    if removed:
        await db.transaction(lambda tx: tree.remove(tx, imported.key, imported.id))
    with pytest.raises(NotFound, match=ids.text(imported.id)):
        await tree.look_up(db, ids.text(imported.id))
    assert await walk.page_of_trees(db, "active", 0) == []


async def test_a_node_of_another_tree_is_not_found_and_both_are_named(
    db: Database, oak: TreeRow
) -> None:
    elm = await db.transaction(lambda tx: tree.create(tx, "system", NOW))
    with pytest.raises(NotFound) as raised:
        await tree.look_up_place(db, oak, elm.root_id)
    assert raised.value.message == f"no node {ids.text(elm.root_id)} in tree {ids.text(oak.id)}"


async def test_a_node_that_was_deleted_after_its_lookup_is_not_found(
    db: Database, oak: TreeRow
) -> None:
    place = await grow(db, oak, add)
    way = await walk.path(db, place)
    await db.transaction(lambda tx: tree.delete(tx, place, recursive=False))
    with pytest.raises(NotFound, match=ids.text(place.id)):
        await walk.node(db, place)
    with pytest.raises(NotFound, match="depth 1"):
        await walk.id_at(db, way, 1)


# Ids that are taken


async def test_a_node_id_is_unique(db: Database, oak: TreeRow) -> None:
    taken = await grow(db, oak, add)

    def again(tx: Tx, parent: Place, *, side: bool) -> Place:
        return tree.append(tx, parent, tree.text("y"), NOW, node_id=taken.id, side=side)

    for side in (False, True):
        with pytest.raises(Conflict, match=f"node {ids.text(taken.id)} exists"):
            await grow(db, oak, lambda tx, root, side=side: again(tx, root, side=side))  # type: ignore[misc]
    assert await count(db) == 2


async def test_a_tree_id_is_unique(db: Database, oak: TreeRow) -> None:
    with pytest.raises(Conflict, match=ids.text(oak.id)):
        await db.transaction(lambda tx: tree.create(tx, "system", NOW, tree_id=oak.id))
    with pytest.raises(Conflict):
        await db.transaction(lambda tx: tree.create(tx, "system", NOW, root_id=oak.root_id))
    assert [row.id for row in await walk.page_of_trees(db, "active", 0)] == [oak.id]


# Deleting


async def test_a_node_with_children_is_deleted_only_recursively(db: Database, oak: TreeRow) -> None:
    top, middle, tip = await grow(db, oak, lambda tx, root: chain(tx, root, 3))
    event = await grow(db, oak, lambda tx, place: add(tx, place, lane=EVENTS), middle.id)
    below = await grow(db, oak, add, event.id)
    with pytest.raises(Conflict, match=f"node {ids.text(middle.id)} has children"):
        await db.transaction(lambda tx: tree.delete(tx, middle, recursive=False))
    assert await count(db) == 6
    assert await db.transaction(lambda tx: tree.delete(tx, tip, recursive=False)) == 1
    assert await db.transaction(lambda tx: tree.delete(tx, middle, recursive=True)) == 3
    assert below.depth == 4
    root = await tree.look_up_place(db, oak, None)
    assert [child.id for child in await walk.children(db, root, frozenset({MAIN}))] == [top.id]
    assert await count(db) == 2


async def test_the_root_can_not_be_deleted(db: Database, oak: TreeRow) -> None:
    with pytest.raises(Conflict, match="root cannot be deleted"):
        await grow(db, oak, lambda tx, root: tree.delete(tx, root, recursive=True))


@pytest.mark.parametrize("beside", [False, True])
async def test_a_subtree_too_large_for_one_transaction_is_not_deleted(
    db: Database, oak: TreeRow, beside: bool
) -> None:
    def work(tx: Tx, root: Place) -> Place:
        top = add(tx, root)
        if beside:
            for _ in range(tree.MAX_DELETED):
                add(tx, top, side=True)
        else:
            chain(tx, top, tree.MAX_DELETED)
        return top

    top = await grow(db, oak, work)
    last = await grow(db, oak, add, top.id)
    with pytest.raises(Conflict, match=f"{ids.text(top.id)} has more than {tree.MAX_DELETED}"):
        await db.transaction(lambda tx: tree.delete(tx, top, recursive=True))
    assert await count(db) == tree.MAX_DELETED + 3
    await db.transaction(lambda tx: tree.delete(tx, last, recursive=False))
    gone = await db.transaction(lambda tx: tree.delete(tx, top, recursive=True))
    assert gone == tree.MAX_DELETED + 1


async def test_a_node_that_another_table_refers_to_is_not_deleted(
    db: Database, oak: TreeRow
) -> None:
    top, middle, _ = await grow(db, oak, lambda tx, root: chain(tx, root, 3))
    await db.execute("CREATE TABLE other_head (node INTEGER REFERENCES arbor_nodes (key)) STRICT")
    await db.execute("INSERT INTO other_head (node) VALUES (?)", middle.key)
    with pytest.raises(Conflict, match="is one of these nodes"):
        await db.transaction(lambda tx: tree.delete(tx, top, recursive=True))
    assert await count(db) == 4
