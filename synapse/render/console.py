"""The Rich console of all views."""

from __future__ import annotations

import os
import shutil

from rich.console import Console


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
