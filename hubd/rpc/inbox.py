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
        # Whether all messages wait until `release`.
        self._is_held = False

    def begin_turn(self) -> None:
        """Start a turn, because bytes have arrived."""
        if not self._waiting:
            self._turn_began = perf_counter()

    def put(self, message: bytes) -> None:
        """Pass a message on now, or in the client's next turn."""
        can_start = not self._waiting and not self._is_held
        if can_start and perf_counter() - self._turn_began < TURN_SECONDS:
            self._take(message)
            return
        if can_start:
            self._loop.call_soon(self._continue)
        self._waiting.append(message)
        self._transport.pause_reading()

    def put_only(self, message: bytes) -> None:
        """Start a turn that has one message, and pass the message on."""
        if self._waiting or self._is_held:
            self.put(message)
        else:
            self._take(message)

    def hold(self) -> None:
        """Let all further messages wait until `release`."""
        self._is_held = True

    def release(self) -> None:
        """Pass messages on again."""
        self._is_held = False
        self._continue()

    def clear(self) -> None:
        """Drop the waiting messages, because the connection ends."""
        self._waiting.clear()

    def _continue(self) -> None:
        self._turn_began = perf_counter()
        while self._waiting and not self._is_held:
            # The message stays in the queue while it is handled, so that new ones wait behind it.
            self._take(self._waiting[0])
            if self._waiting:
                self._waiting.popleft()
            if self._waiting and perf_counter() - self._turn_began > TURN_SECONDS:
                self._loop.call_soon(self._continue)
                return
        if not self._is_held and not self._transport.is_closing():
            self._transport.resume_reading()
