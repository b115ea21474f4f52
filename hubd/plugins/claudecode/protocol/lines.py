"""Bytes in parts of any size to whole lines; without I/O, and not aware of what a line says."""

from collections.abc import Callable


class LineSplitter:
    """Bytes in, whole lines out; never holds more than one line of `limit` bytes.

    Args:
        limit: The longest line.
        report: Called with the size of each line that was longer and is skipped.
    """

    def __init__(self, limit: int, report: Callable[[int], None]) -> None:
        self._limit = limit
        self._report = report
        # The line that has not ended yet; empty once it is too long.
        self._line = bytearray()
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this part, without their ends and without blank ones."""
        *ends, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for part in ends:
            self._add(part)
            lines += self.finish()
        self._add(rest)
        return lines

    def finish(self) -> list[bytes]:
        """The line that has no end, if there is one."""
        line, size = bytes(self._line), self._size
        self._line.clear()
        self._size = 0
        if size > self._limit:
            self._report(size)
            return []
        return [line] if line and not line.isspace() else []

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._limit:
            self._line += part
        else:
            self._line.clear()
