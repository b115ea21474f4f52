"""Text of others, without anything that a terminal would obey. Knows no terminal."""

from __future__ import annotations

import re

# Sequences whole, in their 7-bit and 8-bit forms; then every control character but tab and newline.
_SEQUENCES = re.compile(
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|\x1b[ -/]*[0-~]"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(text: str) -> str:
    """Text without control sequences and control characters."""
    return _CONTROLS.sub("", _SEQUENCES.sub("", text))


def one_line(text: str) -> str:
    """The same, on one line."""
    return " ".join(line.strip() for line in clean(text).splitlines() if line.strip())
