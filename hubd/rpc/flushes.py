"""Schedule the flushes of all connections with as few callbacks as possible."""

import asyncio
from typing import Final, Protocol

# A held frame waits for the next one for at least this long, and at most twice as long. Shorter
# than a person notices, and longer than most calls take, so that reply and items of a call are
# one write, even if many clients call at the same time.
HOLD_SECONDS: Final = 0.01


class Flushable(Protocol):
    """The frames to send on one connection."""

    def flush(self) -> None:
        """Send the queued frames now."""


class Flushes:
    """Flushes the outboxes of all connections.

    A callback for each outbox, or a timer for each held frame, would take longer than the
    rest of the work on a frame.
    """

    def __init__(self) -> None:
        # Outboxes to flush in the next turn of the event loop, and whether there will be one.
        self._soon: set[Flushable] = set()
        self._is_scheduled = False
        # Outboxes with frames that were held since the timer fired last, and before that.
        self._held: set[Flushable] = set()
        self._held_before: set[Flushable] = set()
        self._is_timing = False

    def soon(self, outbox: Flushable) -> None:
        """Flush an outbox in the next turn, unless it is flushed before."""
        self._soon.add(outbox)
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush_soon)

    def later(self, outbox: Flushable) -> None:
        """Flush an outbox after `HOLD_SECONDS`, unless it is flushed before."""
        self._held.add(outbox)
        if not self._is_timing:
            self._is_timing = True
            asyncio.get_running_loop().call_later(HOLD_SECONDS, self._flush_held)

    def forget(self, outbox: Flushable) -> None:
        """Note that an outbox was flushed. Frames that it holds later wait their full time."""
        self._soon.discard(outbox)
        self._held.discard(outbox)
        self._held_before.discard(outbox)

    def _flush_soon(self) -> None:
        self._is_scheduled = False
        for outbox in list(self._soon):
            outbox.flush()

    def _flush_held(self) -> None:
        for outbox in list(self._held_before):
            outbox.flush()
        self._held_before, self._held = self._held, self._held_before
        self._is_timing = bool(self._held_before)
        if self._is_timing:
            asyncio.get_running_loop().call_later(HOLD_SECONDS, self._flush_held)
