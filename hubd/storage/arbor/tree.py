"""Arbor: trees and their nodes. The functions run inside a transaction, so they compose.

A node is text or a handle and never changes. `tables.py` explains how nodes are stored, `walk.py`
reads many of them, and `references.py` keeps trees alive.
"""

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

from hubd.errors import Ambiguous, Conflict, InvalidParams, NotFound
from hubd.storage import ids
from hubd.storage.blobs import rows as blobs
from hubd.storage.database import Database, Tx
from hubd.wire.handle import WireHandle

# The lane of the conversation, and the lane of the events of its chats.
MAIN: Final = 0
EVENTS: Final = 1
Lane = Literal["main", "events"]
LANES: Final[tuple[Lane, ...]] = get_args(Lane)

# The largest subtree that one transaction deletes. Other writers wait for it.
MAX_DELETED: Final = 20_000

# The longest handle of a node, in characters.
MAX_HANDLE: Final = 4096

# The number of ids that an error for an ambiguous one lists.
MAX_CANDIDATES: Final = 20

# The topic of changes to the list of trees and to their states.
TREES: Final = ("trees",)

_TREE: Final = """
    SELECT t.key, t.id, t.owner, t.metadata, t.state, t.state_since, t.created_at, r.key, r.id,
        coalesce((SELECT sum(count) FROM arbor_owners WHERE tree = t.key), 0),
        (SELECT json_group_object(owner, count) FROM arbor_owners WHERE tree = t.key)
    FROM arbor_trees AS t JOIN arbor_nodes AS r ON r.key = t.root
"""
# A tree is invisible while it is imported.
_VISIBLE: Final = "t.state <> 'importing'"
TREE_BY_ID: Final = f"{_TREE} WHERE t.id BETWEEN ? AND ? AND {_VISIBLE} LIMIT 2"
TREES_AFTER: Final = f"{_TREE} WHERE t.key > ? AND t.state = ? ORDER BY t.key LIMIT ?"
_PLACE: Final = "SELECT key, id, tree, segment, depth, lane FROM arbor_nodes"
_PLACE_BY_ID: Final = f"{_PLACE} WHERE id = ?"
# By the last four digits. Their index has nodes of lane `main` only.
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
    """A tree. `metadata` and `owners` are JSON text."""

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
    """The position of a node in the table."""

    key: int
    id: bytes
    tree: int
    segment: int
    depth: int
    lane: int


class Content(NamedTuple):
    """The content of a node: text, or the origin and the meta values of a handle."""

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
    """Create a tree with an empty root and one reference of its owner.

    With `state="importing"` the tree is invisible until `reveal`.

    Raises:
        Conflict: A tree or a node with that id exists.
    """
    tree_id, root_id = tree_id or ids.uuid4(), root_id or ids.uuid7()
    created = now if created_at is None else created_at
    [root] = tx.raw.execute(_NEXT_KEY).fetchone()
    try:
        tree = tx.raw.execute(
            "INSERT INTO arbor_trees (id, owner, metadata, state, state_since, root, created_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (tree_id, owner, metadata, state, now, root, created),
        ).lastrowid
        assert tree is not None
        tx.raw.execute(
            _BRANCH,
            (root, root_id, tree, root, 0, MAIN, None, "", None, None, None, None, created),
        )
    except sqlite3.IntegrityError:
        raise Conflict(
            f"tree {ids.text(tree_id)}, or a node of it, exists already",
            suggestion="Import a copy with new ids; after a deletion, wait a moment",
        ) from None
    tx.raw.execute("INSERT INTO arbor_owners (tree, owner, count) VALUES (?, ?, 1)", (tree, owner))
    if state != "importing":
        record(tx, tree_id, "created", now, owner, 1)
        tx.topics.append(TREES)
    owners = json.dumps({owner: 1}, ensure_ascii=False, separators=(",", ":"))
    return TreeRow(tree, tree_id, owner, metadata, state, now, created, root, root_id, 1, owners)


def reveal(tx: Tx, tree: TreeRow) -> None:
    """Make an imported tree visible."""
    tx.raw.execute("UPDATE arbor_trees SET state = 'active' WHERE key = ?", (tree.key,))
    # The history of a tree starts when it is complete.
    record(tx, tree.id, "imported", tree.state_since, tree.owner, 1)
    tx.topics.append(TREES)


def give_up(tx: Tx, tree: TreeRow | None = None) -> None:
    """Remove a tree with an incomplete import, or all such trees."""
    rows = tx.raw.execute(
        "SELECT key, id FROM arbor_trees WHERE state = 'importing' AND key = ifnull(?, key)",
        (tree.key if tree else None,),
    ).fetchall()
    for key, tree_id in rows:
        remove(tx, key, tree_id)


