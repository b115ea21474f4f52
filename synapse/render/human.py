"""Output for a terminal, drawn with Rich.

Text from the hub may be a model's, so `hubd/wire/terminal.py` removes its control sequences.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.segment import Segment, Segments
from rich.text import Text

from hubd.wire.terminal import clean, one_line
from synapse.render.columns import Columns, declared_columns, field_columns
from synapse.render.console import console
from synapse.render.lines import EventLines, fields_line
from synapse.render.plain import ProgressLines, text_of, warn
from synapse.render.tables import rows_of, table
from synapse.render.values import Values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.progress import Progress

    from hubd.wire.schema import JsonSchema
    from synapse.render.columns import Column
    from synapse.render.fields import Fields
    from synapse.render.pager import Collected
    from synapse.render.trees import Trees
    from synapse.render.values import Cell

# The most rows of one table; its columns need all rows in memory.
MAX_TABLE_ROWS = 5000
# The most characters of a text that are folded between words.
MAX_FOLDED = 100_000


class Human:
    """The base of all views: a console, and progress on stderr."""

    reports_end = False

    def __init__(self, values: Values | None = None, lines: EventLines | None = None) -> None:
        self.console = console()
        self.values = values or Values()
        # The one-line texts of events, for a list of events inside an event.
        self._texts = lines
        # Set while the output waits for its end.
        self._collected: Collected | None = None
        self._progress: Progress | None = None
        self._task: Any = None
        self._progress_lines = ProgressLines()

    @property
    def at_line_start(self) -> bool:
        """Whether the next text begins a line."""
        return self._progress is None

    @property
    def activity(self) -> str:
        """The words for a silence."""
        return "waiting"

    def item(self, item: dict[str, Any]) -> None:
        """Ignore the item: only events are shown."""

    def warn(self, text: str) -> None:
        """Write a line to stderr."""
        warn(text)

    def event(self, content: Any) -> None:
        """Show one event at once."""
        self.show_fields(content)

    def show_fields(self, content: Any) -> None:
        """Show an event by its fields."""
        from synapse.render.records import view

        self.show_lines(view(content, self.console, self.values, self._texts))

    def collect(self, show: Callable[[str, int], None]) -> None:
        """Let the output wait until it is complete, then show it on a screen of some height."""
        from synapse.render.pager import Collected

        self._collected = Collected(self.console, show)

    def show(self, drawn: Any = "", **options: Any) -> None:
        """Print something, without the progress bar."""
        self._remove_bar()
        self.console.print(drawn, **options)
        if self._collected is not None:
            self._collected.note()

    def show_text(self, text: str) -> None:
        """Print a clean text; Rich would fold a long one for minutes, so the terminal does it."""
        if len(text) <= MAX_FOLDED:
            self.show(Text(text))
        else:
            self.show(Segments([Segment(f"{text}\n")]), soft_wrap=True, end="")

    def show_lines(self, lines: Iterable[Any]) -> None:
        """Print several lines."""
        from rich.console import Group

        self.show(Group(*lines))

    def progress(self, message: str, percentage: float | None) -> None:
        """Show a bar, or a line if stderr is not a terminal."""
        if not sys.stderr.isatty():
            self._progress_lines.add(message, percentage)
            return
        if self._progress is None:
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (TextColumn("{task.description}", markup=False), BarColumn())
            self._progress = Progress(
                *columns,
                console=console(stderr=True),
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._task = self._progress.add_task("", total=100.0)
            self._progress.start()
        message = one_line(message)
        self._progress.update(self._task, description=message, completed=percentage or 0.0)

    def idle(self) -> None:
        """Show a progress line that waits, and the output so far."""
        self._progress_lines.show_late()
        if self._collected is not None:
            self._collected.release()

    def pause(self) -> None:
        """Remove the bar, and show the output so far."""
        self._remove_bar()
        if self._collected is not None:
            self._collected.release()

    def close(self) -> None:
        """Remove the bar, and show the rest of the output."""
        self._remove_bar()
        if self._collected is not None:
            self._collected.finish()

    def _remove_bar(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


class Rows(Human):
    """A table of all events; a line for each event if they come slowly or are too many."""

    def __init__(
        self,
        returns: JsonSchema | None = None,
        values: Values | None = None,
        *,
        are_picked: bool = False,
        is_list: bool = False,
    ) -> None:
        self._lines = EventLines(returns or {})
        super().__init__(values, self._lines)
        # Whether the call is a list of which no row has come yet.
        self._is_empty_list = is_list
        self._columns = Columns(returns or {}, self.values)
        # Whether the fields were chosen by --fields, in this order.
        self._are_picked = are_picked
        self._events: list[dict[str, Any]] = []
        # True once the events come slowly: then each is shown at once.
        self._live = False
        # Set once an event has nodes.
        self._trees: Trees | None = None

    def event(self, content: Any) -> None:
        """Keep an event for the table, or show it at once."""
        self._is_empty_list = False
        if self._take_tree(content):
            return
        if isinstance(content, dict) and not self._live and len(self._events) < MAX_TABLE_ROWS:
            self._events.append(content)
        else:
            self._draw()
            line = self._lines.summary(content) if isinstance(content, dict) else ""
            self.show(Text(line or fields_line(content)))

    def item(self, item: dict[str, Any]) -> None:
        """Tell that a list without rows is complete; a failed one has an error instead."""
        if item.get("type") == "error":
            self._is_empty_list = False
        elif item.get("type") == "done" and self._is_empty_list:
            self.show(Text("none", style="dim"))

    def idle(self) -> None:
        """Draw the events so far, and show the others at once."""
        self._live = self._live or bool(self._events)
        self._draw()
        super().idle()

    def pause(self) -> None:
        """Draw the events so far before a question."""
        self._draw()
        super().pause()

    def close(self) -> None:
        """Draw the last events."""
        self._draw()
        if self._trees is not None:
            self._trees.draw()
        super().close()

    def _take_tree(self, content: Any) -> bool:
        """Keep an event with nodes for the drawing of its tree."""
        from synapse.render.nodes import tree_of

        if self._are_picked or tree_of(content) is None:
            return False
        if self._trees is None:
            from synapse.render.trees import Trees

            self._trees = Trees(self)
        return self._trees.take(content)

    def _draw(self) -> None:
        events, self._events = self._events, []
        groups: dict[str, list[dict[str, Any]]] = {}
        # The rows with declared columns.
        declared: dict[str, list[dict[str, Cell]]] = {}
        for event in events:
            name, cells = str(event.get("type", "")), self._columns.rows(event)
            rows = groups.setdefault(name, [])
            if cells is None:
                rows += rows_of(event)
            else:
                declared.setdefault(name, []).extend(cells)
        for name, rows in groups.items():
            if len(groups) > 1:
                self.show(Text(clean(name), style="bold"))
            if declared.get(name):
                self._show_table(declared_columns(declared[name]))
            elif len(rows) == 1 and self._are_picked:
                self._show_picked(rows[0])
            elif len(rows) == 1:
                self.show_fields(rows[0])
            elif rows:
                columns = field_columns(rows, self.values, ordered=self._are_picked)
                self._show_table(columns)
            else:
                self.show(Text("none", style="dim"))

    def _show_picked(self, row: dict[str, Any]) -> None:
        """Show the only row of `--fields`: a line for each field, in the order of the option."""
        width = max(map(len, row), default=0)
        for name, value in row.items():
            start = f"{clean(name):<{width}}  "
            self.show(Text.assemble((start, "bold"), self.values.cell(name, value).text))

    def _show_table(self, columns: list[Column]) -> None:
        self.show_lines(table(columns, self.console.width))


class Lines(Human):
    """A line for each event at once, for methods that also ask questions."""

    def __init__(self, returns: JsonSchema, values: Values | None = None) -> None:
        self._lines = EventLines(returns)
        super().__init__(values, self._lines)

    def event(self, content: Any) -> None:
        """Show the event's summary, else its fields."""
        line = self._lines.summary(content) if isinstance(content, dict) else ""
        if line:
            self.show(Text(line, style="dim"))
        else:
            self.show_fields(content)


