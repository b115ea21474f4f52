"""Who holds a tree, and what becomes of one that nobody holds.

    active ── last reference released ──▶ scheduled ── a week ──▶ archived ── a month ──▶ purged
      ▲                                       │                  (read-only)
      └────────────── claimed ────────────────┘

Every step is remembered in `arbor_history`. Purging removes a bounded number of nodes in each
transaction: a tree of a million nodes must not keep everybody else from writing.
"""

import logging
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from hubd.errors import Conflict
from hubd.storage import ids
from hubd.storage.arbor.tree import TREES, TreeRow, record, remove
from hubd.storage.database import Database, Tx

log = logging.getLogger("hubd.storage")

DAY: Final = 24 * 60 * 60
# Trees that change their state in one transaction, and nodes that go in one.
STEPS_AT_ONCE: Final = 200
NODES_AT_ONCE: Final = 1000


@dataclass(frozen=True)
class Periods:
    """How long a tree stays what it is, in seconds."""

    scheduled: float = 7 * DAY
    archived: float = 30 * DAY


class Step(NamedTuple):
    """One thing that cleaning up does to a tree: `archived`, or `purged`."""

    tree: int
    tree_id: bytes
    step: Literal["archived", "purged"]
    since: int


class StillReferredTo(Exception):
    """A table of some plugin still points at nodes of a deleted tree: they stay for now."""

    def __init__(self, tree: int, tree_id: bytes) -> None:
        super().__init__(f"something still refers to nodes of tree {ids.text(tree_id)}")
        self.tree = tree
        self.tree_id = tree_id


class Remembered(NamedTuple):
    """One step of a tree's life."""

    step: str
    owner: str | None
    references: int | None
    at: int


def claim(tx: Tx, tree: TreeRow, owner: str, count: int, now: int) -> tuple[int, int]:
    """Hold a tree; one that was scheduled for deletion lives again.

    Returns:
        How many references the owner has now, and how many there are in all.

    Raises:
        Conflict: The tree is archived.
    """
    if tree.state == "archived":
        raise Conflict(
            f"tree {ids.text(tree.id)} is archived and cannot be claimed any more",
            suggestion="Export it and import the copy: tree_export, tree_import with new ids",
        )
    [held] = tx.raw.execute(
        "INSERT INTO arbor_owners (tree, owner, count) VALUES (?, ?, ?) "
        "ON CONFLICT (tree, owner) DO UPDATE SET count = count + excluded.count RETURNING count",
        (tree.key, owner, count),
    ).fetchone()
    record(tx, tree.id, "claimed", now, owner, count)
    if tree.state == "scheduled":
        _enter(tx, tree.key, tree.id, "active", "revived", now)
    return held, tree.ref_count + count


def release(tx: Tx, tree: TreeRow, owner: str, count: int, now: int) -> tuple[int, int]:
    """Let go of a tree; without any reference left it is scheduled for deletion.

    Returns:
        As `claim`.

    Raises:
        Conflict: The owner does not hold so many.
    """
    found = tx.raw.execute(
        "SELECT count FROM arbor_owners WHERE tree = ? AND owner = ?", (tree.key, owner)
    ).fetchone()
    held = found[0] if found else 0
    if held < count:
        raise Conflict(
            f"{owner} holds {held} reference{'s' if held != 1 else ''} to tree "
            f"{ids.text(tree.id)}, not {count}",
            suggestion="tree_get_refs shows who holds it",
        )
    if held == count:
        tx.raw.execute("DELETE FROM arbor_owners WHERE tree = ? AND owner = ?", (tree.key, owner))
    else:
        tx.raw.execute(
            "UPDATE arbor_owners SET count = count - ? WHERE tree = ? AND owner = ?",
            (count, tree.key, owner),
        )
    record(tx, tree.id, "released", now, owner, count)
    if tree.ref_count == count:
        _enter(tx, tree.key, tree.id, "scheduled", "scheduled", now)
    return held - count, tree.ref_count - count


def let_go(tx: Tx, tree: TreeRow, owner: str, now: int) -> None:
    """Release all that an owner holds, because there will be no such owner any more.

    That may be nothing: an archived tree has no owners, and anybody can release by any name.
    """
    found = tx.raw.execute(
        "SELECT count FROM arbor_owners WHERE tree = ? AND owner = ?", (tree.key, owner)
    ).fetchone()
    if found is not None:
        release(tx, tree, owner, found[0], now)


