"""The rows of stored contents: references that plugins take and release in their transactions."""

import sqlite3
from hashlib import sha256
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
    content = blob.content or b""
    for start in range(0, len(content), PART_BYTES):
        tx.execute(
            "INSERT INTO hub_blob_parts (digest, number, content) VALUES (?, ?, ?)"
            " ON CONFLICT (digest, number) DO NOTHING",
            blob.digest,
            start // PART_BYTES,
            content[start : start + PART_BYTES],
        )


def keep(tx: "Tx", tree: int, content: bytes) -> bytes:
    """Store a content in rows for as long as a tree exists, and return its digest.

    For a plugin that writes in one transaction and can't wait for a file.
    """
    digest = sha256(content).digest()
    refer(tx, Blob(digest, len(content), content))
    tx.execute(
        "INSERT INTO hub_tree_blobs (tree, digest, refs) VALUES (?, ?, 1)"
        " ON CONFLICT (tree, digest) DO UPDATE SET refs = refs + 1",
        tree,
        digest,
    )
    return digest


def release_tree(tx: "Tx", tree: int) -> None:
    """Remove all references of a tree, in the transaction that removes the tree."""
    kept = tx.fetch_all("SELECT digest, refs FROM hub_tree_blobs WHERE tree = ?", tree)
    tx.execute("DELETE FROM hub_tree_blobs WHERE tree = ?", tree)
    for row in kept:
        for _ in range(row["refs"]):
            release(tx, row["digest"])


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


def read(connection: sqlite3.Connection, digest: bytes) -> bytes | None:
    """Return a content that is kept in rows, inside a transaction; None if there is none."""
    sql = "SELECT content FROM hub_blob_parts WHERE digest = ? ORDER BY number"
    parts = connection.execute(sql, (digest,)).fetchall()
    return b"".join(part for (part,) in parts) if parts else None


def look_up(connection: sqlite3.Connection, digest: bytes) -> BlobRow | None:
    """Return the row of a content, or None."""
    sql = "SELECT size, refs, place FROM hub_blobs WHERE digest = ?"
    row = connection.execute(sql, (digest,)).fetchone()
    return None if row is None else BlobRow(*row)
