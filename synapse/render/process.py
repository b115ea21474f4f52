"""A command that a method runs: its output is synapse's output."""

from __future__ import annotations

import os
import sys
from typing import Any

from hubd.wire.escaped_bytes import unescape
from hubd.wire.terminal import RESET, clean, clean_output
from synapse.render.plain import Lines

_OUTPUTS = ("stdout", "stderr")


class Process(Lines):
    """Writes the `line` of events `stdout` and `stderr` to the output of that name.

    A line with `partial` has no line end. A file or a pipe gets the exact bytes. A terminal gets
    text in which only colours and other styles are left of the control sequences.
    """

    def __init__(self) -> None:
        super().__init__()
        self._in_line = False
        # The outputs whose terminal has got a style.
        self._styled: set[str] = set()
        is_dumb = os.environ.get("TERM", "").lower() in ("", "dumb", "unknown")
        self._has_styles = not is_dumb and not os.environ.get("NO_COLOR")

    @property
    def at_line_start(self) -> bool:
        """Whether the next text begins a line."""
        return not self._in_line

    def event(self, content: Any) -> None:
        """Write a line of the command. Its other events are not part of its output."""
        if not isinstance(content, dict):
            return
        name, line = content.get("type"), content.get("line")
        if name not in _OUTPUTS or not isinstance(line, str):
            return
        end = "" if content.get("partial") else "\n"
        self._in_line = not end
        stream = getattr(sys, name)
        if stream.isatty():
            text = clean_output(line) if self._has_styles else clean(line)
            if "\x1b" in text:
                self._styled.add(name)
            stream.write(text + end)
        else:
            data = unescape(line) if content.get("escaped") else line.encode()
            stream.buffer.write(data + end.encode())
        stream.flush()

    def pause(self) -> None:
        """Leave no style behind."""
        for name in self._styled:
            getattr(sys, name).write(RESET)
            getattr(sys, name).flush()
        self._styled.clear()
        super().pause()

    def close(self) -> None:
        """Leave no style behind."""
        self.pause()
        super().close()
