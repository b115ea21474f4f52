"""A chat being recorded: facts into the tree and the stream, and to followers before that.

Knows nothing of the program that the facts come from.
"""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from hubd.errors import DatabaseUnusable, reason_of
from hubd.plugins.claudecode.protocol.facts import BlockDelta, BlockFinished, BlockStarted, Fact
from hubd.plugins.claudecode.record.live import Live, block_key
from hubd.plugins.claudecode.record.mirror import Mirror
from hubd.storage.database import Database, Tx
from hubd.storage.streams import streams

T = TypeVar("T")

log = logging.getLogger("hubd.claudecode")

# The text of a growing block is on disk at most this long after it came.
FLUSH_SECONDS: Final = 0.2
# Seconds between two attempts at a write that failed. A full disk may have space again by then.
RETRY_SECONDS: Final = 0.5
# The disk is full or fails, or the file is locked: the same write may succeed later.
DISK_FAILURES: Final = (DatabaseUnusable, sqlite3.OperationalError)


class Recording:
    """The record of one chat while it grows. `mirror` has begun.

    A write that the disk refuses is repeated until it succeeds. Until then the chat waits, and the
    agent with it as soon as its pipe is full: nothing is lost, and no memory fills up.

    Args:
        db: The database.
        stream: The stream's key.
        mirror: The record so far.
        extra: Fields for log lines about this chat.
    """

    def __init__(
        self, db: Database, stream: int, mirror: Mirror, extra: dict[str, str] | None = None
    ) -> None:
        self._db = db
        self._stream = stream
        self.mirror = mirror
        self._extra = extra
        # Set when growing blocks have text that is not on disk yet.
        self._dirty = asyncio.Event()
        self.live = Live()
        # Set while a write is being repeated because the disk has refused it.
        self.stuck = asyncio.Event()
        # Set when the hub stops: no write is repeated from then on.
        self._stopping = asyncio.Event()
        # The write under way. It takes effect even if its caller is cancelled.
        self._pending: asyncio.Future[Any] | None = None

    def stop(self) -> None:
        """Stop repeating writes: the hub is stopping."""
        self._stopping.set()

    async def take(self, facts: Sequence[Fact]) -> None:
        """Write durable facts, and show the growth of blocks to followers; in order."""
        waiting: list[Fact] = []
        for fact in facts:
            if isinstance(fact, BlockDelta):
                await self._write(waiting)
                waiting = []
                self.live.grow(fact)
                self._dirty.set()
                self._db.waiters.wake(streams.topic(self._stream))
            else:
                waiting.append(fact)
        await self._write(waiting)

    async def flush_for_ever(self) -> None:
        """Keep the text of growing blocks, a few times a second."""
        while True:
            await self._dirty.wait()
            await asyncio.sleep(FLUSH_SECONDS)
            try:
                await self.flush()
            except DISK_FAILURES:
                # The text is still in memory, and the next flush has it too.
                self._dirty.set()

    async def flush(self) -> None:
        """Keep the text of growing blocks."""
        self._dirty.clear()
        texts = {key: block.text() for key, block in self.live.blocks.items() if block.parts}
        mirror = self.mirror
        if texts:
            await self._db.transaction(lambda tx: mirror.flush(tx, texts))

    async def end(
        self, status: streams.Status, error: str | None = None, rest: Sequence[Fact] = ()
    ) -> None:
        """Write the end of the chat.

        Args:
            status: How it ended.
            error: Why, if it should not have.
            rest: Facts that became known with the end.

        Raises:
            DatabaseUnusable: The disk refuses it, and the hub is stopping.
        """
        now = int(time.time())

        def end(tx: Tx, mirror: Mirror) -> None:
            for fact in rest:
                mirror.apply(tx, fact, now)
            mirror.end(tx, status, now, error)

        await self._settle()
        await self._keep(end)

    async def until_written(self, function: Callable[[Tx], T]) -> T:
        """Run a transaction, and repeat it for as long as the disk refuses it.

        Raises:
            DatabaseUnusable: The disk refuses it, and the hub is stopping.
        """
        while True:
            try:
                result = await asyncio.shield(self._submit(function))
            except DISK_FAILURES as error:
                await self._wait_for_disk(error)
            else:
                self._pending = None
                if self.stuck.is_set():
                    log.warning("a chat can be written again", extra=self._extra)
                    self.stuck.clear()
                return result

    async def _write(self, facts: Sequence[Fact]) -> None:
        if not facts:
            return
        now = int(time.time())
        finished = {block_key(fact) for fact in facts if isinstance(fact, BlockFinished)}
        for key in finished:
            self.live.finish(key)

        def write(tx: Tx, mirror: Mirror) -> None:
            for fact in facts:
                mirror.apply(tx, fact, now)

        await self._keep(write)
        for fact in facts:
            if isinstance(fact, BlockStarted) and block_key(fact) not in finished:
                self.live.start(fact, self.mirror.pushed)
        self._db.waiters.wake(streams.topic(self._stream))

    async def _keep(self, change: Callable[[Tx, Mirror], None]) -> None:
        """Write a change of the mirror. The transaction changes a copy, so it can be repeated."""
        before = self.mirror

        def write(tx: Tx) -> Mirror:
            mirror = before.copy()
            change(tx, mirror)
            return mirror

        self.mirror = await self.until_written(write)

    def _submit(self, function: Callable[[Tx], T]) -> "asyncio.Future[T]":
        self._pending = future = self._db.transaction(function)
        return future

    async def _settle(self) -> None:
        """Take over a write whose caller was cancelled."""
        if self._pending is not None:
            await asyncio.wait([self._pending])
            if self._pending.exception() is None and isinstance(self._pending.result(), Mirror):
                self.mirror = self._pending.result()
            self._pending = None

    async def _wait_for_disk(self, error: Exception) -> None:
        """Wait until the next attempt at a write that the disk refused.

        Raises:
            Exception: `error`, if the hub is stopping.
        """
        if self._stopping.is_set():
            raise error
        if not self.stuck.is_set():
            reason = "a chat cannot be written, trying again until it can: %s"
            log.error(reason, reason_of(error), extra=self._extra)
            self.stuck.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(RETRY_SECONDS):
                await self._stopping.wait()