def archive(tx: Tx, tree: TreeRow, owner: str, now: int, *, force: bool = False) -> None:
    """Make a tree read-only now; its references end.

    Raises:
        Conflict: Others hold it, or it is archived already.
    """
    if tree.state == "archived":
        raise Conflict(f"tree {ids.text(tree.id)} is archived already")
    _let_go(tx, tree, owner, force=force)
    _enter(tx, tree.key, tree.id, "archived", "archived", now)


def delete(tx: Tx, tree: TreeRow, owner: str, now: int, *, force: bool = False) -> None:
    """Remove a tree for good. It is gone for everybody at once; `purge` then frees the space.

    Raises:
        Conflict: Others hold it.
    """
    _let_go(tx, tree, owner, force=force)
    _remove(tx, tree.key, tree.id, now)


def clean_up(tx: Tx, periods: Periods, now: int) -> list[Step]:
    """Take the steps that are due, a bounded number of them; call again until none is left."""
    some = f"{_DUE} LIMIT {STEPS_AT_ONCE}"
    steps = [Step._make(row) for row in tx.raw.execute(some, _due(periods, now)).fetchall()]
    for step in steps:
        if step.step == "purged":
            _remove(tx, step.tree, step.tree_id, now)
        else:
            _enter(tx, step.tree, step.tree_id, "archived", "archived", now)
    return steps


async def due(db: Database, periods: Periods, now: int) -> list[Step]:
    """All steps that are due now."""
    return [Step._make(row) for row in await db.fetch_rows(_DUE, *_due(periods, now))]


def purge(tx: Tx, passing_over: Collection[int] = ()) -> bool:
    """Remove some nodes of the first deleted tree that there is.

    Args:
        tx: Where.
        passing_over: Trees that have to wait, so that those behind them do not.

    Returns:
        Whether there was anything to do.

    Raises:
        StillReferredTo: This tree has to wait.
    """
    deleted = tx.raw.execute("SELECT tree, tree_id FROM arbor_purges ORDER BY tree")
    found = next((row for row in deleted if row[0] not in passing_over), None)
    if found is None:
        return False
    tree, tree_id = found
    try:
        if _remove_nodes(tx, tree):
            tx.raw.execute("DELETE FROM arbor_purges WHERE tree = ?", (tree,))
            log.info("tree %s: nothing is left of it", ids.text(tree_id))
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
            raise
        raise StillReferredTo(tree, tree_id) from error
    return True


async def history(db: Database, tree_id: bytes) -> list[Remembered]:
    """The life of a tree, also of one that is gone."""
    sql = "SELECT step, owner, count, at FROM arbor_history WHERE tree_id = ? ORDER BY key"
    return [Remembered._make(row) for row in await db.fetch_rows(sql, tree_id)]


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
    # A period may be endless: then nothing is old enough.
    return int(max(now - periods.scheduled, -1.0)), int(max(now - periods.archived, -1.0))


def _remove_nodes(tx: Tx, tree: int) -> bool:
    """Remove so many nodes as may go at once; returns whether none is left."""
    left = NODES_AT_ONCE
    while left > 0:
        # The youngest segment first: nobody's parent goes before it does.
        last = tx.raw.execute(_LAST_SEGMENT, (tree,)).fetchone()
        if last is None:
            return True
        left -= tx.raw.execute(_DELETE_TIP, (*last, left)).rowcount
    return False


def _let_go(tx: Tx, tree: TreeRow, owner: str, *, force: bool) -> None:
    """End all references, unless somebody else has one."""
    others = tx.raw.execute(
        "SELECT owner FROM arbor_owners WHERE tree = ? AND owner <> ? LIMIT 10", (tree.key, owner)
    ).fetchall()
    if others and not force:
        raise Conflict(
            f"{', '.join(name for (name,) in others)} still holds tree {ids.text(tree.id)}",
            suggestion="Release it there first, or give force",
        )
    tx.raw.execute("DELETE FROM arbor_owners WHERE tree = ?", (tree.key,))


def _enter(tx: Tx, tree: int, tree_id: bytes, state: str, step: str, now: int) -> None:
    tx.raw.execute(
        "UPDATE arbor_trees SET state = ?, state_since = ? WHERE key = ?", (state, now, tree)
    )
    tx.topics.append(TREES)
    _remember(tx, tree_id, step, now)


def _remove(tx: Tx, tree: int, tree_id: bytes, now: int) -> None:
    remove(tx, tree, tree_id)
    _remember(tx, tree_id, "purged", now)


def _remember(tx: Tx, tree_id: bytes, step: str, now: int) -> None:
    record(tx, tree_id, step, now)
    log.info("tree %s: %s", ids.text(tree_id), step)
