"""The running calls of all clients: owns their tasks and ends them in bounded time."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from hubd.errors import Cancelled
from hubd.plexus.dispatch import Call

log = logging.getLogger(__name__)

# The longest time for a plugin's `finally` after its call was cancelled.
CLEANUP_SECONDS: Final = 5.0
# Seconds in which running calls may finish when the daemon stops.
GRACE_SECONDS: Final = 1.0
# Seconds for the clean-up of the calls that are cancelled after that.
CANCEL_SECONDS: Final = 3.0


class RunningCall:
    """A call in a task, which may outlive the connection that started it."""

    __slots__ = ("_ended", "_running", "call", "task")

    def __init__(
        self,
        call: Call,
        running: set["RunningCall"],
        ended: Callable[["RunningCall"], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.call = call
        # All running calls; this one removes itself at its end.
        self._running = running
        self._ended = ended
        running.add(self)
        call.over = self._finish
        # `create_task` would look up the loop and a factory for each call.
        self.task = call.task = asyncio.Task(call.run(), loop=loop)

    def cancel(self, reason: str | None = None) -> None:
        """Cancel the call. Its stream ends in bounded time, even if the plugin keeps running."""
        if reason is not None:
            self.call.cancel_reason = reason
        if self.task.cancelling():
            return  # A second cancellation would interrupt the plugin's clean-up.
        self.task.cancel()
        if self.call.is_started:
            asyncio.get_running_loop().call_later(CLEANUP_SECONDS, self._give_up)
        elif not self.call.ended:
            # The task ends before its first step, so nothing else ends the call.
            self.call.fail(Cancelled(self.call.cancel_reason))
            self._finish()

    def _finish(self) -> None:
        # Without this, the call and its task would wait for the garbage collector.
        self.call.over = None
        self._running.discard(self)
        self._ended(self)

    def _give_up(self) -> None:
        if not self.task.done():
            log.warning(
                "%s did not stop within %g s of being cancelled", self.call.method, CLEANUP_SECONDS
            )
            self.call.fail(Cancelled(self.call.cancel_reason))


class Calls:
    """All calls of the daemon."""

    def __init__(self) -> None:
        # Each entry is removed when its task ends.
        self._running: set[RunningCall] = set()
        # Called at the start of each call.
        self.started: Callable[[], None] | None = None
        # The loop of all calls; set by the first one.
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def are_running(self) -> bool:
        """Whether a call runs."""
        return bool(self._running)

    def start(self, call: Call, ended: Callable[[RunningCall], None]) -> RunningCall:
        """Run a call; `ended` is called when it is over."""
        if self.started is not None:
            self.started()
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return RunningCall(call, self._running, ended, self._loop)

    async def end(self) -> None:
        """Let calls finish for a moment, then cancel the rest. Takes bounded time."""
        if self._running:
            await asyncio.wait([one.task for one in self._running], timeout=GRACE_SECONDS)
        for one in list(self._running):
            one.cancel("the daemon is stopping")
        if self._running:
            tasks = [one.task for one in self._running]
            _, late = await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
            if late:
                log.warning("%d calls did not stop in time", len(late))
