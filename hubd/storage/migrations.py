"""Append-only migrations: numbered, one transaction each, never edited once applied.

Each owner (the hub itself, and every plugin) has its own sequence. What was applied is recorded
with a hash, so that an edited migration is refused instead of leaving two kinds of databases.
"""

import hashlib
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from hubd.errors import DatabaseNewer, DatabaseUnusable
from hubd.storage.migration_guard import MigrationGuard
from hubd.storage.tables import HUB_MIGRATIONS

# "hubd" in ASCII: tells our files from other programs' databases.
APPLICATION_ID: Final = 0x68756264

HUB: Final = "hub"

_DEFERRED: Final = re.compile(r"\bINITIALLY\s+DEFERRED\b", re.IGNORECASE)

_RECORDED: Final = "SELECT number, sha256 FROM hub_migrations WHERE owner = ? ORDER BY number"


def refuse_foreign_or_newer(path: Path) -> None:
    """Look at an existing file without touching it.

    Raises:
        DatabaseUnusable: Another program's database.
        DatabaseNewer: Holds migrations of the hub that this version does not know.
        sqlite3.Error: Not a database, or damaged.
    """
    if not path.exists() or path.stat().st_size == 0:
        return
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        if is_blank(connection):
            return
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise DatabaseUnusable(
                f"{path} is a database of another program", suggestion="Use another home"
            )
        compare(applied(connection, HUB), HUB, HUB_MIGRATIONS)
    finally:
        connection.close()


def applied(connection: sqlite3.Connection, owner: str) -> list[str]:
    """The hashes of an owner's applied migrations, in order."""
    rows = connection.execute(_RECORDED, (owner,)).fetchall()
    if [number for number, _ in rows] != list(range(1, len(rows) + 1)):
        raise DatabaseUnusable(f"the record of {owner}'s migrations has a gap")
    return [sha256 for _, sha256 in rows]


def owners(connection: sqlite3.Connection) -> list[str]:
    """Everybody who has applied a migration."""
    rows = connection.execute("SELECT DISTINCT owner FROM hub_migrations ORDER BY owner")
    return [owner for (owner,) in rows]


def compare(done: Sequence[str], owner: str, steps: Sequence[str]) -> None:
    """Check that what was applied is the beginning of `steps`.

    Raises:
        DatabaseNewer: More were applied than `steps` has.
        DatabaseUnusable: One of them was edited since.
    """
    if len(done) > len(steps):
        raise DatabaseNewer(
            f"a newer version of {owner} wrote this database: it holds {len(done)} migrations "
            f"of {owner}, and this version knows {len(steps)}"
        )
    for number, (recorded, step) in enumerate(zip(done, steps, strict=False), start=1):
        if recorded != fingerprint(step):
            raise DatabaseUnusable(
                f"migration {number} of {owner} was edited after it was applied",
                suggestion="Restore its text and append a new migration instead",
            )


def missing(connection: sqlite3.Connection, owner: str, steps: Sequence[str]) -> range:
    """The numbers of the migrations still to be applied.

    Raises:
        DatabaseNewer, DatabaseUnusable: As `compare`.
    """
    done = [] if is_blank(connection) else applied(connection, owner)
    compare(done, owner, steps)
    return range(len(done) + 1, len(steps) + 1)


def is_blank(connection: sqlite3.Connection) -> bool:
    """Whether nothing was ever made in this database."""
    return not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]


def apply(connection: sqlite3.Connection, owner: str, number: int, step: str) -> None:
    """Apply one migration, with its record, inside the transaction that is running.

    A plugin's migration may use only the plugin's own tables; the hub's may use all.

    Raises:
        DatabaseUnusable: It fails, or uses a table that is not the owner's.
    """
    if _DEFERRED.search(step):
        raise DatabaseUnusable(
            f"migration {number} of {owner} defers a constraint to the commit, which it shares "
            "with others",
            suggestion="Leave DEFERRED out",
        )
    try:
        if owner == HUB:
            for statement in _statements(step):
                connection.execute(statement)
        else:
            _apply_guarded(connection, owner, number, step)
    except sqlite3.Error as error:
        raise DatabaseUnusable(
            f"migration {number} of {owner} failed: {error}", suggestion="Correct its SQL"
        ) from error
    connection.execute(
        "INSERT INTO hub_migrations (owner, number, sha256, applied_at) VALUES (?, ?, ?, ?)",
        (owner, number, fingerprint(step), int(time.time())),
    )


def _apply_guarded(connection: sqlite3.Connection, owner: str, number: int, step: str) -> None:
    guard = MigrationGuard(connection, owner, number, set(owners(connection)) - {HUB})
    before = _names(connection)
    for statement in _statements(step):
        guard.execute(statement)
    guard.refuse_stray(_names(connection) - before)
    guard.check_bodies()


def fingerprint(step: str) -> str:
    """The hash under which a migration is recorded; white space may change."""
    return hashlib.sha256(" ".join(step.split()).encode()).hexdigest()


def _statements(script: str) -> Iterator[str]:
    """Split a script where SQLite says that a statement is complete.

    `executescript` would end the running transaction first.
    """
    start = 0
    for found in re.finditer(";", script):
        statement = script[start : found.end()]
        if sqlite3.complete_statement(statement):
            start = found.end()
            if statement.strip() != ";":
                yield statement
    # The last statement needs no semicolon; a comment alone is nothing to SQLite.
    yield script[start:]


def _names(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE name NOT GLOB 'sqlite_*'")
    return {name for (name,) in rows}
