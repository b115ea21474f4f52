"""Lists as tables that fit the width of the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from synapse.render.fields import is_rows
from synapse.render.values import Cell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from synapse.render.columns import Column

# The narrowest column for longer texts.
MIN_COLUMN = 12
GAP = "  "
# The style of marked places.
MARK = "bold yellow"


def rows_of(event: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of an event: those of its list if it is a page, else the event."""
    lists = [value for value in event.values() if is_rows(value)]
    # An empty list counts as a list of rows only if the event has no other field.
    alone = len(event.keys() - {"type"}) == 1
    return lists[0] if len(lists) == 1 and (lists[0] or alone) else [event]


def table(columns: list[Column], width: int, indent: str = "") -> Iterator[Text]:
    """Yield the lines of a table; columns without room are counted below it."""
    widths = fit(columns, width - len(indent))
    drawn = columns[: len(widths)]
    sides = [any(cell.is_number for cell in column.cells) for column in drawn]
    last = len(widths) - 1

    def line(cells: list[Cell]) -> Text:
        parts: list[str | Text] = [indent]
        for number, cell in enumerate(cells):
            cell = _around_mark(cell, widths[number])
            text = cut(cell.text, widths[number])
            space = " " * (widths[number] - cell_len(text))
            if sides[number]:
                parts.append(space)
            styled = Text(text, style=cell.style)
            for start, end in cell.marks:
                styled.stylize(MARK, start, end)
            parts.append(styled)
            if number < last:
                parts.append(GAP if sides[number] else space + GAP)
        return Text.assemble(*parts, no_wrap=True, overflow="crop")

    yield line([Cell(column.heading, "bold") for column in drawn])
    for cells in zip(*(column.cells for column in drawn), strict=True):
        yield line(list(cells))
    hidden = [column.heading.lower() for column in columns[len(widths) :]]
    if hidden:
        more = "1 more column" if len(hidden) == 1 else f"{len(hidden)} more columns"
        yield Text(f"{indent}… {more}: {', '.join(hidden)} (--fields, -o json)", style="dim")


def _around_mark(cell: Cell, width: int) -> Cell:
    """Return a cell with a later start if its first marked place would be cut off."""
    if not cell.marks or cell_len(cell.text) <= width:
        return cell
    start, end = min(cell.marks)
    if cell_len(cell.text[:end]) < width:
        return cell
    # A third of the room is for the text before the place, or more if less text follows it.
    first = start
    while first > 0 and (
        cell_len(cell.text[first - 1 : start]) < width // 3
        or cell_len(cell.text[first - 1 :]) < width
    ):
        first -= 1
    shift = first - 1
    marks = tuple((start - shift, end - shift) for start, end in cell.marks)
    return cell._replace(text=f"…{cell.text[first:]}", marks=marks)


def fit(columns: list[Column], width: int) -> list[int]:
    """Return the widths of the columns that fit, from the first on.

    The widest texts are narrowed first, down to a minimum. Then the last columns are left out.
    Numbers, times, states and ids are not cut.
    """
    wanted = [
        max(map(cell_len, (column.heading, *(cell.text for cell in column.cells))))
        for column in columns
    ]
    # The narrowest form of each column.
    least = [
        room if any(cell.is_whole for cell in column.cells) else min(room, MIN_COLUMN)
        for column, room in zip(columns, wanted, strict=True)
    ]
    count = len(columns)
    while count > 1 and sum(least[:count]) + len(GAP) * (count - 1) > width:
        count -= 1
    widths = wanted[:count]
    excess = sum(widths) + len(GAP) * (count - 1) - width
    while excess > 0:
        # The widest of the columns that can still give way.
        place = max(
            range(count), key=lambda number: (widths[number] > least[number], widths[number])
        )
        if widths[place] <= least[place]:
            # Not even the first column fits.
            return [max(width, 1)]
        widths[place] -= 1
        excess -= 1
    return widths


def cut(text: str, width: int) -> str:
    """Return a text that is at most this wide; a cut text ends with `…`."""
    if cell_len(text) <= width:
        return text
    return f"{set_cell_size(text, max(width - 1, 0)).rstrip()}…" if width > 0 else ""
