"""A running chat: read the lines of the program, and record them."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from hubd.activation import ChildProcess, Host
from hubd.errors import HubError, reason_of
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.program import process
from hubd.plugins.claudecode.program.argv import ChatOptions, command_line
from hubd.plugins.claudecode.program.engine import Engine
from hubd.plugins.claudecode.program.exit_reason import explain, explain_result
from hubd.plugins.claudecode.program.private_files import in_files
from hubd.plugins.claudecode.protocol.accumulator import Accumulator
from hubd.plugins.claudecode.protocol.messages import read_line
from hubd.plugins.claudecode.protocol.updates import TurnResult, Update
from hubd.plugins.claudecode.record.live import Live
from hubd.plugins.claudecode.record.mirror import Mirror
from hubd.plugins.claudecode.record.recording import DISK_FAILURES, Recording
from hubd.storage import ids
from hubd.storage.database import Database, Tx
from hubd.storage.streams import streams

log = logging.getLogger("hubd.claudecode")

# Seconds that an interrupted program gets to end its turn; then it is killed.
INTERRUPT_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Launch:
    """The start of a program: its input, its options and its environment."""

    # The blocks that the program is sent: messages without an answer, then the prompt.
    content: Sequence[Mapping[str, Any]]
    options: ChatOptions
    working_dir: str
    env: Mapping[str, str]
    mcp_config: Mapping[str, Any] | None = None
    # The directory for files that only this program reads; the system's by default.
    private: Path | None = None
    # Seconds without output after which the program is ended; None waits for ever.
    silence_seconds: float | None = None


class Chat:
    """A chat from its start to its end. One task runs `run`."""

    def __init__(
        self,
        host: Host,
        db: Database,
        stream: streams.StreamRow,
        mirror: Mirror,
        engine: Engine,
        launch: Launch,
    ) -> None:
        self._host = host
        self._stream = stream
        self._extra = {"stream_id": ids.text(stream.id)}
        self.recording = Recording(db, stream.key, mirror, self._extra)
        self._accumulator = Accumulator()
        self._engine = engine
        self._launch = launch
        self._child: ChildProcess | None = None
        # The status of a chat that is cancelled or interrupted; set before it ends.
        self._ending: streams.Status | None = None
        # Set when the end of the chat is on disk.
        self.ended = asyncio.Event()

    @property
    def live(self) -> Live:
        """The blocks that are being written."""
        return self.recording.live

    @property
    def waits_for_disk(self) -> bool:
        """Whether the disk refuses the record or the end of the chat."""
        return self.recording.stuck.is_set() and not self.ended.is_set()

    async def run(self) -> None:
        """Run the chat to its end. Failures are recorded in the stream and not raised.

        Cancelling ends the program and interrupts the chat. Only a stopping hub cancels.
        """
        error: str | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                flusher = tasks.create_task(self.recording.flush_repeatedly())
                error = await self._talk()
                flusher.cancel()
        except asyncio.CancelledError:
            self._ending = self._ending or "interrupted"
            self.recording.stop()
        except BaseExceptionGroup as group:
            error = self._explain(group)
        # Unfinished blocks stay in the record, and are marked as cut off.
        ending = asyncio.create_task(self._end(error, self._accumulator.end(None)))
        while not ending.done():
            try:
                await asyncio.wait([ending])
            except asyncio.CancelledError:
                self.recording.stop()

    async def cancel(self) -> None:
        """End the program. The text so far stays.

        Return when the end of the chat is on disk (`ended`), or when the program has ended and
        the disk refuses the end for now.
        """
        self._ending = "cancelled"
        child = self._child
        if child is None:
            await self._ended_or_stuck()
            return
        try:
            # A program that has not started its turn ignores an interrupt and has no text yet.
            if self.recording.mirror.native_id is not None and not self.recording.stuck.is_set():
                await process.interrupt(child, str(uuid4()))
                async with asyncio.timeout(INTERRUPT_SECONDS):
                    await self._ended_or_stuck()
        except (HubError, TimeoutError):
            pass  # it is killed below
        if not self.ended.is_set():
            await child.end()
            await self._ended_or_stuck()

    async def _ended_or_stuck(self) -> None:
        """Wait until the end of the chat is on disk, or the disk refuses it."""
        events = (self.ended, self.recording.stuck)
        waits = [asyncio.create_task(event.wait()) for event in events]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _talk(self) -> str | None:
        """Run the program. Return the reason if the chat failed."""
        if self._ending is not None:
            return None
        launch = self._launch
        with in_files(launch.options, launch.mcp_config, launch.private) as options:
            return await self._talk_to(command_line(self._engine.program, options))

    async def _talk_to(self, command: list[str]) -> str | None:
        launch = self._launch
        async with self._host.process(
            command,
            cwd=launch.working_dir,
            env=launch.env,
            stdin=None,
            mark=ids.text(self._stream.id),
            name="the agent",
            max_line_bytes=process.MAX_LINE_BYTES,
            silence_seconds=launch.silence_seconds,
            eof_seconds=process.EOF_SECONDS,
        ) as child:
            self._child = child
            pid, started = child.identity
            await self.recording.until_written(
                lambda tx: store.note_run(tx, self._stream.key, pid, started)
            )
            if self._ending is not None:
                return None
            await process.send_user(child, launch.content)
            async for line in child.lines():
                updates = self._accumulator.feed(read_line(line))
                await self.recording.take(updates)
                if any(isinstance(update, TurnResult) for update in updates):
                    child.close_input()
            status = await child.wait()
            await self.recording.take(self._accumulator.end(status))
            result = self.recording.mirror.result
            if result is None:
                return explain(status, child.stderr_tail)
            return explain_result(result) if result.is_error else None

    async def _end(self, error: str | None, rest: list[Update]) -> None:
        """Write the end of the chat; retry until the disk takes it."""
        status: streams.Status = "failed" if error else "complete"
        if self._ending is not None:
            status = self._ending
            error = {"cancelled": "the chat was cancelled"}.get(status, "the hub was stopped")
        try:
            await self._write_end(status, error, rest)
        except DISK_FAILURES as failure:
            # The hub is stopping; the next start marks the chat as interrupted.
            log.error("the end of a chat was not written: %s", failure, extra=self._extra)
        else:
            log.info("chat ended: %s", status, extra=self._extra)
        finally:
            self.ended.set()

    async def _write_end(
        self, status: streams.Status, error: str | None, rest: list[Update]
    ) -> None:
        try:
            await self.recording.end(status, error, rest)
        except DISK_FAILURES:
            raise
        except Exception as failure:
            # A defect of the hub must not leave the chat running for good.
            log.exception("the end of a chat could not be recorded in full", extra=self._extra)
            reason = error or f"the end could not be recorded: {reason_of(failure)}"
            now = int(time.time())

            short: streams.Status = "failed" if status == "complete" else status

            def end(tx: Tx) -> None:
                streams.set_status(tx, self._stream.key, short, now, reason)
                store.forget_run(tx, self._stream.key)

            await self.recording.until_written(end)

    def _explain(self, group: BaseExceptionGroup[BaseException]) -> str:
        """Return the reason of a failure in the hub, in one sentence."""
        first = group.exceptions[0]
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        if isinstance(first, HubError):
            return first.message
        if isinstance(first, OSError):
            return f"{first.filename or 'a file'} cannot be used: {first.strerror or first}"
        log.error("a chat failed", exc_info=first, extra=self._extra)
        return f"{type(first).__name__}: {first}"
