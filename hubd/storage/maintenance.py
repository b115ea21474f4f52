"""Looking after the database from outside the daemon: an online backup, and a check."""

import os
import secrets
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from hubd.errors import Conflict, DatabaseUnusable, HubError, NotFound
from hubd.storage import migrations
from hubd.storage.failure import code_of, unusable
from hubd.storage.tables import HUB_MIGRATIONS


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    ok: bool
    detail: str


def backup(source: Path, target: Path, *, force: bool = False) -> int:
    """Copy a consistent state of the database, also while the daemon writes to it.

    The copy is one read transaction, so writers are not held up and it never starts over; the
    target appears under its name only when it is complete and on disk.

    Returns:
        The size of the copy in bytes.

    Raises:
        NotFound: There is no database.
        Conflict: The target exists.
        DatabaseUnusable: The source cannot be read, or the target cannot be written.
    """
    if not source.exists():
        raise _none_yet(source)
    if target.exists() and target.samefile(source):
        raise Conflict(f"{target} is the database itself", suggestion="Choose another name")
    if target.exists() and not force:
        raise Conflict(f"{target} exists", suggestion="Choose another name, or give --force")
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(8)}")
    try:
        _copy(source, temporary)
        if force:
            temporary.replace(target)
        else:
            # Fails if somebody else made the target meanwhile.
            target.hardlink_to(temporary)
            temporary.unlink()
    except FileExistsError as error:
        raise Conflict(f"{target} exists") from error
    except (sqlite3.Error, OSError) as error:
        damaged = isinstance(error, sqlite3.DatabaseError) and code_of(error) in (
            sqlite3.SQLITE_CORRUPT,
            sqlite3.SQLITE_NOTADB,
        )
        raise unusable(source if damaged else target, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return target.stat().st_size


def _copy(source: Path, temporary: Path) -> None:
    """The whole database into a file that nobody else can read, and onto the disk."""
    with _reading(source) as live:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(sqlite3.connect(temporary)) as copy:
            live.backup(copy)
            # A backup is one file: no WAL to forget beside it.
            copy.execute("PRAGMA journal_mode = DELETE")
    with temporary.open("rb") as written:
        os.fsync(written.fileno())


def check(path: Path) -> list[Finding]:
    """Integrity, foreign keys and migrations.

    Raises:
        NotFound: There is no database.
    """
    if not path.exists():
        raise _none_yet(path)
    try:
        with _reading(path) as connection:
            return [
                _integrity(connection),
                _foreign_keys(connection),
                *_migrations(connection, path),
            ]
    except sqlite3.Error as error:
        return [Finding("database", False, unusable(path, error).message)]


def _none_yet(path: Path) -> NotFound:
    return NotFound(f"there is no database at {path}", suggestion="The first start makes one")


def _reading(path: Path) -> closing[sqlite3.Connection]:
    """A read-only connection that the `with` closes."""
    return closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True))


def _integrity(connection: sqlite3.Connection) -> Finding:
    rows = [row for (row,) in connection.execute("PRAGMA integrity_check(20)")]
    return Finding("integrity", rows == ["ok"], "; ".join(rows))


def _foreign_keys(connection: sqlite3.Connection) -> Finding:
    broken = connection.execute("PRAGMA foreign_key_check").fetchmany(20)
    tables = ", ".join(sorted({row[0] for row in broken}))
    return Finding("foreign keys", not broken, f"broken in {tables}" if broken else "ok")


def _migrations(connection: sqlite3.Connection, path: Path) -> list[Finding]:
    findings = []
    try:
        if connection.execute("PRAGMA application_id").fetchone()[0] != migrations.APPLICATION_ID:
            raise DatabaseUnusable(f"{path} is a database of another program")
        for owner in migrations.owners(connection):
            done = migrations.applied(connection, owner)
            if owner == migrations.HUB:
                migrations.compare(done, owner, HUB_MIGRATIONS)
            findings.append(Finding(f"migrations of {owner}", True, f"{len(done)} applied"))
    except HubError as error:
        findings.append(Finding("migrations", False, error.message))
    return findings
