"""The messages of a call in order, some of them read ahead while a question is open."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

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
        # The reasons of withdrawn questions that were read ahead, by the questions' ids.
        self._closed: dict[str, str] = {}
        # Set when the end of the call was read ahead.
        self._ended: str | None = None

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
                message = self._connection.receive()
                self._ahead.append(message)
                self._note(item_of(message) or {})
        return self._closed.get(request_id) or self._ended

    def _note(self, item: dict[str, Any]) -> None:
        """Note an item that withdraws a question."""
        kind = item.get("type")
        if kind == "request_closed":
            reason = str(item.get("reason") or "the method continues without it")
            self._closed[str(item.get("requestId"))] = reason
        elif kind in ("error", "done"):
            self._ended = "the call has ended"
