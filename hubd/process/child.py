"""A child process: its pipes, its signals, its certain end."""

import asyncio
import logging
import os
import shutil
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self, cast
from uuid import uuid4

from hubd.errors import Timeout, Unavailable
from hubd.process.guardian import GUARDIAN
from hubd.process.output import Output, Stream
from hubd.process.patience import LINGER_SECONDS, Patience
from hubd.process.pipes import Lines, Pipes
from hubd.process.tree import (
    KILL_SECONDS,
    MARK_VARIABLE,
    TERM_SECONDS,
    Identity,
    find_tree,
    identity,
    kill_tree,
    launcher,
    send_signal,
)
from hubd.wire.caller import HUB, Actor

MAX_LINE_BYTES: Final = 8 * 1024 * 1024
# Seconds for the child to read its input.
SEND_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


class ChildProcess:
    """A command that runs for as long as the block lasts.

    Leaving the block ends the child and all its descendants, within the sum of the bounds here and
    in tree.py. When the child ends by itself, its descendants are ended too. Enter the block in a
    thread that lives as long as hubd: the system takes the end of that thread for the end of hubd.

    Args:
        command: The program, looked up on the PATH of `env`, and its arguments.
        cwd: The working directory.
        env: The whole environment; only the mark is added.
        stdin: The standard input; None keeps it open for `write`.
        mark: A text that no other child on the machine has; by default a new one. All processes
            with this mark are ended together.
        name: The name of the child in messages; by default that of the program.
        actor: The actor of the calls that the child and its descendants make to this hub.
        stderr_lines: Whether `stderr_lines` is read. Otherwise only the tail of stderr is kept.
        raw_output: Whether `output` is read, instead of `lines` and `stderr_lines`.
        max_line_bytes: The maximum size of a line; longer ones are logged and skipped.
        silence_seconds: The longest wait of a reader for output; by default without limit.
        eof_seconds: Seconds that the child has to end after the end of its input, before SIGTERM.
        term_seconds: Seconds that the child has to end after SIGTERM; TERM_SECONDS by default.
        guarded: Whether all processes of the child are ended too if hubd is killed. Otherwise
            only the child gets SIGTERM then.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: bytes | None = None,
        mark: str | None = None,
        name: str | None = None,
        actor: Actor = HUB,
        stderr_lines: bool = False,
        raw_output: bool = False,
        max_line_bytes: int = MAX_LINE_BYTES,
        silence_seconds: float | None = None,
        eof_seconds: float = 0.0,
        term_seconds: float | None = None,
        guarded: bool = False,
    ) -> None:
        self.mark = mark or uuid4().hex
        self.actor = actor
        self._command = list(command)
        self._cwd = cwd
        self._env = {**env, MARK_VARIABLE: self.mark}
        self._input = stdin
        self._name = name or Path(self._command[0]).name
        self._eof_seconds = eof_seconds
        self._term_seconds = term_seconds
        self._guarded = guarded
        # A mark that the plugin chose is the id of a chat's stream.
        self._extra = {"stream_id": mark} if mark else {}
        # One for each reader: `output`, `lines` and `stderr_lines`.
        self._patience = [Patience(silence_seconds, self._name, self._extra) for _ in range(3)]
        self._output = Output(self._patience[0])
        self._pipes = Pipes(stderr_lines=stderr_lines, output=self._output if raw_output else None)
        # Set when the block is entered.
        self._transport: asyncio.SubprocessTransport
        self._identity: Identity
        self._watcher: asyncio.Task[None]
        self._feeder: asyncio.Task[None] | None = None
        # The processes of the child when it got SIGTERM.
        self._descendants: list[Identity] = []
        # Set by the first `end`; later ones wait for the same task. Replaced if it is cancelled.
        self._ending: asyncio.Task[None] | None = None
        self._stdout = Lines(self._pipes.stdout, max_line_bytes, self._patience[1])
        self._stderr = Lines(self._pipes.stderr, max_line_bytes, self._patience[2])

    async def __aenter__(self) -> Self:
        """Start the child.

        Raises:
            Unavailable: The program does not exist, or cannot be started here.
        """
        program = self._command[0]
        if self._guarded:
            GUARDIAN.add(self.mark)
        try:
            transport, _ = await asyncio.get_running_loop().subprocess_exec(
                lambda: self._pipes,
                *launcher(self._env),
                _find(program, self._env),
                *self._command[1:],
                cwd=self._cwd,
                env=self._env,
                # The terminal's Ctrl-C is for hubd, which then ends its children.
                start_new_session=True,
            )
        except BaseException as error:
            if self._guarded:
                GUARDIAN.remove(self.mark)
            if not isinstance(error, OSError | ValueError):
                raise
            # ValueError: a text that cannot be part of a command line or an environment.
            reason = error.strerror if isinstance(error, OSError) else error
            raise Unavailable(f"{program} cannot be started in {self._cwd}: {reason}") from error
        self._transport = transport
        self._identity = identity(transport.get_pid())
        if self._guarded:
            GUARDIAN.add(self.mark, self._identity)
        self._watcher = asyncio.create_task(self._watch(), name=f"watch over {self}")
        if self._input is not None:
            self._feeder = asyncio.create_task(self._feed(self._input), name=f"input of {self}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the child. Its output is dropped from now on."""
        self._pipes.discard_output()
        if self._feeder is not None:
            self._feeder.cancel()
        try:
            await self.end()
        finally:
            if self._guarded:
                GUARDIAN.remove(self.mark)
            self._pipes.abandon_input()
            self._transport.close()
        # So that no file descriptor outlives the block.
        with suppress(TimeoutError):
            async with asyncio.timeout(KILL_SECONDS):
                await self._pipes.closed.wait()

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal; None while the child runs."""
        return self._transport.get_returncode()

    @property
    def stderr_tail(self) -> str:
        """The last 16 KiB of stderr."""
        return self._pipes.stderr_tail.decode(errors="replace")

    @property
    def identity(self) -> Identity:
        """The pid and the start time, with which `reap` ends the child after hubd was killed."""
        return self._identity

    def lines(self) -> AsyncGenerator[bytes, None]:
        """Yield the lines of stdout without their ends, until it is closed; blank ones are skipped.

        The child waits while no reader asks. A cancelled reader loses nothing: the next one
        continues there. There may be one reader at a time.

        Raises:
            Timeout: The child printed nothing for `silence_seconds`. It still runs.
        """
        return self._stdout.read()

    def stderr_lines(self) -> AsyncGenerator[bytes, None]:
        """Yield the lines of stderr, as `lines` does; needs `stderr_lines=True`."""
        return self._stderr.read()

    def output(self) -> AsyncGenerator[tuple[Stream, bytes], None]:
        """Yield all bytes of stdout and stderr in order of arrival; needs `raw_output=True`.

        Otherwise as `lines`, until both are closed.
        """
        return self._output.read()

    async def write(self, data: bytes) -> None:
        """Write to the standard input, and wait until the system has taken it.

        If the wait is cancelled, the data is still written.

        Raises:
            Timeout: The child does not read. It may have received a part of the data: end it.
            Unavailable: The input is closed.
        """
        stdin = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._pipes.writable.wait()
                if not stdin.is_closing():
                    stdin.write(data)
                    await self._pipes.writable.wait()
        except TimeoutError:
            raise Timeout(f"{self._name} has not read its input for {SEND_SECONDS:g} s") from None
        if stdin.is_closing():
            raise Unavailable(f"{self._name} takes no more input")

    def close_input(self) -> None:
        """Close the standard input."""
        stdin = self._transport.get_pipe_transport(0)
        if stdin is not None:
            stdin.close()

    async def wait(self) -> int:
        """Return the exit status once the child has ended and `stderr_tail` is complete."""
        await self._pipes.exited.wait()
        await self._read_rest_of_stderr()
        status = self._transport.get_returncode()
        assert status is not None
        return status

    async def end(self, *, eof: bool = True) -> None:
        """End the child and all its descendants: SIGTERM first, then SIGKILL.

        With `eof`, the child first sees the end of its input. Its last lines can still be read. A
        cancellation takes effect when the child has ended; every wait inside is bounded. A second
        call waits for the first.
        """
        cancelled: asyncio.CancelledError | None = None
        while self._ending is None or self._ending.cancelled() or not self._ending.done():
            # An event loop that shuts down cancels every task, this one too; then it starts again.
            if self._ending is None or self._ending.cancelled():
                self._ending = asyncio.create_task(self._end(eof=eof), name=f"end of {self}")
            try:
                await asyncio.wait([self._ending])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
        self._ending.result()

    async def _end(self, *, eof: bool) -> None:
        if eof:
            self.close_input()
        if not eof or not await self._exits_within(self._eof_seconds):
            # Once the child has ended, its orphans can't be told from other processes.
            self._descendants = await asyncio.to_thread(find_tree, self._identity, self.mark)
            send_signal(self._identity, signal.SIGTERM)
            seconds = TERM_SECONDS if self._term_seconds is None else self._term_seconds
            if not await self._exits_within(seconds):
                log.warning("%s ignores SIGTERM and is killed", self, extra=self._extra)
                await asyncio.to_thread(kill_tree, self._identity, self.mark, self._descendants)
                if not await self._exits_within(KILL_SECONDS):
                    log.error("%s cannot be killed", self, extra=self._extra)
                    self._watcher.cancel()
        await asyncio.wait([self._watcher])
        if self._watcher.cancelled():
            await asyncio.to_thread(kill_tree, self._identity, self.mark, self._descendants)
        await self._read_rest_of_stderr()

    async def _feed(self, data: bytes) -> None:
        # A child may read late or close its input early.
        with suppress(Timeout, Unavailable):
            await self.write(data)
        self.close_input()

    async def _read_rest_of_stderr(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await self._pipes.stderr_ended.wait()

    async def _exits_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._pipes.exited.wait()
        return self._pipes.exited.is_set()

    async def _watch(self) -> None:
        """End the descendants of a child that has ended: they may hold the pipes open."""
        await self._pipes.exited.wait()
        await asyncio.to_thread(kill_tree, self._identity, self.mark, self._descendants)
        for patience in self._patience:
            patience.linger()

    def __str__(self) -> str:
        return f"{self._name} {self._identity.pid}"


def _find(name: str, env: Mapping[str, str]) -> str:
    program = shutil.which(name, path=env.get("PATH", os.defpath))
    if program is None:
        raise Unavailable(
            f"there is no program {name}", suggestion="Install it, or correct its name or the PATH"
        )
    # The child runs in another directory.
    return str(Path(program).absolute())
