"""An agent's program as a child process: its pipes, its signals, its certain end.

Knows what is said to the program and nothing of what it answers: lines come out as bytes.
"""

import asyncio
import json
import logging
import os
import shutil
import signal
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, cast
from uuid import uuid4

from hubd.errors import Timeout, Unavailable
from hubd.plugins.claudecode.program.process_tree import (
    KILL_SECONDS,
    MARK_VARIABLE,
    TERM_SECONDS,
    Identity,
    identity,
    kill_family,
    parent_death_signal,
    send_signal,
)
from hubd.plugins.claudecode.protocol.lines import LineSplitter

# A tool's output of 50 MB is real, and its line holds it twice.
MAX_LINE_BYTES: Final = 128 * 1024 * 1024
# What is read ahead of the consumer is at most twice this and one read of the system.
READ_AHEAD_BYTES: Final = 64 * 1024
# Enough for a stack trace; what explains an end stands at the end.
STDERR_TAIL_BYTES: Final = 16 * 1024

# `claude` reads its input at any time, in the middle of a turn too: one that does not, hangs.
SEND_SECONDS: Final = 10.0
# An idle `claude` ends 0.03 s after its input; one in the middle of a turn goes on with it.
EOF_SECONDS: Final = 0.5
# All that held the pipes is dead; only something that hid from us could still write.
LINGER_SECONDS: Final = 1.0

log = logging.getLogger("hubd.claudecode")


