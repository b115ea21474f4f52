"""Clean up after an earlier hub: its chats, its processes and its files."""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hubd.activation import Host
from hubd.errors import HubError
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.native import pending_call
from hubd.plugins.claudecode.record.disk import DISK_FAILURES
from hubd.plugins.claudecode.record.interruption import sort_left_open
from hubd.storage import ids
from hubd.storage.database import Database
from hubd.storage.streams.streams import StreamRow

log = logging.getLogger("hubd.claudecode")


class Recovery:
    """The chats that an earlier hub left open. `sort` comes first, then `end_processes`."""

    def __init__(self, db: Database, host: Host) -> None:
        self._db = db
        self._host = host
        # The native session files of interrupted chats.
        self._files: Sequence[str] = ()

    async def sort(self) -> list[StreamRow]:
        """Mark the chats that ran as interrupted; return those that wait for approvals."""
        now = int(time.time())
        left_open = await self._db.transaction(lambda tx: sort_left_open(tx, now))
        self._files = left_open.files
        for stream in left_open.interrupted:
            log.warning("chat interrupted", extra={"stream_id": ids.text(stream.id)})
        for stream in left_open.waiting:
            log.info("chat waits for an approval", extra={"stream_id": ids.text(stream.id)})
        return left_open.waiting

    async def end_processes(self) -> None:
        """End the processes of the earlier hub. Then no other process carries out their calls."""
        await asyncio.gather(*(self._end(*run) for run in await store.runs(self._db)))
        for file in self._files:
            with suppress(OSError, HubError):
                await asyncio.to_thread(pending_call.withdraw_live_marker, Path(file))

    async def _end(self, stream: int, stream_id: bytes, pid: int, started: str) -> None:
        extra = {"stream_id": ids.text(stream_id)}
        if await self._host.end_process(pid, started, extra["stream_id"]):
            log.warning("ended process %d of a hub that crashed", pid, extra=extra)
        # If the disk refuses this, the next hub looks for the process again.
        with suppress(*DISK_FAILURES):
            await self._db.transaction(lambda tx: store.forget_run(tx, stream))
