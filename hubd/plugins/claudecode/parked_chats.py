"""Chats that wait for approvals without a process, until their calls are decided."""

import asyncio
from collections.abc import Awaitable, Callable

from hubd.plugins.claudecode.approvals.store import ALL
from hubd.storage.database import Database
from hubd.storage.streams import streams
from hubd.storage.streams.streams import StreamRow


class ParkedChats:
    """The parked chats of one hub, by stream.

    Args:
        db: The database.
        resume: Continues a chat; returns False if it has to wait for a free place.
    """

    def __init__(self, db: Database, resume: Callable[[StreamRow], Awaitable[bool]]) -> None:
        self._db = db
        self._resume = resume
        self._streams: dict[int, StreamRow] = {}
        # Set when a chat may be able to continue.
        self._changed = asyncio.Event()

    def __contains__(self, stream: int) -> bool:
        return stream in self._streams

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, stream: StreamRow) -> None:
        """Add a chat that waits."""
        self._streams[stream.key] = stream
        self.wake()

    def remove(self, stream: int) -> None:
        """Remove a chat that continues or has ended."""
        self._streams.pop(stream, None)

    def wake(self) -> None:
        """Check all chats again, because a place is free or a chat was added."""
        self._changed.set()

    async def watch(self) -> None:
        """Continue each chat when its approvals are decided, until cancelled."""
        with self._db.waiters.waiting_for(ALL) as decided:
            while True:
                decided.clear()
                self._changed.clear()
                for stream in list(self._streams.values()):
                    # When no approval is pending, the chat counts as running again.
                    current = await streams.reread(self._db, stream.key)
                    if current.status == "running" and not await self._resume(current):
                        break
                await _either(decided, self._changed)


async def _either(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
