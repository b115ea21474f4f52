"""The deadline of a message that has begun to arrive. A client can't hold one open forever."""

import asyncio
from collections.abc import Callable

from hubd.wire.jsonrpc import Incomplete, Malformed


class Deadline:
    """Refuses a client whose message is not complete in time."""

    def __init__(self, seconds: float, refuse: Callable[[Malformed], None]) -> None:
        self._seconds = seconds
        self._refuse = refuse
        self._loop = asyncio.get_running_loop()
        # When the unfinished message began to arrive; None if there is none.
        self._began: float | None = None
        # Armed at most once per deadline, however many messages come.
        self._timer: asyncio.TimerHandle | None = None

    def note(self, *, is_unfinished: bool, is_new: bool) -> None:
        """Note what has arrived.

        Args:
            is_unfinished: A message has begun and is not complete.
            is_new: An earlier message was completed, so this one began just now.
        """
        if not is_unfinished:
            self._began = None
        elif is_new or self._began is None:
            self._began = self._loop.time()
            if self._timer is None:
                self._timer = self._loop.call_later(self._seconds, self._expire)

    def stop(self) -> None:
        """End the waiting."""
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
