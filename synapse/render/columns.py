"""The columns of a table that the schema of an event declares, for the rows in one of its lists."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from hubd.wire.summary import COLUMNS_KEYWORD, BadTemplate, fill

if TYPE_CHECKING:
    from hubd.wire.schema import JsonSchema

# Units of a relative time, the largest first.
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
# A column that is a time: an integer in seconds.
_TIME = re.compile(r"\{(\w+_at)\}")


class Columns:
    """The declared columns of a method's events."""

    def __init__(self, returns: JsonSchema) -> None:
        # Templates by heading, by the name of the list.
        self._columns: dict[str, dict[str, str]] = {}
        for schema in (returns, *returns.get("$defs", {}).values()):
            for name, field in schema.get("properties", {}).items():
                declared = field.get(COLUMNS_KEYWORD) if isinstance(field, dict) else None
                if isinstance(declared, list) and all(map(_is_column, declared)):
                    self._columns[name] = dict(declared)

    def rows(self, event: dict[str, Any]) -> list[dict[str, str]] | None:
        """Return the rows of an event in its declared columns; None if it declares none."""
        for name, columns in self._columns.items():
            rows = event.get(name)
            if isinstance(rows, list):
                return [
                    {heading: _cell(template, row) for heading, template in columns.items()}
                    for row in rows
                    if isinstance(row, dict)
                ]
        return None


def without_empty(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the rows without the columns in which no row has a value."""
    used = {heading for row in rows for heading, text in row.items() if text}
    return [{heading: text for heading, text in row.items() if heading in used} for row in rows]


def relative(seconds: float) -> str:
    """Return the time since a moment, such as `3m ago`; for one in the future, `in 3m`."""
    size = abs(seconds)
    for length, unit in _UNITS:
        if size >= length:
            text = f"{int(size // length)}{unit}"
            return f"{text} ago" if seconds > 0 else f"in {text}"
    return "now"


def _is_column(column: Any) -> bool:
    is_pair = isinstance(column, list) and len(column) == 2
    return is_pair and all(isinstance(part, str) for part in column)


def _cell(template: str, row: dict[str, Any]) -> str:
    if match := _TIME.fullmatch(template):
        moment = row.get(match[1])
        return relative(time.time() - moment) if isinstance(moment, int | float) else ""
    try:
        return fill(template, row)
    except BadTemplate:
        # The row does not have an optional field.
        return ""
