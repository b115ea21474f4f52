"""One execution: a command with its process, its events and its record."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Final, NamedTuple
from uuid import UUID

from hubd.activation import ChildProcess, Host, HubError, Timeout, Unavailable
from hubd.plugins.bash import events, store
from hubd.plugins.bash.handles import ExecutionRef
from hubd.plugins.bash.recording import Recording, recording
from hubd.storage import ids
from hubd.storage.database import Database

# Seconds between SIGTERM and SIGKILL. A daemon that stops gives its calls three.
TERM_SECONDS: Final = 2.0

log = logging.getLogger("hubd.bash")


class Command(NamedTuple):
    """A command to run."""

    text: str
    cwd: str
    shell: str
    # The whole environment.
    env: Mapping[str, str]
    stdin: bytes
    # None for no limit.
    timeout_secs: float | None


class Execution:
    """Runs one command. Every end is recorded: by itself, by its timeout or by its caller."""

    def __init__(self, db: Database, host: Host, command: Command, max_output: int) -> None:
        self._db = db
        self._host = host
        self._command = command
        # The maximum number of recorded bytes of each output.
        self._max_output = max_output
        self._id = ids.uuid4()
        self._began = time.monotonic()
        # The status that the record gets; changed when the command ends in another way.
        self._status: store.Status = "cancelled"
        self._exit_code: int | None = None

    async def run(self) -> AsyncGenerator[events.Line | events.Exit, None]:
        """Yield the lines of the command, and its end.

        Raises:
            Timeout: The command took too long and was ended. Names the handle.
            Unavailable: The shell cannot be started.
            DatabaseUnusable: The output cannot be stored.
        """
        text, cwd, shell = self._command.text, self._command.cwd, self._command.shell
        now = int(time.time())
        await self._db.transaction(
            lambda tx: store.begin(tx, self._id, command=text, cwd=cwd, shell=shell, now=now)
        )
        async with recording(self._db, self._max_output) as record:
            try:
                async with aclosing(self._lines(record)) as lines:
                    async for line in lines:
                        yield line
            except HubError:
                self._status = "failed"
                raise
            finally:
                await self._finish(record)
        handle = ExecutionRef(execution_id=UUID(bytes=self._id), exit_code=self._exit_code)
        if self._status == "timed_out":
            raise Timeout(
                f"the command did not end within {self._command.timeout_secs:g} s and was ended; "
                f"its output so far is {handle}",
                suggestion="Give a longer timeout_secs, or leave it out",
            )
        assert self._exit_code is not None
        yield events.Exit(code=self._exit_code, handle=handle)

    async def _lines(self, record: Recording) -> AsyncGenerator[events.Line, None]:
        """Run the process to its end, and yield the lines of its output."""
        async with self._process() as child, self._deadline(child):
            warned = False
            async with aclosing(child.output()) as output:
                async for stream, chunk in output:
                    for line in await record.take(stream, chunk):
                        yield line
                    if record.truncated and not warned:
                        warned = True
                        await self._warn()
            for line in record.rest():
                yield line
            self._note_end(await child.wait())

    @asynccontextmanager
    async def _process(self) -> AsyncIterator[ChildProcess]:
        command = self._command
        started = False
        try:
            async with self._host.process(
                [command.shell, "-c", command.text],
                cwd=command.cwd,
                env=command.env,
                stdin=command.stdin,
                mark=self._id.hex(),
                raw_output=True,
                term_seconds=TERM_SECONDS,
                guarded=True,
            ) as child:
                started = True
                try:
                    yield child
                finally:
                    if self._exit_code is None:
                        # The record of a cancelled command has its exit status too.
                        await child.end(eof=False)
                        if child.status is not None:
                            self._exit_code = _exit_code(child.status)
        except Unavailable:
            if not started:
                await self._db.transaction(lambda tx: store.forget(tx, self._id))
            raise

    @asynccontextmanager
    async def _deadline(self, child: ChildProcess) -> AsyncIterator[None]:
        """End the child when its time is over. Its last output can still be read."""
        if self._command.timeout_secs is None:
            yield
            return

        async def end_later(seconds: float) -> None:
            await asyncio.sleep(seconds)
            self._status = "timed_out"
            await child.end(eof=False)

        timer = asyncio.create_task(end_later(self._command.timeout_secs), name="bash timeout")
        try:
            yield
        finally:
            timer.cancel()
            await asyncio.wait([timer])

    def _note_end(self, status: int) -> None:
        self._exit_code = _exit_code(status)
        if self._status != "timed_out":
            self._status = "complete"

    async def _warn(self) -> None:
        mib = self._max_output / 1024**2
        await self._host.advise(
            "output",
            f"The command writes more than {mib:g} MiB. The rest is dropped; the setting "
            "max_output_mib of [bash] is the limit",
        )

    async def _finish(self, record: Recording) -> None:
        """Store the record, even if the caller is cancelled meanwhile."""
        storing = asyncio.create_task(self._store(record), name="bash record")
        try:
            await asyncio.shield(storing)
        except asyncio.CancelledError:
            await asyncio.wait([storing])
            raise

    async def _store(self, record: Recording) -> None:
        duration = int((time.monotonic() - self._began) * 1000)
        try:
            stdout, stderr = await record.stdout.finish(), await record.stderr.finish()
        except HubError as error:
            log.error("the output of %s is lost: %s", ids.text(self._id), error.message)
            self._status = "failed"
            stdout, stderr = record.stdout.lost(), record.stderr.lost()
        status, code, now = self._status, self._exit_code, int(time.time())
        await self._db.transaction(
            lambda tx: store.finish(
                tx,
                self._id,
                status=status,
                exit_code=code,
                duration_ms=duration,
                stdout=stdout,
                stderr=stderr,
                now=now,
            )
        )


def _exit_code(status: int) -> int:
    """Return an exit status as shells do: 128 and the number of a signal."""
    return 128 - status if status < 0 else status
