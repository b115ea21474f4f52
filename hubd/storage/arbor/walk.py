"""Arbor: read nodes in pages, so that a slow client does not hold a read open.

Nodes never change, so pages stay consistent while nodes are added.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from hubd.errors import NotFound
from hubd.storage import ids
from hubd.storage.arbor.tree import MAIN, TREES_AFTER, Place, TreeRow
from hubd.storage.database import Database

# The most nodes in a page, and the most characters of text after which it ends early.
PAGE_NODES: Final = 500
PAGE_TEXT: Final = 512 * 1024

MAIN_ONLY: Final = frozenset((MAIN,))

Rows = Sequence[tuple[Any, ...]]

_HANDLE: Final = "o.plugin || '@' || o.version || '::' || o.method || coalesce(':' || n.meta, '')"
_NODE: Final = f"""
    n.key, n.id, n.segment, n.depth, n.lane, n.text,
    CASE WHEN n.origin IS NULL THEN NULL ELSE {_HANDLE} END, n.label, n.metadata, n.created_at
"""
_ORIGIN: Final = "LEFT JOIN arbor_origins AS o ON o.key = n.origin"


class Node(NamedTuple):
    """A node. `metadata` is JSON text. Either `text` or `handle` is set."""

    parent: bytes | None
    key: int
    id: bytes
    segment: int
    depth: int
    lane: int
    text: str | None
    handle: str | None
    label: str | None
    metadata: str | None
    created_at: int


class Stretch(NamedTuple):
    """Part of a path: the nodes of one segment from one depth to another, both included."""

    segment: int
    first: int
    last: int
    lane: int

    def contains(self, node: Node) -> bool:
        """Return whether the stretch contains a node."""
        return node.segment == self.segment and self.first <= node.depth <= self.last


async def node(db: Database, place: Place) -> Node:
    """Return one node.

    Raises:
        NotFound: It was deleted after its place was looked up.
    """
    rows = await db.fetch_rows(
        f"SELECT {_NODE} FROM arbor_nodes AS n {_ORIGIN} WHERE n.key = ?", place.key
    )
    if not rows:
        raise NotFound(f"node {ids.text(place.id)} was just deleted")
    return (await _linked(db, rows))[0]


async def parent(db: Database, place: Place) -> Place | None:
    """Return the place of the parent of a node; None for the root."""
    rows = await db.fetch_rows(_PARENT, place.segment, place.depth - 1, place.key)
    return Place._make(rows[0]) if rows else None


async def path(db: Database, place: Place) -> list[Stretch]:
    """Return the path from the root to a node, as stretches."""
    rows = await db.fetch_rows(_ANCESTRY, place.segment, place.depth, place.lane)
    stretches = []
    first = 0
    for segment, last, lane in reversed(rows):
        stretches.append(Stretch(segment, first, last, lane))
        first = last + 1
    return stretches


def parting(one: Sequence[Stretch], other: Sequence[Stretch]) -> int:
    """Return the depth of the last common node of two paths from the same root."""
    depth = 0
    for left, right in zip(one, other, strict=False):
        if left.segment != right.segment:
            break
        depth = min(left.last, right.last)
        if left.last != right.last:
            break
    return depth


async def id_at(db: Database, stretches: Iterable[Stretch], depth: int) -> bytes:
    """Return the id of the node at a depth of a path.

    Raises:
        NotFound: It was deleted after the path was read.
    """
    [stretch] = cut(stretches, depth, depth)
    rows = await db.fetch_rows(
        "SELECT id FROM arbor_nodes WHERE segment = ? AND depth = ?", stretch.segment, depth
    )
    if not rows:
        raise NotFound(f"the node at depth {depth} of the path was just deleted")
    return bytes(rows[0][0])


def cut(stretches: Iterable[Stretch], first: int, last: int | None = None) -> list[Stretch]:
    """Return the part of a path between two depths, both included."""
    parts = []
    for stretch in stretches:
        begin = max(stretch.first, first)
        end = stretch.last if last is None else min(stretch.last, last)
        if begin <= end:
            parts.append(stretch._replace(first=begin, last=end))
    return parts


async def nodes(
    db: Database,
    stretches: Iterable[Stretch],
    lanes: frozenset[int],
    *,
    upwards: bool = False,
    page: int = PAGE_NODES,
) -> AsyncIterator[list[Node]]:
    """Yield the nodes of a path in pages, from the root down, or upwards."""
    wanted = [stretch for stretch in stretches if stretch.lane in lanes]
    # The parent of a node is the one before it on the path, or the last one of the previous page.
    for part in _paged(wanted, page, upwards=upwards):
        rows: list[tuple[Any, ...]]
        if len(part) == 1:
            [(segment, first, last, _)] = part
            rows = await db.fetch_rows(_STRETCH, segment, first, last)
        else:
            rows = await db.fetch_rows(_STRETCHES, json.dumps([entry[:3] for entry in part]))
        linked = await _linked(db, rows, on_a_path=True)
        if upwards:
            linked.reverse()
        for some in _by_size(linked):
            yield some


async def children(
    db: Database, place: Place, lanes: frozenset[int], after: int = 0, limit: int = PAGE_NODES
) -> list[Node]:
    """Return a page of the children of a node, in order of creation."""
    listed = json.dumps(sorted(lanes))
    rows = await db.fetch_rows(_BRANCHES, place.key, after, listed, limit)
    rows += [
        row
        for row in await db.fetch_rows(_STRETCH, place.segment, place.depth + 1, place.depth + 1)
        if row[0] > after and row[4] in lanes
    ]
    rows.sort()
    return [Node(place.id, *row) for row in rows[:limit]]


async def whole(
    db: Database,
    tree: TreeRow,
    lanes: frozenset[int],
    *,
    after: Place | None = None,
    depth: int | None = None,
    page: int = PAGE_NODES,
) -> AsyncIterator[list[Node]]:
    """Yield all nodes of a tree in pages, in order of creation: parents before their children.

    A page of lane `main` costs the same at any size of the tree. With other lanes, the keys of
    all nodes are sorted first, because event nodes have no index in this order.

    Args:
        db: The database.
        tree: The tree.
        lanes: The lanes to read.
        after: Continue after this node, the last one of an earlier page.
        depth: The depth of the deepest nodes to return.
        page: The maximum number of nodes in a page.
    """
    # SQLite's integers end at 2**63.
    deepest = 2**62 if depth is None else min(depth, 2**62)
    key = after.key if after else 0
    pages = (
        _pages_of_main(db, tree, key, deepest, page)
        if lanes == MAIN_ONLY
        else _pages_of_lanes(db, tree, lanes, key, deepest, page)
    )
    async with aclosing(pages):
        async for rows in pages:
            for some in _by_size(await _linked(db, rows)):
                yield some


async def by_keys(db: Database, keys: Sequence[int]) -> list[Node]:
    """Return the nodes with these keys, in order of creation. Removed nodes are left out."""
    return await _linked(db, await db.fetch_rows(_BY_KEYS, json.dumps(keys)))


async def in_order(db: Database, tree: TreeRow) -> AsyncIterator[Node]:
    """Yield all nodes of a tree, in every lane, in order of creation.

    All of them are sorted before the first one is returned.
    """
    async for row in db.iterate(_IN_ORDER, tree.key):
        yield Node._make(row.values())


async def leaves(
    db: Database, tree: TreeRow, lanes: frozenset[int], page: int = PAGE_NODES
) -> AsyncIterator[list[bytes]]:
    """Yield the ids of the nodes without children in these lanes, in pages."""
    listed = json.dumps(sorted(lanes))
    after = 0
    while rows := await db.fetch_rows(_LEAVES, tree.key, after, listed, page):
        yield [row[1] for row in rows if row[2]]
        after = rows[-1][0]


async def count(db: Database, tree: TreeRow, lanes: frozenset[int]) -> int:
    """Return the number of nodes of a tree in these lanes."""
    [(number,)] = await db.fetch_rows(_COUNT, tree.key, json.dumps(sorted(lanes)))
    return int(number)


async def page_of_trees(
    db: Database, state: str, after: int, limit: int = PAGE_NODES
) -> list[TreeRow]:
    """Return trees in one state, in order of creation."""
    return [TreeRow._make(row) for row in await db.fetch_rows(TREES_AFTER, after, state, limit)]


_PARENT: Final = """
    SELECT key, id, tree, segment, depth, lane FROM arbor_nodes WHERE segment = ? AND depth = ?
    UNION ALL
    SELECT p.key, p.id, p.tree, p.segment, p.depth, p.lane
        FROM arbor_nodes AS n JOIN arbor_nodes AS p ON p.key = n.parent WHERE n.key = ?
