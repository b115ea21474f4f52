"""Arbor: trees and their nodes. Functions that run inside a transaction, so that others compose.

A node is text or a handle and never changes. How nodes lie in the table is told in tables.py;
reading long stretches of them is walk.py's business, who holds a tree is references.py's.
"""

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from hubd.errors import Ambiguous, Conflict, InvalidParams, NotFound
from hubd.storage import ids
from hubd.storage.database import Database, Tx
from hubd.wire.handle import WireHandle

# What a chat's events are kept in, apart from the conversation itself.
MAIN: Final = 0
EVENTS: Final = 1
LANES: Final = ("main", "events")

# A subtree larger than this is not removed in one transaction: everybody else would wait for it.
MAX_DELETED: Final = 20_000

# How many ids an ambiguous one is said to mean.
MAX_CANDIDATES: Final = 20

# What to wait for to hear that there are other trees, or that one is in another state.
TREES: Final = ("trees",)

_TREE: Final = """
    SELECT t.key, t.id, t.owner, t.metadata, t.state, t.state_since, t.created_at, r.key, r.id,
        coalesce((SELECT sum(count) FROM arbor_owners WHERE tree = t.key), 0),
        (SELECT json_group_object(owner, count) FROM arbor_owners WHERE tree = t.key)
    FROM arbor_trees AS t JOIN arbor_nodes AS r ON r.key = t.root
"""
# One that is half imported is not there for anybody.
_THERE: Final = "t.state <> 'importing'"
TREE_BY_ID: Final = f"{_TREE} WHERE t.id BETWEEN ? AND ? AND {_THERE} LIMIT 2"
TREES_AFTER: Final = f"{_TREE} WHERE t.key > ? AND t.state = ? ORDER BY t.key LIMIT ?"
_PLACE: Final = "SELECT key, id, tree, segment, depth, lane FROM arbor_nodes"
_PLACE_BY_ID: Final = f"{_PLACE} WHERE id = ?"
# By the last four digits; the index on these has nodes of lane `main` only.
_PLACES_BY_ENDING: Final = (
    f"{_PLACE} WHERE tree = ? AND lane = {MAIN} AND substr(hex(id), 29) = ? ORDER BY key"
)
_APPEND: Final = """
    INSERT INTO arbor_nodes
        (id, tree, segment, depth, lane, text, origin, meta, label, metadata, created_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (segment, depth) DO NOTHING
"""
_BRANCH: Final = """
    INSERT INTO arbor_nodes
        (key, id, tree, segment, depth, lane, parent, text, origin, meta, label, metadata,
         created_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_NEXT_KEY: Final = "SELECT coalesce(max(key), 0) + 1 FROM arbor_nodes"
_FIND_ORIGIN: Final = (
    "SELECT key FROM arbor_origins WHERE plugin = ? AND version = ? AND method = ?"
)
_ADD_ORIGIN: Final = (
    "INSERT INTO arbor_origins (plugin_id, plugin, version, method) VALUES (?, ?, ?, ?)"
)
_RECORD: Final = (
    "INSERT INTO arbor_history (tree_id, step, owner, count, at) VALUES (?, ?, ?, ?, ?)"
)


class TreeRow(NamedTuple):
    """A tree. `metadata` and `owners` are JSON text, as they are stored."""

    key: int
    id: bytes
    owner: str
    metadata: str | None
    state: str
    state_since: int
    created_at: int
    root: int
    root_id: bytes
    ref_count: int
    owners: str


class Place(NamedTuple):
    """Where a node lies."""

    key: int
    id: bytes
    tree: int
    segment: int
    depth: int
    lane: int


class Content(NamedTuple):
    """What a node holds: text, or the origin and the meta values of a handle."""

    text: str | None
    origin: int | None = None
    meta: str | None = None


def create(
    tx: Tx,
    owner: str,
    now: int,
    *,
    metadata: str | None = None,
    tree_id: bytes | None = None,
    root_id: bytes | None = None,
    created_at: int | None = None,
    state: str = "active",
) -> TreeRow:
    """Make a tree: one empty root, one reference held by its owner.

    With `state="importing"` nobody else sees it until `reveal`.

    Raises:
        Conflict: A tree or a node of that id exists.
    """
    tree_id, root_id = tree_id or ids.uuid4(), root_id or ids.uuid7()
    born = now if created_at is None else created_at
    [root] = tx.raw.execute(_NEXT_KEY).fetchone()
    try:
        tree = tx.raw.execute(
            "INSERT INTO arbor_trees (id, owner, metadata, state, state_since, root, created_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (tree_id, owner, metadata, state, now, root, born),
        ).lastrowid
        assert tree is not None
        tx.raw.execute(
            _BRANCH,
            (root, root_id, tree, root, 0, MAIN, None, "", None, None, None, None, born),
        )
    except sqlite3.IntegrityError:
        raise Conflict(
            f"tree {ids.text(tree_id)}, or a node of it, exists already",
            suggestion="Import a copy with ids of its own; a tree that was just deleted may take "
            "a moment to be gone",
        ) from None
    tx.raw.execute("INSERT INTO arbor_owners (tree, owner, count) VALUES (?, ?, 1)", (tree, owner))
    if state != "importing":
        record(tx, tree_id, "created", now, owner, 1)
        tx.topics.append(TREES)
    owners = json.dumps({owner: 1}, ensure_ascii=False, separators=(",", ":"))
    return TreeRow(tree, tree_id, owner, metadata, state, now, born, root, root_id, 1, owners)


def reveal(tx: Tx, tree: TreeRow) -> None:
    """Show everybody a tree that was imported."""
    tx.raw.execute("UPDATE arbor_trees SET state = 'active' WHERE key = ?", (tree.key,))
    # Not before: what was never whole has no history.
    record(tx, tree.id, "imported", tree.state_since, tree.owner, 1)
    tx.topics.append(TREES)


def give_up(tx: Tx, tree: TreeRow | None = None) -> None:
    """Remove a tree that was not imported to its end, or all of them."""
    rows = tx.raw.execute(
        "SELECT key, id FROM arbor_trees WHERE state = 'importing' AND key = ifnull(?, key)",
        (tree.key if tree else None,),
    ).fetchall()
    for key, tree_id in rows:
        remove(tx, key, tree_id)


def remove(tx: Tx, key: int, tree_id: bytes) -> None:
    """Remove a tree with all that refers to it, and leave its nodes to be purged."""
    tx.raw.execute("INSERT INTO arbor_purges (tree, tree_id) VALUES (?, ?)", (key, tree_id))
    tx.raw.execute("DELETE FROM arbor_trees WHERE key = ?", (key,))
    tx.topics += (topic(key), TREES)


def topic(tree: int) -> tuple[str, int]:
    """What to wait for to hear that the nodes of a tree are others, or named otherwise."""
    return ("tree", tree)


def find(tx: Tx, written: str) -> TreeRow:
    """A tree by its id, or by a beginning of it that no other id has.

    Raises:
        InvalidParams, NotFound, Ambiguous: It names no tree, or several.
    """
    return _only(tx.raw.execute(TREE_BY_ID, _span(written)).fetchall(), written)


async def look_up(db: Database, written: str) -> TreeRow:
    """As `find`, outside a transaction."""
    return _only(await db.fetch_rows(TREE_BY_ID, *_span(written)), written)


def writable(tx: Tx, written: str) -> TreeRow:
    """As `find`, for whoever is going to change the tree.

    Raises:
        Conflict: It is archived.
    """
    tree = find(tx, written)
    if tree.state == "archived":
        raise Conflict(
            f"tree {ids.text(tree.id)} is archived and can only be read",
            suggestion="Export it and import the copy: tree_export, tree_import with new ids",
        )
    return tree


def place(tx: Tx, tree: TreeRow, node: bytes | str | None) -> Place:
    """Find the place of a node of this tree; without a node, of its root.

    Args:
        tx: The running transaction.
        tree: The tree.
        node: The id as it is stored, or as a client writes it: whole, or the end of it that only
            one node of lane `main` has.

    Raises:
        InvalidParams, NotFound, Ambiguous: It names no node of this tree, or several.
    """
    sql, params = _place_query(tree, node)
    return _in_tree(tx.raw.execute(sql, params).fetchall(), tree, node)


async def look_up_place(db: Database, tree: TreeRow, node: bytes | str | None) -> Place:
    """As `place`, outside a transaction."""
    sql, params = _place_query(tree, node)
    return _in_tree(await db.fetch_rows(sql, *params), tree, node)


def append(
    tx: Tx,
    parent: Place,
    content: Content,
    now: int,
    *,
    lane: int = MAIN,
    label: str | None = None,
    metadata: str | None = None,
    node_id: bytes | None = None,
    side: bool = False,
) -> Place:
    """Add a node below another one.

    Args:
        tx: The running transaction.
        parent: Whose child it becomes; children are in the order in which they were added.
        content: What it holds.
        now: When, in seconds.
        lane: The conversation itself, or what accompanies it.
        label: A name for people.
        metadata: JSON text.
        node_id: Its id, where it has one already.
        side: Nothing long will follow below it, so it does not continue its parent's segment
            and leaves that to a later child.

    Raises:
        Conflict: A node of that id exists.
    """
    node_id = node_id or ids.uuid7()
    _, _, tree, segment, depth, parent_lane = parent
    depth += 1
    tx.topics.append(topic(tree))
    try:
        if lane == parent_lane and not side:
            cursor = tx.raw.execute(
                _APPEND, (node_id, tree, segment, depth, lane, *content, label, metadata, now)
            )
            if cursor.rowcount:
                assert cursor.lastrowid is not None
                return Place(cursor.lastrowid, node_id, tree, segment, depth, lane)
        # The place is taken, or not for this node: it begins a segment of its own.
        [key] = tx.raw.execute(_NEXT_KEY).fetchone()
        tx.raw.execute(
            _BRANCH,
            (key, node_id, tree, key, depth, lane, parent.key, *content, label, metadata, now),
        )
    except sqlite3.IntegrityError:
        raise Conflict(f"node {ids.text(node_id)} exists already") from None
    return Place(key, node_id, tree, key, depth, lane)


def text(content: str) -> Content:
    """A node of text."""
    return Content(content)


def external(tx: Tx, handle: WireHandle) -> Content:
    """A node that points at what another plugin owns."""
    return Content(None, origin(tx, handle), handle.meta_text)


def origin(tx: Tx, handle: WireHandle) -> int:
    """The number that stands for a handle's plugin, version and method in the table."""
    name = (handle.plugin, handle.version, handle.method)
    found = tx.raw.execute(_FIND_ORIGIN, name).fetchone()
    if found is not None:
        return int(found[0])
    made = tx.raw.execute(_ADD_ORIGIN, (handle.plugin_id.bytes, *name)).lastrowid
    assert made is not None
    return made


