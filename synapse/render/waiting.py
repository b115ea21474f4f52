"""A line on the terminal while a chat is silent, with the reason and the seconds."""

from __future__ import annotations

import os
import shutil
import sys
import time

from hubd.wire.terminal import one_line

# The silence after which the line is shown.
PATIENCE_SECONDS = 1.0
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Waiting:
    """The line on stderr, for terminals only; a dumb terminal shows it once."""

    def __init__(self, *, wanted: bool) -> None:
        self.active = wanted and sys.stderr.isatty()
        self._can_erase = os.environ.get("TERM", "").lower() not in ("", "dumb", "unknown")
        self._encodable = "utf" in (sys.stderr.encoding or "").lower()
        # The hub's message; empty without one.
        self._message = ""
        self._text = ""
        self._since = time.monotonic()
        self._is_shown = False
        self._frame = 0

    def show(self, text: str) -> None:
        """Show the hub's message."""
        self._text = self._message = one_line(text)
        self._draw()

    def tick(self, activity: str, *, at_line_start: bool) -> None:
        """Show or renew the line, but not inside a line of text.

        Args:
            activity: The words for the silence, unless the hub has sent some.
            at_line_start: Whether the cursor is at the start of a line.
        """
        self._text = self._message or one_line(activity)
        if at_line_start and time.monotonic() - self._since >= PATIENCE_SECONDS:
            self._draw()

    def end(self) -> None:
        """Remove the line before other output."""
        self._message, self._since = "", time.monotonic()
        self.erase()

    def erase(self) -> None:
        """Remove the line."""
        if self._is_shown and self._can_erase:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        self._is_shown = False

    def _draw(self) -> None:
        if not self.active:
            return
        if not self._can_erase:
            if not self._is_shown:
                sys.stderr.write(f"{self._text}\n")
                sys.stderr.flush()
            self._is_shown = True
            return
        frame = FRAMES[self._frame % len(FRAMES)] if self._encodable else "-"
        self._frame += 1
        seconds = int(time.monotonic() - self._since)
        room = shutil.get_terminal_size().columns - len(f"x   {seconds} s") - 1
        sys.stderr.write(f"\r\x1b[K{frame} {self._text[: max(room, 0)]}  {seconds} s")
        sys.stderr.flush()
        self._is_shown = True
