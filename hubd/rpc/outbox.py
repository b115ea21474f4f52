"""The frames to send on one connection, gathered into few writes, with backpressure."""

import asyncio
from collections.abc import Callable
from typing import Final

from hubd.rpc.connection import MAX_UNSENT_BYTES

# The frames of one turn of the event loop share a write of at most about this size.
FLUSH_BYTES: Final = 64 * 1024
# The longest time that a held frame waits for the next one. Shorter than a person or a program
# notices, and longer than most calls take, so that reply and items of a call are one write.
HOLD_SECONDS: Final = 0.003
# No more requests are read from a client with this much unsent.
MAX_UNREAD_REPLIES_BYTES: Final = 4 * MAX_UNSENT_BYTES


class Outbox:
    """The `FrameWriter` of a connection. All frames of one turn of the event loop are one write."""

    def __init__(self, transport: asyncio.Transport, enframe: Callable[[bytes], bytes]) -> None:
        transport.set_write_buffer_limits(high=MAX_UNSENT_BYTES)
        self._transport = transport
        self._enframe = enframe
        self._loop = asyncio.get_running_loop()
        # Frames that the transport does not have yet.
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._scheduled = False
        # Sends held frames; one timer serves all that are held until it fires.
        self._hold_timer: asyncio.TimerHandle | None = None
        # Set while the transport's buffer is full; methods wait then.
        self.is_full = False
        # Set when the peer is gone; later frames are dropped.
        self._closed = False
        self._waiters: list[asyncio.Future[None]] = []
        # Futures to set when the kernel has all bytes. While there is one, any unsent byte pauses.
        self._deliveries: list[asyncio.Future[bool]] = []
        # Whether a frame was dropped because the peer is closing.
        self._dropped = False

    def write(self, frame: bytes) -> None:
        """Queue a frame."""
        if self._closed:
            return
        self.write_framed(self._frame(frame))

    def hold(self, frame: bytes) -> None:
        """Queue a frame that is sent together with the next one, or after `HOLD_SECONDS`."""
        if self._closed:
            return
        self._append(self._frame(frame))
        if self._hold_timer is None and not self._scheduled:
            self._hold_timer = self._loop.call_later(HOLD_SECONDS, self._send_held)

    def write_framed(self, data: bytes) -> None:
        """Queue bytes of the framing itself."""
        if self._closed:
            return
        self._append(data)
        if self._pending_bytes >= FLUSH_BYTES:
            self.flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def _frame(self, frame: bytes) -> bytes:
        framed = self._enframe(frame)
        self._dropped = self._dropped or not framed
        return framed

    def _append(self, data: bytes) -> None:
        self._pending.append(data)
        self._pending_bytes += len(data)

    def _send_held(self) -> None:
        self._hold_timer = None
        self.flush()

    def flush(self) -> None:
        """Pass all frames to the transport now."""
        self._scheduled = False
        if self._pending and not self._closed:
            self._transport.write(b"".join(self._pending))
            if self.is_full and self._transport.get_write_buffer_size() > MAX_UNREAD_REPLIES_BYTES:
                # Methods wait, but replies to requests cannot, so no more requests are read.
                self._transport.pause_reading()
        self._pending.clear()
        self._pending_bytes = 0

    async def drain(self) -> None:
        """Wait while the peer reads too slowly."""
        while self.is_full:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def report_delivery(self, handed_over: asyncio.Future[bool]) -> None:
        """Set the future when the kernel has all bytes; to False if the peer closes before."""
        self.flush()
        if self._closed or self._dropped or self._transport.is_closing():
            # A failed write closes the transport, and the buffer is empty then.
            handed_over.set_result(False)
        elif self._transport.get_write_buffer_size() == 0:
            handed_over.set_result(True)
        else:
            self._deliveries.append(handed_over)
            self._transport.set_write_buffer_limits(high=0)

    def pause(self) -> None:
        """Make methods wait, because the transport's buffer is full."""
        self.is_full = not self._closed

    def resume(self) -> None:
        """Let methods write again."""
        self.is_full = False
        self._transport.resume_reading()
        if self._deliveries:
            self._transport.set_write_buffer_limits(high=MAX_UNSENT_BYTES)
            self._settle_deliveries(delivered=True)
        self._wake()

    def close(self) -> None:
        """Drop all frames, because the peer is gone."""
        self._closed = True
        if self._hold_timer is not None:
            self._hold_timer.cancel()
        self.is_full = False
        self._pending.clear()
        self._settle_deliveries(delivered=False)
        self._wake()

    def _settle_deliveries(self, *, delivered: bool) -> None:
        for handed_over in self._deliveries:
            if not handed_over.done():
                handed_over.set_result(delivered)
        self._deliveries.clear()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
