"""Colours for questions, which go to stderr because stdout is data."""

from __future__ import annotations

import os
import sys

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def paint(text: str, style: str) -> str:
    """Return a text in a style such as `bold yellow`; as it is if stderr shows no styles."""
    is_dumb = os.environ.get("TERM", "").lower() in ("", "dumb", "unknown")
    if not style or is_dumb or not sys.stderr.isatty():
        return text
    has_colour = not os.environ.get("NO_COLOR")
    names = [name for name in style.split() if has_colour or name in ("bold", "dim")]
    codes = ";".join(_CODES[name] for name in names)
    return f"\x1b[{codes}m{text}\x1b[0m" if codes else text
