"""Stored contents in a backup and in a check, from outside the daemon."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from hubd.storage.blobs.files import BlobFiles, digest_of
from hubd.storage.blobs.rows import PART_BYTES
from hubd.wire.checks import Finding

# Names in one finding.
MAX_NAMED: Final = 5

_IN_FILES: Final = "SELECT digest, size FROM hub_blobs WHERE place = 'file' ORDER BY digest"


class _File(NamedTuple):
    digest: bytes
    size: int


def copy_files_into(copy: sqlite3.Connection, database: Path, report: Callable[[str], None]) -> int:
    """Move the contents of files into rows of a backup, so that it is one file.

    Args:
        copy: The backup.
        database: The database that it was copied from.
        report: Receives the progress.

    Returns:
        The number of files that are missing, or do not have their content.
    """
    if not _has_blobs(copy):
        return 0
    blob_files = BlobFiles(database)
    entries = [_File(*row) for row in copy.execute(_IN_FILES)]
    damaged = 0
    for number, entry in enumerate(entries):
        report(f"copied {number:,} of {len(entries):,} large contents")
        path = blob_files.path(entry.digest)
        if not _is_whole(path, entry):
            damaged += 1
            continue
        with path.open("rb") as file:
            part = 0
            while content := file.read(PART_BYTES):
                copy.execute(
                    "INSERT INTO hub_blob_parts (digest, number, content) VALUES (?, ?, ?)",
                    (entry.digest, part, content),
                )
                part += 1
        copy.execute("UPDATE hub_blobs SET place = 'rows' WHERE digest = ?", (entry.digest,))
        copy.commit()
    return damaged


def check(
    connection: sqlite3.Connection, database: Path, report: Callable[[str], None]
) -> list[Finding]:
    """Compare each file with the digest in its name, and the parts of rows with their size."""
    if not _has_blobs(connection):
        return []
    blob_files = BlobFiles(database)
    entries = [_File(*row) for row in connection.execute(_IN_FILES)]
    damaged = []
    for number, entry in enumerate(entries):
        report(f"checking large contents: {number:,} of {len(entries):,}")
        if not _is_whole(blob_files.path(entry.digest), entry):
            damaged.append(entry.digest.hex())
    damaged += [
        digest.hex()
        for (digest,) in connection.execute(
            "SELECT hub_blobs.digest FROM hub_blobs LEFT JOIN hub_blob_parts"
            " ON hub_blob_parts.digest = hub_blobs.digest WHERE place = 'rows'"
            " GROUP BY hub_blobs.digest, size"
            " HAVING size <> coalesce(sum(length(content)), 0)"
        )
    ]
    [in_rows] = connection.execute("SELECT count(*) FROM hub_blobs WHERE place = 'rows'").fetchone()
    text = f"{in_rows:,} in rows, {len(entries):,} in files"
    if damaged:
        names = ", ".join(damaged[:MAX_NAMED])
        text = f"{len(damaged):,} missing or damaged in {blob_files.directory}: {names}"
    return [Finding("contents", not damaged, text)]


def _is_whole(path: Path, entry: _File) -> bool:
    try:
        return path.stat().st_size == entry.size and digest_of(path) == entry.digest
    except OSError:
        return False


def _has_blobs(connection: sqlite3.Connection) -> bool:
    """Return whether the database has the table; an older version's has not."""
    sql = "SELECT 1 FROM sqlite_schema WHERE name = 'hub_blobs'"
    return connection.execute(sql).fetchone() is not None
