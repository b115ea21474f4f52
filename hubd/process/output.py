"""The output of a child from both pipes, in the order in which it arrived."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final, Literal

from hubd.process.patience import Patience

Stream = Literal["stdout", "stderr"]

# The pipes are not read while more than this waits for the reader. One read of the system adds
# 256 KiB at most.
READ_AHEAD_BYTES: Final = 256 * 1024


class Output:
    """Chunks of both pipes. One event loop reads the pipes, so their order is that of arrival.

    A cancelled reader loses nothing.
    """

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        # The pipes that are open.
        self._transports: dict[Stream, asyncio.ReadTransport] = {}
        self._chunks: deque[tuple[Stream, bytes]] = deque()
        # The bytes in `_chunks`.
        self._size = 0
        self._paused = False
        # Set when a chunk has come or a pipe was closed; cleared by the reader.
        self._changed = asyncio.Event()

    def open(self, stream: Stream, transport: asyncio.ReadTransport) -> None:
        """Begin with a pipe."""
        self._transports[stream] = transport

    def add(self, stream: Stream, chunk: bytes) -> None:
        """Take a chunk that was read. If the reader is too slow, both pipes wait."""
        self._chunks.append((stream, chunk))
        self._size += len(chunk)
        self._changed.set()
        if self._size > READ_AHEAD_BYTES and not self._paused:
            self._paused = True
            for transport in self._transports.values():
                transport.pause_reading()

    def close(self, stream: Stream) -> None:
        """Note that a pipe is closed."""
        del self._transports[stream]
        self._changed.set()

    def discard(self) -> None:
        """Drop all chunks, because no reader is left."""
        self._chunks.clear()

    async def read(self) -> AsyncGenerator[tuple[Stream, bytes], None]:
        """Yield the chunks until both pipes are closed."""
        while True:
            while self._chunks:
                stream, chunk = self._chunks.popleft()
                self._size -= len(chunk)
                yield stream, chunk
            if not self._transports:
                return
            self._resume()
            self._changed.clear()
            if not await self._patience.wait_for(self._changed.wait(), at_end=False):
                return

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            for transport in self._transports.values():
                transport.resume_reading()
