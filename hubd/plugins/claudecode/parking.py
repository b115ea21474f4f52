"""Park chats that wait for an approval for a long time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from hubd.plugins.claudecode.chat import Chat

# Seconds until the next attempt to park a chat whose other calls still run.
AGAIN_SECONDS: Final = 5.0


class Parking:
    """The timers of chats that wait for approvals, by stream.

    Args:
        seconds: Seconds that a chat waits before its program ends.
        spawn: Runs a coroutine as a task of the queue.
    """

    def __init__(self, seconds: float, spawn: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._seconds = seconds
        self._spawn = spawn
        self._timers: dict[int, asyncio.TimerHandle] = {}

    def update(self, stream: int, chat: Chat) -> None:
        """Start the timer of a chat that waits; stop that of a chat that does not."""
        if not chat.questions.is_waiting:
            self.stop(stream)
        elif stream not in self._timers:
            self._start(stream, chat, self._seconds)

    def stop(self, stream: int) -> None:
        """Stop the timer of a chat, if there is one."""
        timer = self._timers.pop(stream, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """Stop all timers."""
        for stream in list(self._timers):
            self.stop(stream)

    def _start(self, stream: int, chat: Chat, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._timers[stream] = loop.call_later(
            seconds, lambda: self._spawn(self._park(stream, chat))
        )

    async def _park(self, stream: int, chat: Chat) -> None:
        if not await chat.park() and stream in self._timers:
            self._start(stream, chat, min(self._seconds, AGAIN_SECONDS))
