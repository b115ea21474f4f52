"""The rows of stored contents: references that plugins take and release in their transactions."""

import sqlite3
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:  # A database has a store of contents.
    from hubd.storage.database import Tx

# The topic of a transaction that released the last reference to a file.
RELEASED: Final = "blobs released"
# A larger content that is kept in rows has several parts; all but the last have this size.
PART_BYTES: Final = 1024 * 1024


class Blob(NamedTuple):
    """A content that is ready to be referred to."""

    # SHA-256.
    digest: bytes
    size: int
    # The content itself if it is small; None if it is in a file.
    content: bytes | None = None


class BlobRow(NamedTuple):
    """The row of a stored content."""

    size: int
    refs: int
    # `rows` or `file`.
    place: str


def refer(tx: "Tx", blob: Blob) -> None:
    """Add a reference to a content, in the transaction that writes the row with its digest."""
    place = "file" if blob.content is None else "rows"
    tx.execute(
        "INSERT INTO hub_blobs (digest, size, refs, place) VALUES (?, ?, 1, ?)"
        " ON CONFLICT (digest) DO UPDATE SET refs = refs + 1",
        blob.digest,
        blob.size,
        place,
    )
    if blob.content is not None:
        tx.execute(
            "INSERT INTO hub_blob_parts (digest, number, content) VALUES (?, 0, ?)"
            " ON CONFLICT (digest, number) DO NOTHING",
            blob.digest,
            blob.content,
        )


def refer_again(tx: "Tx", digest: bytes) -> bool:
    """Add a reference to a content that is stored already; False if it is not."""
    sql = "UPDATE hub_blobs SET refs = refs + 1 WHERE digest = ? AND refs > 0"
    return tx.execute(sql, digest).rowcount == 1


def release(tx: "Tx", digest: bytes) -> None:
    """Remove a reference, in the transaction that deletes the row with the digest.

    Without another reference the content disappears: rows at once, a file after the commit.
    """
    tx.execute("UPDATE hub_blobs SET refs = refs - 1 WHERE digest = ? AND refs > 0", digest)
    row = look_up(tx.raw, digest)
    if row is None or row.refs:
        return
    if row.place == "rows":
        tx.execute("DELETE FROM hub_blobs WHERE digest = ?", digest)
    else:
        tx.topics.append(RELEASED)


def remove_released(tx: "Tx", limit: int) -> list[bytes]:
    """Remove the rows of files without references, and return their digests."""
    rows = tx.fetch_all("SELECT digest FROM hub_blobs WHERE refs = 0 LIMIT ?", limit)
    digests = [row["digest"] for row in rows]
    for digest in digests:
        tx.execute("DELETE FROM hub_blobs WHERE digest = ? AND refs = 0", digest)
    return digests


def look_up(connection: sqlite3.Connection, digest: bytes) -> BlobRow | None:
    """Return the row of a content, or None."""
    sql = "SELECT size, refs, place FROM hub_blobs WHERE digest = ?"
    row = connection.execute(sql, (digest,)).fetchone()
    return None if row is None else BlobRow(*row)