class ChildProcess:
    """Runs a command with JSON lines on both pipes, for as long as the block runs.

    Leaving the block ends the child and everything that it started, whatever happens, within
    the sum of the bounds here and in process_tree.py. Also when the child ends by itself, what it
    leaves is ended. Enter it in a thread that lives as long as hubd: the system takes the end of
    that thread for the end of hubd.

    Args:
        command: The program, looked for on the PATH of `env`, and its arguments.
        cwd: Where it runs.
        env: Its whole environment; only the mark is added.
        mark: A text that no other child on the machine has, such as a stream's UUID: all who
            bear it are ended together. Made up if not given.
        max_line_bytes: Longer lines are logged and skipped.
        silence_seconds: How long `lines` waits for the next output; for ever if not given.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        mark: str | None = None,
        max_line_bytes: int = MAX_LINE_BYTES,
        silence_seconds: float | None = None,
    ) -> None:
        self.mark = mark or uuid4().hex
        self._command = list(command)
        self._cwd = cwd
        self._silence_seconds = silence_seconds
        self._env = {**env, MARK_VARIABLE: self.mark}
        # Set when the block is entered, and never again.
        self._pipes: _Pipes
        self._transport: asyncio.SubprocessTransport
        self._identity: Identity
        self._watcher: asyncio.Task[None]
        # Set by the first `end`; all others wait for the same task. Replaced if it is cancelled.
        self._ending: asyncio.Task[None] | None = None
        # What has been read and not been asked for; kept here, so that a reader that is
        # cancelled loses nothing.
        self._splitter = LineSplitter(max_line_bytes, self._report_too_long)
        self._ready: deque[bytes] = deque()
        self._at_end = False
        # Set while a reader waits for the pipe.
        self._reading: asyncio.Timeout | None = None

    async def __aenter__(self) -> Self:
        """Start the child.

        Raises:
            Unavailable: The program is not there, or cannot be started here.
        """
        self._pipes = pipes = _Pipes()
        name = self._command[0]
        try:
            transport, _ = await asyncio.get_running_loop().subprocess_exec(
                lambda: pipes,
                *parent_death_signal(),
                _find(name, self._env),
                *self._command[1:],
                cwd=self._cwd,
                env=self._env,
                # The terminal's Ctrl-C is for hubd, which ends its children in its own way.
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            # ValueError: a text that cannot be part of a command line or an environment.
            reason = error.strerror if isinstance(error, OSError) else error
            raise Unavailable(f"{name} cannot be started in {self._cwd}: {reason}") from error
        self._transport = transport
        self._identity = identity(transport.get_pid())
        self._watcher = asyncio.create_task(self._watch(), name=f"watch over {self}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the child. Nobody reads its lines any more."""
        self._pipes.discard_output()
        try:
            await self.end()
        finally:
            self._pipes.abandon_input()
            self._transport.close()
        # So that no file descriptor outlives the block.
        with suppress(TimeoutError):
            async with asyncio.timeout(KILL_SECONDS):
                await self._pipes.closed.wait()

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._transport.get_returncode()

    @property
    def stderr_tail(self) -> str:
        """The last part of what it said on stderr."""
        return self._pipes.stderr_tail.decode(errors="replace")

    def identity(self) -> Identity:
        """What `reap` needs to end this child after hubd has died."""
        return self._identity

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """The lines of stdout without their ends, until it is closed; blank ones are skipped.

        The child waits while nobody asks. Cancelling is safe: the next iteration goes on where
        this one stopped. One reader at a time.

        Raises:
            Timeout: The child printed nothing for `silence_seconds`. It still runs.
        """
        while True:
            while self._ready:
                yield self._ready.popleft()
            if self._at_end:
                return
            if chunk := await self._read():
                self._ready.extend(self._splitter.feed(chunk))
            else:
                self._at_end = True
                self._ready.extend(self._splitter.finish())

    async def send(self, message: Mapping[str, Any]) -> None:
        """Write one line of JSON, and wait until the system has taken it.

        Cancelling while it waits leaves the line to be sent.

        Raises:
            Timeout: The child does not read. Its input may hold half a line: end it.
            Unavailable: The child has closed its input, or `close_input` has.
        """
        line = json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        stdin = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._pipes.writable.wait()
                if not stdin.is_closing():
                    stdin.write(line)
                    await self._pipes.writable.wait()
        except TimeoutError:
            raise Timeout(f"the agent has not read its input for {SEND_SECONDS:g} s") from None
        if stdin.is_closing():
            raise Unavailable("the agent takes no more input")

    async def send_user(
        self, content: str | Sequence[Mapping[str, Any]], *, uuid: str | None = None
    ) -> None:
        """Send the user's message: a text, or content blocks.

        Messages that are sent while a turn runs may become one: send the next after the result.

        Raises:
            HubError: As `send`.
        """
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        message: dict[str, Any] = {
            "type": "user",
            "message": {"role": "user", "content": blocks},
        }
        await self.send(message if uuid is None else {**message, "uuid": uuid})

    async def interrupt(self, request_id: str) -> None:
        """Ask it to stop the current turn and stay; a control_response has the same id.

        Raises:
            HubError: As `send`.
        """
        request = {"subtype": "interrupt"}
        await self.send({"type": "control_request", "request_id": request_id, "request": request})

    def close_input(self) -> None:
        """Say that nothing more will be sent; an agent ends after its current turn."""
        stdin = self._transport.get_pipe_transport(0)
        if stdin is not None:
            stdin.close()

    async def wait(self) -> int:
        """The exit status, once the child has ended and `stderr_tail` is complete."""
        await self._pipes.exited.wait()
        await self._hear_last_words()
        status = self._transport.get_returncode()
        assert status is not None
        return status

    async def end(self) -> None:
        """End the child and all that it has started, politely first; nothing to do twice.

        Its last lines can still be read. A cancellation is put off until the child has ended;
        every wait inside is bounded.
        """
        cancelled: asyncio.CancelledError | None = None
        while self._ending is None or self._ending.cancelled() or not self._ending.done():
            # A loop that shuts down cancels every task, this one too; then it begins again.
            if self._ending is None or self._ending.cancelled():
                self._ending = asyncio.create_task(self._end(), name=f"end of {self}")
            try:
                await asyncio.wait([self._ending])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
        self._ending.result()

    async def _end(self) -> None:
        self.close_input()
        if not await self._exits_within(EOF_SECONDS):
            send_signal(self._identity, signal.SIGTERM)
            if not await self._exits_within(TERM_SECONDS):
                log.warning("%s ignores SIGTERM and is killed", self, extra=self._extra)
                await asyncio.to_thread(kill_family, self._identity, self.mark)
                if not await self._exits_within(KILL_SECONDS):
                    log.error("%s cannot be killed", self, extra=self._extra)
                    self._watcher.cancel()
        await asyncio.wait([self._watcher])
        if self._watcher.cancelled():
            await asyncio.to_thread(kill_family, self._identity, self.mark)
        await self._hear_last_words()

    async def _hear_last_words(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await self._pipes.stderr_ended.wait()

    async def _exits_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._pipes.exited.wait()
        return self._pipes.exited.is_set()

    async def _watch(self) -> None:
        """Once the child has ended, end what it has left: it may hold the pipes open."""
        await self._pipes.exited.wait()
        await asyncio.to_thread(kill_family, self._identity, self.mark)
        if self._reading is not None:
            self._reading.reschedule(asyncio.get_running_loop().time() + LINGER_SECONDS)

    async def _read(self) -> bytes:
        """The next part of stdout; nothing when it is closed."""
        limit = LINGER_SECONDS if self._watcher.done() else self._silence_seconds
        try:
            async with asyncio.timeout(limit) as self._reading:
                return await self._pipes.stdout.read(READ_AHEAD_BYTES)
        except TimeoutError:
            if not self._watcher.done():
                seconds = f"{self._silence_seconds:g} s"
                raise Timeout(f"the agent printed nothing for {seconds} and was ended") from None
            log.warning("%s has ended, but its output is still open", self, extra=self._extra)
            return b""
        finally:
            self._reading = None

    def _report_too_long(self, size: int) -> None:
        log.error("%s wrote a line of %d bytes; it is skipped", self, size, extra=self._extra)

    @property
    def _extra(self) -> dict[str, str]:
        return {"stream_id": self.mark}

    def __str__(self) -> str:
        return f"agent {self._identity.pid}"


class _Pipes(asyncio.SubprocessProtocol):
    """What asyncio tells about the child.

    In place of `asyncio.create_subprocess_exec`, whose `wait` also waits for everybody who has
    inherited the pipes, and whose `send_signal` can lose the exit status.
    """

    def __init__(self) -> None:
        self.stdout = asyncio.StreamReader(limit=READ_AHEAD_BYTES)
        self.stderr_tail = bytearray()
        self.stderr_ended = asyncio.Event()
        # Clear while the system has not taken all that was sent.
        self.writable = asyncio.Event()
        self.writable.set()
        # Set when the child has ended, whoever still holds its pipes.
        self.exited = asyncio.Event()
        # Set when the child has ended and all pipes are closed.
        self.closed = asyncio.Event()
        # True once nobody will read stdout any more.
        self._discarding = False
        self._stdin: asyncio.WriteTransport
        self._stdout: asyncio.ReadTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        child = cast(asyncio.SubprocessTransport, transport)
        self._stdin = cast(asyncio.WriteTransport, child.get_pipe_transport(0))
        self._stdout = cast(asyncio.ReadTransport, child.get_pipe_transport(1))
        self._stdin.set_write_buffer_limits(high=0)
        self.stdout.set_transport(self._stdout)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.stderr_tail += data
            del self.stderr_tail[:-STDERR_TAIL_BYTES]
        elif not self._discarding:
            self.stdout.feed_data(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 0:
            self.writable.set()
        elif fd == 1:
            self.stdout.feed_eof()
        else:
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
        """Let the child write, so that a full pipe does not keep it from ending."""
        self._discarding = True
        self._stdout.resume_reading()

    def abandon_input(self) -> None:
        """Drop what the child has not read; closing alone would wait for it to be read."""
        if self._stdin.get_write_buffer_size():
            self._stdin.abort()


def _find(name: str, env: Mapping[str, str]) -> str:
    program = shutil.which(name, path=env.get("PATH", os.defpath))
    if program is None:
        raise Unavailable(f"there is no program {name}")
    # It will be started in another directory.
    return str(Path(program).absolute())
