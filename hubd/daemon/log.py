"""The daemon's log: a rotated file with one JSON object per line."""

import json
import logging
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from io import TextIOWrapper
from itertools import pairwise
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final

from hubd.wire.terminal import clean

# The size at which a file is full.
MAX_BYTES: Final = 5 * 1024 * 1024
OLD_FILES: Final = 3

# The attributes of every LogRecord. Others were passed as `extra` and are part of the line.
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without a newline."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info and record.exc_info[0] is not None:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


class SafeLines(logging.Formatter):
    """Formats a record for a terminal, without control and invisible characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        return clean(super().format(record))


class PrivateRotatingFile(logging.FileHandler):
    """A file that is rotated when it is full. Only this user can read it and its successors.

    The handler of the standard library would import pickle at every start.
    """

    # Descriptors that refer to the current file, even after a rotation.
    _followers: tuple[int, ...] = ()

    def follow(self, *descriptors: int) -> None:
        """Make these descriptors of the process refer to the file."""
        self._followers = descriptors
        if self.stream is None:
            self.stream = self._open()
        for descriptor in descriptors:
            os.dup2(self.stream.fileno(), descriptor)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, to a new file if this one is full."""
        try:
            if self._is_full():
                self.rotate()
        except OSError:
            self.handleError(record)
        super().emit(record)

    def _is_full(self) -> bool:
        if self.stream is None:
            self.stream = self._open()
        status = os.fstat(self.stream.fileno())
        return S_ISREG(status.st_mode) and status.st_size >= MAX_BYTES

    def rotate(self) -> None:
        """Keep the file under another name, and begin a new one."""
        if self.stream is not None:
            self.stream.close()
            self.stream = None
        names = [self.baseFilename, *(f"{self.baseFilename}.{n + 1}" for n in range(OLD_FILES))]
        for older, newer in reversed(list(pairwise(names))):
            with suppress(FileNotFoundError):
                Path(older).replace(newer)
        self.stream = self._open()

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for follower in self._followers:
            os.dup2(descriptor, follower)
        return os.fdopen(descriptor, "a", encoding=self.encoding)


def set_up(file: Path, *, level: str, to_stderr: bool) -> None:
    """Log to the file, and to stderr if the daemon runs in the foreground."""
    handlers: list[logging.Handler] = [PrivateRotatingFile(file, encoding="utf-8")]
    handlers[0].setFormatter(JsonLines())
    if not file.is_symlink():  # The target of a link belongs to the user.
        file.chmod(0o600)
    if to_stderr:
        terminal = logging.StreamHandler(sys.stderr)
        terminal.setFormatter(SafeLines("%(asctime)s %(levelname)s %(message)s"))
        handlers.append(terminal)
    # A full disk must not turn every log line into a stack trace.
    logging.raiseExceptions = False
    logging.basicConfig(level=level.upper(), handlers=handlers, force=True)
