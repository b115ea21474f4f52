"""Help at a terminal: Typer's Rich help of the generated command, then events and an example."""

from __future__ import annotations

import io
import shutil
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

from rich import markup
from rich.table import Table
from rich.text import Text
from typer import rich_utils
from typer.main import get_command

from hubd.wire.terminal import clean
from synapse.commands.typer_app import build
from synapse.help import continued, method_end, namespace_end
from synapse.params.schemas import dashed
from synapse.render.console import console
from synapse.render.wrapping import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions, RenderResult

    from synapse.argv import Invocation
    from synapse.hub.cache import Cache

# Panels need some width; narrower terminals get the plain help.
MIN_WIDTH = 60


class _Panel(Table):
    """The table of a panel, without the columns that Typer leaves empty."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the columns with a text; an empty one would cost its padding."""
        self.columns = [column for column in self.columns if any(map(_has_text, column.cells))]
        for number, column in enumerate(self.columns):
            column._index = number
        yield from super().__rich_console__(console, options)


def _has_text(cell: object) -> bool:
    return not isinstance(cell, str | Text) or bool(str(cell))


def is_wide_enough() -> bool:
    """Return whether the terminal has room for panels."""
    return shutil.get_terminal_size().columns >= MIN_WIDTH


def help_screen(cache: Cache, invocation: Invocation) -> str:
    """Return the help of a namespace or a method, with the sequences of its styles."""
    path = invocation.namespace
    text = _typer_help(cache, invocation)
    end = method_end(cache, path, invocation.method) if invocation.method else None
    screen = console()
    with screen.capture() as capture:
        for line in end if end is not None else namespace_end(cache, path):
            is_title = line.endswith(":") or line.startswith(("Returns:", "Produces"))
            style = "bold" if is_title and not line.startswith(" ") else ""
            line = f" {clean(line)}"
            # An example can be copied; other lines continue below their text.
            indent = " " * (len(line) - len(line.lstrip()) + 4)
            if line.startswith("   synapse "):
                parts = continued(line, screen.width)
            else:
                parts = wrapped(line, indent=indent, width=screen.width)
            for part in parts:
                screen.print(Text(part, style=style), soft_wrap=True)
    return f"{text.rstrip()}\n{capture.get()}"


def _typer_help(cache: Cache, invocation: Invocation) -> str:
    """Return Typer's help, drawn for the terminal but not written to it."""
    command: Any = get_command(build(cache, invocation, lambda tokens: None, is_help=True))
    context = command.make_context("synapse", [], resilient_parsing=True)
    for word in (*invocation.path, *filter(None, [dashed(invocation.method)])):
        command = command.get_command(context, word)
        context = type(context)(command, info_name=word, parent=context)
    with _drawn_for_terminal(), redirect_stdout(io.StringIO()) as output:
        command.get_help(context)
    return output.getvalue()


@contextmanager
def _drawn_for_terminal() -> Iterator[None]:
    """Let Typer draw with the width of the terminal, with styles and without emojis."""
    # Typer can't be told that `:key:` in a text is not the name of an emoji.
    render: Any = markup
    typer: Any = rich_utils
    saved = typer.MAX_WIDTH, typer.FORCE_TERMINAL, typer.Table, render._emoji_replace
    typer.MAX_WIDTH = shutil.get_terminal_size().columns
    typer.FORCE_TERMINAL = True
    typer.Table = _Panel
    render._emoji_replace = lambda text, **options: text
    try:
        yield
    finally:
        typer.MAX_WIDTH, typer.FORCE_TERMINAL, typer.Table, render._emoji_replace = saved
