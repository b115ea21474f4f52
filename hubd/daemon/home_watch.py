"""Watch the files of a running daemon: its database, sockets, lock and record.

Other programs may remove or replace them. The daemon makes the sockets and the record again. It
stops if the database at its path is not the one it writes to: what it wrote would be lost.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

log = logging.getLogger("hubd")

# Between two looks. Each costs a few system calls.
CHECK_SECONDS: Final = 1.0

# Device, inode, size and time of change: enough to tell one version of a file from another.
Version = tuple[int, int, int, int]


class Restorable(Protocol):
    """A socket that can be made again."""

    path: Path

    def is_in_place(self) -> bool:
        """Whether the socket at the path is the one that listens."""

    def open(self) -> None:
        """Listen on the path again."""


class HomeWatch:
    """Looks at the files every second."""

    def __init__(
        self,
        record: Path,
        write_record: Callable[[], None],
        sockets: Sequence[Restorable],
        database_problem: Callable[[], str | None],
    ) -> None:
        self._record = record
        self._write_record = write_record
        # The record as this process wrote it.
        self._record_version: Version | None = None
        self._sockets = sockets
        self._database_problem = database_problem
        # Files that could not be made again; each is reported once.
        self._reported: set[Path] = set()

    def write_record(self) -> None:
        """Write the record; any other version of it is replaced from now on."""
        self._write_record()
        self._record_version = version(self._record)

    async def run(self) -> str:
        """Look until the database is lost; returns the reason."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if problem := self._database_problem():
                return problem
            for listener in self._sockets:
                if not listener.is_in_place():
                    self._restore(listener.path, listener.open)
            if version(self._record) != self._record_version:
                self._restore(self._record, self.write_record)

    def _restore(self, path: Path, restore: Callable[[], None]) -> None:
        try:
            restore()
        except OSError as error:
            if path not in self._reported:
                self._reported.add(path)
                reason = error.strerror or error
                log.error("%s was removed or replaced and can't be made again: %s", path, reason)
        else:
            self._reported.discard(path)
            log.warning("%s was removed or replaced; made it again", path)


def version(path: Path) -> Version | None:
    """Return what tells this version of a file from others; None if there is no file."""
    try:
        entry = os.lstat(path)
    except OSError:
        return None
    return entry.st_dev, entry.st_ino, entry.st_size, entry.st_mtime_ns