"""
_ANCESTRY: Final = """
    WITH RECURSIVE up (segment, depth, lane) AS (
        SELECT ?, ?, ?
        UNION ALL
        SELECT p.segment, p.depth, p.lane FROM up
            JOIN arbor_nodes AS first ON first.key = up.segment
            JOIN arbor_nodes AS p ON p.key = first.parent)
    SELECT segment, depth, lane FROM up
"""
_STRETCH: Final = f"""
    SELECT {_NODE} FROM arbor_nodes AS n {_ORIGIN}
    WHERE n.segment = ? AND n.depth BETWEEN ? AND ? ORDER BY n.depth
"""
_STRETCHES: Final = f"""
    SELECT {_NODE} FROM json_each(?) AS part
        CROSS JOIN arbor_nodes AS n ON n.segment = part.value ->> 0
            AND n.depth BETWEEN part.value ->> 1 AND part.value ->> 2
        {_ORIGIN}
    ORDER BY n.depth
"""
_MAIN_AFTER: Final = f"""
    SELECT {_NODE} FROM arbor_nodes AS n {_ORIGIN}
    WHERE n.tree = ? AND n.lane = {MAIN} AND n.key > ? AND n.depth <= ? ORDER BY n.key LIMIT ?
"""
_KEYS_AFTER: Final = """
    SELECT n.key FROM arbor_nodes AS s CROSS JOIN arbor_nodes AS n ON n.segment = s.key
    WHERE s.tree = ? AND s.segment = s.key AND s.lane IN (SELECT value FROM json_each(?))
        AND n.key > ? AND n.depth <= ?
    ORDER BY n.key
