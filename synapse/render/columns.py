"""The columns of a table: those that the schema declares for a list, else the rows' own fields.

Without a declaration the importance of a field decides: names, states and texts come first, then
other values, times, objects and ids. Columns that do not fit are left out from the right.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from hubd.wire.summary import COLUMNS_KEYWORD, MARKS_KEYWORD, TOTALS_KEYWORD, BadTemplate, fill
from hubd.wire.terminal import one_line
from synapse.render.values import Cell, Values, heading, is_id, short_uuid

if TYPE_CHECKING:
    from hubd.wire.schema import JsonSchema

# A template that is one field, which the field's name formats.
_FIELD = re.compile(r"\{([\w.]+)\}")
# The fields that name an object, in order of preference.
NAMES = ("name", "title", "label", "identifier", "path", "url", "key")
STATES = ("status", "state")
# The fields that tell in words what an object is about.
_WORDS = ("prompt", "asked", "question", "command", "summary", "description", "text", "message")


class Column(NamedTuple):
    """One column: its heading and its cells, one for each row."""

    heading: str
    cells: list[Cell]


class Columns:
    """The declared columns of a method's events."""

    def __init__(self, returns: JsonSchema, values: Values | None = None) -> None:
        self._values = values or Values(returns)
        # Templates by heading, by the name of the list.
        self._columns: dict[str, dict[str, str]] = {}
        # The label of the row with the sums, by the name of the list.
        self._totals: dict[str, str] = {}
        # Templates by heading, by the type of an event that is a row itself.
        self._events: dict[str, dict[str, str]] = {}
        # The fields with marked places, by the name of the text.
        self._marks: dict[str, str] = {}
        for schema in (returns, *returns.get("$defs", {}).values()):
            fields = schema.get("properties", {})
            if (declared := _declared(schema)) is not None:
                self._events[str(fields.get("type", {}).get("const"))] = declared
            for name, field in fields.items():
                if isinstance(field, dict) and (declared := _declared(field)) is not None:
                    self._columns[name] = declared
                    if isinstance(field.get(TOTALS_KEYWORD), str):
                        self._totals[name] = field[TOTALS_KEYWORD]
                if isinstance(field, dict) and isinstance(field.get(MARKS_KEYWORD), str):
                    self._marks[name] = field[MARKS_KEYWORD]

    def rows(self, event: dict[str, Any]) -> list[dict[str, Cell]] | None:
        """Return the rows of an event in its declared columns; None if it declares none."""
        if (columns := self._events.get(str(event.get("type")))) is not None:
            return self._rows(columns, [event])
        for name, columns in self._columns.items():
            rows = event.get(name)
            if isinstance(rows, list):
                rows = [row for row in rows if isinstance(row, dict)]
                if name in self._totals and len(rows) > 1:
                    rows.append(_sums(columns, event, self._totals[name]))
                return self._rows(columns, rows)
        return None

    def _rows(self, columns: dict[str, str], rows: list[dict[str, Any]]) -> list[dict[str, Cell]]:
        cells = [self._cells(template, rows) for template in columns.values()]
        return [dict(zip(columns, row, strict=True)) for row in zip(*cells, strict=True)]

    def _cells(self, template: str, rows: list[dict[str, Any]]) -> list[Cell]:
        if match := _FIELD.fullmatch(template):
            values = [_field(row, match[1]) for row in rows]
            cells = self._values.cells(match[1], values)
            marks = self._marks.get(match[1], "")
            return [
                _marked(cell, value, row.get(marks))
                for cell, value, row in zip(cells, values, rows, strict=True)
            ]
        return [_filled(template, row) for row in rows]


def _sums(columns: dict[str, str], event: dict[str, Any], label: str) -> dict[str, Any]:
    """Return the row with the sums of an event. Its first column has the label."""
    first, *others = (_FIELD.sub(r"\1", template) for template in columns.values())
    return {first: label, **{name: event.get(name) for name in others}}


def _field(row: Any, path: str) -> Any:
    """Return the value at a dotted name; None if there is none."""
    for part in path.split("."):
        row = row.get(part) if isinstance(row, dict) else None
    return row


def _marked(cell: Cell, value: Any, places: Any) -> Cell:
    """Return a cell with marked places; they are those of the text as it was sent."""
    if isinstance(places, list) and cell.text == value and all(map(_is_place, places)):
        return cell._replace(marks=tuple((start, end) for start, end in places))
    return cell


def _filled(template: str, row: dict[str, Any]) -> Cell:
    try:
        return Cell(one_line(fill(template, row)))
    except BadTemplate:
        # The row does not have an optional field.
        return Cell("")


def declared_columns(rows: list[dict[str, Cell]]) -> list[Column]:
    """Return the columns of rows with declared columns, without those that have no value."""
    titles = dict.fromkeys(title for row in rows for title in row)
    columns = [
        Column(title.upper(), [row.get(title, Cell("")) for row in rows]) for title in titles
    ]
    return [column for column in columns if any(cell.text for cell in column.cells)]


def field_columns(rows: list[dict[str, Any]], values: Values, *, ordered: bool) -> list[Column]:
    """Return a column for each field of the rows.

    Args:
        rows: The rows.
        values: The forms of their values.
        ordered: Whether the order of the fields is kept, as for `--fields`.
    """
    names = list(dict.fromkeys(key for row in rows for key in row))
    if not ordered:
        names = [name for name in names if name != "type"]
        # A field without any value says nothing.
        used = [name for name in names if any(row.get(name) not in (None, "") for row in rows)]
        names = sorted(used or names, key=_Importance(rows, used or names))
    titles = names if ordered else [title.upper() for title in _headings(names)]
    return [
        Column(one_line(title), values.cells(name, [row.get(name) for row in rows]))
        for name, title in zip(names, titles, strict=True)
    ]


class _Importance:
    """The order of the fields of some rows."""

    def __init__(self, rows: list[dict[str, Any]], names: list[str]) -> None:
        self._rows = rows
        self._has_name = any(name in NAMES for name in names)
        # Without a name, the first id identifies a row.
        ids = [name for name in names if self._is_id(name)]
        self._identity = "" if self._has_name or not ids else ids[0]

    def __call__(self, name: str) -> int:
        if name in NAMES[:4] or name == self._identity:
            return 0
        if name in STATES:
            return 1
        if name in _WORDS:
            return 2
        if self._is_id(name):
            return 6
        values = [row.get(name) for row in self._rows]
        if any(isinstance(value, dict | list) for value in values):
            return 5
        return 4 if name.endswith("_at") else 3

    def _is_id(self, name: str) -> bool:
        return is_id(name) or any(short_uuid(row.get(name)) for row in self._rows)


def _headings(names: list[str]) -> list[str]:
    titles = [heading(name) for name in names]
    return [
        title if titles.count(title) == 1 else name
        for name, title in zip(names, titles, strict=True)
    ]


def _declared(schema: dict[str, Any]) -> dict[str, str] | None:
    """Return the declared columns of a list or an event; None without valid ones."""
    declared = schema.get(COLUMNS_KEYWORD)
    return dict(declared) if isinstance(declared, list) and all(map(_is_column, declared)) else None


def _is_place(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(end) is int for end in value)


def _is_column(column: Any) -> bool:
    is_pair = isinstance(column, list) and len(column) == 2
    return is_pair and all(isinstance(part, str) for part in column)
