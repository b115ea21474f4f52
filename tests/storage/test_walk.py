"""Reading nodes in pages. `plugins/arbor` also compares the pages with a model."""

from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.storage.arbor import tree, walk
from hubd.storage.arbor.tree import EVENTS, MAIN, Place, TreeRow
from hubd.storage.arbor.walk import Stretch
from hubd.storage.database import Database, Tx

NOW = 1_700_000_000
LANES = frozenset({MAIN})
BOTH = frozenset({MAIN, EVENTS})


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(tmp_path / "hub.db") as opened:
        yield opened


async def plant(db: Database, *texts: str, lane: int = MAIN) -> tuple[TreeRow, list[Place]]:
    """Return a tree that is one chain of nodes."""

    def work(tx: Tx) -> tuple[TreeRow, list[Place]]:
        oak = tree.create(tx, "system", NOW)
        places = [tree.place(tx, oak, None)]
        for text in texts:
            places.append(tree.append(tx, places[-1], tree.text(text), NOW, lane=lane))
        return oak, places

    return await db.transaction(work)


async def test_a_page_with_long_texts_ends_early(db: Database) -> None:
    half = "x" * (walk.PAGE_TEXT // 2)
    oak, places = await plant(db, *[half] * 5, "y", "z")
    expected = [place.id for place in places]
    for pages in (
        walk.whole(db, oak, LANES),
        walk.nodes(db, await walk.path(db, places[-1]), LANES),
    ):
        walked_pages = [page async for page in pages]
        assert [len(page) for page in walked_pages] == [3, 2, 3]
        assert [node.id for page in walked_pages for node in page] == expected


async def test_a_text_longer_than_a_page_is_one_page(db: Database) -> None:
    oak, _ = await plant(db, "x" * (walk.PAGE_TEXT + 1), "x" * (walk.PAGE_TEXT + 1))
    assert [len(page) async for page in walk.whole(db, oak, LANES)] == [1, 1, 1]


@pytest.mark.parametrize("upwards", [False, True])
@pytest.mark.parametrize("page", [1, 2, 3, 7, 100])
async def test_pages_of_a_path_fit_together_in_both_directions_and_across_stretches(
    db: Database, page: int, upwards: bool
) -> None:
    oak, places = await plant(db, *"abc")

    def branch(tx: Tx) -> list[Place]:
        added = [tree.append(tx, places[2], tree.text("d"), NOW)]
        added.append(tree.append(tx, added[-1], tree.text("e"), NOW, lane=EVENTS))
        added.append(tree.append(tx, added[-1], tree.text("f"), NOW, lane=EVENTS))
        added.append(tree.append(tx, added[-1], tree.text("g"), NOW))
        return added

    branched = await db.transaction(branch)
    way = await walk.path(db, branched[-1])
    assert [stretch.lane for stretch in way] == [MAIN, MAIN, EVENTS, MAIN]
    expected = [*places[:3], *branched]
    for lanes in (BOTH, LANES, frozenset({EVENTS})):
        pages = [part async for part in walk.nodes(db, way, lanes, upwards=upwards, page=page)]
        assert all(len(part) <= page for part in pages)
        assert all(len(part) == page for part in pages[:-1])
        nodes = [node for part in pages for node in part]
        if upwards:
            nodes.reverse()
        assert [node.id for node in nodes] == [
            place.id for place in expected if place.lane in lanes
        ]
        # The first node of a page has its parent too, even one in another lane.
        parents = {below.id: above.id for above, below in pairwise(expected)}
        assert [node.parent for node in nodes] == [parents.get(node.id) for node in nodes]
    assert oak.root == places[0].key


async def test_reading_continues_after_a_node_of_another_lane(db: Database) -> None:
    """A caller may name any node; of its stretch nothing is shown."""
    oak, (root, first, *_) = await plant(db, "a", "b", "c", lane=EVENTS)
    after = await db.transaction(lambda tx: tree.append(tx, root, tree.text("d"), NOW))
    last = await db.transaction(lambda tx: tree.append(tx, root, tree.text("e"), NOW, side=True))
    ids = [node.id async for page in walk.whole(db, oak, LANES, after=first) for node in page]
    assert ids == [after.id, last.id]


async def test_an_empty_selection_of_lanes_has_no_pages(db: Database) -> None:
    oak, [root] = await plant(db)
    events = frozenset({EVENTS})
    assert [page async for page in walk.whole(db, oak, events)] == []
    assert [page async for page in walk.leaves(db, oak, events)] == []
    assert [page async for page in walk.nodes(db, await walk.path(db, root), events)] == []
    assert await walk.children(db, root, BOTH) == []
    assert await walk.parent(db, root) is None


# Paths, without a database


@st.composite
def paths(draw: st.DrawFn) -> tuple[list[Stretch], list[Stretch], int]:
    """Two paths from one root, and the depth of the last node that they share."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    shared, first = [], 0
    for number, length in enumerate(lengths):
        shared.append(Stretch(number, first, first + length - 1, MAIN))
        first += length
    depth = first - 1

    def tail(segment: int, length: int, *, goes_on: bool) -> list[Stretch]:
        if not length:
            return shared
        if goes_on:  # in the stretch that both are in
            return [*shared[:-1], shared[-1]._replace(last=depth + length)]
        return [*shared, Stretch(segment, depth + 1, depth + length, MAIN)]

    one, other = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    # Only one of them can go on where they were together.
    goes_on = draw(st.booleans())
    return tail(100, one, goes_on=goes_on), tail(200, other, goes_on=False), depth


@given(paths())
def test_paths_part_at_their_last_common_node(
    pair: tuple[list[Stretch], list[Stretch], int],
) -> None:
    one, other, depth = pair
    assert walk.parting(one, other) == depth
    assert walk.parting(other, one) == depth
    assert walk.parting(one, one) == one[-1].last


@given(paths(), st.integers(0, 20), st.integers(0, 20))
def test_a_cut_path_has_exactly_the_depths_between(
    pair: tuple[list[Stretch], list[Stretch], int], first: int, last: int
) -> None:
    way, _, _ = pair
    expected = [
        (stretch.segment, depth)
        for stretch in way
        for depth in range(stretch.first, stretch.last + 1)
        if first <= depth <= last
    ]
    part = walk.cut(way, first, last)
    assert [
        (stretch.segment, depth)
        for stretch in part
        for depth in range(stretch.first, stretch.last + 1)
    ] == expected
