"""Lines of bounded size from chunks of any size, without I/O. No byte is lost."""

from collections.abc import Iterator
from typing import Final, NamedTuple

# A longer line is sent in several events.
MAX_PIECE_BYTES: Final = 64 * 1024


class Piece(NamedTuple):
    """A line without its line end, or a part of a long one."""

    data: bytes
    # Whether no line end follows.
    partial: bool


class LinePieces:
    """Splits the chunks of one output. The pieces don't depend on the sizes of the chunks."""

    def __init__(self, limit: int = MAX_PIECE_BYTES) -> None:
        self._limit = limit
        # The beginning of an incomplete line.
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Piece]:
        """Yield the pieces that are complete with this chunk. The iterator must be used up."""
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            whole, self._rest = self._rest + line, b""
            while len(whole) > self._limit:
                cut = self._cut(whole)
                yield Piece(whole[:cut], partial=True)
                whole = whole[cut:]
            yield Piece(whole, partial=False)
        self._rest += rest
        while len(self._rest) > self._limit:
            cut = self._cut(self._rest)
            piece, self._rest = self._rest[:cut], self._rest[cut:]
            yield Piece(piece, partial=True)

    def finish(self) -> Iterator[Piece]:
        """Yield the last line if it has no line end."""
        if self._rest:
            yield Piece(self._rest, partial=True)
            self._rest = b""

    def _cut(self, data: bytes) -> int:
        """Return the end of a piece that does not divide a character of UTF-8."""
        for cut in range(self._limit, self._limit - 4, -1):
            # Only bytes that continue a character begin with the bits 10.
            if cut > 0 and data[cut] & 0xC0 != 0x80:
                return cut
        return self._limit
