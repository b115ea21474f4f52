"""Output for people: Rich, by the method's hint, else by the shape of the events.

Text from the hub may be a model's: control sequences never reach the terminal
(hubd/wire/terminal.py).
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from hubd.wire.terminal import clean, one_line
from synapse.render import nodes as drawing
from synapse.render.fields import Fields
from synapse.render.plain import ProgressLines, inner_event, text_of
from synapse.render.tables import rows_of, short, table, view

# A table is drawn when this many rows are there; until then their widths are unknown.
MAX_TABLE_ROWS = 5000


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
        self._progress_lines = ProgressLines()

    @property
    def at_line_start(self) -> bool:
        """Whether the next text begins a line."""
        return self._progress is None

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
        """Show progress that waits."""
        self._progress_lines.show_late()

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
        self._trees = Trees(self)

    def event(self, content: Any) -> None:
        """Keep it for the table, unless there is no time to wait for the others."""
        if self._trees.take(content):
            return
        if isinstance(content, dict) and not self._live and len(self._events) < MAX_TABLE_ROWS:
            self._events.append(content)
        else:
            self._draw()
            self.show(Text(short(content)))

    def idle(self) -> None:
        """Show what there is, and everything else as it comes."""
        super().idle()
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
        self._trees.draw()

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
        event = inner_event(content)
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
            node = drawing.short_id(event, "node_id")
            mark = (f"{clean(node)} ", "dim") if node else ""
            self.show(Text.assemble(mark, clean(said)), soft_wrap=True)
        else:
            self.pause()
            fields = {key: value for key, value in event.items() if key not in _PLACES}
            self.show(Text(f"· {clean(kind)} {short(fields)}".rstrip(), style="dim"))

    @property
    def at_line_start(self) -> bool:
        """Whether the next text begins a line."""
        return not self._in_text

    def pause(self) -> None:
        """End the line."""
        super().pause()
        if self._in_text:
            self.console.print()
            self._in_text = False


# Events for programs, and the failure of a chat, which is reported on stderr.
_SILENT = ("passthrough", "user_message", "assistant_message", "error")
# Where an event lies: of no use on a line for people.
_PLACES = frozenset(
    (
        *("position", "turn_position", "new_head", "handle", "block", "block_index"),
        *("message_id", "tool_use_id", "id", "seq", "node_id", "timestamp", "result"),
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


class Trees:
    """Trees of nodes, gathered from the pages in which they come."""

    def __init__(self, human: Human, options: str = "") -> None:
        self._human = human
        # The options of the method that show more of a tree, for the hint.
        self._options = options
        # For each tree: what was said of it besides the nodes, and its nodes.
        self._trees: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {}

    def take(self, content: Any) -> bool:
        """Keep the nodes of an event; return whether it has any."""
        tree = drawing.tree_of(content)
        if tree is None:
            return False
        facts, nodes = self._trees.setdefault(str(tree.get("tree_id")), ({}, []))
        facts |= {name: value for name, value in tree.items() if name != "nodes"}
        nodes += tree["nodes"]
        return True

    def draw(self) -> None:
        """Show every tree."""
        trees, self._trees = self._trees, {}
        show, width = self._human.show, self._human.console.width
        for facts, nodes in trees.values():
            self._show_facts(facts)
            for line in drawing.lines(nodes, width):
                node = f"{clean(line.id)}  " if line.id else ""
                text = Text.assemble(line.prefix, (node, "cyan"), line.text)
                show(text, no_wrap=True, overflow="ellipsis")
            more = facts.get("more")
            if isinstance(more, int) and more:
                hint = f" (see {self._options})" if self._options else ""
                show(Text(f"… {more:,} more nodes{hint}", style="dim"))

    def _show_facts(self, facts: dict[str, Any]) -> None:
        hidden = ("type", "render", "more", "tree_id")
        self._human.show(Text(clean(str(facts.get("tree_id", ""))), style="bold"))
        rest = {name: value for name, value in facts.items() if name not in hidden}
        if rest:
            self._human.show(view(rest))


class Branches(Human):
    """A tree of nodes by their parents, if the events have them; else its text."""

    def __init__(self, options: str = "") -> None:
        super().__init__()
        self._trees = Trees(self, options)

    def event(self, content: Any) -> None:
        """Keep the nodes, because a tree may come in pages."""
        if not self._trees.take(content):
            text = text_of(content)
            self.show(view(content) if text is None else Text(clean(text)))

    def pause(self) -> None:
        """Draw what there is before a question."""
        super().pause()
        self._trees.draw()

    def close(self) -> None:
        """Draw."""
        self.pause()


class Picked:
    """The fields that were asked for, as a table."""

    def __init__(self, fields: Fields) -> None:
        self._view = Rows()
        self._fields = fields
        self._is_empty = True

    @property
    def at_line_start(self) -> bool:
        """Whether the next text begins a line."""
        return self._view.at_line_start

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
        """Show what is there before a question."""
        self._view.pause()

    def close(self) -> None:
        """Show the rest.

        Raises:
            CommandError: A field was in none of the events.
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


def for_method(schema: dict[str, Any]) -> Human:
    """Return the view for a method's events."""
    hint = schema.get("annotations", {}).get("render")
    if hint == "tree":
        names = [name for name in ("limit", "depth") if name in schema["params"]["properties"]]
        return Branches(", ".join(f"--{name}" for name in names))
    views: dict[str, type[Human]] = {"table": Rows, "text": Words, "chat": Chat}
    if hint in views:
        return views[hint]()
    return Rows() if schema["streaming"] else Human()
