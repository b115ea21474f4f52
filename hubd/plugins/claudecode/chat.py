"""A running chat: read the lines of the program, and record them."""

import asyncio
import logging
import signal
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from hubd.activation import Actor, ChildProcess, Host
from hubd.errors import HubError, Timeout, reason_of
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.approvals import store as approvals
from hubd.plugins.claudecode.approvals.questions import Questions
from hubd.plugins.claudecode.approvals.resumption import Resumption
from hubd.plugins.claudecode.native import pending_call
from hubd.plugins.claudecode.program import process
from hubd.plugins.claudecode.program.argv import ChatOptions, command_line
from hubd.plugins.claudecode.program.engine import Engine
from hubd.plugins.claudecode.program.exit_reason import explain, explain_result
from hubd.plugins.claudecode.program.private_files import in_files
from hubd.plugins.claudecode.protocol.accumulator import Accumulator
from hubd.plugins.claudecode.protocol.messages import ResultLine, read_line
from hubd.plugins.claudecode.protocol.updates import ToolResult, Update
from hubd.plugins.claudecode.record.disk import DISK_FAILURES
from hubd.plugins.claudecode.record.interruption import can_continue
from hubd.plugins.claudecode.record.live import Live
from hubd.plugins.claudecode.record.mirror import Mirror
from hubd.plugins.claudecode.record.recording import Recording
from hubd.storage import ids
from hubd.storage.database import Database, Tx
from hubd.storage.streams import streams
from hubd.wire.lazy_dataclass import dataclass

log = logging.getLogger("hubd.claudecode")

# Seconds that an interrupted program gets to end its turn; then it is killed.
INTERRUPT_SECONDS: Final = 5.0
# The program writes a call to its session file about 0.1 s after it asks.
SYNC_SECONDS: Final = 0.05
SYNC_ATTEMPTS: Final = 40
# The exit statuses of programs that SIGTERM has ended.
TERMINATED: Final = (-signal.SIGTERM, 128 + signal.SIGTERM)


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
    # The actor that the program's processes act as.
    acts_as: Actor | None = None
    # The program's own session file, by the id of its session.
    session_file: Callable[[str], Path] | None = None
    # Set if the chat continues after its program ended while a call waited for an approval.
    resumption: Resumption | None = None


