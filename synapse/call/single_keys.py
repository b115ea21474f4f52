"""Read single keys from the terminal, and leave it as it was in any case."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Ctrl-D, which the terminal does not turn into an end of input while it passes single keys on.
END_OF_INPUT = b"\x04"

# The signals that end or stop the process and leave a terminal as it is.
_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)


class NoKeys(Exception):
    """Standard input is not a terminal that can pass on single keys."""


@contextmanager
def single_keys() -> Iterator[Callable[[], None]]:
    """Let the terminal pass on each key without Enter, and not echo it; Ctrl-C works as always.

    The settings come back at the end, on an exception, and before a signal ends or stops the
    process.

    Yields:
        A function that makes the settings again, if another program has changed them meanwhile.

    Raises:
        NoKeys: Standard input is not such a terminal.
    """
    import termios

    try:
        before = termios.tcgetattr(0)
    except termios.error:
        raise NoKeys from None
    settings = [*before]
    settings[3] &= ~(termios.ICANON | termios.ECHO)
    settings[6] = [*before[6]]
    settings[6][termios.VMIN], settings[6][termios.VTIME] = 1, 0

    def set_keys() -> None:
        if termios.tcgetattr(0)[3] & termios.ICANON:
            termios.tcsetattr(0, termios.TCSANOW, settings)

    def restore() -> None:
        # The terminal may be gone.
        with suppress(termios.error):
            termios.tcsetattr(0, termios.TCSANOW, before)

    def leave(number: int, _: object) -> None:
        """Restore the terminal, and let the signal have its usual effect."""
        restore()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        # Here the process continues after it was stopped.
        signal.signal(number, leave)

    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    # A signal that is ignored, as by `nohup`, stays so.
    handlers = {number: each for number, each in handlers.items() if each == signal.SIG_DFL}
    try:
        for number in handlers:
            signal.signal(number, leave)
        set_keys()
        yield set_keys
    finally:
        restore()
        for number in handlers:
            signal.signal(number, signal.SIG_DFL)
