"""A tree as text in box drawing. Pure: lines in, text out; knows neither database nor hub."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

# How wide a text may be, in columns of a terminal, and how deep a tree is drawn.
WIDTH: Final = 60
DEPTH: Final = 200
# A handle is shown whole, within reason.
HANDLE_WIDTH: Final = 200

NEWLINE: Final = "↵"
CUT: Final = "…"

_BREAKS: Final = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# What a terminal would obey, and what makes it show text in another order than it has.
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Line:
    """One node to be drawn."""

    id: bytes
    parent: bytes | None
    text: str
    # How many nodes below it were left out.
    more: int = 0


def draw(lines: Sequence[Line]) -> str:
    """Draw the tree of these lines, the first of which is its root.

    Args:
        lines: Every parent before its children, these in order.
    """
    below: dict[bytes, list[Line]] = {}
    for line in lines[1:]:
        assert line.parent is not None
        below.setdefault(line.parent, []).append(line)
    drawn: list[str] = []
    # What is still to be drawn, the next one last: a line, or how many were left out.
    waiting: list[tuple[Line | int, str, bool]] = [(lines[0], "", True)]
    while waiting:
        entry, prefix, is_last = waiting.pop()
        branch = "└── " if is_last else "├── "
        if isinstance(entry, int):
            drawn.append(f"{prefix}{branch}{CUT} {entry} more")
            continue
        drawn.append(f"{prefix}{branch}{entry.text}".rstrip())
        children: list[Line | int] = [*below.get(entry.id, ())]
        if entry.more:
            children.append(entry.more)
        inner = prefix + ("    " if is_last else "│   ")
        last = len(children) - 1
        waiting += [(children[number], inner, number == last) for number in range(last, -1, -1)]
    return "\n".join(drawn)


def text_line(text: str, width: int = WIDTH) -> str:
    """A text on one line, cut to so many columns, with nothing in it that a terminal obeys."""
    # No more than can be shown is looked at, unless somebody writes only combining characters.
    start = text[: width * 8]
    line = _CONTROLS.sub(_visible, _BREAKS.sub(NEWLINE, start))
    return fit(line if len(start) == len(text) else line + CUT, width)


def handle_line(handle: str) -> str:
    """A handle as `[plugin:meta…]`."""
    plugin, _, rest = handle.partition("@")
    _, separator, meta = rest.partition("::")[2].partition(":")
    return f"[{text_line(f'{plugin}{separator}{meta}', HANDLE_WIDTH)}]"


def fit(text: str, width: int) -> str:
    """A text cut to so many columns; the last one then says so."""
    size = _cell_size()
    used = kept = 0
    for position, char in enumerate(text):
        used += size(char)
        if used > width:
            return text[:kept] + CUT
        if used < width:
            kept = position + 1
    return text


def _visible(found: re.Match[str]) -> str:
    """A control character as a picture of itself."""
    code = ord(found[0])
    if code == 0x09:
        return " "
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"


@cache
def _cell_size() -> Callable[[str], int]:
    """How many columns a character takes. Loaded when the first tree is drawn."""
    from rich.cells import get_character_cell_size

    return get_character_cell_size
