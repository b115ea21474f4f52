"""The lines at the end of the output that still change; every line above them is final.

Only the lines that differ are written again, in one write, so nothing flickers. Final lines scroll
like any output, so the terminal keeps them.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from rich.cells import cell_len

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

# The lines of the screen that the region leaves to others: a status line, and the cursor's.
SPARED_LINES = 2


class Region:
    """The changing lines of a console; there are none on a terminal that can't move its cursor."""

    def __init__(self, console: Console) -> None:
        self._console = console
        is_dumb = os.environ.get("TERM", "").lower() in ("", "dumb", "unknown")
        self.can_change = console.is_terminal and not is_dumb
        # The changing lines on the screen, each with its styles and its width in columns.
        self._rows: list[tuple[str, int]] = []

    @property
    def is_empty(self) -> bool:
        """Whether no line can change, so that the cursor is where other output continues."""
        return not self._rows

    def update(self, final: list[Text], changing: list[Text]) -> None:
        """Write final lines in the place of the changing ones, then other changing lines."""
        if not self.can_change:
            for line in final:
                self._console.print(line, soft_wrap=True)
            return
        kept = max(self._console.height - SPARED_LINES, 1)
        rows = [self._row(line) for line in (*final, *changing[-kept:])]
        same = 0
        while same < min(len(rows), len(self._rows)) and rows[same] == self._rows[same][0]:
            same += 1
        erase = self._erased(same) if self._rows[same:] else ""
        written = erase + "".join(f"{row}\n" for row in rows[same:])
        if written:
            sys.stdout.write(written)
            sys.stdout.flush()
        widths = [cell_len(line.plain) for line in changing[-kept:]]
        self._rows = list(zip(rows[len(final) :], widths, strict=True))

    def _erased(self, same: int) -> str:
        """Return the sequences that erase the changing lines after the first ones."""
        width = max(self._console.width, 1)
        # A terminal that became narrower has wrapped the longer lines.
        up = sum(max(-(-columns // width), 1) for _, columns in self._rows[same:])
        # From the first line of the screen, one sequence would erase all of it, and tmux keeps such
        # a screen in its scrollback.
        return f"\x1b[{up}A\r\x1b[K\n\x1b[J\x1b[A"

    def _row(self, line: Text) -> str:
        """Return a line with the sequences of its styles."""
        if not line.style and not line.spans:
            # Rich would need seconds for megabytes.
            return line.plain
        with self._console.capture() as captured:
            self._console.print(line, soft_wrap=True, end="")
        return captured.get()
