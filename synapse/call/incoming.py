"""The messages of a call in order, some of them read ahead while a question is open."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from synapse.hub.client import item_of

if TYPE_CHECKING:
    from hubd.wire.client import Connection

# The wait for messages while the user types an answer.
READ_AHEAD_SECONDS = 0.001


class Incoming:
    """The messages of a connection, in order."""

    def __init__(self, connection: Connection, first: bytes | None = None) -> None:
        self._connection = connection
        self._ahead: deque[bytes] = deque(() if first is None else (first,))

    def receive(self, timeout: float) -> bytes:
        """Return the next message.

        Raises:
            TimeoutError: No message came in time.
        """
        if self._ahead:
            return self._ahead.popleft()
        self._connection.set_timeout(timeout)
        return self._connection.receive()

    def withdrawal(self, request_id: str) -> str | None:
        """Return the reason why a question needs no answer; None while it needs one."""
        with suppress(TimeoutError):
            self._connection.set_timeout(READ_AHEAD_SECONDS)
            while True:
                self._ahead.append(self._connection.receive())
        for message in self._ahead:
            item = item_of(message) or {}
            kind = item.get("type")
            if kind == "request_closed" and item.get("requestId") == request_id:
                return str(item.get("reason") or "it needs no answer any more")
            if kind in ("error", "done"):
                return "the call has ended"
        return None