def set_label(tx: Tx, node: Place, label: str | None) -> None:
    """Name a node, or take its name away."""
    tx.raw.execute("UPDATE arbor_nodes SET label = ? WHERE key = ?", (label, node.key))
    tx.topics.append(topic(node.tree))


def set_metadata(tx: Tx, tree: TreeRow, metadata: str | None) -> None:
    """Replace what is known about a tree."""
    tx.raw.execute("UPDATE arbor_trees SET metadata = ? WHERE key = ?", (metadata, tree.key))


def delete(tx: Tx, node: Place, *, recursive: bool) -> int:
    """Remove a node and, if `recursive`, all below it; returns how many went.

    Raises:
        Conflict: It is the root, has children, is too large a subtree, or something outside
            the tree still points at one of its nodes.
    """
    if node.depth == 0:
        raise Conflict("the root cannot be deleted", suggestion="Delete the tree: tree_delete")
    rest = _below(tx, node)
    if rest and not recursive:
        raise Conflict(
            f"node {ids.text(node.id)} has children", suggestion="Give recursive to delete them too"
        )
    # The latest first: nobody's parent goes before it does.
    doomed = sorted((*rest, node.key), reverse=True)
    try:
        tx.raw.executemany("DELETE FROM arbor_nodes WHERE key = ?", ((key,) for key in doomed))
    except sqlite3.IntegrityError:
        raise Conflict(
            "a conversation still stands on one of these nodes",
            suggestion="Move or delete the session first",
        ) from None
    tx.topics.append(topic(node.tree))
    return len(doomed)


