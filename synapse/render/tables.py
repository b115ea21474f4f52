"""Events as Rich tables: one event with its fields below each other, several as rows."""

from __future__ import annotations

import json
from typing import Any

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from hubd.wire.terminal import clean, one_line
from synapse.render.fields import is_rows

# A column narrower than this says nothing, unless its values are.
MIN_COLUMN = 10
COLUMN_GAP = 2


def view(content: Any) -> Any:
    """One event: its fields below each other."""
    if not isinstance(content, dict):
        return Text(clean(value_text(content)))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in content.items():
        if name != "type" or len(content) == 1:
            grid.add_row(clean(name), Text(clean(value_text(value))))
    return grid


def rows_of(event: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a table that an event stands for: a page of a list is as many as it holds."""
    lists = [value for value in event.values() if is_rows(value)]
    # Of an empty list nobody knows what it would hold, unless there is nothing else.
    alone = len(event.keys() - {"type"}) == 1
    return lists[0] if len(lists) == 1 and (lists[0] or alone) else [event]


def table(rows: list[dict[str, Any]], width: int) -> Table:
    """Several events: a row each."""
    names = [name for name in dict.fromkeys(key for row in rows for key in row) if name != "type"]
    cells = {name: [one_line(value_text(row.get(name))) for row in rows] for name in names}
    widths = fit({name: max(map(cell_len, (name, *cells[name]))) for name in names}, width)
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for name, room in widths.items():
        numeric = all(isinstance(row.get(name), int | float) for row in rows)
        side: Any = "right" if numeric else "left"
        drawn.add_column(
            clean(name), justify=side, overflow="ellipsis", no_wrap=True, max_width=room
        )
    for number in range(len(rows)):
        drawn.add_row(*(Text(cells[name][number]) for name in widths))
    hidden = [clean(name) for name in names if name not in widths]
    if hidden:
        drawn.caption = f"no room for {', '.join(hidden)}: see --fields and -o json"
        drawn.caption_justify = "left"
    return drawn


def fit(wanted: dict[str, int], width: int) -> dict[str, int]:
    """The columns that a table of this width has room for, with their widths.

    The widest give way first, but not below what still says something; then the last columns go.
    """
    widths = dict(wanted)
    while len(widths) > 1:
        excess = sum(widths.values()) + COLUMN_GAP * (len(widths) - 1) - width
        if excess <= 0:
            break
        widest = max(widths, key=lambda name: widths[name])
        if widths[widest] > MIN_COLUMN:
            widths[widest] -= 1
        else:
            del widths[list(widths)[-1]]
            widths = {name: wanted[name] for name in widths}
    return widths


def value_text(value: Any) -> str:
    """A value for a person."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(entry, str | int | float) for entry in value):
        return ", ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False)


def short(event: Any) -> str:
    """The fields of an event on one line."""
    if not isinstance(event, dict):
        return clean(str(event))
    fields = (
        f"{name}={value_text(value)}"
        for name, value in event.items()
        if name != "type" and value is not None
    )
    line = clean(" ".join(fields)).replace("\n", "↵")
    return line if len(line) <= 200 else f"{line[:199]}…"
