"""A tree as text in box drawing: lines in, text out, without database or hub."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

from hubd.wire.lazy_dataclass import dataclass
from hubd.wire.lazy_pattern import lazy_pattern
from hubd.wire.terminal import clean

# The width of a text in columns of a terminal, and the deepest level that is drawn.
WIDTH: Final = 60
DEPTH: Final = 200
# Columns of a handle.
HANDLE_WIDTH: Final = 200

NEWLINE: Final = "↵"
CUT: Final = "…"

_BREAKS: Final = lazy_pattern(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True)
class Line:
    """One node to draw."""

    id: bytes
    parent: bytes | None
    text: str
    # The number of nodes below this one that are left out.
    more: int = 0


def draw(lines: Sequence[Line]) -> str:
    """Draw a tree.

    Args:
        lines: The root, then the other nodes: parents before children, siblings in order.
    """
    below: dict[bytes, list[Line]] = {}
    for line in lines[1:]:
        assert line.parent is not None
        below.setdefault(line.parent, []).append(line)
    texts: list[str] = []
    # Entries to draw, the next one last: a line, or the number of nodes that are left out.
    waiting: list[tuple[Line | int, str, bool]] = [(lines[0], "", True)]
    while waiting:
        entry, prefix, is_last = waiting.pop()
        branch = "└── " if is_last else "├── "
        if isinstance(entry, int):
            texts.append(f"{prefix}{branch}{CUT} {entry} more")
            continue
        texts.append(f"{prefix}{branch}{entry.text}".rstrip())
        children: list[Line | int] = [*below.get(entry.id, ())]
        if entry.more:
            children.append(entry.more)
        inner = prefix + ("    " if is_last else "│   ")
        last = len(children) - 1
        waiting += [(children[number], inner, number == last) for number in range(last, -1, -1)]
    return "\n".join(texts)


def text_line(text: str, width: int = WIDTH) -> str:
    """Return a text on one line, safe for a terminal and cut to `width` columns."""
    # Longer texts don't fit, unless most of their characters have no width.
    start = text[: width * 8]
    line = clean(_BREAKS.sub(NEWLINE, start)).replace("\t", " ")
    return fit(line if len(start) == len(text) else line + CUT, width)


def handle_line(handle: str) -> str:
    """Return a handle as `[plugin:meta…]`."""
    plugin, _, rest = handle.partition("@")
    _, separator, meta = rest.partition("::")[2].partition(":")
    return f"[{text_line(f'{plugin}{separator}{meta}', HANDLE_WIDTH)}]"


def fit(text: str, width: int) -> str:
    """Return a text cut to `width` columns; a cut text ends with `…`."""
    size = _cell_size()
    used = length = 0
    for position, char in enumerate(text):
        used += size(char)
        if used > width:
            return text[:length] + CUT
        if used < width:
            length = position + 1
    return text


@cache
def _cell_size() -> Callable[[str], int]:
    """Return the function that gives the columns of a character, imported on first use."""
    from rich.cells import get_character_cell_size

    return get_character_cell_size
