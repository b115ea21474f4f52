"""Record a running chat: write its updates, and show the growth of blocks to followers.

This file knows nothing of the program that the updates come from.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from hubd.errors import reason_of
from hubd.plugins.claudecode.protocol.updates import BlockDelta, BlockFinished, BlockStarted, Update
from hubd.plugins.claudecode.record import disk
from hubd.plugins.claudecode.record.disk import DISK_FAILURES
from hubd.plugins.claudecode.record.live import Live, block_key
from hubd.plugins.claudecode.record.mirror import Mirror
from hubd.storage.database import Database, Tx
from hubd.storage.streams import streams

T = TypeVar("T")

log = logging.getLogger("hubd.claudecode")

# The text of an unfinished block is on disk at most this many seconds after it came.
FLUSH_SECONDS: Final = 0.2


class Recording:
    """The record of one running chat.

    A write that the disk refuses is repeated until it succeeds. Until then the chat waits, and the
    agent waits as soon as its pipe is full. So no update is lost, and memory stays bounded.

    Args:
        db: The database.
        stream: The stream's key.
        mirror: The record so far, after `Mirror.begin`.
        extra: Fields for log lines about this chat.
    """

    def __init__(
        self, db: Database, stream: int, mirror: Mirror, extra: dict[str, str] | None = None
    ) -> None:
        self._db = db
        self._stream = stream
        self.mirror = mirror
        self._extra = extra
        # Set when unfinished blocks have text that is not on disk yet.
        self._dirty = asyncio.Event()
        self.live = Live()
        # Set while a write is being repeated because the disk has refused it.
        self.stuck = asyncio.Event()
        # Set when the hub stops: no write is repeated from then on.
        self._stopping = asyncio.Event()
        # The current write. It takes effect even if its caller is cancelled.
        self._pending: asyncio.Future[Any] | None = None

    def stop(self) -> None:
        """Stop repeating writes, because the hub is stopping."""
        self._stopping.set()

    async def take(self, updates: Sequence[Update]) -> None:
        """Write updates in order, and show the growth of blocks to followers."""
        waiting: list[Update] = []
        for update in updates:
            if isinstance(update, BlockDelta):
                await self._write(waiting)
                waiting = []
                self.live.grow(update)
                self._dirty.set()
                self._db.waiters.wake(streams.topic(self._stream))
            else:
                waiting.append(update)
        await self._write(waiting)

    async def flush_repeatedly(self) -> None:
        """Store the text of unfinished blocks a few times a second, until cancelled."""
        while True:
            await self._dirty.wait()
            await asyncio.sleep(FLUSH_SECONDS)
            try:
                await self.flush()
            except DISK_FAILURES:
                # The text is still in memory, so the next flush stores it.
                self._dirty.set()

    async def flush(self) -> None:
        """Store the text of unfinished blocks."""
        self._dirty.clear()
        texts = {key: block.text() for key, block in self.live.blocks.items() if block.parts}
        mirror = self.mirror
        if texts:
            await self._db.transaction(lambda tx: mirror.flush(tx, texts))

    async def end(
        self, status: streams.Status, error: str | None = None, rest: Sequence[Update] = ()
    ) -> None:
        """Write the end of the chat.

        Args:
            status: The final status.
            error: The reason if the chat failed.
            rest: Updates that came with the end.

        Raises:
            DatabaseUnusable: The disk refuses it, and the hub is stopping.
        """
        now = int(time.time())

        def end(tx: Tx, mirror: Mirror) -> None:
            for update in rest:
                mirror.apply(tx, update, now)
            mirror.end(tx, status, now, error)

        await self.settle()
        await self._keep(end)

    async def write_beside(self, function: Callable[[Tx], T]) -> T:
        """Run a transaction of another task, and repeat it while the disk refuses it."""
        return await disk.until_written(self._db, function, self._stopping)

    async def until_written(self, function: Callable[[Tx], T]) -> T:
        """Run a transaction, and repeat it while the disk refuses it.

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
                    log.warning("the disk accepts the record of a chat again", extra=self._extra)
                    self.stuck.clear()
                return result

    async def _write(self, updates: Sequence[Update]) -> None:
        if not updates:
            return
        now = int(time.time())
        finished = {block_key(update) for update in updates if isinstance(update, BlockFinished)}
        for key in finished:
            self.live.finish(key)

        def write(tx: Tx, mirror: Mirror) -> None:
            for update in updates:
                mirror.apply(tx, update, now)

        await self._keep(write)
        for update in updates:
            if isinstance(update, BlockStarted) and block_key(update) not in finished:
                self.live.start(update, self.mirror.pushed)
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

    async def settle(self) -> None:
        """Take over the current write after its caller was cancelled."""
        if self._pending is not None:
            await asyncio.wait([self._pending])
            if self._pending.exception() is None and isinstance(self._pending.result(), Mirror):
                self.mirror = self._pending.result()
            self._pending = None

    async def _wait_for_disk(self, error: Exception) -> None:
        """Wait before the next attempt of a write that the disk refused.

        Raises:
            Exception: `error`, if the hub is stopping.
        """
        if self._stopping.is_set():
            raise error
        if not self.stuck.is_set():
            message = "the disk refuses the record of a chat; retrying until it succeeds: %s"
            log.error(message, reason_of(error), extra=self._extra)
            self.stuck.set()
        await disk.pause(self._stopping)
