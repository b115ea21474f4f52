"""The pipes of a child process, and the lines that it writes to them."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final, cast

from hubd.process.lines import LineSplitter
from hubd.process.output import Output
from hubd.process.patience import Patience

# A child is at most twice this and one read of the system ahead of its reader.
READ_AHEAD_BYTES: Final = 64 * 1024
# Enough for a stack trace. The reason for an end is at the end.
STDERR_TAIL_BYTES: Final = 16 * 1024

log = logging.getLogger(__name__)


class Pipes(asyncio.SubprocessProtocol):
    """Receives the events of a child process from asyncio.

    It replaces `asyncio.create_subprocess_exec`: there, `wait` also waits for every process that
    inherited the pipes, and `send_signal` can lose the exit status.
    """

    def __init__(self, *, stderr_lines: bool, output: Output | None) -> None:
        self.stdout = asyncio.StreamReader(limit=READ_AHEAD_BYTES)
        # Read if the plugin wants lines; otherwise only the tail is kept.
        self.stderr = asyncio.StreamReader(limit=READ_AHEAD_BYTES)
        self._stderr_lines = stderr_lines
        # Takes both outputs instead of the readers above, if the plugin wants them together.
        self._output = output
        self.stderr_tail = bytearray()
        self.stderr_ended = asyncio.Event()
        # Clear while the system has not taken all input.
        self.writable = asyncio.Event()
        self.writable.set()
        # Set when the child has ended, even if other processes hold its pipes.
        self.exited = asyncio.Event()
        # Set when the child has ended and all pipes are closed.
        self.closed = asyncio.Event()
        # True once the output has no reader.
        self._discarding = False
        self._stdin: asyncio.WriteTransport
        self._outputs: list[asyncio.ReadTransport]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        child = cast(asyncio.SubprocessTransport, transport)
        self._stdin = cast(asyncio.WriteTransport, child.get_pipe_transport(0))
        # uvloop refuses this for the pipe of a child that has ended already.
        with suppress(RuntimeError):
            self._stdin.set_write_buffer_limits(high=0)
        stdout = cast(asyncio.ReadTransport, child.get_pipe_transport(1))
        stderr = cast(asyncio.ReadTransport, child.get_pipe_transport(2))
        self._outputs = [stdout, stderr]
        self.stdout.set_transport(stdout)
        self.stderr.set_transport(stderr)
        if self._output is not None:
            self._output.open("stdout", stdout)
            self._output.open("stderr", stderr)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.stderr_tail += data
            del self.stderr_tail[:-STDERR_TAIL_BYTES]
        if self._discarding:
            return
        if self._output is not None:
            self._output.add("stdout" if fd == 1 else "stderr", data)
        elif fd == 1:
            self.stdout.feed_data(data)
        elif self._stderr_lines:
            self.stderr.feed_data(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd and self._output is not None:
            self._output.close("stdout" if fd == 1 else "stderr")
        if fd == 0:
            self.writable.set()
        elif fd == 1:
            self.stdout.feed_eof()
        else:
            self.stderr.feed_eof()
            self.stderr_ended.set()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()

    def discard_output(self) -> None:
        """Drop all further output, so that a full pipe does not keep the child from ending."""
        self._discarding = True
        if self._output is not None:
            self._output.discard()
        for output in self._outputs:
            output.resume_reading()

    def abandon_input(self) -> None:
        """Drop input that the child has not read; closing alone would wait for the child."""
        if self._stdin.get_write_buffer_size():
            self._stdin.abort()


class Lines:
    """The lines of one output of a child. A cancelled reader loses none of them.

    Args:
        stream: The output.
        limit: The maximum size of a line in bytes.
        patience: The limit of each wait for output.
    """

    def __init__(self, stream: asyncio.StreamReader, limit: int, patience: Patience) -> None:
        self._stream = stream
        self._patience = patience
        self._splitter = LineSplitter(limit, self._report_too_long)
        # Lines that were read and not taken.
        self._ready: deque[bytes] = deque()
        self._at_end = False

    async def read(self) -> AsyncGenerator[bytes, None]:
        """Yield the lines until the output is closed, without blank ones."""
        while True:
            while self._ready:
                yield self._ready.popleft()
            if self._at_end:
                return
            read = self._stream.read(READ_AHEAD_BYTES)
            if chunk := await self._patience.wait_for(read, at_end=b""):
                self._ready.extend(self._splitter.feed(chunk))
            else:
                self._at_end = True
                self._ready.extend(self._splitter.finish())

    def _report_too_long(self, size: int) -> None:
        log.error(
            "%s wrote a line of %d bytes; it is skipped",
            self._patience.name,
            size,
            extra=self._patience.extra,
        )
