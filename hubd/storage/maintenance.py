"""Maintain the database from outside the daemon: an online backup, and a check."""

import fcntl
import os
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from hubd.errors import Conflict, DatabaseUnusable, HubError, NotFound
from hubd.storage import migrations
from hubd.storage.blobs import copies
from hubd.storage.blobs.files import BlobFiles
from hubd.storage.errors import code_of, unusable
from hubd.storage.identity import refuse_emptied
from hubd.storage.tables import HUB_MIGRATIONS
from hubd.wire.checks import Finding
from hubd.wire.lazy_pattern import lazy_pattern

# Pages that a backup copies between two progress reports: 8 MiB.
PAGES_AT_ONCE: Final = 2048
MIB: Final = 1024 * 1024
# A log that is larger has not been emptied for long: its pages are copied after every 16 MiB.
LARGE_LOG_BYTES: Final = 1024 * MIB
# The name of an incomplete backup: its final name and 16 random digits.
UNFINISHED: Final = lazy_pattern(r".+\.[0-9a-f]{16}")

# Receives the current step and its progress.
Report = Callable[[str], None]


class Backup(NamedTuple):
    """A complete backup."""

    # Bytes.
    size: int
    # Large contents whose files are missing or damaged, so that the backup lacks them.
    missing: int


def backup(
    source: Path, target: Path, *, force: bool = False, report: Report = lambda text: None
) -> Backup:
    """Copy a consistent state of the database, even while the daemon writes to it.

    The copy is one read transaction, so writers don't wait and it never starts over. Large contents
    become rows of the copy. The target gets its name when it is complete and on disk.

    Args:
        source: The database.
        target: The file to write.
        force: Whether to replace an existing target.
        report: Receives the progress, many times a second.

    Raises:
        NotFound: The database does not exist.
        Conflict: The target exists.
        DatabaseUnusable: The source cannot be read, or the target cannot be written.
    """
    if not source.exists():
        raise _none_yet(source)
    refuse_emptied(source)
    if target.exists() and target.samefile(source):
        raise Conflict(f"{target} is the database itself", suggestion="Choose another name")
    if target.exists() and not force:
        raise Conflict(f"{target} exists", suggestion="Choose another name, or give --force")
    remove_unfinished_copies(target.parent, target.name)
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(8)}")
    try:
        missing = _copy(source, temporary, report)
        if force:
            temporary.replace(target)
        else:
            # Fails if another process has created the target.
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
    return Backup(target.stat().st_size, missing)


def _copy(source: Path, temporary: Path, report: Report) -> int:
    """Copy the database into a file that only this user can read, and sync it to disk.

    Returns:
        The number of large contents that are missing.
    """

    def progress(status: int, remaining: int, total: int) -> None:
        share = 100 * (total - remaining) // max(total, 1)
        report(f"copied {share} % of {total * page_size // 1024**2:,} MiB")

    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        # Shows other processes that this file is being written.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        report("opening the database")
        with (
            BlobFiles(source).kept(),
            _reading(source) as live,
            closing(sqlite3.connect(temporary)) as copy,
        ):
            page_size = live.execute("PRAGMA page_size").fetchone()[0]
            # One read transaction for all steps; separate ones would see later changes.
            live.execute("BEGIN")
            live.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            live.backup(copy, pages=PAGES_AT_ONCE, progress=progress)
            missing = copies.copy_files_into(copy, source, report)
            # A backup is one file, without a WAL beside it.
            copy.execute("PRAGMA journal_mode = DELETE")
        report("writing it to the disk")
        os.fsync(descriptor)
        return missing
    finally:
        os.close(descriptor)


def remove_unfinished_copies(directory: Path, name: str | None = None) -> None:
    """Remove the files of backups that were killed.

    Args:
        directory: The directory of the backups.
        name: The name of one backup; None for all in the directory.
    """
    with suppress(OSError):  # The directory does not exist.
        for file in list(directory.iterdir()):
            matches = name is None or file.name.startswith(f"{name}.")
            if matches and UNFINISHED.fullmatch(file.name) and not file.is_symlink():
                _remove_unlocked(file)


