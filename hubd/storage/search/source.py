"""The documents of a plugin: a query that lists rows, and a function that reads one.

    SearchSource("notes", "SELECT key, id, text, created_at FROM notes_note", self._document)

The index reads the rows after their commit, by ascending key. So a plugin that stores a document
does nothing more for the search.
"""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from hubd.storage.blobs import files, rows
from hubd.storage.blobs.files import BlobFiles
from hubd.storage.blobs.rows import PART_BYTES
from hubd.storage.readers import Value, read_only

if TYPE_CHECKING:  # A database needs none of this.
    from hubd.storage.database import Database

# The first bytes of a content that are searched.
MAX_TEXT_BYTES: Final = 1024 * 1024
# Seconds that a read waits for a lock, which another process holds only for moments.
BUSY_SECONDS: Final = 5.0


class Document(NamedTuple):
    """A text that can be found, and its description."""

    handle: str
    # The kind of the handle's data.
    kind: str
    text: str
    created_at: int
    # The name and the id of the session that it belongs to.
    session: str | None = None
    session_id: str | None = None
    # `user`, `assistant` or `system`.
    role: str | None = None
    # The name of the tool that was called.
    tool: str | None = None
    # True: it is indexed, but not shown at present.
    hidden: bool = False


class Unfinished(NamedTuple):
    """The result of reading a row with a text that still grows."""


@dataclass(frozen=True)
class SearchSource:
    """A table with documents.

    `rows` is a SELECT without WHERE, ORDER and LIMIT. It has a column `key`, a positive integer
    that ascends with every new row, and a column `id`, bytes that no other row ever has.
    `read` returns the document of a row, None if the row has none, or `Unfinished()`. It runs in a
    thread, so it uses only its arguments. If a finished row changes, call
    `Activation.search_row_changed`.
    """

    name: str
    rows: str
    read: Callable[[sqlite3.Row, "Reader"], Document | Unfinished | None]

    async def check(self, db: "Database") -> None:
        """Check the query of the rows.

        Raises:
            DatabaseUnusable, TypeError: It fails, or lacks a column.
        """
        try:
            await db.fetch_rows(f"SELECT key, id FROM ({self.rows}) LIMIT 0")
        except sqlite3.Error as error:
            raise TypeError(
                f"search source '{self.name}': {error}; its rows need the columns key and id"
            ) from error


class Reader:
    """A read-only connection to the database, for one thread at a time."""

    def __init__(self, database: Path) -> None:
        self._files = BlobFiles(database)
        self.connection = sqlite3.connect(
            read_only(database),
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        self.connection.row_factory = sqlite3.Row

    def rows(self, sql: str, *params: Value) -> sqlite3.Cursor:
        """Run a query. Its cursor yields rows with named columns."""
        return self.connection.execute(sql, params)

    def content(self, digest: bytes, length: int) -> bytes:
        """Return the first bytes of a stored content; nothing if it is missing."""
        row = rows.look_up(self.connection, digest)
        if row is None:
            return b""
        if row.place == "file":
            try:
                return files.read(self._files.path(digest), 0, min(length, row.size))
            except OSError:
                return b""
        parts = self.connection.execute(
            "SELECT content FROM hub_blob_parts WHERE digest = ? AND number <= ? ORDER BY number",
            (digest, length // PART_BYTES),
        )
        return b"".join(part for (part,) in parts)[:length]

    def text(self, digest: bytes) -> str:
        """Return the first 1 MiB of a stored content as text."""
        return self.content(digest, MAX_TEXT_BYTES).decode(errors="replace")

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