class Words(Human):
    """The text of each event."""

    def event(self, content: Any) -> None:
        """Show the text, or the fields of an event without text."""
        text = text_of(content)
        if text is None:
            self.show_fields(content)
        else:
            # `show` ends the line.
            self.show_text(clean(text).removesuffix("\n"))


class Picked:
    """The fields of `--fields`, as a table."""

    reports_end = False

    def __init__(self, fields: Fields) -> None:
        self._view = Rows(values=Values(is_exact=True), are_picked=True)
        self._fields = fields
        self._is_empty = True

    @property
    def at_line_start(self) -> bool:
        """Whether the next text begins a line."""
        return self._view.at_line_start

    def collect(self, show: Callable[[str, int], None]) -> None:
        """As `Human.collect`."""
        self._view.collect(show)

    @property
    def activity(self) -> str:
        """The words for a silence."""
        return self._view.activity

    def warn(self, text: str) -> None:
        """Write a line to stderr."""
        self._view.warn(text)

    def item(self, item: dict[str, Any]) -> None:
        """Ignore the item: only events are shown."""

    def event(self, content: Any) -> None:
        """Pick the fields of the event, or of its rows."""
        self._show(self._fields.pick(content))

    def progress(self, message: str, percentage: float | None) -> None:
        """Show progress as the table does."""
        self._view.progress(message, percentage)

    def idle(self) -> None:
        """Show the rows that wait."""
        self._show(self._fields.flush())
        self._view.idle()

    def pause(self) -> None:
        """Show the rows so far before a question."""
        self._view.pause()

    def close(self) -> None:
        """Show the last rows.

        Raises:
            CommandError: No event has one of the fields.
        """
        try:
            self._show(self._fields.finish())
            if self._is_empty:
                self._view.show(Text("none", style="dim"))
        finally:
            self._view.close()

    def _show(self, rows: list[dict[str, Any]]) -> None:
        self._is_empty = self._is_empty and not rows
        for row in rows:
            self._view.event(row)
