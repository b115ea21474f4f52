"""Markdown that grows: its complete blocks, and the last block, which may still change."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.cells import chop_cells
from rich.text import Text

from hubd.wire.terminal import clean
from synapse.render.chat.markdown import parse

if TYPE_CHECKING:
    from rich.console import Console

# The characters of a block that are parsed at once. A longer block is shown in parts. Parsing the
# worst text of this length takes 0.1 s.
MAX_BLOCK = 8_000
# The characters of a text that are shown as Markdown; the rest is shown as it is.
MAX_MARKDOWN = 128_000
# The seconds of work after which the rest is shown as it is; ordinary text needs a tenth of them.
MAX_SECONDS = 2.0


class MarkdownStream:
    """One text."""

    def __init__(self, console: Console) -> None:
        self._console = console
        # The text that follows the complete blocks, as it came.
        self._tail = ""
        self._length = 0
        self._seconds = 0.0
        self._has_lines = False

    def add(self, text: str) -> list[Text]:
        """Add a piece. Return the lines of the blocks that are complete now."""
        final: list[Text] = []
        # In parts, because the time for a block may grow with its square.
        for start in range(0, len(text), MAX_BLOCK):
            begin = time.process_time()
            piece = text[start : start + MAX_BLOCK]
            self._tail += piece
            self._length += len(piece)
            if self._is_plain:
                final += self._plain_lines()
            elif "\n" in piece or len(self._tail) > MAX_BLOCK:
                final += self._complete_blocks()
            self._seconds += time.process_time() - begin
        return final

    def unfinished(self) -> list[Text]:
        """Return the lines of the last block so far."""
        if self._is_plain:
            return [Text(row) for row in chop_cells(clean(self._tail), self._console.width)]
        return self._lines(self._tail, self._has_lines)

    def finish(self) -> list[Text]:
        """Return the lines of the rest."""
        tail, self._tail = self._tail, ""
        if self._is_plain:
            return [Text(clean(tail))] if tail else []
        return self._drawn(tail)

    def _complete_blocks(self) -> list[Text]:
        """Return the complete blocks: all except the last, to which the next piece may belong."""
        final: list[Text] = []
        blocks = parse(_cleaned(self._tail))
        if len(blocks) > 1:
            lines = self._tail.split("\n")
            start = blocks[-1].first_line
            self._tail = "\n".join(lines[start:])
            final = self._drawn("\n".join(lines[:start]))
        if len(self._tail) > MAX_BLOCK:
            final += self._first_part(blocks[-1].fence if blocks else "")
        return final

    def _first_part(self, fence: str) -> list[Text]:
        """Return a part of a block that is too long, up to the end of a line if it has one."""
        cut = self._tail.rfind("\n") + 1 or len(self._tail)
        part, rest = self._tail[:cut], self._tail[cut:]
        # The rest of a block of code is code too.
        self._tail = f"{fence}\n{rest}" if fence else rest
        return self._drawn(part, continues=bool(fence))

    @property
    def _is_plain(self) -> bool:
        return self._length > MAX_MARKDOWN or self._seconds > MAX_SECONDS

    def _plain_lines(self) -> list[Text]:
        """Return the complete lines as they are, in one text; the terminal wraps them."""
        *lines, rest = self._tail.split("\n")
        if len(rest) > MAX_BLOCK:
            lines, rest = [*lines, rest], ""
        self._tail = rest
        # One text, because there may be millions of lines.
        return [Text("\n".join(map(clean, lines)))] if lines else []

    def _drawn(self, text: str, *, continues: bool = False) -> list[Text]:
        lines = self._lines(text, self._has_lines)
        # A part of a block is not followed by an empty line.
        self._has_lines = bool(lines or self._has_lines) and not continues
        return lines

    def _lines(self, text: str, is_later: bool) -> list[Text]:
        lines: list[Text] = []
        for block in parse(_cleaned(text)):
            if lines or is_later:
                lines.append(Text())
            lines += block.lines(self._console, self._console.width)
        return lines


def _cleaned(text: str) -> str:
    """Return a text that is safe for a terminal, with the same number of lines."""
    return "\n".join(map(clean, text.split("\n")))