"""
_BY_KEYS: Final = f"""
    SELECT {_NODE} FROM json_each(?) AS wanted
        CROSS JOIN arbor_nodes AS n ON n.key = wanted.value
        {_ORIGIN}
    ORDER BY n.key
"""
_IN_ORDER: Final = f"""
    SELECT coalesce(above.id, before.id) AS parent, {_NODE} FROM arbor_nodes AS s
        CROSS JOIN arbor_nodes AS n ON n.segment = s.key
        {_ORIGIN}
        LEFT JOIN arbor_nodes AS above ON above.key = n.parent
        LEFT JOIN arbor_nodes AS before ON n.parent IS NULL
            AND before.segment = n.segment AND before.depth = n.depth - 1
    WHERE s.tree = ? AND s.segment = s.key ORDER BY n.key
"""
_BRANCHES: Final = f"""
    SELECT {_NODE} FROM arbor_nodes AS n {_ORIGIN}
    WHERE n.parent = ? AND n.key > ? AND n.lane IN (SELECT value FROM json_each(?))
    ORDER BY n.key LIMIT ?
"""
# Every segment with its last node, and whether that node is without children in these lanes.
_LEAVES: Final = """
    SELECT s.key, t.id, NOT EXISTS (
            SELECT 1 FROM arbor_nodes AS c WHERE c.parent = t.key
                AND c.lane IN (SELECT value FROM json_each(?3)))
    FROM arbor_nodes AS s
        CROSS JOIN arbor_nodes AS t ON t.segment = s.key
            AND t.depth = (SELECT max(depth) FROM arbor_nodes WHERE segment = s.key)
    WHERE s.tree = ?1 AND s.segment = s.key AND s.key > ?2
        AND s.lane IN (SELECT value FROM json_each(?3))
    ORDER BY s.key LIMIT ?4
