"""Output for a terminal, drawn with Rich.

Text from the hub may be a model's, so `hubd/wire/terminal.py` removes its control sequences.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from hubd.wire.terminal import clean, one_line
from synapse.render.columns import Columns, without_empty
from synapse.render.lines import EventLines, fields_line
from synapse.render.plain import ProgressLines, text_of, warn
from synapse.render.tables import rows_of, table, view

if TYPE_CHECKING:
    from hubd.wire.schema import JsonSchema
    from synapse.render.fields import Fields

# The most rows of one table; its columns need all rows in memory.
MAX_TABLE_ROWS = 5000


class _Console(Console):
    """A console that raises an error if its pipe is closed."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    """Return a console with the colour and the width of the terminal."""
    # Rich assumes 80 columns for every dumb terminal.
    dumb = os.environ.get("TERM", "").lower() in ("dumb", "unknown")
    width, height = shutil.get_terminal_size() if dumb else (None, None)
    return _Console(
        stderr=stderr, width=width, height=height, highlight=False, emoji=False, markup=False
    )


class Human:
    """The base of all views: a console, and progress on stderr."""

    reports_end = False

    def __init__(self) -> None:
        self.console = console()
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
        self.show(view(content))

    def show(self, drawn: Any = "", **options: Any) -> None:
        """Print something, without the progress bar."""
        Human.pause(self)
        self.console.print(drawn, **options)

    def progress(self, message: str, percentage: float | None) -> None:
        """Show a bar, or a line if stderr is not a terminal."""
        if not sys.stderr.isatty():
            self._progress_lines.add(message, percentage)
            return
        if self._progress is None:
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
        """Show a progress line that waits."""
        self._progress_lines.show_late()

    def pause(self) -> None:
        """Remove the bar."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def close(self) -> None:
        """Remove the bar."""
        self.pause()


class Rows(Human):
    """A table of all events; a line for each event if they come slowly or are too many."""

    def __init__(self, returns: JsonSchema | None = None) -> None:
        super().__init__()
        from synapse.render.trees import Trees

        self._lines = EventLines(returns or {})
        self._columns = Columns(returns or {})
        self._events: list[dict[str, Any]] = []
        # True once the events come slowly: then each is shown at once.
        self._live = False
        self._trees = Trees(self)

    def event(self, content: Any) -> None:
        """Keep an event for the table, or show it at once."""
        if self._trees.take(content):
            return
        if isinstance(content, dict) and not self._live and len(self._events) < MAX_TABLE_ROWS:
            self._events.append(content)
        else:
            self._draw()
            line = self._lines.summary(content) if isinstance(content, dict) else ""
            self.show(Text(line or fields_line(content)))

    def idle(self) -> None:
        """Draw the events so far, and show the others at once."""
        super().idle()
        self._live = self._live or bool(self._events)
        self._draw()

    def pause(self) -> None:
        """Draw the events so far before a question."""
        super().pause()
        self._draw()

    def close(self) -> None:
        """Draw the last events."""
        super().close()
        self._draw()
        self._trees.draw()

    def _draw(self) -> None:
        events, self._events = self._events, []
        groups: dict[str, list[dict[str, Any]]] = {}
        # The groups with declared columns.
        declared: set[str] = set()
        for event in events:
            name, rows = str(event.get("type", "")), self._columns.rows(event)
            if rows is not None:
                declared.add(name)
            groups.setdefault(name, []).extend(rows_of(event) if rows is None else rows)
        for name, rows in groups.items():
            if name in declared:
                rows = without_empty(rows)
            if len(groups) > 1:
                self.show(Text(clean(name), style="bold"))
            if not rows:
                self.show(Text("none", style="dim"))
            elif len(rows) == 1 and name not in declared:
                self.show(view(rows[0]))
            else:
                self.show(table(rows, self.console.width))


class Lines(Human):
    """A line for each event at once, for methods that also ask questions."""

    def __init__(self, returns: JsonSchema) -> None:
        super().__init__()
        self._lines = EventLines(returns)

    def event(self, content: Any) -> None:
        """Show the event's summary, else its fields."""
        line = self._lines.summary(content) if isinstance(content, dict) else ""
        self.show(Text(line, style="dim") if line else view(content))


class Words(Human):
    """The text of each event."""

    def event(self, content: Any) -> None:
        """Show the text, or the fields of an event without text."""
        text = text_of(content)
        # `show` ends the line.
        self.show(view(content) if text is None else Text(clean(text).removesuffix("\n")))


class Picked:
    """The fields of `--fields`, as a table."""

    reports_end = False

    def __init__(self, fields: Fields) -> None:
        self._view = Rows()
        self._fields = fields
        self._is_empty = True

    @property
    def at_line_start(self) -> bool:
        """Whether the next text begins a line."""
        return self._view.at_line_start

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
        finally:
            self._view.close()
        if self._is_empty:
            self._view.show(Text("none", style="dim"))

    def _show(self, rows: list[dict[str, Any]]) -> None:
        self._is_empty = self._is_empty and not rows
        for row in rows:
            self._view.event(row)
