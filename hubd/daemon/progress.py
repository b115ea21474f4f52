"""Show the progress of a long command: a line on stderr every second."""

import sys
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

SECONDS: Final = 1.0


class Progress:
    """Prints the newest report every second while the block runs."""

    def __init__(self, command: str) -> None:
        self._command = command
        # The newest report.
        self._text = ""
        self._ended = threading.Event()
        # A thread, because one step of SQLite may take minutes.
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        """Start printing."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop printing."""
        self._ended.set()
        self._thread.join()

    def report(self, text: str) -> None:
        """Set the current step of the command."""
        self._text = text

    def _run(self) -> None:
        seconds = 0
        while not self._ended.wait(SECONDS):
            seconds += 1
            if self._text:
                with suppress(OSError):  # The reader closed the pipe.
                    sys.stderr.write(f"hubd: {self._command}: {self._text} ({seconds} s)\n")
