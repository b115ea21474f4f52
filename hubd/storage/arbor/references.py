"""References keep a tree alive. A tree without references is archived, then purged.

    active ── last reference released ──▶ scheduled ── a week ──▶ archived ── a month ──▶ purged
      ▲                                       │                  (read-only)
      └────────────── claimed ────────────────┘

`arbor_history` records every step. Purging removes a bounded number of nodes in each transaction,
so that a tree of a million nodes does not block other writers.
"""

import sqlite3
from collections.abc import Collection
from typing import Final, Literal, NamedTuple

from hubd.errors import Conflict
from hubd.storage import ids
from hubd.storage.arbor.tree import TREES, TreeRow, record, remove
from hubd.storage.database import Database, Tx

DAY: Final = 24 * 60 * 60
# Trees that change their state in one transaction, and nodes that one transaction removes.
STEPS_AT_ONCE: Final = 200
NODES_AT_ONCE: Final = 1000


class Periods(NamedTuple):
    """The time that a tree stays in a state, in seconds."""

    scheduled: float = 7 * DAY
    archived: float = 30 * DAY


class Step(NamedTuple):
    """One step of the clean-up: a tree becomes `archived` or `purged`."""

    tree: int
    tree_id: bytes
    step: Literal["archived", "purged"]
    since: int


class StillReferredTo(Exception):
    """A plugin's table still refers to nodes of a deleted tree, so they stay for now."""

    def __init__(self, tree: int, tree_id: bytes) -> None:
        super().__init__(f"a row still refers to nodes of tree {ids.text(tree_id)}")
        self.tree = tree
        self.tree_id = tree_id


class HistoryEntry(NamedTuple):
    """One step in the history of a tree."""

    step: str
    owner: str | None
    references: int | None
    at: int


def claim(tx: Tx, tree: TreeRow, owner: str, count: int, now: int) -> tuple[int, int]:
    """Add references to a tree. A tree that was scheduled for deletion becomes active again.

    Returns:
        The number of references of the owner, and of all owners.

    Raises:
        Conflict: The tree is archived.
    """
    if tree.state == "archived":
        raise Conflict(
            f"tree {ids.text(tree.id)} is archived and cannot be claimed",
            suggestion="Export it, then import a copy with new ids",
        )
    [references] = tx.raw.execute(
        "INSERT INTO arbor_owners (tree, owner, count) VALUES (?, ?, ?) "
        "ON CONFLICT (tree, owner) DO UPDATE SET count = count + excluded.count RETURNING count",
        (tree.key, owner, count),
    ).fetchone()
    record(tx, tree.id, "claimed", now, owner, count)
    if tree.state == "scheduled":
        _enter(tx, tree.key, tree.id, "active", "revived", now)
    return references, tree.ref_count + count


def release(tx: Tx, tree: TreeRow, owner: str, count: int, now: int) -> tuple[int, int]:
    """Remove references to a tree. Without references it is scheduled for deletion.

    Returns:
        The number of references of the owner, and of all owners.

    Raises:
        Conflict: The owner has fewer references.
    """
    row = tx.raw.execute(
        "SELECT count FROM arbor_owners WHERE tree = ? AND owner = ?", (tree.key, owner)
    ).fetchone()
    references = row[0] if row else 0
    if references < count:
        raise Conflict(
            f"{owner} has {references} reference{'s' if references != 1 else ''} to tree "
            f"{ids.text(tree.id)}, not {count}",
            suggestion="List the owners with `synapse arbor tree_get_refs`",
        )
    if references == count:
        tx.raw.execute("DELETE FROM arbor_owners WHERE tree = ? AND owner = ?", (tree.key, owner))
    else:
        tx.raw.execute(
            "UPDATE arbor_owners SET count = count - ? WHERE tree = ? AND owner = ?",
            (count, tree.key, owner),
        )
    record(tx, tree.id, "released", now, owner, count)
    if tree.ref_count == count:
        _enter(tx, tree.key, tree.id, "scheduled", "scheduled", now)
    return references - count, tree.ref_count - count


def let_go(tx: Tx, tree: TreeRow, owner: str, now: int) -> None:
    """Remove all references of an owner that is about to be deleted.

    The owner may have none: an archived tree has no owners, and any caller can release them.
    """
    row = tx.raw.execute(
        "SELECT count FROM arbor_owners WHERE tree = ? AND owner = ?", (tree.key, owner)
    ).fetchone()
    if row is not None:
        release(tx, tree, owner, row[0], now)


def archive(tx: Tx, tree: TreeRow, owner: str, now: int, *, force: bool = False) -> None:
    """Make a tree read-only now, and remove its references.

    Raises:
        Conflict: Other owners have references, or it is archived already.
    """
    if tree.state == "archived":
        raise Conflict(f"tree {ids.text(tree.id)} is archived already")
    _let_go(tx, tree, owner, force=force)
    _enter(tx, tree.key, tree.id, "archived", "archived", now)


