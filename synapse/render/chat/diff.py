"""The colours of a diff."""

from __future__ import annotations

import re

_HUNK = re.compile(r"@@ -\d")


def diff_style(line: str) -> str:
    """Return the style of a line of a diff."""
    if line.startswith("+"):
        return "green"
    if line.startswith("-"):
        return "red"
    return "cyan" if _HUNK.match(line) else ""


def is_diff(lines: list[str]) -> bool:
    """Return whether a text contains a diff: a hunk, or nothing but new lines at its end."""
    return any(map(_HUNK.match, lines)) or (len(lines) > 1 and lines[-1].startswith("+"))