def remove(tx: Tx, key: int, tree_id: bytes) -> None:
    """Remove a tree and all rows that refer to it. `purge` removes its nodes later."""
    tx.raw.execute("INSERT INTO arbor_purges (tree, tree_id) VALUES (?, ?)", (key, tree_id))
    blobs.release_tree(tx, key)
    tx.raw.execute("DELETE FROM arbor_trees WHERE key = ?", (key,))
    tx.topics += (topic(key), TREES)


def topic(tree: int) -> tuple[str, int]:
    """Return the topic of changes to the nodes and labels of a tree."""
    return ("tree", tree)


def find(tx: Tx, written: str) -> TreeRow:
    """Return the tree with this id, or with these first digits of an id.

    Raises:
        InvalidParams, NotFound, Ambiguous: The text is not an id, or no tree or several match.
    """
    return _only(tx.raw.execute(TREE_BY_ID, _span(written)).fetchall(), written)


async def look_up(db: Database, written: str) -> TreeRow:
    """Return the same as `find`, outside a transaction."""
    return _only(await db.fetch_rows(TREE_BY_ID, *_span(written)), written)


def writable(tx: Tx, written: str) -> TreeRow:
    """Return the same as `find`, for a change of the tree.

    Raises:
        Conflict: The tree is archived.
    """
    tree = find(tx, written)
    if tree.state == "archived":
        raise Conflict(
            f"tree {ids.text(tree.id)} is archived and can only be read",
            suggestion="Export it, then import a copy with new ids",
        )
    return tree


def place(tx: Tx, tree: TreeRow, node: bytes | str | None) -> Place:
    """Return the place of a node of a tree; by default of its root.

    Args:
        tx: The running transaction.
        tree: The tree.
        node: The id in bytes, or as text: whole, or its last digits if only one node of lane
            `main` has them.

    Raises:
        InvalidParams, NotFound, Ambiguous: The text is not an id, or no node or several match.
    """
    sql, params = _place_query(tree, node)
    return _in_tree(tx.raw.execute(sql, params).fetchall(), tree, node)


async def look_up_place(db: Database, tree: TreeRow, node: bytes | str | None) -> Place:
    """Return the same as `place`, outside a transaction."""
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
        parent: The parent. Its children are in order of creation.
        content: The content of the node.
        now: The time in seconds.
        lane: The lane of the conversation, or of its events.
        label: A short name.
        metadata: JSON text.
        node_id: The id of the node; by default a new one.
        side: Whether few nodes will follow below it. It then leaves its parent's segment to a
            later child.

    Raises:
        Conflict: A node with that id exists.
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
        # The place in the segment is taken or reserved, so the node starts a new segment.
        [key] = tx.raw.execute(_NEXT_KEY).fetchone()
        tx.raw.execute(
            _BRANCH,
            (key, node_id, tree, key, depth, lane, parent.key, *content, label, metadata, now),
        )
    except sqlite3.IntegrityError:
        raise Conflict(f"node {ids.text(node_id)} exists already") from None
    return Place(key, node_id, tree, key, depth, lane)


def text(content: str) -> Content:
    """Return the content of a text node."""
    return Content(content)


def external(tx: Tx, handle: WireHandle) -> Content:
    """Return the content of a node that refers to an object of a plugin."""
    return Content(None, origin(tx, handle), handle.meta_text)


def origin(tx: Tx, handle: WireHandle) -> int:
    """Return the key of the plugin, version and method of a handle; add it if necessary."""
    name = (handle.plugin, handle.version, handle.method)
    row = tx.raw.execute(_FIND_ORIGIN, name).fetchone()
    if row is not None:
        return int(row[0])
    key = tx.raw.execute(_ADD_ORIGIN, (handle.plugin_id.bytes, *name)).lastrowid
    assert key is not None
    return key


def set_label(tx: Tx, node: Place, label: str | None) -> None:
    """Set or remove the label of a node."""
    tx.raw.execute("UPDATE arbor_nodes SET label = ? WHERE key = ?", (label, node.key))
    tx.topics.append(topic(node.tree))


def set_metadata(tx: Tx, tree: TreeRow, metadata: str | None) -> None:
    """Replace the metadata of a tree."""
    tx.raw.execute("UPDATE arbor_trees SET metadata = ? WHERE key = ?", (metadata, tree.key))


