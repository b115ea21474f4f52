"""Text from outside as HTML: everything is escaped, and invisible characters are visible."""

from html import escape
from typing import Final

from hubd.wire.terminal import reveal
from hubd.wire.text import shorten

# Characters that are searched at a time, because a regular expression lets no other thread run.
_PIECE: Final = 65536


def safe(text: str) -> str:
    """Return text for an element or a quoted attribute."""
    text = text.replace("\r\n", "\n")
    if not text.isascii() or not text.isprintable():
        pieces = range(0, len(text), _PIECE)
        text = "".join(reveal(text[start : start + _PIECE]) for start in pieces)
    return escape(text)


def one_line(text: str, length: int) -> str:
    """Return the start of a text on one line, as HTML."""
    return safe(shorten(" ".join(text[: 4 * length].split()), length))
