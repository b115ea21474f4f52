"""Output that waits until it is complete, and goes through a pager if the screen is too small.

The pager is `$PAGER`, else `less` with the options `-FRX`. Live output never waits.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console


class Collected:
    """The output of a console, from now until `release` or `finish`."""

    def __init__(self, console: Console, show: Callable[[str, int], None]) -> None:
        self._console = console
        # Shows the complete output on a screen of some height.
        self._show = show
        self._is_collecting = True
        self._is_empty = True
        console.begin_capture()

    def note(self) -> None:
        """Note that something was printed."""
        self._is_empty = False

    def release(self) -> None:
        """Write the output so far, and let the rest be written at once."""
        if self._is_collecting and not self._is_empty:
            self._is_collecting = False
            write(self._console.end_capture())

    def finish(self) -> None:
        """Show the output if it has waited for its end."""
        if self._is_collecting:
            self._is_collecting = False
            self._show(self._console.end_capture(), self._console.height)


def may_page() -> bool:
    """Return whether a pager can use the terminal: it writes to stdout, and a person types."""
    return sys.stdout.isatty() and sys.stdin.isatty() and not is_plain_terminal()


def is_plain_terminal() -> bool:
    """Return whether the terminal understands no sequences."""
    return os.environ.get("TERM", "").lower() in ("", "dumb", "unknown")


def page(text: str, height: int) -> None:
    """Write a text, through the pager if it is longer than the screen."""
    command = os.environ.get("PAGER", "less").strip()
    if text.count("\n") < height or command in ("", "cat") or not _run(command, text):
        write(text)


def write(text: str) -> None:
    """Write a text to stdout."""
    sys.stdout.write(text)
    sys.stdout.flush()


def _run(command: str, text: str) -> bool:
    """Show a text with a pager; return False if it can't be started."""
    import signal
    import subprocess

    sys.stdout.flush()
    # The options of `less`: quit if all fits, keep colours, leave the text on the screen.
    env = {"LESS": "FRX", **os.environ}
    # Ctrl-C belongs to the pager while it runs.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, env=env)
        try:
            process.communicate(text.encode(errors="backslashreplace"))
        except BrokenPipeError:
            process.wait()
    except OSError:
        return False
    finally:
        signal.signal(signal.SIGINT, before)
    # The shell's status for a command that does not exist, or can't be run.
    return process.returncode not in (126, 127)
