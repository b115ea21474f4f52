"""Ctrl-C during a turn: the first one ends the turn at the hub, the second one stops watching."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from hubd.wire.client import ClientError
from synapse.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def interruptible(cancel: Callable[[], None] | None) -> Iterator[None]:
    """Let Ctrl-C end a turn.

    Args:
        cancel: Ends the turn at the hub, which then ends the call; it runs in its own thread, so
            the turn's events are shown to the end. Without it, Ctrl-C interrupts the call.
    """
    is_cancelled = False

    def run() -> None:
        # If it fails, the user presses Ctrl-C again.
        with suppress(CommandError, ClientError, OSError):
            if cancel is not None:
                cancel()

    def interrupt(*_: object) -> None:
        nonlocal is_cancelled
        if cancel is None or is_cancelled:
            raise KeyboardInterrupt
        is_cancelled = True
        threading.Thread(target=run, name="cancel a turn", daemon=True).start()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with _without_echo_of_controls():
            yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _without_echo_of_controls() -> Iterator[None]:
    """Keep the terminal from writing `^C` into the view."""
    import termios

    try:
        attributes = termios.tcgetattr(sys.stdin)
    except (termios.error, OSError, ValueError):
        yield
        return
    quiet = [*attributes]
    quiet[3] &= ~termios.ECHOCTL
    termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, attributes)
