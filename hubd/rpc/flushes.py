"""Schedule the flushes of all connections with as few callbacks as possible."""

import asyncio
import logging
from typing import Final, Protocol

log = logging.getLogger(__name__)

# A held frame waits for the next one for at least this long, and at most twice as long. Shorter
# than a person notices, and longer than most calls take, so that reply and items of a call are
# one write, even if many clients call at the same time.
HOLD_SECONDS: Final = 0.01


class Flushable(Protocol):
    """The frames to send on one connection."""

    def flush_scheduled(self) -> None:
        """Send the queued frames, unless they were sent since `Flushes.soon`."""

    def flush_held(self, before: int) -> bool:
        """Send the queued frames if they were held before a tick.

        Returns:
            Whether held frames still wait.
        """


class Flushes:
    """Flushes the outboxes of all connections.

    A callback for each outbox, or a timer for each held frame, would take longer than the
    rest of the work on a frame. An outbox that was flushed meanwhile stays in these lists, because
    removing it would take longer than asking it.
    """

    def __init__(self) -> None:
        # Outboxes to flush in the next turn of the event loop.
        self._soon: list[Flushable] = []
        # Outboxes that have held frames since the timer was started, or had some.
        self._held: list[Flushable] = []
        # Counts the expiries of the timer.
        self.tick = 0
        self._is_timing = False

    def soon(self, outbox: Flushable) -> None:
        """Flush an outbox in the next turn."""
        if not self._soon:
            asyncio.get_running_loop().call_soon(self._flush_soon)
        self._soon.append(outbox)

    def later(self, outbox: Flushable) -> None:
        """Flush the held frames of an outbox after `HOLD_SECONDS`."""
        self._held.append(outbox)
        if not self._is_timing:
            self._start_timer()

    def _flush_soon(self) -> None:
        outboxes, self._soon = self._soon, []
        for outbox in outboxes:
            try:
                outbox.flush_scheduled()
            except Exception:  # The others must be flushed nevertheless.
                log.exception("cannot send to a client")

    def _flush_held(self) -> None:
        self.tick += 1
        outboxes, self._held = self._held, []
        self._is_timing = False
        for outbox in outboxes:
            try:
                if outbox.flush_held(self.tick - 1):
                    self._held.append(outbox)
            except Exception:
                log.exception("cannot send to a client")
        if self._held:
            self._start_timer()

    def _start_timer(self) -> None:
        self._is_timing = True
        asyncio.get_running_loop().call_later(HOLD_SECONDS, self._flush_held)
