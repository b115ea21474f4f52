"""The frames to send on one connection, gathered into few writes, with backpressure."""

import asyncio
from collections.abc import Callable
from typing import Final

from hubd.rpc.connection import MAX_UNSENT_BYTES
from hubd.rpc.flushes import Flushes

# The frames of one turn of the event loop share a write of at most about this size.
FLUSH_BYTES: Final = 64 * 1024
# Appends a message with its framing to a list, and returns the number of bytes.
AddFrame = Callable[[list[bytes], bytes], int]
# No more requests are read from a client with this much unsent.
MAX_UNREAD_REPLIES_BYTES: Final = 4 * MAX_UNSENT_BYTES


class Outbox:
    """The `FrameWriter` of a connection. All frames of one turn of the event loop are one write.

    Args:
        transport: The connection.
        add_frame: Appends a message with its framing to a list, and returns the number of bytes.
        flushes: Calls `flush_scheduled` and `flush_held`, for the outboxes of all connections.
    """

    def __init__(self, transport: asyncio.Transport, add_frame: AddFrame, flushes: Flushes) -> None:
        transport.set_write_buffer_limits(high=MAX_UNSENT_BYTES)
        self._transport = transport
        self._add_frame = add_frame
        self._flushes = flushes
        # Pieces of frames that the transport does not have yet.
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        # Whether frames wait for `flush_scheduled` in the next turn.
        self._is_scheduled = False
        # The tick of `flushes` at which the first of the pending frames was held, and whether
        # `flush_held` is going to be called.
        self._held_since = 0
        self._is_timed = False
        # Set while the transport's buffer is full; methods wait then.
        self.is_full = False
        # Set when the peer is closing or gone; later frames are dropped.
        self.is_closing = False
        self._is_closed = False
        # Whether a frame was dropped.
        self._dropped = False
        self._waiters: list[asyncio.Future[None]] = []
        # Futures to set when the kernel has all bytes. While there is one, any unsent byte pauses.
        self._deliveries: list[asyncio.Future[bool]] = []

    def write(self, *messages: bytes) -> None:
        """Queue messages, each as a frame."""
        if self.is_closing:
            self._dropped = True
            return
        for message in messages:
            self._pending_bytes += self._add_frame(self._pending, message)
        self.flush_soon()

    def hold(self, *messages: bytes) -> None:
        """Queue messages that are sent together with the next ones, or after a moment."""
        if self.is_closing:
            self._dropped = True
            return
        if not self._pending:
            self._held_since = self._flushes.tick
        for message in messages:
            self._pending_bytes += self._add_frame(self._pending, message)
        if not self._is_timed:
            self._is_timed = True
            self._flushes.later(self)

    def write_framed(self, data: bytes) -> None:
        """Queue bytes with their framing, or of the framing itself."""
        if self._is_closed:
            return
        self._pending.append(data)
        self._pending_bytes += len(data)
        self.flush_soon()

    def flush_soon(self) -> None:
        """Pass the frames to the transport in the next turn, or now if they are many."""
        if self._pending_bytes >= FLUSH_BYTES:
            self.flush()
        elif not self._is_scheduled:
            self._is_scheduled = True
            self._flushes.soon(self)

    def flush(self) -> None:
        """Pass all frames to the transport now."""
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        self._pending_bytes = 0
        self._is_scheduled = False
        self._transport.write(b"".join(pending))
        if self.is_full and self._transport.get_write_buffer_size() > MAX_UNREAD_REPLIES_BYTES:
            # Methods wait, but replies to requests cannot, so no more requests are read.
            self._transport.pause_reading()

    def flush_scheduled(self) -> None:
        """Flush, unless only frames wait that were held after a flush."""
        if self._is_scheduled:
            self._is_scheduled = False
            self.flush()

    def flush_held(self, before: int) -> bool:
        """Pass the frames to the transport if the first one was held before a tick.

        Returns:
            Whether frames still wait.
        """
        # If the write fails, later messages need the timer.
        self._is_timed = False
        if self._held_since < before:
            self.flush()
        self._is_timed = bool(self._pending)
        return self._is_timed

    async def drain(self) -> None:
        """Wait while the peer reads too slowly."""
        while self.is_full:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def report_delivery(self, handed_over: asyncio.Future[bool]) -> None:
        """Set the future when the kernel has all bytes; to False if the peer closes before."""
        self.flush()
        if self._is_closed or self._dropped or self._transport.is_closing():
            # A failed write closes the transport, and the buffer is empty then.
            handed_over.set_result(False)
        elif self._transport.get_write_buffer_size() == 0:
            handed_over.set_result(True)
        else:
            self._deliveries.append(handed_over)
            self._transport.set_write_buffer_limits(high=0)

    def pause(self) -> None:
        """Make methods wait, because the transport's buffer is full."""
        self.is_full = not self._is_closed

    def resume(self) -> None:
        """Let methods write again."""
        self.is_full = False
        self._transport.resume_reading()
        if self._deliveries:
            self._transport.set_write_buffer_limits(high=MAX_UNSENT_BYTES)
            self._settle_deliveries(delivered=True)
        self._wake()

    def refuse_frames(self) -> None:
        """Drop all frames that follow, because the peer is closing."""
        self.is_closing = True

    def close(self) -> None:
        """Drop all frames, because the peer is gone."""
        self.is_closing = self._is_closed = True
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