class Chat:
    """A chat from its start to its end, or until it is parked. One task runs `run`.

    A parked chat has no process. Its approvals are pending, and another `Chat` continues it.
    """

    def __init__(
        self,
        host: Host,
        db: Database,
        stream: streams.StreamRow,
        mirror: Mirror,
        engine: Engine,
        launch: Launch,
        on_questions: Callable[[], None] = lambda: None,
    ) -> None:
        self._host = host
        self._db = db
        self._stream = stream
        self._extra = {"stream_id": ids.text(stream.id)}
        self.recording = Recording(db, stream.key, mirror, self._extra)
        self._accumulator = Accumulator()
        self._engine = engine
        self._launch = launch
        self._child: ChildProcess | None = None
        self.questions = Questions(
            host,
            db,
            self.recording.write_beside,
            stream.key,
            launch.acts_as or Actor("hub"),
            self._secure_native_file,
            on_questions,
        )
        # The native session whose file is stored.
        self._secured: str | None = None
        # Tasks that wait for calls in that file.
        self._syncs: set[asyncio.Task[None]] = set()
        # Set when the program is ended because its calls wait for approvals.
        self.is_parked = False
        # True if the chat is not complete: it waits for approvals without a process.
        self.is_left_open = False
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
        is_stopped = False
        try:
            async with asyncio.TaskGroup() as tasks:
                flusher = tasks.create_task(self.recording.flush_repeatedly())
                error = await self._talk()
                flusher.cancel()
        except asyncio.CancelledError:
            is_stopped = True
            self.recording.stop()
        except BaseExceptionGroup as group:
            error = self._explain(group)
        await self.questions.close()
        for sync in self._syncs:
            sync.cancel()
        can_wait = (self.is_parked or is_stopped) and self._ending is None
        if can_wait and self.recording.mirror.result is None and await self._leave_open():
            return
        if is_stopped or self.is_parked:
            self._ending = self._ending or "interrupted"
            error = "the hub was stopped" if is_stopped else "the waiting call can't be continued"
        if self._launch.resumption is not None:
            await self._launch.resumption.withdraw()
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

    async def park(self) -> bool:
        """End the program while all its calls wait for approvals.

        The program gets SIGTERM before the end of its input, which it would take for a denial.

        Returns:
            False if it can't end now.
        """
        # A question that is not stored yet would be lost with the program.
        stored = await approvals.read_pending_of(self._db, self._stream.key)
        if not self.questions.are_all_in(stored) or not self.questions.can_park:
            return False
        if self._child is None or self._ending is not None:
            return False
        self.is_parked = True
        self.questions.abandon()
        await self._child.end(eof=False)
        return True

    async def _leave_open(self) -> bool:
        """Record that the program has ended, and that the chat waits without it.

        Returns:
            False if no call of the chat can be continued: the chat has to end.
        """

        def leave(tx: Tx) -> bool:
            store.forget_run(tx, self._stream.key)
            return can_continue(tx, self._stream.key)

        await self.recording.settle()
        try:
            await self.recording.take(self._accumulator.end(0))
            if not await self.recording.until_written(leave):
                return False
        except DISK_FAILURES as failure:
            # The hub is stopping. The next one finds out whether the chat can continue.
            log.error("a parked chat was not recorded in full: %s", failure, extra=self._extra)
        log.info("chat parked: it waits for an approval without a process", extra=self._extra)
        self.is_left_open = True
        self.ended.set()
        return True

    async def _secure_native_file(self, tool_use_id: str) -> None:
        """Store the path of the program's session file, and let the disk take the call in it.

        A call that waits is continued from this file. If the call is not there after a crash, the
        file is written anew from the hub's own record.
        """
        native_id, find = self.recording.mirror.native_id, self._launch.session_file
        if native_id is None or find is None:
            return
        file = await asyncio.to_thread(find, native_id)
        if self._secured != native_id:
            key = self._stream.key
            await self.recording.write_beside(lambda tx: store.set_native_file(tx, key, str(file)))
            self._secured = native_id
        # The program writes the call a little later than it asks.
        task = asyncio.create_task(_sync_call(file, tool_use_id))
        self._syncs.add(task)
        task.add_done_callback(self._syncs.discard)

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
        resumption = launch.resumption
        while resumption is not None and await resumption.prepare():
            # Several calls of one message: each but the last is carried out by itself.
            with in_files(
                launch.options, launch.mcp_config, launch.private, pending_call.STAGE_SETTINGS
            ) as options:
                problem = await self._talk_to(options, is_stage=True)
            if problem is not None or self.is_parked or self._ending is not None:
                return problem
        with in_files(launch.options, launch.mcp_config, launch.private) as options:
            return await self._talk_to(options)

    async def _talk_to(self, options: ChatOptions, *, is_stage: bool = False) -> str | None:
        """Run the program once. In a stage, only the results of tools are recorded."""
        launch = self._launch
        command = command_line(self._engine.program, options)
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
            acts_as=launch.acts_as,
        ) as child:
            self._child = child
            try:
                return await self._converse(child, is_stage=is_stage)
            except asyncio.CancelledError:
                # The hub stops. The program must not take the end of its input for a denial.
                if self.questions.is_waiting or launch.resumption is not None:
                    self.questions.abandon()
                    await child.end(eof=False)
                raise

    async def _converse(self, child: ChildProcess, *, is_stage: bool) -> str | None:
        pid, started = child.identity
        await self.recording.until_written(
            lambda tx: store.note_run(tx, self._stream.key, pid, started)
        )
        if self._ending is not None:
            return None
        if self._launch.content:
            await process.send_user(child, self._launch.content)
        has_result = await self._record(child, is_stage=is_stage)
        status = await child.wait()
        if status in TERMINATED and self._ending is None and self.questions.can_park:
            # A machine that shuts down sends SIGTERM to all processes at once.
            self.is_parked = True
            self.questions.abandon()
        if self.is_parked:
            return None
        await self.recording.take(self._accumulator.end(status))
        if is_stage:
            return None if has_result else explain(status, child.stderr_tail)
        result = self.recording.mirror.result
        if result is None:
            return explain(status, child.stderr_tail)
        return explain_result(result) if result.is_error else None

    async def _record(self, child: ChildProcess, *, is_stage: bool) -> bool:
        """Record the lines of the program; return whether it printed a result."""
        has_result = False
        async with aclosing(self._lines(child)) as lines:
            async for line in lines:
                message = read_line(line)
                if self.questions.take(child, message):
                    continue
                updates = self._accumulator.feed(message)
                is_result = any(isinstance(update, ResultLine) for update in updates)
                self.questions.follow(updates)
                if is_stage:
                    updates = [update for update in updates if isinstance(update, ToolResult)]
                await self.recording.take(updates)
                if is_result:
                    has_result = True
                    child.close_input()
        return has_result

    async def _lines(self, child: ChildProcess) -> AsyncGenerator[bytes, None]:
        """Yield the lines of the program. Time that it waits for approvals is not silence."""
        while True:
            try:
                async with aclosing(child.lines()) as lines:
                    async for line in lines:
                        yield line
                return
            except Timeout:
                answered = time.monotonic() - self.questions.last_answer
                if not self.questions.is_waiting and answered >= (
                    self._launch.silence_seconds or 0
                ):
                    raise

    async def _end(self, error: str | None, rest: list[Update]) -> None:
        """Write the end of the chat; retry until the disk takes it."""
        status: streams.Status = "failed" if error else "complete"
        if self._ending is not None:
            status = self._ending
            error = "the chat was cancelled" if status == "cancelled" else error
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


async def _sync_call(file: Path, tool_use_id: str) -> None:
    """Let the disk take a session file as soon as a call is in it."""
    with suppress(OSError):
        for _ in range(SYNC_ATTEMPTS):
            if await asyncio.to_thread(pending_call.sync, file, tool_use_id):
                return
            await asyncio.sleep(SYNC_SECONDS)