def delete(tx: Tx, node: Place, *, recursive: bool) -> int:
    """Remove a node and, if `recursive`, its subtree; return the number of removed nodes.

    Raises:
        Conflict: The node is the root, has children, has too large a subtree, or a row outside
            of the tree refers to one of the nodes.
    """
    if node.depth == 0:
        raise Conflict("the root cannot be deleted", suggestion="Delete the whole tree")
    rest = _below(tx, node)
    if rest and not recursive:
        raise Conflict(
            f"node {ids.text(node.id)} has children",
            suggestion="Add --recursive to delete them too",
        )
    # The newest first, so that no parent is deleted before its children.
    deleted = sorted((*rest, node.key), reverse=True)
    try:
        tx.raw.executemany("DELETE FROM arbor_nodes WHERE key = ?", ((key,) for key in deleted))
    except sqlite3.IntegrityError:
        raise Conflict(
            "the head of a conversation is one of these nodes",
            suggestion="Move or delete the session or cone first",
        ) from None
    tx.topics.append(topic(node.tree))
    return len(deleted)


def record(
    tx: Tx,
    tree_id: bytes,
    step: str,
    now: int,
    owner: str | None = None,
    count: int | None = None,
) -> None:
    """Add a step to the history of a tree, which is kept forever."""
    tx.raw.execute(_RECORD, (tree_id, step, owner, count, now))


def _below(tx: Tx, node: Place) -> list[int]:
    """Return the keys of all nodes below a node, in every lane."""
    below: list[int] = []
    # Stretches that are still to read: a segment, from a depth on.
    stretches = [(node.segment, node.depth + 1)]
    stretches += tx.raw.execute(_BRANCHES, (node.key,)).fetchall()
    while stretches:
        stretch = stretches.pop()
        keys = [key for (key,) in tx.raw.execute(_STRETCH, (*stretch, MAX_DELETED + 1))]
        below += keys
        if len(below) > MAX_DELETED:
            raise Conflict(
                f"node {ids.text(node.id)} has more than {MAX_DELETED} nodes below it",
                suggestion="Delete it in parts, or the whole tree",
            )
        for key in keys:
            stretches += tx.raw.execute(_BRANCHES, (key,)).fetchall()
    return below


_BRANCHES: Final = "SELECT segment, depth FROM arbor_nodes WHERE parent = ?"
_STRETCH: Final = "SELECT key FROM arbor_nodes WHERE segment = ? AND depth >= ? LIMIT ?"


def _span(written: str) -> tuple[bytes, bytes]:
    span = ids.span(written)
    if span is None:
        raise InvalidParams(
            f"'{written[:80]}' is not the id of a tree",
            suggestion=f"Give a UUID, or at least its first {ids.MIN_PREFIX} hex digits",
        )
    return span


def _only(rows: Sequence[tuple[Any, ...]], written: str) -> TreeRow:
    if not rows:
        raise NotFound(
            f"no tree {written}", suggestion="List the trees with `synapse arbor tree_list`"
        )
    if len(rows) > 1:
        raise Ambiguous(
            f"more than one tree has an id that starts with {written}",
            available=[ids.text(row[1]) for row in rows],
        )
    return TreeRow._make(rows[0])


def _place_query(tree: TreeRow, node: bytes | str | None) -> tuple[str, tuple[Any, ...]]:
    """Return the statement that reads the possible places of a node."""
    if not isinstance(node, str):
        return _PLACE_BY_ID, (node or tree.root_id,)
    digits = ids.ending(node)
    if digits is None:
        raise InvalidParams(
            f"'{node[:80]}' is not the id of a node",
            suggestion=f"Give a UUID, or at least its last {ids.MIN_ENDING} hex digits",
        )
    if len(digits) == 32:
        return _PLACE_BY_ID, (bytes.fromhex(digits),)
    return _PLACES_BY_ENDING, (tree.key, digits[-ids.MIN_ENDING :].upper())


def _in_tree(rows: Sequence[tuple[Any, ...]], tree: TreeRow, node: bytes | str | None) -> Place:
    """Return the only place that matches."""
    written = node if isinstance(node, str) else ids.text(node or tree.root_id)
    digits = ids.ending(written) or ""
    places = [
        Place._make(row) for row in rows if row[2] == tree.key and row[1].hex().endswith(digits)
    ]
    if not places:
        raise NotFound(
            f"no node {written} in tree {ids.text(tree.id)}",
            suggestion="Check the tree: the node may be in another one",
        )
    if len(places) > 1:
        raise Ambiguous(
            f"{len(places)} nodes of tree {ids.text(tree.id)} end with {written}",
            suggestion="Give more digits",
            available=[ids.text(place.id) for place in places[:MAX_CANDIDATES]],
        )
    return places[0]
