"""One chat while it runs: the program's lines in, the mirror and the live blocks out."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from hubd.errors import HubError
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.accumulator import Accumulator
from hubd.plugins.claudecode.argv import ChatOptions, command_line
from hubd.plugins.claudecode.engine import Engine
from hubd.plugins.claudecode.explain import explain
from hubd.plugins.claudecode.facts import Fact, TurnResult
from hubd.plugins.claudecode.live import Live
from hubd.plugins.claudecode.messages import read_line
from hubd.plugins.claudecode.mirror import Mirror
from hubd.plugins.claudecode.private import in_files
from hubd.plugins.claudecode.process import ChildProcess
from hubd.plugins.claudecode.recording import Recording
from hubd.storage import ids, streams
from hubd.storage.database import Database

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
        self._db = db
        self._stream = stream
        self.recording = Recording(db, stream.key, mirror)
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

    async def run(self) -> None:
        """Run to the end. Whatever happens is told in the stream; nothing is raised.

        Cancelling ends the program, and the chat is interrupted.
        """
        error: str | None = None
        rest: list[Fact] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                flusher = tasks.create_task(self.recording.flush_for_ever())
                error = await self._talk()
                flusher.cancel()
        except asyncio.CancelledError:
            self._ending = self._ending or "interrupted"
            # What it was in the middle of stays, and is marked as cut off.
            rest = self._accumulator.end(None)
        except BaseExceptionGroup as group:
            error = self._explain(group)
        await asyncio.shield(self._end(error, rest))

    async def cancel(self) -> None:
        """Ask the program to stop; what it has said so far stays."""
        self._ending = "cancelled"
        child = self._child
        if child is None:
            return
        if self.recording.mirror.native_id is None:
            # It has not begun: it would not heed an interrupt, and has said nothing to be kept.
            await child.end()
            return
        try:
            await child.interrupt(str(uuid4()))
            async with asyncio.timeout(INTERRUPT_SECONDS):
                await self.ended.wait()
        except (HubError, TimeoutError):
            await child.end()

    async def _talk(self) -> str | None:
        """Run the program; what is wrong with how it ended, if anything."""
        if self._ending is not None:
            return None
        request = self._request
        with in_files(request.options, request.mcp_config) as options:
            return await self._talk_to(command_line(self._engine.program, options))

    async def _talk_to(self, command: list[str]) -> str | None:
        request = self._request
        async with ChildProcess(
            command, cwd=Path(request.working_dir), env=request.env, mark=ids.text(self._stream.id)
        ) as child:
            self._child = child
            identity = child.identity()
            await self._db.transaction(
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
            if result is not None:
                return (result.result or result.subtype or "failed") if result.is_error else None
            return explain(status, child.stderr_tail)

    async def _end(self, error: str | None, rest: list[Fact]) -> None:
        status: streams.Status = "failed" if error else "complete"
        if self._ending is not None:
            status = self._ending
            error = {"cancelled": "the chat was cancelled"}.get(status, "the hub was stopped")
        try:
            await self.recording.end(status, error, rest)
        except HubError as failure:
            log.error("the end of a chat could not be kept: %s", failure.message)
        log.info("chat ended: %s", status, extra={"stream_id": ids.text(self._stream.id)})
        self.ended.set()

    def _explain(self, group: BaseExceptionGroup[BaseException]) -> str:
        """One sentence for what went wrong on our side."""
        first = group.exceptions[0]
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        if isinstance(first, HubError):
            return first.message
        log.error("a chat failed", exc_info=first, extra={"stream_id": ids.text(self._stream.id)})
        return f"{type(first).__name__}: {first}"
