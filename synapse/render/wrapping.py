"""Fold texts for the terminal at spaces, so that no word or command is torn apart.

A word that is wider than the terminal is cut. A command between backticks stays on one line if it
fits, to be copied.
"""

from __future__ import annotations

import re
import shutil

from rich.cells import cell_len, chop_cells

from hubd.wire.terminal import one_line

# The characters of an error that a terminal shows.
MAX_ERROR = 4000

# Words, and the spaces before each of them.
_WORD = re.compile(r"\s*(?:`[^`\n]*`|\S)+")


def wrapped(text: str, *, indent: str = "", width: int | None = None) -> list[str]:
    """Return the lines of a text of one line.

    Args:
        text: The text.
        indent: The start of every line but the first.
        width: The width in columns; by default that of the terminal.
    """
    columns = shutil.get_terminal_size().columns if width is None else width
    lines, line = [], ""
    for word in _WORD.findall(text):
        if cell_len(line + word) <= columns:
            line += word
            continue
        if line.strip():
            lines.append(line)
            word = indent + word.lstrip()
        else:
            word = line + word
        if cell_len(word) > columns:
            room = max(columns - cell_len(indent), 1)
            first, *others = chop_cells(word, max(columns, 1))
            rest = chop_cells("".join(others), room)
            *full, word = [first, *(indent + piece for piece in rest)]
            lines += full
        line = word
    return [*lines, line]


def error_lines(text: str, start: str) -> list[str]:
    """Return the lines of an error; of a very long one, its start and the number of the rest.

    Args:
        text: The text, which may come from a hub.
        start: The start of the first line; the others are indented as far, if there is room.
    """
    more = len(text) - MAX_ERROR
    text = f"{text[:MAX_ERROR]}… {more:,} more characters" if more > 0 else text
    is_wide = shutil.get_terminal_size().columns > 3 * len(start)
    return wrapped(start + one_line(text), indent=" " * (len(start) if is_wide else 2))


def chopped(text: str, indent: str) -> list[str]:
    """Return the lines of a text without losing a character: for a text that a person judges."""
    columns = shutil.get_terminal_size().columns
    if cell_len(text) <= columns:
        return [text]
    first, *others = chop_cells(text, max(columns, 1))
    rest = chop_cells("".join(others), max(columns - cell_len(indent), 1))
    return [first, *(indent + piece for piece in rest)]
