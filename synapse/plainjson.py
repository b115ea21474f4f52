"""JSON for the fast path: writing it without importing `json`.

`json` costs as much to import as everything else the fast path does together. Its C half writes
strings; where an interpreter lacks it, the public function does the same.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing is not imported on the fast path; mypy reads this all the same
if TYPE_CHECKING:
    from typing import Any

__all__ = ["dumps", "quote"]

try:
    from _json import encode_basestring_ascii as quote
except ImportError:  # not CPython
    from json.encoder import encode_basestring_ascii as quote


def dumps(value: Any) -> str:
    """Compact JSON of what the parser makes."""
    if isinstance(value, str):
        return quote(value)
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        pairs = (f"{quote(name)}:{dumps(entry)}" for name, entry in value.items())
        return "{" + ",".join(pairs) + "}"
    return "[" + ",".join(map(dumps, value)) + "]"
