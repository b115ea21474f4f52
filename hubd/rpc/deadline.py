"""The deadline for the rest of an incomplete message."""

import asyncio
from collections.abc import Callable

from hubd.wire.jsonrpc import Incomplete, Malformed


class Deadline:
    """Refuses a client if its message is not complete in time."""

    def __init__(self, seconds: float, refuse: Callable[[Malformed], None]) -> None:
        self._seconds = seconds
        self._refuse = refuse
        self._loop = asyncio.get_running_loop()
        # The time of the first byte of an incomplete message; None without one.
        self._began: float | None = None
        # One timer serves all messages of a deadline.
        self._timer: asyncio.TimerHandle | None = None

    def note(self, *, is_unfinished: bool, is_new: bool) -> None:
        """Update the deadline after bytes have arrived.

        Args:
            is_unfinished: Whether a message is incomplete.
            is_new: Whether these bytes completed another message, so this one is new.
        """
        if not is_unfinished:
            self._began = None
        elif is_new or self._began is None:
            self._began = self._loop.time()
            if self._timer is None:
                self._timer = self._loop.call_later(self._seconds, self._expire)

    def stop(self) -> None:
        """Cancel the deadline."""
        self._began = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        if self._began is None:
            return
        due = self._began + self._seconds
        if due > self._loop.time():
            self._timer = self._loop.call_at(due, self._expire)
        else:
            self._refuse(Incomplete(self._seconds))
