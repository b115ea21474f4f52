"""A chat being recorded: facts into the tree and the stream, and to followers before that.

Knows nothing of the program that the facts come from.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from hubd.plugins.claudecode.facts import BlockDelta, BlockFinished, BlockStarted, Fact
from hubd.plugins.claudecode.live import Live, block_key
from hubd.plugins.claudecode.mirror import Mirror
from hubd.storage import streams
from hubd.storage.database import Database, Tx

# The text of a growing block is on disk at most this long after it came.
FLUSH_SECONDS: Final = 0.2


class Recording:
    """The record of one chat while it grows. `mirror` has begun."""

    def __init__(self, db: Database, stream: int, mirror: Mirror) -> None:
        self._db = db
        self._stream = stream
        self.mirror = mirror
        # Set when growing blocks have text that is not on disk yet.
        self._dirty = asyncio.Event()
        self.live = Live()

    async def take(self, facts: Sequence[Fact]) -> None:
        """Write what is to be kept, and show what is not yet; in order."""
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
            await self.flush()

    async def flush(self) -> None:
        """Keep the text of growing blocks."""
        self._dirty.clear()
        texts = {key: block.text() for key, block in self.live.blocks.items() if block.parts}
        if texts:
            await self._db.transaction(lambda tx: self.mirror.flush(tx, texts))

    async def end(
        self, status: streams.Status, error: str | None = None, rest: Sequence[Fact] = ()
    ) -> None:
        """The chat is over.

        Args:
            status: How it ended.
            error: Why, if it should not have.
            rest: What is known only now.
        """
        now = int(time.time())

        def end(tx: Tx) -> None:
            for fact in rest:
                self.mirror.apply(tx, fact, now)
            self.mirror.end(tx, status, now, error)

        await self._db.transaction(end)

    async def _write(self, facts: Sequence[Fact]) -> None:
        if not facts:
            return
        now = int(time.time())
        finished = {block_key(fact) for fact in facts if isinstance(fact, BlockFinished)}
        for key in finished:
            self.live.finish(key)

        def write(tx: Tx) -> None:
            for fact in facts:
                self.mirror.apply(tx, fact, now)

        await self._db.transaction(write)
        for fact in facts:
            if isinstance(fact, BlockStarted) and block_key(fact) not in finished:
                self.live.start(fact, self.mirror.pushed)
        self._db.waiters.wake(streams.topic(self._stream))