"""
_COUNT: Final = """
    SELECT count(*) FROM arbor_nodes AS s CROSS JOIN arbor_nodes AS n ON n.segment = s.key
    WHERE s.tree = ? AND s.segment = s.key AND s.lane IN (SELECT value FROM json_each(?))
"""
_PARENT_IDS: Final = """
    SELECT n.key, coalesce(above.id, before.id) FROM json_each(?) AS wanted
        CROSS JOIN arbor_nodes AS n ON n.key = wanted.value
        LEFT JOIN arbor_nodes AS above ON above.key = n.parent
        LEFT JOIN arbor_nodes AS before ON n.parent IS NULL
            AND before.segment = n.segment AND before.depth = n.depth - 1
"""


async def _pages_of_main(
    db: Database, tree: TreeRow, key: int, deepest: int, page: int
) -> AsyncGenerator[Rows, None]:
    """Yield the nodes of lane `main` after a key, in order of creation."""
    while rows := await db.fetch_rows(_MAIN_AFTER, tree.key, key, deepest, page):
        yield rows
        if len(rows) < page:
            return
        key = rows[-1][0]


async def _pages_of_lanes(
    db: Database, tree: TreeRow, lanes: frozenset[int], key: int, deepest: int, page: int
) -> AsyncGenerator[Rows, None]:
    """Yield the nodes of any lanes after a key, in order of creation."""
    keys: list[int] = []
    in_order = db.iterate(_KEYS_AFTER, tree.key, json.dumps(sorted(lanes)), key, deepest)
    async with aclosing(in_order):
        async for row in in_order:
            keys.append(row["key"])
            if len(keys) == page:
                yield await db.fetch_rows(_BY_KEYS, json.dumps(keys))
                keys.clear()
    if keys:
        yield await db.fetch_rows(_BY_KEYS, json.dumps(keys))


async def _linked(db: Database, rows: Rows, *, on_a_path: bool = False) -> list[Node]:
    """Return rows in the order of a path, or of creation, with the ids of their parents.

    Most parents are among the rows; the others are looked up.
    """
    parents: dict[int, bytes] = {}
    unknown = []
    # The ids of the rows by segment and depth.
    places: dict[tuple[int, int], bytes] = {}
    previous, previous_depth = b"", -2
    for key, node_id, segment, depth, *_ in rows:
        if on_a_path and depth == previous_depth + 1:
            parents[key] = previous
        elif key != segment and (segment, depth - 1) in places:
            parents[key] = places[segment, depth - 1]
        else:
            unknown.append(key)
        places[segment, depth] = previous = node_id
        previous_depth = depth
    if unknown:
        parents.update(await db.fetch_rows(_PARENT_IDS, json.dumps(unknown)))
    return [Node(parents.get(row[0]), *row) for row in rows]


def _paged(stretches: list[Stretch], page: int, *, upwards: bool) -> Iterator[list[Stretch]]:
    """Yield stretches in groups of at most `page` nodes; long ones are divided."""
    group: list[Stretch] = []
    room = page
    for whole_stretch in reversed(stretches) if upwards else stretches:
        left: Stretch | None = whole_stretch
        while left is not None:
            size = min(room, left.last - left.first + 1)
            if upwards:
                taken = left._replace(first=left.last - size + 1)
                left = left._replace(last=taken.first - 1)
            else:
                taken = left._replace(last=left.first + size - 1)
                left = left._replace(first=taken.last + 1)
            group.append(taken)
            room -= size
            if room == 0:
                yield group
                group, room = [], page
            if left.first > left.last:
                left = None
    if group:
        yield group


def _by_size(page: list[Node]) -> Iterator[list[Node]]:
    """Yield the same nodes in pages with a bounded amount of text."""
    start = size = 0
    for number, entry in enumerate(page):
        size += len(entry.text or "")
        if size > PAGE_TEXT and number > start:
            yield page[start:number]
            start, size = number, len(entry.text or "")
    if start < len(page):
        yield page[start:]
