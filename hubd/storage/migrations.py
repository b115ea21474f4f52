"""Append-only migrations: numbered, one transaction each, never edited after they were applied.

Each owner (the hub, and every plugin) has a sequence of migrations. Applied ones are recorded with
a hash, so that an edited migration is refused.
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
from hubd.wire.lazy_pattern import lazy_pattern

# "hubd" in ASCII. Identifies the hub's databases.
APPLICATION_ID: Final = 0x68756264

HUB: Final = "hub"

_DEFERRED: Final = lazy_pattern(r"\bINITIALLY\s+DEFERRED\b", re.IGNORECASE)

RECORDED: Final = "SELECT number, sha256 FROM hub_migrations WHERE owner = ? ORDER BY number"


def refuse_foreign_or_newer(path: Path) -> None:
    """Check an existing file without changing it.

    Raises:
        DatabaseUnusable: It is a database of another program.
        DatabaseNewer: It has migrations of the hub that this version doesn't have.
        sqlite3.Error: It is not a database, or damaged.
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
    """Return the hashes of an owner's applied migrations, in order."""
    rows = connection.execute(RECORDED, (owner,)).fetchall()
    if [number for number, _ in rows] != list(range(1, len(rows) + 1)):
        raise DatabaseUnusable(f"the record of {owner}'s migrations has a gap")
    return [sha256 for _, sha256 in rows]


def is_complete(recorded: Sequence[tuple[int, str]], steps: Sequence[str]) -> bool:
    """Return whether the rows of `RECORDED` are exactly these migrations."""
    return recorded == [(number, fingerprint(step)) for number, step in enumerate(steps, start=1)]


def owners(connection: sqlite3.Connection) -> list[str]:
    """Return the owners of applied migrations."""
    rows = connection.execute("SELECT DISTINCT owner FROM hub_migrations ORDER BY owner")
    return [owner for (owner,) in rows]


def compare(done: Sequence[str], owner: str, steps: Sequence[str]) -> None:
    """Check that the applied migrations are the first ones of `steps`.

    Raises:
        DatabaseNewer: More were applied than `steps` has.
        DatabaseUnusable: One of them was edited later.
    """
    if len(done) > len(steps):
        raise DatabaseNewer(
            f"a newer version of {owner} wrote this database: it has {len(done)} migrations "
            f"of {owner}, and this version has {len(steps)}"
        )
    for number, (recorded, step) in enumerate(zip(done, steps, strict=False), start=1):
        if recorded != fingerprint(step):
            raise DatabaseUnusable(
                f"migration {number} of {owner} was edited after it was applied",
                suggestion="Restore its text and append a new migration instead",
            )


def missing(connection: sqlite3.Connection, owner: str, steps: Sequence[str]) -> range:
    """Return the numbers of the migrations that are still to apply.

    Raises:
        DatabaseNewer, DatabaseUnusable: For the reasons of `compare`.
    """
    done = [] if is_blank(connection) else applied(connection, owner)
    compare(done, owner, steps)
    return range(len(done) + 1, len(steps) + 1)


def is_blank(connection: sqlite3.Connection) -> bool:
    """Return whether the database has no tables."""
    return not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]


def apply(connection: sqlite3.Connection, owner: str, number: int, step: str) -> None:
    """Apply one migration and record it, in the running transaction.

    A plugin's migration may use only the plugin's own tables; the hub's may use all.

    Raises:
        DatabaseUnusable: It fails, or uses a table of another owner.
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
    """Return the recorded hash of a migration. White space does not count."""
    return hashlib.sha256(" ".join(step.split()).encode()).hexdigest()


def _statements(script: str) -> Iterator[str]:
    """Yield the statements of a script.

    `executescript` is not used because it commits the running transaction.
    """
    start = 0
    for semicolon in re.finditer(";", script):
        statement = script[start : semicolon.end()]
        if sqlite3.complete_statement(statement):
            start = semicolon.end()
            if statement.strip() != ";":
                yield statement
    # The last statement may lack a semicolon. SQLite ignores a mere comment.
    yield script[start:]


def _names(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE name NOT GLOB 'sqlite_*'")
    return {name for (name,) in rows}
