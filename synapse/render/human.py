"""Output for people: Rich, by the method's hint, else by the shape of the events.

The only file that draws. Text from the hub may be a model's: control sequences never reach the
terminal (safe.py).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from synapse.render.plain import pick, progress_line, text_of
from synapse.render.safe import clean, one_line

# A table is drawn when this many rows are there; until then their widths are unknown.
MAX_TABLE_ROWS = 5000
# A column narrower than this says nothing, unless its values are.
MIN_COLUMN = 10
COLUMN_GAP = 2


class _Console(Console):
    """A console that leaves it to the command what becomes of a closed pipe."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    """The terminal, with what the user has said about colour and width."""
    # Rich takes every dumb terminal to be 80 columns wide.
    dumb = os.environ.get("TERM", "").lower() in ("dumb", "unknown")
    width, height = shutil.get_terminal_size() if dumb else (None, None)
    return _Console(
        stderr=stderr, width=width, height=height, highlight=False, emoji=False, markup=False
    )


class Human:
    """What all views share: the screen, and progress on stderr."""

    def __init__(self) -> None:
        self.console = console()
        self._progress: Progress | None = None
        self._task: Any = None

    def item(self, item: dict[str, Any]) -> None:
        """Views look at events only."""

    def event(self, content: Any) -> None:
        """Show one event as it comes."""
        self.show(view(content))

    def show(self, drawn: Any = "", **options: Any) -> None:
        """Draw, where no progress bar is in the way."""
        Human.pause(self)
        self.console.print(drawn, **options)

    def progress(self, message: str, percentage: float | None) -> None:
        """A bar, or a line where there is no terminal to draw it on."""
        if not sys.stderr.isatty():
            progress_line(message, percentage)
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
        """Nothing is held back."""

    def pause(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def close(self) -> None:
        """Take the bar away."""
        self.pause()


class Rows(Human):
    """A table of all events, or one view each where they are too many or too different."""

    def __init__(self) -> None:
        super().__init__()
        self._events: list[dict[str, Any]] = []
        # Set when the events come slowly: then each is shown at once.
        self._live = False

    def event(self, content: Any) -> None:
        """Keep it for the table, unless there is no time to wait for the others."""
        if isinstance(content, dict) and not self._live and len(self._events) < MAX_TABLE_ROWS:
            self._events.append(content)
        else:
            self._draw()
            self.show(Text(short(content)))

    def idle(self) -> None:
        """Show what there is, and everything else as it comes."""
        self._live = self._live or bool(self._events)
        self._draw()

    def pause(self) -> None:
        """Show what is there before a question."""
        super().pause()
        self._draw()

    def close(self) -> None:
        """Draw."""
        super().close()
        self._draw()

    def _draw(self) -> None:
        events, self._events = self._events, []
        groups: dict[str, list[dict[str, Any]]] = {}
        for event in events:
            groups.setdefault(str(event.get("type", "")), []).extend(rows_of(event))
        for name, rows in groups.items():
            if len(groups) > 1:
                self.show(Text(clean(name), style="bold"))
            if not rows:
                self.show(Text("none", style="dim"))
            elif len(rows) == 1:
                self.show(view(rows[0]))
            else:
                self.show(table(rows, self.console.width))


class Words(Human):
    """The text of the events, one after the other."""

    def event(self, content: Any) -> None:
        """The text, or the usual view."""
        text = text_of(content)
        # What is shown ends a line by itself.
        self.show(view(content) if text is None else Text(clean(text).removesuffix("\n")))


class Chat(Human):
    """A conversation as it is written: pieces join up, everything else is a line.

    A piece is a delta, or says by `offset` where in its text it begins. A block comes as
    `x_start`, `x_delta`… and `x_end`, and then whole as `x`; who has seen it grow does not see it
    again.
    """

    def __init__(self) -> None:
        super().__init__()
        self._in_text = False
        # The kind of the block that was shown piece by piece, until it comes whole.
        self._streamed = ""

    def event(self, content: Any) -> None:
        """Text goes on where it stopped; other events are a dim line."""
        event = content.get("event", content) if isinstance(content, dict) else content
        kind = str(event.get("type", "")) if isinstance(event, dict) else ""
        name, _, phase = kind.rpartition("_")
        text = text_of(event) if not _said(event) else None
        placed = isinstance(event, dict) and "offset" in event
        if text is not None and (phase == "delta" or placed):
            # The terminal breaks the lines: only it knows where the text before has ended.
            style = "dim" if phase == "delta" and name not in ("", "content") else ""
            self.show(Text(clean(text), style=style), end="", soft_wrap=True)
            self._in_text, self._streamed = True, name
        elif (phase in ("start", "delta") and name) or kind in _SILENT:
            return
        elif phase == "end" and name:
            self.pause()
        elif kind == self._streamed:
            self.pause()
            self._streamed = ""
        elif "content" in kind and text is not None:
            self.pause()
            self.show(Text(clean(text)), soft_wrap=True)
        elif said := _said(event):
            self.pause()
            self.show(Text(clean(said)), soft_wrap=True)
        else:
            self.pause()
            fields = {key: value for key, value in event.items() if key not in _PLACES}
            self.show(Text(f"· {clean(kind)} {short(fields)}".rstrip(), style="dim"))

    def pause(self) -> None:
        """End the line."""
        super().pause()
        if self._in_text:
            self.console.print()
            self._in_text = False


# What a program says that is meant for programs.
_SILENT = ("passthrough", "user_message", "assistant_message")
# Where an event lies: of no use on a line for people.
_PLACES = frozenset(
    (
        *("position", "turn_position", "new_head", "handle", "block", "block_index"),
        *("message_id", "tool_use_id", "id", "seq", "node_id", "timestamp"),
    )
)


def _said(event: Any) -> str:
    """A whole message: who says it, and its text, or that of its blocks."""
    blocks = event.get("content") if isinstance(event, dict) else None
    if isinstance(blocks, str) and "role" in event:
        return f"{event['role']}: {blocks}"
    if not isinstance(blocks, list) or "role" not in event:
        return ""
    parts = [block for block in blocks if isinstance(block, dict)]
    texts = [str(block.get("text") or short(block)) for block in parts]
    return f"{event['role']}: " + "\n".join(texts)


class Branches(Human):
    """A tree of nodes by their parents, where the events have them; else its text."""

    def event(self, content: Any) -> None:
        """Draw the nodes."""
        nodes = content.get("nodes") if isinstance(content, dict) else None
        if not nodes:
            text = text_of(content)
            self.show(view(content) if text is None else Text(clean(text)))
            return
        top = Tree(Text(clean(str(content.get("tree_id", "")))))
        branches: dict[str | None, Tree] = {None: top}
        for node in nodes:
            label = node.get("summary") or text_of(node.get("data", {}))
            if not label and node.get("parent") is None:
                branches[node.get("id")] = top  # a root that says nothing is the tree itself
                continue
            label = label or node.get("id", "")
            above = branches.get(node.get("parent"), top)
            branches[node.get("id")] = above.add(Text(clean(str(label)).replace("\n", "↵")))
        self.show(top)


class Picked:
    """Some fields only, shown by another view."""

    def __init__(self, view: Human, fields: list[str]) -> None:
        self._view = view
        self._fields = fields

    def item(self, item: dict[str, Any]) -> None:
        """Not looked at."""

    def event(self, content: Any) -> None:
        """The fields that were asked for: of the event, or else of the rows it stands for."""
        names = {field.partition(".")[0] for field in self._fields}
        rows = [content]
        if isinstance(self._view, Rows) and isinstance(content, dict) and names - content.keys():
            rows = rows_of(content)
        for row in rows:
            self._view.event(pick(row, self._fields))
        if not rows:
            self._view.event(content)

    def progress(self, message: str, percentage: float | None) -> None:
        """As the view does."""
        self._view.progress(message, percentage)

    def idle(self) -> None:
        """As the view does."""
        self._view.idle()

    def pause(self) -> None:
        """As the view does."""
        self._view.pause()

    def close(self) -> None:
        """As the view does."""
        self._view.close()


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
    lists = [
        value
        for value in event.values()
        if isinstance(value, list) and all(isinstance(entry, dict) for entry in value)
    ]
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
    fields = (f"{name}={value_text(value)}" for name, value in event.items() if name != "type")
    line = clean(" ".join(fields)).replace("\n", "↵")
    return line if len(line) <= 200 else f"{line[:199]}…"


def for_hint(hint: str | None, *, streaming: bool) -> Human:
    """The view for a method."""
    views: dict[str, type[Human]] = {
        "table": Rows,
        "text": Words,
        "chat": Chat,
        "tree": Branches,
    }
    if hint in views:
        return views[hint]()
    return Rows() if streaming else Human()
