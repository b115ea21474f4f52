"""Detect that the files of a database were removed, replaced or emptied."""

import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from hubd.errors import DatabaseUnusable

log = logging.getLogger(__name__)

# The files that SQLite keeps beside an open database.
COMPANIONS: Final = ("-wal", "-shm")
# A file beside a database that has tables. If such a database is empty, it is damaged, not new.
MARKER: Final = ".created"
# Added to the names of files that belonged to a lost database.
LOST: Final = ".lost"


class Identity:
    """The inodes of the files of an open database."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._file = _inode(self._path)
        self._companions = {
            name: inode
            for suffix in COMPANIONS
            if (inode := _inode(name := f"{self._path}{suffix}")) is not None
        }

    def is_lost(self) -> bool:
        """Return whether another file, or no file, is at the path of the open database."""
        return _is_another(self._path, self._file)

    def problem(self) -> str | None:
        """Return a sentence about the first file that was removed or replaced; None without one."""
        if self.is_lost():
            return _sentence(self._path)
        for name, inode in self._companions.items():
            if _is_another(name, inode):
                return _sentence(name)
        return None

    def set_log_aside(self) -> None:
        """Rename the log of a lost database after it was closed.

        SQLite would apply the log to the next database at the path, and damage it.
        """
        for name, inode in self._companions.items():
            if _inode(name) == inode:
                Path(name).rename(f"{name}{LOST}")


def lost(path: Path) -> DatabaseUnusable:
    """Return the error for a write to a database that was removed from its path."""
    return DatabaseUnusable(_sentence(str(path)), suggestion="Restore a backup, then: hubd start")


def refuse_emptied(path: Path) -> None:
    """Refuse a database that lost its content; SQLite would treat it as a new one.

    Raises:
        DatabaseUnusable: It is empty, although it had content.
    """
    if _size(path):
        return
    log_file = Path(f"{path}-wal")
    if _size(log_file):
        # Opening the database would delete the log, which has the newest changes.
        raise DatabaseUnusable(
            f"{path} is empty or missing, but {log_file.name} beside it has changes to it",
            suggestion=f"Restore a backup, or move {log_file.name} away to start empty",
        )
    marker = Path(f"{path}{MARKER}")
    if marker.exists() and not path.exists():
        log.warning("%s was removed since the last start; creating a new database", path)
    elif marker.exists():
        raise DatabaseUnusable(
            f"{path} is empty, but it had content before",
            suggestion=f"Restore a backup, or remove {path.name} to start empty",
        )


def mark_created(path: Path) -> None:
    """Create the durable marker of a database with content."""
    marker = Path(f"{path}{MARKER}")
    if marker.exists():
        return
    time = datetime.now(UTC).isoformat(timespec="seconds")
    descriptor = os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{path.name} was created at {time}. If it is empty, hubd does not start.\n")
        file.flush()
        os.fsync(file.fileno())
    directory = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _inode(path: str) -> tuple[int, int] | None:
    """Return device and inode of a file; None if it does not exist."""
    try:
        entry = os.stat(path)  # noqa: PTH116 -- for every commit
    except (FileNotFoundError, NotADirectoryError):
        return None
    return entry.st_dev, entry.st_ino


def _is_another(path: str, inode: tuple[int, int] | None) -> bool:
    try:
        return _inode(path) != inode
    except OSError:
        return False  # SQLite reports a failing disk itself.


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _sentence(path: str) -> str:
    return f"{path} was removed or replaced while the daemon was writing to it"
