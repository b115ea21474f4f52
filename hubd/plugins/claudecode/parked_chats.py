"""Continue chats that wait for approvals without a program, when their calls are decided."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from hubd.errors import HubError, reason_of
from hubd.plugins.claudecode.approvals.store import ALL
from hubd.plugins.claudecode.chat_start import PreparedChat
from hubd.plugins.claudecode.native import pending_call
from hubd.plugins.claudecode.places import Places
from hubd.plugins.claudecode.record import disk
from hubd.plugins.claudecode.record.disk import DISK_FAILURES
from hubd.plugins.claudecode.record.interruption import end_without_process
from hubd.storage import ids
from hubd.storage.database import Database
from hubd.storage.streams import streams
from hubd.storage.streams.streams import Status, StreamRow

log = logging.getLogger("hubd.claudecode")


class ParkedChats:
    """The chats without a program. Their sessions are busy.

    Args:
        db: The database.
        places: The open chats.
        prepare: Prepares a parked chat.
        begin: Starts a prepared chat; returns False if it was cancelled in the meantime.
        freed: Called when a session is not busy any more, because its chat has ended.
    """

    def __init__(
        self,
        db: Database,
        places: Places,
        prepare: Callable[[StreamRow], Awaitable[PreparedChat]],
        begin: Callable[[PreparedChat, StreamRow], Awaitable[bool]],
        freed: Callable[[StreamRow], None],
    ) -> None:
        self._db = db
        self._places = places
        self._prepare = prepare
        self._begin = begin
        self._freed = freed
        # The chats that are about to continue. They hold a place.
        self._continuing: dict[int, StreamRow] = {}
        # Set when a chat may be able to continue.
        self._changed = asyncio.Event()

    def __contains__(self, stream: int) -> bool:
        return stream in self._places.parked or stream in self._continuing

    def add(self, stream: StreamRow) -> None:
        """Add a chat that waits."""
        self._places.parked[stream.key] = stream
        self.wake()

    def wake(self) -> None:
        """Check all chats again, because a place is free or a chat was added."""
        self._changed.set()

    async def watch(self) -> None:
        """Continue each chat when its approvals are decided, until cancelled."""
        with self._db.waiters.waiting_for(ALL) as decided:
            while True:
                decided.clear()
                self._changed.clear()
                try:
                    await self._continue_decided()
                except DISK_FAILURES as error:
                    log.error("parked chats wait until the disk can be used: %s", error)
                    await disk.pause()
                else:
                    await _either(decided, self._changed)

    async def cancel(self, stream: StreamRow) -> None:
        """Cancel a chat without a program.

        Raises:
            DatabaseUnusable: The disk refuses it; the chat still waits.
        """
        await self._end(stream, "cancelled", "the chat was cancelled")
        if self._places.parked.pop(stream.key, None) is not None:
            self._release(stream)

    async def _continue_decided(self) -> None:
        # When no approval of a chat is pending, the chat counts as running again.
        decided = await streams.with_status(self._db, list(self._places.parked), "running")
        for stream in decided:
            if self._places.is_full:
                return
            if self._places.parked.pop(stream.key, None) is not None:
                await self._continue(stream)

    async def _continue(self, stream: StreamRow) -> None:
        """Continue a chat. If that is not possible, it ends and its calls are lost."""
        self._continuing[stream.key] = stream
        started = False
        try:
            await self._places.make_room()
            started = await self._begin(await self._prepare(stream), stream)
        except DISK_FAILURES:
            self._places.parked[stream.key] = stream
            raise
        except Exception as error:
            if not isinstance(error, (HubError, OSError)):
                log.exception("a parked chat could not continue")
            reason = f"the call can't be carried out: {reason_of(error)}"
            log.warning("%s", reason, extra={"stream_id": ids.text(stream.id)})
            await self._end(stream, "interrupted", reason, patiently=True)
        finally:
            del self._continuing[stream.key]
            if not started and stream.key not in self._places.parked:
                self._release(stream)

    async def _end(
        self, stream: StreamRow, status: Status, reason: str, *, patiently: bool = False
    ) -> None:
        """End a chat without a program; patiently: when the disk accepts it."""
        now = int(time.time())
        write = disk.until_written if patiently else Database.transaction
        file = await write(
            self._db, lambda tx: end_without_process(tx, stream.key, status, reason, now)
        )
        if file is not None:
            with suppress(OSError, HubError):
                await asyncio.to_thread(pending_call.withdraw_live_marker, Path(file))

    def _release(self, stream: StreamRow) -> None:
        self._places.busy.pop(stream.session_id, None)
        self._freed(stream)


async def _either(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
