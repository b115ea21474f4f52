"""Events as Rich tables: one event as a column of fields, several events as rows."""

from __future__ import annotations

import json
from typing import Any

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from hubd.wire.terminal import clean, one_line
from synapse.render.fields import is_rows

# The narrowest column for longer values.
MIN_COLUMN = 10
COLUMN_GAP = 2


def view(content: Any) -> Any:
    """Return one event as a column of its fields."""
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
    """Return the rows of an event: those of its list if it is a page, else the event."""
    lists = [value for value in event.values() if is_rows(value)]
    # An empty list counts as a list of rows only if the event has no other field.
    alone = len(event.keys() - {"type"}) == 1
    return lists[0] if len(lists) == 1 and (lists[0] or alone) else [event]


def table(rows: list[dict[str, Any]], width: int) -> Table:
    """Return several events as the rows of a table."""
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
    """Return the columns that fit into a width, with their widths.

    The widest columns are narrowed first, down to a minimum. Then the last columns are left out.
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
    """Return a value as text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(entry, str | int | float) for entry in value):
        return ", ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False)