def record(
    tx: Tx,
    tree_id: bytes,
    step: str,
    now: int,
    owner: str | None = None,
    count: int | None = None,
) -> None:
    """Remember a step in the life of a tree, for as long as the hub exists."""
    tx.raw.execute(_RECORD, (tree_id, step, owner, count, now))


def _below(tx: Tx, node: Place) -> list[int]:
    """The keys of all nodes below a node, in every lane."""
    found: list[int] = []
    # Stretches still to be looked at: a segment, from a depth on.
    stretches = [(node.segment, node.depth + 1)]
    stretches += tx.raw.execute(_BRANCHES, (node.key,)).fetchall()
    while stretches:
        stretch = stretches.pop()
        keys = [key for (key,) in tx.raw.execute(_STRETCH, (*stretch, MAX_DELETED + 1))]
        found += keys
        if len(found) > MAX_DELETED:
            raise Conflict(
                f"more than {MAX_DELETED} nodes lie below node {ids.text(node.id)}",
                suggestion="Delete it in parts, or the whole tree",
            )
        for key in keys:
            stretches += tx.raw.execute(_BRANCHES, (key,)).fetchall()
    return found


_BRANCHES: Final = "SELECT segment, depth FROM arbor_nodes WHERE parent = ?"
_STRETCH: Final = "SELECT key FROM arbor_nodes WHERE segment = ? AND depth >= ? LIMIT ?"


