"""The received messages of one client, handled in short turns so that other clients wait little."""

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final

# The length of one turn.
TURN_SECONDS: Final = 0.002


class Inbox:
    """Passes messages on in order. While some wait, no more bytes are read from the client."""

    def __init__(self, transport: asyncio.Transport, take: Callable[[bytes], None]) -> None:
        self._transport = transport
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._turn_began = 0.0
        # Messages that wait for the next turn. Empty for nearly all clients.
        self._waiting: deque[bytes] = deque()

    def begin_turn(self) -> None:
        """Start a turn, because bytes have arrived."""
        if not self._waiting:
            self._turn_began = perf_counter()

    def put(self, message: bytes) -> None:
        """Pass a message on now, or in the client's next turn."""
        if not self._waiting and perf_counter() - self._turn_began < TURN_SECONDS:
            self._take(message)
            return
        if not self._waiting:
            self._loop.call_soon(self._continue)
        self._waiting.append(message)
        self._transport.pause_reading()

    def hold(self) -> None:
        """Let all messages wait until `release`. No message may be waiting yet."""
        # It is never passed on, and others wait behind it.
        self._waiting.append(b"")

    def release(self) -> None:
        """Pass messages on again, unless they were dropped."""
        if self._waiting:
            self._waiting.popleft()
            self._continue()

    def clear(self) -> None:
        """Drop the waiting messages, because the connection ends."""
        self._waiting.clear()

    def _continue(self) -> None:
        self._turn_began = perf_counter()
        while self._waiting:
            # The message stays in the queue while it is handled, so that new ones wait behind it.
            self._take(self._waiting[0])
            if self._waiting:
                self._waiting.popleft()
            if self._waiting and perf_counter() - self._turn_began > TURN_SECONDS:
                self._loop.call_soon(self._continue)
                return
        if not self._transport.is_closing():
            self._transport.resume_reading()
