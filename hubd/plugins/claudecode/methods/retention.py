"""claudecode: how long the events of chats that have ended are kept. For ever, unless told."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Final

from pydantic import Field

from hubd.activation import Host, HubError, InvalidParams, method
from hubd.plugins.claudecode import events
from hubd.plugins.claudecode.handles import VERSION
from hubd.plugins.claudecode.methods.base import ClaudeBase, now
from hubd.storage import ids
from hubd.storage.streams import streams
from hubd.storage.streams.streams import StreamRow

log = logging.getLogger("hubd.claudecode")

DAY: Final = 86_400
# Seconds between two reports of progress.
REPORT_SECONDS: Final = 1.0
# Nobody waits for events to go.
CLEANUP_SECONDS: Final = 3600.0


class Retention(ClaudeBase, version=VERSION):
    """The method that removes old events, and the task that does so by itself."""

    # Set by `keeping`; 0 keeps everything.
    _retention_days = 0.0

    @asynccontextmanager
    async def keeping(self, days: float) -> AsyncIterator[None]:
        """Remove what is older than `days` in the background; nothing if that is 0."""
        self._retention_days = days
        if not days:
            yield
            return
        cleaner = asyncio.create_task(self._remove_for_ever(days), name="claudecode retention")
        try:
            yield
        finally:
            cleaner.cancel()
            await asyncio.wait([cleaner])

    @method(destructive=True, render="table")
    async def retention(
        self, dry_run: bool = False, days: Annotated[float, Field(ge=0)] | None = None
    ) -> AsyncIterator[events.RetentionStep | events.RetentionDone]:
        """Remove the events of chats that ended long ago; the conversation itself stays.

        Args:
            dry_run: Only say what would be removed.
            days: How long ago; the setting `retention_days` unless said otherwise.
        """
        wanted = days if days is not None else self._retention_days
        if days is None and not wanted:
            raise InvalidParams(
                "events are kept for ever",
                suggestion="Give days, or set retention_days in the section claudecode",
            )
        chats = total = 0
        async for stream, count in self._remove(wanted, dry_run=dry_run, report=Report(self.host)):
            chats, total = chats + 1, total + count
            yield events.RetentionStep(
                stream_id=ids.text(stream.id),
                session_id=ids.text(stream.session_id),
                ended_at=stream.ended_at or 0,
                events=count,
                dry_run=dry_run,
            )
        yield events.RetentionDone(streams=chats, events=total, dry_run=dry_run)

    async def _remove(
        self, days: float, *, dry_run: bool, report: "Report | None" = None
    ) -> AsyncIterator[tuple[StreamRow, int]]:
        """Each chat whose time has come, and how many events it had."""
        # No chat ended before 1970, however many days are asked for.
        moment, after = int(max(now() - days * DAY, 0)) + 1, 0
        while page := await streams.ended_before(self.db, moment, after):
            for stream in page:
                yield (
                    stream,
                    await (self._count(stream) if dry_run else self._remove_from(stream, report)),
                )
            after = page[-1].key

    async def _count(self, stream: StreamRow) -> int:
        return await streams.count(self.db, stream.key)

    async def _remove_from(self, stream: StreamRow, report: "Report | None") -> int:
        """Bit by bit: others write meanwhile."""
        total = 0
        while count := await self.db.transaction(lambda tx: streams.remove_events(tx, stream.key)):
            total += count
            if report is not None:
                await report.add(count)
        return total

    async def _remove_for_ever(self, days: float) -> None:
        while True:
            try:
                removed = [count async for _, count in self._remove(days, dry_run=False)]
                if removed:
                    log.info("removed %d events of %d old chats", sum(removed), len(removed))
            except HubError as error:
                log.warning("old events stay for now: %s", error.message)
            except Exception:
                # Whatever it is must not end the task for good.
                log.exception("old events stay for now")
            await asyncio.sleep(CLEANUP_SECONDS)


class Report:
    """Progress of a removal that takes long: at most one message in `REPORT_SECONDS`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._removed = 0
        self._last = time.monotonic()

    async def add(self, count: int) -> None:
        """Count removed events, and report the sum when it is time."""
        self._removed += count
        if time.monotonic() - self._last >= REPORT_SECONDS:
            self._last = time.monotonic()
            await self._host.progress(f"removed {self._removed} events so far")
