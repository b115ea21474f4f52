"""One chat while it runs: the program's lines in, the mirror and the live blocks out."""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from hubd.errors import HubError
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.accumulator import Accumulator
from hubd.plugins.claudecode.argv import ChatOptions, command_line
from hubd.plugins.claudecode.engine import Engine
from hubd.plugins.claudecode.explain import explain
from hubd.plugins.claudecode.facts import (
    BlockDelta,
    BlockFinished,
    BlockStarted,
    Fact,
    TurnResult,
)
from hubd.plugins.claudecode.live import Live
from hubd.plugins.claudecode.messages import read_line
from hubd.plugins.claudecode.mirror import Mirror
from hubd.plugins.claudecode.process import ChildProcess
from hubd.storage import ids, streams
from hubd.storage.database import Database, Tx

log = logging.getLogger("hubd.claudecode")

# The text of a growing block is on disk at most this long after it came.
FLUSH_SECONDS: Final = 0.2
# An interrupted turn ends within moments; one that does not is ended by force.
INTERRUPT_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Request:
    """What a chat was asked, and how to go about it."""

    prompt: str
    options: ChatOptions
    working_dir: str
    env: Mapping[str, str]
    ephemeral: bool = False


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
        self._mirror = mirror
        self._engine = engine
        self._request = request
        self._child: ChildProcess | None = None
        # Set when growing blocks have text that is not on disk yet.
        self._dirty = asyncio.Event()
        # Why it ends before its time, once that is so.
        self._ending: streams.Status | None = None
        self.live = Live()
        # Set when everything about it is on disk.
        self.ended = asyncio.Event()

    async def run(self) -> None:
        """Run to the end. Whatever happens is told in the stream; nothing is raised.

        Cancelling ends the program, and the chat is interrupted.
        """
        error: str | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                flusher = tasks.create_task(self._flush_for_ever())
                error = await self._talk()
                flusher.cancel()
        except asyncio.CancelledError:
            self._ending = self._ending or "interrupted"
        except BaseExceptionGroup as group:
            error = self._explain(group)
        await asyncio.shield(self._end(error))

    async def cancel(self) -> None:
        """Ask the program to stop; what it has said so far stays."""
        self._ending = "cancelled"
        child = self._child
        if child is None:
            return
        try:
            await child.interrupt(str(uuid4()))
            async with asyncio.timeout(INTERRUPT_SECONDS):
                await self.ended.wait()
        except (HubError, TimeoutError):
            await child.end()

    async def _talk(self) -> str | None:
        """Run the program; what is wrong with how it ended, if anything."""
        request = self._request
        command = command_line(self._engine.program, request.options)
        accumulator = Accumulator()
        async with ChildProcess(
            command, cwd=Path(request.working_dir), env=request.env, mark=ids.text(self._stream.id)
        ) as child:
            self._child = child
            identity = child.identity()
            await self._db.transaction(
                lambda tx: store.note_run(tx, self._stream.key, identity.pid, identity.started)
            )
            if self._ending is None:
                await child.send_user(request.prompt)
            async for line in child.lines():
                facts = accumulator.feed(read_line(line))
                await self._take(facts)
                if any(isinstance(fact, TurnResult) for fact in facts):
                    child.close_input()
            status = await child.wait()
            await self._take(accumulator.end(status))
            result = self._mirror.result
            if result is not None:
                return (result.result or result.subtype or "failed") if result.is_error else None
            return explain(status, child.stderr_tail)

    async def _take(self, facts: list[Fact]) -> None:
        """Write what is to be kept, and show what is not yet; in order."""
        waiting: list[Fact] = []
        for fact in facts:
            if isinstance(fact, BlockDelta):
                await self._write(waiting)
                waiting = []
                self.live.grow(fact)
                self._dirty.set()
                self._db.waiters.wake(self._stream.topic)
            else:
                waiting.append(fact)
        await self._write(waiting)

    async def _write(self, facts: list[Fact]) -> None:
        if not facts:
            return
        # What has no text of its own in the stream is not worth a transaction of its own.
        now = int(time.time())

        def write(tx: Tx) -> None:
            for fact in facts:
                self._mirror.apply(tx, fact, now)

        await self._db.transaction(write)
        for fact in facts:
            if isinstance(fact, BlockStarted):
                self.live.start(fact, self._mirror.pushed)
            elif isinstance(fact, BlockFinished):
                self.live.finish(fact)
        self._db.waiters.wake(self._stream.topic)

    async def _flush_for_ever(self) -> None:
        """Keep the text of growing blocks, a few times a second."""
        while True:
            await self._dirty.wait()
            await asyncio.sleep(FLUSH_SECONDS)
            self._dirty.clear()
            texts = {key: block.text() for key, block in self.live.blocks.items() if block.parts}
            if texts:
                await self._db.transaction(lambda tx, texts=texts: self._mirror.flush(tx, texts))  # type: ignore[misc]

    async def _end(self, error: str | None) -> None:
        status: streams.Status = "failed" if error else "complete"
        if self._ending is not None:
            status = self._ending
            error = {"cancelled": "the chat was cancelled"}.get(status, "the hub was stopped")
        now = int(time.time())
        try:
            await self._db.transaction(lambda tx: self._mirror.end(tx, status, now, error))
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