def delete(tx: Tx, tree: TreeRow, owner: str, now: int, *, force: bool = False) -> None:
    """Delete a tree. It is invisible at once; `purge` then frees the space.

    Raises:
        Conflict: Other owners have references.
    """
    _let_go(tx, tree, owner, force=force)
    _remove(tx, tree.key, tree.id, now)


def clean_up(tx: Tx, periods: Periods, now: int) -> list[Step]:
    """Take a bounded number of the steps that are due. Repeat until it returns none."""
    some = f"{_DUE} LIMIT {STEPS_AT_ONCE}"
    steps = [Step._make(row) for row in tx.raw.execute(some, _due(periods, now)).fetchall()]
    for step in steps:
        if step.step == "purged":
            _remove(tx, step.tree, step.tree_id, now)
        else:
            _enter(tx, step.tree, step.tree_id, "archived", "archived", now)
    return steps


async def due(db: Database, periods: Periods, now: int) -> list[Step]:
    """Return all steps that are due now."""
    return [Step._make(row) for row in await db.fetch_rows(_DUE, *_due(periods, now))]


def purge(tx: Tx, passing_over: Collection[int] = ()) -> bool:
    """Remove some nodes of the first deleted tree.

    Args:
        tx: The running transaction.
        passing_over: Trees to skip, because rows still refer to their nodes.

    Returns:
        Whether a deleted tree had nodes.

    Raises:
        StillReferredTo: A row still refers to a node of this tree.
    """
    deleted = tx.raw.execute("SELECT tree, tree_id FROM arbor_purges ORDER BY tree")
    first = next((row for row in deleted if row[0] not in passing_over), None)
    if first is None:
        return False
    tree, tree_id = first
    try:
        if _remove_nodes(tx, tree):
            tx.raw.execute("DELETE FROM arbor_purges WHERE tree = ?", (tree,))
            tx.messages.append(f"tree {ids.text(tree_id)}: all of its nodes are removed")
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
            raise
        raise StillReferredTo(tree, tree_id) from error
    return True


async def history(db: Database, tree_id: bytes) -> list[HistoryEntry]:
    """Return the history of a tree, even of a deleted one."""
    sql = "SELECT step, owner, count, at FROM arbor_history WHERE tree_id = ? ORDER BY key"
    return [HistoryEntry._make(row) for row in await db.fetch_rows(sql, tree_id)]


_DUE: Final = """
    SELECT key, id, 'archived', state_since FROM arbor_trees
        WHERE state = 'scheduled' AND state_since <= ?
    UNION ALL SELECT key, id, 'purged', state_since FROM arbor_trees
        WHERE state = 'archived' AND state_since <= ?
"""
_LAST_SEGMENT: Final = (
    "SELECT key FROM arbor_nodes WHERE tree = ? AND segment = key ORDER BY key DESC LIMIT 1"
)
_DELETE_TIP: Final = """
    DELETE FROM arbor_nodes WHERE key IN (
        SELECT key FROM arbor_nodes WHERE segment = ? ORDER BY depth DESC LIMIT ?)
"""


def _due(periods: Periods, now: int) -> tuple[int, int]:
    # A period may be infinite.
    return int(max(now - periods.scheduled, -1.0)), int(max(now - periods.archived, -1.0))


def _remove_nodes(tx: Tx, tree: int) -> bool:
    """Remove a bounded number of nodes; return whether none remain."""
    left = NODES_AT_ONCE
    while left > 0:
        # The newest segment first, so that no parent is removed before its children.
        last = tx.raw.execute(_LAST_SEGMENT, (tree,)).fetchone()
        if last is None:
            return True
        left -= tx.raw.execute(_DELETE_TIP, (*last, left)).rowcount
    return False


def _let_go(tx: Tx, tree: TreeRow, owner: str, *, force: bool) -> None:
    """Remove all references, unless another owner has one."""
    others = tx.raw.execute(
        "SELECT owner FROM arbor_owners WHERE tree = ? AND owner <> ? LIMIT 10", (tree.key, owner)
    ).fetchall()
    if others and not force:
        raise Conflict(
            f"{', '.join(name for (name,) in others)} still has references to tree "
            f"{ids.text(tree.id)}",
            suggestion="Release these references first, or add --force",
        )
    tx.raw.execute("DELETE FROM arbor_owners WHERE tree = ?", (tree.key,))


def _enter(tx: Tx, tree: int, tree_id: bytes, state: str, step: str, now: int) -> None:
    tx.raw.execute(
        "UPDATE arbor_trees SET state = ?, state_since = ? WHERE key = ?", (state, now, tree)
    )
    tx.topics.append(TREES)
    _record(tx, tree_id, step, now)


def _remove(tx: Tx, tree: int, tree_id: bytes, now: int) -> None:
    remove(tx, tree, tree_id)
    _record(tx, tree_id, "purged", now)


def _record(tx: Tx, tree_id: bytes, step: str, now: int) -> None:
    record(tx, tree_id, step, now)
    tx.messages.append(f"tree {ids.text(tree_id)}: {step}")
