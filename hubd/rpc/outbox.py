"""The frames to send on one connection, gathered into few writes, with backpressure."""

import asyncio
from collections.abc import Callable
from typing import Final

from hubd.rpc.connection import MAX_UNSENT_BYTES
from hubd.rpc.flushes import Flushes

# The frames of one turn of the event loop share a write of at most about this size.
FLUSH_BYTES: Final = 64 * 1024
# No more requests are read from a client with this much unsent.
MAX_UNREAD_REPLIES_BYTES: Final = 4 * MAX_UNSENT_BYTES


class Outbox:
    """The `FrameWriter` of a connection. All frames of one turn of the event loop are one write.

    Args:
        transport: The connection.
        enframe: Returns a message with its framing.
        flushes: Calls `flush`, for the outboxes of all connections.
    """

    def __init__(
        self, transport: asyncio.Transport, enframe: Callable[[bytes], bytes], flushes: Flushes
    ) -> None:
        transport.set_write_buffer_limits(high=MAX_UNSENT_BYTES)
        self._transport = transport
        self._enframe = enframe
        self._flushes = flushes
        # Frames that the transport does not have yet.
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        # Whether `flush` is going to be called in the next turn.
        self._is_scheduled = False
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

    def write(self, frame: bytes) -> None:
        """Queue a frame."""
        if self.is_closing:
            self._dropped = True
        else:
            self.write_framed(self._enframe(frame))

    def hold(self, frame: bytes) -> None:
        """Queue a frame that is sent together with the next one, or after a moment."""
        if self.is_closing:
            self._dropped = True
            return
        framed = self._enframe(frame)
        self._pending.append(framed)
        self._pending_bytes += len(framed)
        if not self._is_scheduled:
            self._flushes.later(self)

    def write_framed(self, data: bytes) -> None:
        """Queue bytes with their framing, or of the framing itself."""
        if self._is_closed:
            return
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes >= FLUSH_BYTES:
            self.flush()
        elif not self._is_scheduled:
            self._is_scheduled = True
            self._flushes.soon(self)

    def flush(self) -> None:
        """Pass all frames to the transport now."""
        if not self._pending:
            return
        self._flushes.forget(self)
        self._is_scheduled = False
        self._transport.write(b"".join(self._pending))
        self._pending.clear()
        self._pending_bytes = 0
        if self.is_full and self._transport.get_write_buffer_size() > MAX_UNREAD_REPLIES_BYTES:
            # Methods wait, but replies to requests cannot, so no more requests are read.
            self._transport.pause_reading()

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
        self._flushes.forget(self)
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
