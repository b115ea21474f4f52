"""A list that is drawn again every two seconds, until Ctrl-C."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# The time between two drawings.
WATCH_SECONDS = 2.0

# The second screen of a terminal, so that the scrollback stays as it is.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


class Watch:
    """A screen for one list."""

    def __init__(self) -> None:
        # The last drawing, which stays on the ordinary screen.
        self._last = ""

    def run(self, draw: Callable[[], object]) -> None:
        """Draw until the user interrupts; `draw` makes the call and shows it by `show`.

        Raises:
            KeyboardInterrupt: The user has ended it.
        """
        sys.stdout.write(_ENTER)
        try:
            while True:
                draw()
                time.sleep(WATCH_SECONDS)
        finally:
            sys.stdout.write(_LEAVE + self._last)
            sys.stdout.flush()

    def show(self, text: str, height: int) -> None:
        """Replace the drawing, without erasing the screen first: that would flicker."""
        self._last = text
        lines = text.splitlines()
        room = max(height - 2, 1)
        if len(lines) > room:
            lines = [*lines[: room - 1], f"… {len(lines) - room + 1:,} more lines"]
        footer = (
            f"\x1b[2mevery {WATCH_SECONDS:g} s · {time.strftime('%H:%M:%S')} · Ctrl-C ends\x1b[0m"
        )
        drawn = "".join(f"{line}\x1b[K\r\n" for line in lines)
        sys.stdout.write(f"\x1b[H{drawn}\x1b[K\r\n{footer}\x1b[K\x1b[J")
        sys.stdout.flush()
