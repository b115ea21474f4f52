"""file: all SQL of the plugin."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final, NamedTuple
from uuid import UUID

from hubd.activation.pages import ROWS_PER_ITEM
from hubd.errors import NotFound
from hubd.storage.blobs import rows as blobs
from hubd.storage.blobs.rows import Blob
from hubd.storage.database import Database, Tx
from hubd.storage.id_lookup import IdLookup

# Larger than every key.
NO_KEY: Final = 2**63 - 1


class SnapshotRow(NamedTuple):
    """One snapshot."""

    key: int
    id: bytes
    # Absolute.
    path: str
    size: int
    digest: bytes
    mime_type: str
    # Whether the content is UTF-8 without NUL.
    is_text: int
    # The permission bits of the file.
    mode: int
    modified_at: int
    # Whether the file changed while it was read.
    changed: int
    created_at: int

    @property
    def name(self) -> str:
        """The name of the file, without its directory."""
        return PurePath(self.path).name


_COLUMNS: Final = ", ".join(SnapshotRow._fields)
_SELECT: Final = f"SELECT {_COLUMNS} FROM file_snapshots"
# The rows of the search source.
SEARCHED_SNAPSHOTS: Final = "SELECT key, id, path, digest, is_text, created_at FROM file_snapshots"
_IDS: Final = IdLookup(
    _SELECT, thing="snapshot", advice="List the snapshots with `synapse file list`"
)


def add(tx: Tx, row: SnapshotRow, blob: Blob) -> None:
    """Store a snapshot, and refer to its content. The key of the row is not used."""
    blobs.refer(tx, blob)
    columns, values = SnapshotRow._fields[1:], row[1:]
    marks = ", ".join("?" * len(columns))
    sql = f"INSERT INTO file_snapshots ({', '.join(columns)}) VALUES ({marks})"
    tx.execute(sql, *values)


def delete(tx: Tx, key: int) -> bool:
    """Remove a snapshot and its reference to the content. Return whether it existed."""
    rows = tx.fetch_all("DELETE FROM file_snapshots WHERE key = ? RETURNING digest", key)
    for row in rows:
        blobs.release(tx, row["digest"])
    return bool(rows)


async def look_up(db: Database, written: str) -> SnapshotRow:
    """Return the snapshot with this id, or these first digits of it.

    Raises:
        NotFound, Ambiguous: No snapshot matches, or several do.
    """
    return SnapshotRow(*await _IDS.look_up(db, written))


async def look_up_each(db: Database, snapshot_ids: Sequence[UUID]) -> list[SnapshotRow | NotFound]:
    """Return the snapshot of each id, in order, or an error for an unknown id."""
    rows = await _IDS.look_up_each(db, snapshot_ids)
    return [row if isinstance(row, NotFound) else SnapshotRow(*row) for row in rows]


async def page(db: Database, before: int, path: str | None) -> list[SnapshotRow]:
    """Return snapshots before a key, the newest first.

    Args:
        db: The database.
        before: The key.
        path: Only snapshots of this file.
    """
    condition, values = ("", ()) if path is None else (" AND path = ?", (path,))
    rows = await db.fetch_rows(
        f"{_SELECT} WHERE key < ?{condition} ORDER BY key DESC LIMIT ?",
        before,
        *values,
        ROWS_PER_ITEM,
    )
    return [SnapshotRow(*row) for row in rows]