def _remove_unlocked(file: Path) -> None:
    with suppress(OSError), file.open("rb") as opened:
        # Fails while a backup is writing it.
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.unlink()


def check(path: Path, *, report: Report = lambda text: None) -> list[Finding]:
    """Check the integrity, the foreign keys, the large contents and the migrations.

    Args:
        path: The database.
        report: Receives the name of each step before it starts.

    Raises:
        NotFound: The database does not exist.
    """
    if not path.exists():
        raise _none_yet(path)
    try:
        refuse_emptied(path)
        report("opening the database")
        with _reading(path) as connection:
            report("checking the integrity")
            findings = [_integrity(connection)]
            report("checking the foreign keys")
            findings.append(_foreign_keys(connection))
            findings += copies.check(connection, path, report)
            return [*findings, *_migrations(connection, path)]
    except (sqlite3.Error, OSError, DatabaseUnusable) as error:
        return [Finding("database", False, unusable(path, error).message)]


def examine(path: Path) -> list[Finding]:
    """Check the header, the sizes, the permissions and the migrations: quick at any size."""
    try:
        refuse_emptied(path)
        with _reading(path, copied=False) as connection:
            return [_size(connection, path), _log(path), *_migrations(connection, path)]
    except (sqlite3.Error, OSError, DatabaseUnusable) as error:
        return [Finding("database", False, unusable(path, error).message)]


def _size(connection: sqlite3.Connection, path: Path) -> Finding:
    """Report the size of the database, and the share of it that deleted data has left."""
    if not path.is_symlink() and path.stat().st_mode & 0o077:
        return Finding("database", False, f"others can read {path}; run: chmod 600 {path}")
    [pages], [unused], [page_size] = (
        connection.execute(f"PRAGMA {name}").fetchone()
        for name in ("page_count", "freelist_count", "page_size")
    )
    size = f"{pages * page_size / MIB:,.1f} MiB, {unused * page_size / MIB:,.1f} of them free"
    return Finding("database", True, f"{size}; `hubd check` checks all of its content")


def _log(path: Path) -> Finding:
    """Report the size of the write-ahead log, which returns to a few MiB after each burst."""
    log_file = Path(f"{path}-wal")
    size = log_file.stat().st_size if log_file.exists() else 0
    detail = f"{size / MIB:,.1f} MiB"
    if size > LARGE_LOG_BYTES:
        detail += "; a long read keeps it from being emptied. Restart the daemon: hubd restart"
    return Finding("write-ahead log", size <= LARGE_LOG_BYTES, detail)


def _none_yet(path: Path) -> NotFound:
    return NotFound(f"there is no database at {path}", suggestion="Create it with: hubd start")


@contextmanager
def _reading(path: Path, *, copied: bool = True) -> Iterator[sqlite3.Connection]:
    """Open a read-only connection, even on a read-only disk.

    On such a disk SQLite can't create the file with which processes share a database. Other
    processes can't write either, so the file is read directly; if it has a log, from a copy.

    Args:
        path: The database.
        copied: False to leave out the log instead of making a copy.
    """
    try:
        connection = _open(path, "mode=ro")
    except sqlite3.OperationalError as error:
        if code_of(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
    else:
        with closing(connection):
            yield connection
        return
    log_file = Path(f"{path}-wal")
    if not (copied and log_file.exists() and log_file.stat().st_size):
        with closing(_open(path, "immutable=1")) as connection:
            yield connection
        return
    with TemporaryDirectory() as directory:
        copy = Path(directory) / path.name
        for file in (path, log_file):
            shutil.copyfile(file, copy.with_name(file.name))
        with closing(_open(copy, "mode=rw")) as connection:
            yield connection


def _open(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?{mode}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    try:
        # SQLite opens the files only now.
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


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
