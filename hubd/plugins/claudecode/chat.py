"""One chat while it runs: the program's lines in, the mirror and the live blocks out."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from hubd.errors import HubError, reason_of
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.program.argv import ChatOptions, command_line
from hubd.plugins.claudecode.program.engine import Engine
from hubd.plugins.claudecode.program.exit_reason import explain, explain_result
from hubd.plugins.claudecode.program.private_files import in_files
from hubd.plugins.claudecode.program.process import ChildProcess
from hubd.plugins.claudecode.protocol.accumulator import Accumulator
from hubd.plugins.claudecode.protocol.facts import Fact, TurnResult
from hubd.plugins.claudecode.protocol.messages import read_line
from hubd.plugins.claudecode.record.live import Live
from hubd.plugins.claudecode.record.mirror import Mirror
from hubd.plugins.claudecode.record.recording import DISK_FAILURES, Recording
from hubd.storage import ids
from hubd.storage.database import Database, Tx
from hubd.storage.streams import streams

log = logging.getLogger("hubd.claudecode")

# An interrupted turn ends within moments; one that does not is ended by force.
INTERRUPT_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Request:
    """What a chat was asked, and how to go about it."""

    # What the program is sent: the prompt, after what was said and not answered yet.
    content: Sequence[Mapping[str, Any]]
    options: ChatOptions
    working_dir: str
    env: Mapping[str, str]
    mcp_config: Mapping[str, Any] | None = None
    # A directory for files that only this chat's program reads; the system's if there is none.
    private: Path | None = None
    # Seconds after which an agent that prints nothing is ended.
    silence_seconds: float | None = None


class Chat:
    """A chat from its start to its end. `run` is its whole life and belongs to one task."""

    def __init__(
        self,
        db: Database,
        stream: streams.StreamRow,
        mirror: Mirror,
        engine: Engine,
        request: Request,
    ) -> None:
        self._stream = stream
        self._extra = {"stream_id": ids.text(stream.id)}
        self.recording = Recording(db, stream.key, mirror, self._extra)
        self._accumulator = Accumulator()
        self._engine = engine
        self._request = request
        self._child: ChildProcess | None = None
        # Why it ends before its time, once that is so.
        self._ending: streams.Status | None = None
        # Set when everything about it is on disk.
        self.ended = asyncio.Event()

    @property
    def live(self) -> Live:
        """What it is saying."""
        return self.recording.live

    @property
    def waits_for_disk(self) -> bool:
        """Whether the disk refuses to take what the agent printed, or the end of the chat."""
        return self.recording.stuck.is_set() and not self.ended.is_set()

    async def run(self) -> None:
        """Run to the end. Every failure is recorded in the stream; nothing is raised.

        Cancelling ends the program, and the chat is interrupted. Only a hub that stops cancels.
        """
        error: str | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                flusher = tasks.create_task(self.recording.flush_for_ever())
                error = await self._talk()
                flusher.cancel()
        except asyncio.CancelledError:
            self._ending = self._ending or "interrupted"
            self.recording.stop()
        except BaseExceptionGroup as group:
            error = self._explain(group)
        # Blocks that were growing stay, and are marked as cut off.
        ending = asyncio.create_task(self._end(error, self._accumulator.end(None)))
        while not ending.done():
            try:
                await asyncio.wait([ending])
            except asyncio.CancelledError:
                self.recording.stop()

    async def cancel(self) -> None:
        """Ask the program to stop. The text so far stays.

        Returns when the end of the chat is on disk (`ended`), or when the agent has ended and the
        disk refuses the end for now.
        """
        self._ending = "cancelled"
        child = self._child
        if child is None:
            await self._ended_or_stuck()
            return
        try:
            # One that has not begun would not heed an interrupt, and has said nothing to be kept.
            if self.recording.mirror.native_id is not None and not self.recording.stuck.is_set():
                await child.interrupt(str(uuid4()))
                async with asyncio.timeout(INTERRUPT_SECONDS):
                    await self._ended_or_stuck()
        except (HubError, TimeoutError):
            pass  # it is ended by force
        if not self.ended.is_set():
            await child.end()
            await self._ended_or_stuck()

    async def _ended_or_stuck(self) -> None:
        """Wait until the end of the chat is on disk, or the disk refuses to take it."""
        events = (self.ended, self.recording.stuck)
        waits = [asyncio.create_task(event.wait()) for event in events]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _talk(self) -> str | None:
        """Run the program. Return why the chat failed, or None."""
        if self._ending is not None:
            return None
        request = self._request
        with in_files(request.options, request.mcp_config, request.private) as options:
            return await self._talk_to(command_line(self._engine.program, options))

    async def _talk_to(self, command: list[str]) -> str | None:
        request = self._request
        async with ChildProcess(
            command,
            cwd=Path(request.working_dir),
            env=request.env,
            mark=ids.text(self._stream.id),
            silence_seconds=request.silence_seconds,
        ) as child:
            self._child = child
            identity = child.identity()
            await self.recording.until_written(
                lambda tx: store.note_run(tx, self._stream.key, identity.pid, identity.started)
            )
            if self._ending is not None:
                return None
            await child.send_user(request.content)
            async for line in child.lines():
                facts = self._accumulator.feed(read_line(line))
                await self.recording.take(facts)
                if any(isinstance(fact, TurnResult) for fact in facts):
                    child.close_input()
            status = await child.wait()
            await self.recording.take(self._accumulator.end(status))
            result = self.recording.mirror.result
            if result is None:
                return explain(status, child.stderr_tail)
            return explain_result(result) if result.is_error else None

    async def _end(self, error: str | None, rest: list[Fact]) -> None:
        """Write the end of the chat; as soon as the disk takes it."""
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

    async def _write_end(self, status: streams.Status, error: str | None, rest: list[Fact]) -> None:
        try:
            await self.recording.end(status, error, rest)
        except DISK_FAILURES:
            raise
        except Exception as failure:
            # A defect of ours must not leave the chat running for good.
            log.exception("a chat could not be ended in full", extra=self._extra)
            reason = error or f"the end could not be recorded: {reason_of(failure)}"
            now = int(time.time())

            short: streams.Status = "failed" if status == "complete" else status

            def end(tx: Tx) -> None:
                streams.set_status(tx, self._stream.key, short, now, reason)
                store.forget_run(tx, self._stream.key)

            await self.recording.until_written(end)

    def _explain(self, group: BaseExceptionGroup[BaseException]) -> str:
        """One sentence for what went wrong on our side."""
        first = group.exceptions[0]
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        if isinstance(first, HubError):
            return first.message
        if isinstance(first, OSError):
            return f"{first.filename or 'a file'} cannot be used: {first.strerror or first}"
        log.error("a chat failed", exc_info=first, extra=self._extra)
        return f"{type(first).__name__}: {first}"
