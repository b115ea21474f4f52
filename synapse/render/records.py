"""One object at a terminal: a heading with its name and state, then its fields, aligned."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from hubd.wire.terminal import clean
from synapse.render.columns import NAMES, STATES, field_columns
from synapse.render.fields import is_rows
from synapse.render.tables import GAP, cut, table
from synapse.render.values import Cell, Values, flat, heading, is_id, position_text, value_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from synapse.render.lines import EventLines

# The fields of a heading besides the name and the state, each with its possible names.
_BESIDES = (("model", "model_id"), ("working_dir", "cwd", "directory"))
# Objects inside objects are drawn down to this depth; deeper ones are JSON.
MAX_DEPTH = 3
# The widest name of a field, and the part of a narrow screen that names may take. The values of
# longer names begin further to the right.
MAX_LABEL = 24
LABEL_SHARE = 0.3
# The narrowest column for a value.
MIN_VALUE = 16
# The column of the second of two numbers on one line.
SECOND_NUMBER = 9


def view(
    content: Any, console: Console, values: Values, lines: EventLines | None = None
) -> Iterator[Text]:
    """Yield the lines of one event: a heading, and its fields.

    Args:
        content: The event.
        console: The console, for its width.
        values: The forms of the values.
        lines: The one-line texts of events, for a list of events inside this one.
    """
    if not isinstance(content, dict):
        yield Text(clean(value_text(content)))
        return
    fields = {name: value for name, value in content.items() if name != "type"}
    if not fields:
        yield Text(flat(str(content.get("type", ""))))
        return
    record = _Record(console, values, lines)
    fields = _with_subject(fields)
    if (title := record.heading(fields)) is not None:
        yield title
    yield from record.fields(fields, "" if title is None else GAP)


class _Record:
    """The lines of one event."""

    def __init__(self, console: Console, values: Values, lines: EventLines | None) -> None:
        self._console = console
        self._width = console.width
        self._values = values
        self._lines = lines

    def heading(self, fields: dict[str, Any]) -> Text | None:
        """Return the heading, and remove its fields; None if the object has no name."""
        name = next((name for name in NAMES[:4] if _is_word(fields.get(name))), None)
        if name is None:
            return None
        title = Text(no_wrap=True, overflow="ellipsis")
        title.append(flat(fields.pop(name)), style="bold")
        parts: list[Cell] = []
        for names in (STATES, *_BESIDES):
            field = next((field for field in names if _is_word(fields.get(field))), None)
            if field is not None:
                cell = self._values.cell(field, fields.pop(field))
                parts.append(cell._replace(text=_short_path(cell.text)))
        for number, part in enumerate(parts):
            title.append(" · " if number else GAP, style="dim")
            title.append(part.text, style=part.style)
        return title

    def fields(self, fields: dict[str, Any], indent: str, depth: int = 0) -> Iterator[Text]:
        """Yield the lines of the fields that have a value."""
        drawn = sorted(
            (item for item in fields.items() if item[1] not in (None, "", {})),
            key=lambda item: _place(*item),
        )
        cells = [(name, value, self._values.full(name, value)) for name, value in drawn]
        names = [heading(name) for name, _, _ in cells if not _is_nested(fields[name], depth)]
        most = min(MAX_LABEL, int(self._width * LABEL_SHARE))
        label = max((size for size in map(cell_len, names) if size <= most), default=0)
        waiting: tuple[str, Cell] | None = None
        for name, value, cell in cells:
            title = cut(heading(name), MAX_LABEL)
            if waiting is not None:
                first, number = waiting
                waiting = None
                line = Text(number.text, style=number.style)
                second = f"{title}{GAP}{cell.text}"
                room = self._width - len(indent) - label - len(GAP) - SECOND_NUMBER
                if cell.is_number and cell_len(second) <= room:
                    line.append(" " * max(2, SECOND_NUMBER - cell_len(number.text)))
                    line.append(f"{title}{GAP}", style="dim").append(cell.text, style=cell.style)
                    yield from self._row(first, line, indent, label)
                    continue
                yield from self._row(first, line, indent, label)
            if cell.is_number:
                waiting = title, cell
            elif _is_nested(value, depth):
                yield Text(f"{indent}{title}", style="dim", no_wrap=True, overflow="ellipsis")
                if isinstance(value, dict):
                    yield from self.fields(value, indent + GAP, depth + 1)
                else:
                    yield from self._list(value, indent + GAP)
            else:
                text = Text(cell.text, style=cell.style) if value != [] else Text("none", "dim")
                yield from self._row(title, text, indent, label)
        if waiting is not None:
            first, number = waiting
            yield from self._row(first, Text(number.text, style=number.style), indent, label)
        if not cells:
            yield Text(f"{indent}{', '.join(map(heading, fields))}: none", style="dim")

    def _row(self, title: str, value: Text, indent: str, label: int) -> Iterator[Text]:
        """Yield a field: its name, and its value, folded below itself if it is long.

        A single word that is too long, such as an id, is on a separate line, to be copied.
        """
        start = f"{indent}{title}{' ' * (label - cell_len(title))}{GAP}"
        room = max(self._width - cell_len(start), MIN_VALUE)
        folded = [value]
        if "\n" in value.plain or value.cell_len > room:
            if not any(map(str.isspace, value.plain)):
                yield Text(f"{indent}{title}", style="dim")
                start, title = indent + GAP, ""
                room = max(self._width - cell_len(start), MIN_VALUE)
            folded = list(value.wrap(self._console, room, overflow="fold"))
        for number, part in enumerate(folded):
            part.rstrip()
            yield Text.assemble((start if number == 0 else " " * cell_len(start), "dim"), part)

    def _list(self, rows: list[dict[str, Any]], indent: str) -> Iterator[Text]:
        texts = self._event_lines(rows)
        if texts:
            for text in texts:
                yield Text(indent + text, no_wrap=True, overflow="ellipsis")
        else:
            yield from table(field_columns(rows, self._values, ordered=False), self._width, indent)

    def _event_lines(self, rows: list[dict[str, Any]]) -> list[str]:
        """Return a line for each event of a log; none if the rows are not events."""
        texts = []
        for row in rows if self._lines is not None else ():
            event = row.get("event", row)
            if not isinstance(event, dict) or not isinstance(event.get("type"), str):
                return []
            assert self._lines is not None
            line = self._lines.line(event) or event["type"]
            number = f"{row['seq']:>4}  " if isinstance(row.get("seq"), int) else ""
            texts.append(f"{number}{flat(line)}")
        return texts


def _place(name: str, value: Any) -> int:
    """Return the part of a record that a field belongs to: values, objects, handles, then ids."""
    if is_id(name):
        return 3
    if name.endswith("handle"):
        return 2
    return 1 if _is_nested(value, 0) else 0


def _is_nested(value: Any, depth: int) -> bool:
    """Return whether a value is drawn below its name."""
    if isinstance(value, dict):
        return bool(value) and position_text(value) is None and depth < MAX_DEPTH
    return is_rows(value) and bool(value)


def _with_subject(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields together with those of the only named object, if the event has no name."""
    if any(_is_word(fields.get(name)) for name in NAMES[:4]):
        return fields
    inner = [
        name
        for name, value in fields.items()
        if isinstance(value, dict) and any(_is_word(value.get(part)) for part in NAMES[:4])
    ]
    if len(inner) != 1:
        return fields
    subject: dict[str, Any] = fields[inner[0]]
    others = {name: value for name, value in fields.items() if name != inner[0]}
    # If both have a field of one name, the object stays apart.
    return fields if subject.keys() & others.keys() else {**subject, **others}


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _short_path(path: str) -> str:
    """Return a path with `~` for the user's home."""
    home = os.path.expanduser("~")
    if home != "/" and (path == home or path.startswith(f"{home}/")):
        return f"~{path[len(home) :]}"
    return path
