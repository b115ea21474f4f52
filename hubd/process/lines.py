"""Lines from parts of any size, without I/O."""

from collections.abc import Callable


class LineSplitter:
    """Splits bytes into lines and holds at most one line of `limit` bytes.

    Args:
        limit: The maximum size of a line in bytes.
        report: Called with the size of each line that exceeds the limit and is skipped.
    """

    def __init__(self, limit: int, report: Callable[[int], None]) -> None:
        self._limit = limit
        self._report = report
        # The part of the current line so far; empty once the line exceeds the limit.
        self._line = bytearray()
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in this part, without line ends and without blank lines."""
        *ends, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for part in ends:
            self._add(part)
            lines += self.finish()
        self._add(rest)
        return lines

    def finish(self) -> list[bytes]:
        """Return the last line if it has no line end."""
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
