"""The index: a SQLite file beside the database, which can be rebuilt at any time.

It is a separate file, so that indexing never delays a write to the database. A document is a row
and an entry of a full-text table that keeps no text. The positions up to which the sources are
indexed change in the same transaction as the documents.

The number of a document begins with the time of its creation, so the newest matches are the last
ones in the full-text table. Numbers are not used again, because removing an entry from the
full-text table would need its text: a removed document leaves its number behind.

Each value of a filter is a token of the full-text table too (`search_tags`), so that a query skips
the matches of other sessions, roles, tools and kinds instead of reading them.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from hubd.storage.readers import read_only
from hubd.storage.search.source import BUSY_SECONDS, Document
from hubd.storage.search.text import fold, prepare

# Change it with the tables: an index of another format is replaced.
FORMAT: Final = 2
# The first version with the trigram tokenizer.
MIN_SQLITE: Final = (3, 34, 0)
# Documents that can be created in one second before their numbers reach into the next one.
NUMBERS_PER_SECOND: Final = 2**20
LAST_SECOND: Final = 2**40
# Ends a text, so that each of its characters begins a token of three. A text has no line breaks.
END_OF_TEXT: Final = "\n\n"
# The fields of a document that a query can filter by. Each is a column of the full-text table.
FIELDS: Final = ("kind", "session", "session_id", "role", "tool")
# The private characters of tags, with this many for each of the three places of a token.
FIRST_PRIVATE: Final = 0xF0000
PRIVATE: Final = 20_000

_TABLES: Final = """
    CREATE TABLE search_cursors (
        source TEXT PRIMARY KEY,
        key INTEGER NOT NULL,
        id BLOB
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE search_unfinished (
        source TEXT NOT NULL,
        key INTEGER NOT NULL,
        PRIMARY KEY (source, key)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE search_documents (
        number INTEGER PRIMARY KEY,
        source TEXT, -- null if the document was removed
        key INTEGER NOT NULL,
        id BLOB NOT NULL,
        kind TEXT NOT NULL,
        session TEXT,
        session_id TEXT,
        role TEXT,
        tool TEXT
    ) STRICT;
    CREATE UNIQUE INDEX search_documents_row ON search_documents (source, key)
        WHERE source IS NOT NULL;
    CREATE TABLE search_tags (
        number INTEGER PRIMARY KEY,
        field TEXT NOT NULL,
        value TEXT NOT NULL,
        UNIQUE (field, value)
    ) STRICT;
"""
_FULL_TEXT: Final = """
    CREATE VIRTUAL TABLE search_text USING fts5 (
        text, kind, session, session_id, role, tool,
        content = '', columnsize = 0, tokenize = 'trigram case_sensitive 1'
    );
    CREATE VIRTUAL TABLE search_terms USING fts5vocab (search_text, 'instance');
"""


class Cursor(NamedTuple):
    """The last row of a source that was looked at. `id` is None before the first."""

    key: int
    id: bytes | None


class Entry(NamedTuple):
    """A document with its row."""

    source: str
    key: int
    id: bytes
    document: Document


class Position(NamedTuple):
    """The row of an indexed document."""

    key: int
    id: bytes


def index_path(database: Path) -> Path:
    """Return the file of the index of a database."""
    return database.with_name("search.db")


def token(tag: int) -> str:
    """Return the three characters of a tag, one token of the full-text table."""
    places = (tag // PRIVATE**2, tag // PRIVATE % PRIVATE, tag % PRIVATE)
    return "".join(
        chr(FIRST_PRIVATE + place * PRIVATE + digit) for place, digit in enumerate(places)
    )


def has_full_text() -> bool:
    """Return whether SQLite has FTS5 with the trigram tokenizer."""
    if sqlite3.sqlite_version_info < MIN_SQLITE:
        return False
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE probe USING fts5 (text, tokenize = 'trigram')")
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()
    return True


def remove(path: Path) -> None:
    """Remove the files of an index. The hub builds it again."""
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").unlink()


class Index:
    """The writing side of the index, for one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.full_text = has_full_text()
        self._connection = self._open()
        self._inode = path.stat().st_ino
        # The number of documents, and of removed ones.
        self.documents, self.removed = self._count()

    def is_current(self) -> bool:
        """Return whether the file is still the one that was opened."""
        with suppress(FileNotFoundError):
            return self._path.stat().st_ino == self._inode
        return False

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write everything in the block in one transaction."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
                self.documents, self.removed = self._count()
            raise
        self._connection.execute("COMMIT")

    def cursor(self, source: str) -> Cursor:
        """Return how far a source is indexed."""
        sql = "SELECT key, id FROM search_cursors WHERE source = ?"
        row = self._connection.execute(sql, (source,)).fetchone()
        return Cursor(*row) if row else Cursor(0, None)

    def set_cursor(self, source: str, cursor: Cursor) -> None:
        """Store how far a source is indexed."""
        self._connection.execute(
            "INSERT INTO search_cursors (source, key, id) VALUES (?, ?, ?)"
            " ON CONFLICT (source) DO UPDATE SET key = excluded.key, id = excluded.id",
            (source, *cursor),
        )

    def add(self, entries: Sequence[Entry]) -> None:
        """Add documents, or replace those of the same rows."""
        for entry in entries:
            self.discard(entry.source, [entry.key])
        # The full-text table writes ascending numbers fastest.
        for entry in sorted(entries, key=lambda entry: entry.document.created_at):
            document = entry.document
            number = self._next_number(document.created_at)
            values = [getattr(document, field) for field in FIELDS]
            self._connection.execute(
                "INSERT INTO search_documents"
                " (number, source, key, id, kind, session, session_id, role, tool)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (number, entry.source, entry.key, entry.id, *values),
            )
            self.documents += 1
            if self.full_text:
                tags = [
                    value and token(self._tag(field, value))
                    for field, value in zip(FIELDS, values, strict=True)
                ]
                self._connection.execute(
                    "INSERT INTO search_text (rowid, text, kind, session, session_id, role, tool)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (number, fold(prepare(document.text)) + END_OF_TEXT, *tags),
                )

    def _tag(self, field: str, value: str) -> int:
        """Return the number of a value, which is stored on its first use."""
        sql = "SELECT number FROM search_tags WHERE field = ? AND value = ?"
        row = self._connection.execute(sql, (field, value)).fetchone()
        if row is None:
            sql = "INSERT INTO search_tags (field, value) VALUES (?, ?)"
            row = (self._connection.execute(sql, (field, value)).lastrowid,)
        number: int = row[0]
        return number

    def discard(self, source: str, keys: Iterable[int]) -> None:
        """Remove the documents of these rows, if they have any."""
        for key in keys:
            self._remove("key = ?", source, key)

    def discard_after(self, source: str, key: int) -> None:
        """Remove the documents of the rows after a key, and forget the unfinished ones."""
        self._remove("key > ?", source, key)
        self._connection.execute(
            "DELETE FROM search_unfinished WHERE source = ? AND key > ?", (source, key)
        )

    def _remove(self, condition: str, source: str, key: int) -> None:
        sql = f"UPDATE search_documents SET source = NULL WHERE source = ? AND {condition}"
        count = self._connection.execute(sql, (source, key)).rowcount
        self.documents -= count
        self.removed += count

    def positions(self, source: str, *, before: int, limit: int) -> list[Position]:
        """Return the rows of documents before a key, the last first."""
        rows = self._connection.execute(
            "SELECT key, id FROM search_documents WHERE source = ? AND key < ?"
            " ORDER BY key DESC LIMIT ?",
            (source, before, limit),
        )
        return [Position(*row) for row in rows]

    def set_unfinished(self, source: str, key: int, *, unfinished: bool) -> None:
        """Store whether the text of a row still grows."""
        self._connection.execute(
            "INSERT INTO search_unfinished (source, key) VALUES (?, ?)"
            " ON CONFLICT (source, key) DO NOTHING"
            if unfinished
            else "DELETE FROM search_unfinished WHERE source = ? AND key = ?",
            (source, key),
        )

    def unfinished(self, source: str) -> list[int]:
        """Return the rows of a source with texts that still grow."""
        sql = "SELECT key FROM search_unfinished WHERE source = ? ORDER BY key"
        return [key for (key,) in self._connection.execute(sql, (source,))]

    def _count(self) -> tuple[int, int]:
        row = self._connection.execute(
            "SELECT count(source), count(*) - count(source) FROM search_documents"
        ).fetchone()
        return row[0], row[1]

    def _next_number(self, created_at: int) -> int:
        """Return a number that no document has or had, after all documents of this second."""
        second = min(max(created_at, 0), LAST_SECOND)
        while True:
            first = second * NUMBERS_PER_SECOND
            (last,) = self._connection.execute(
                "SELECT max(number) FROM search_documents WHERE number >= ? AND number < ?",
                (first, first + NUMBERS_PER_SECOND),
            ).fetchone()
            if last is None or last + 1 < first + NUMBERS_PER_SECOND:
                return first if last is None else last + 1
            second += 1

    def _open(self) -> sqlite3.Connection:
        """Open the file. One that is damaged or has another format is replaced."""
        with suppress(sqlite3.DatabaseError):
            connection = self._connect()
            try:
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                if version == self._version:
                    connection.execute("SELECT count(*) FROM search_cursors").fetchone()
                    return connection
            except sqlite3.DatabaseError:
                pass
            connection.close()
        remove(self._path)
        connection = self._connect()
        connection.execute("BEGIN IMMEDIATE")
        for statement in (_TABLES + (_FULL_TEXT if self.full_text else "")).split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {self._version}")
        connection.execute("COMMIT")
        return connection

    def _connect(self) -> sqlite3.Connection:
        # It has parts of private texts.
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(
            self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            # The last commits may be lost with the power; they are indexed again.
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def _version(self) -> int:
        """The format; another one without a full-text table."""
        return FORMAT * 2 + self.full_text


def open_for_reading(path: Path) -> sqlite3.Connection | None:
    """Open an index for one query; None if it does not exist yet."""
    if not path.exists():
        return None
    connection = sqlite3.connect(
        read_only(path),
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute("SELECT count(*) FROM search_cursors").fetchone()
    except sqlite3.OperationalError:  # Its tables are just being created.
        connection.close()
        return None
    return connection