def _span(written: str) -> tuple[bytes, bytes]:
    found = ids.span(written)
    if found is None:
        raise InvalidParams(
            f"'{written[:80]}' is not the id of a tree",
            suggestion=f"Give a UUID, or its first {ids.MIN_PREFIX} hex digits or more",
        )
    return found


def _only(rows: Sequence[tuple[Any, ...]], written: str) -> TreeRow:
    if not rows:
        raise NotFound(f"no tree {written}", suggestion="tree_list shows the trees there are")
    if len(rows) > 1:
        known = [ids.text(row[1]) for row in rows]
        raise Ambiguous(f"more than one tree begins with {written}", available=known)
    return TreeRow._make(rows[0])


def _place_query(tree: TreeRow, node: bytes | str | None) -> tuple[str, tuple[Any, ...]]:
    """The statement that reads the places a node may have."""
    if not isinstance(node, str):
        return _PLACE_BY_ID, (node or tree.root_id,)
    digits = ids.ending(node)
    if digits is None:
        raise InvalidParams(
            f"'{node[:80]}' is not the id of a node",
            suggestion=f"Give a UUID, or its last {ids.MIN_ENDING} hex digits or more",
        )
    if len(digits) == 32:
        return _PLACE_BY_ID, (bytes.fromhex(digits),)
    return _PLACES_BY_ENDING, (tree.key, digits[-ids.MIN_ENDING :].upper())


def _in_tree(rows: Sequence[tuple[Any, ...]], tree: TreeRow, node: bytes | str | None) -> Place:
    """The one place among these that is meant."""
    written = node if isinstance(node, str) else ids.text(node or tree.root_id)
    digits = ids.ending(written) or ""
    places = [
        Place._make(row) for row in rows if row[2] == tree.key and row[1].hex().endswith(digits)
    ]
    if not places:
        raise NotFound(
            f"no node {written} in tree {ids.text(tree.id)}",
            suggestion="Is it another tree's node?",
        )
    if len(places) > 1:
        raise Ambiguous(
            f"{len(places)} nodes of tree {ids.text(tree.id)} end with {written}",
            suggestion="Give more digits",
            available=[ids.text(place.id) for place in places[:MAX_CANDIDATES]],
        )
    return places[0]
