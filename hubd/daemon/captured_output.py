"""Write the output of plugins in a detached daemon to the log.

Each line that is written to `sys.stdout` or `sys.stderr` becomes a log entry. Output that bypasses
Python, such as a child's, is appended to the log file unchanged.
"""

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from hubd.daemon.log import PrivateRotatingFile
from hubd.plexus.dispatch import current_call

# A longer line is logged in pieces of this length.
MAX_LINE: Final = 8192

STDOUT: Final = 1
STDERR: Final = 2


class _LogBuffer(io.BufferedIOBase):
    """A binary stream that logs every line."""

    def __init__(self, name: str, descriptor: int, level: int) -> None:
        self.name = f"<{name}>"
        self._log = logging.getLogger(f"hubd.{name}")
        self._descriptor = descriptor
        self._level = level
        # The start of an incomplete line.
        self._line = b""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any) -> int:
        *lines, self._line = (self._line + data).split(b"\n")
        if len(self._line) > MAX_LINE:
            lines.append(self._line)
            self._line = b""
        for line in lines:
            self._emit(line)
        return len(data)

    def close(self) -> None:
        """Log the incomplete line. `flush` does not, because `print(…, end="")` may continue it."""
        self._emit(self._line)
        self._line = b""
        super().close()

    def _emit(self, line: bytes) -> None:
        if line.strip():
            call = current_call.get(None)
            extra = {"during": call.method} if call else {}
            text = line[:MAX_LINE].decode(errors="backslashreplace")
            self._log.log(self._level, "%s", text, extra=extra)


@contextmanager
def captured_output() -> Iterator[None]:
    """Log the output to `sys.stdout` and `sys.stderr` while the block runs."""
    before = sys.stdout, sys.stderr
    sys.stdout = _text(_LogBuffer("stdout", STDOUT, logging.INFO))
    sys.stderr = _text(_LogBuffer("stderr", STDERR, logging.WARNING))
    captured = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in captured:
            stream.close()


def _text(buffer: _LogBuffer) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        buffer, encoding="utf-8", errors="backslashreplace", newline="\n", write_through=True
    )


def send_descriptors_to_log() -> None:
    """Append output that bypasses Python, such as a child's, to the log file."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, PrivateRotatingFile):
            handler.follow(STDOUT, STDERR)
            return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (STDOUT, STDERR):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
