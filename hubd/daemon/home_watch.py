"""Watch the files of a running daemon: its database, sockets, lock and record.

Other programs may remove or replace them. The daemon then creates the sockets and the record again.
If the database was replaced, the daemon stops, because its writes would be lost.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

log = logging.getLogger(__name__)

# Seconds between two checks. Each takes a few system calls.
CHECK_SECONDS: Final = 1.0

# Device, inode, size and time of change.
Version = tuple[int, int, int, int]


class Restorable(Protocol):
    """A listening socket that can be created again."""

    path: Path

    def is_in_place(self) -> bool:
        """Return whether the socket at the path is the one that listens."""

    def open(self) -> None:
        """Listen on the path again."""


class HomeWatch:
    """Checks the files every second."""

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
        # Files that could not be created again. Each is logged once.
        self._reported: set[Path] = set()

    def write_record(self) -> None:
        """Write the record; `run` replaces any other version of it."""
        self._write_record()
        self._record_version = version(self._record)

    async def run(self) -> str:
        """Check until the database is lost; return the reason."""
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
                log.error("%s was removed or replaced and can't be created again: %s", path, reason)
        else:
            self._reported.discard(path)
            log.warning("%s was removed or replaced; created it again", path)


def version(path: Path) -> Version | None:
    """Return the version of a file; None if it does not exist."""
    try:
        entry = os.lstat(path)
    except OSError:
        return None
    return entry.st_dev, entry.st_ino, entry.st_size, entry.st_mtime_ns
