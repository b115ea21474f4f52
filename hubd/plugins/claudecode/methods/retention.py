"""Retention: remove the events of chats that ended long ago. By default all events are kept."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Final

from pydantic import Field

from hubd.activation import Host, InvalidParams, method
from hubd.activation.cleanup import hourly
from hubd.plugins.claudecode import events
from hubd.plugins.claudecode.methods.base import ClaudeBase
from hubd.storage import ids
from hubd.storage.streams.retention import count_events, ended_before, remove_events
from hubd.storage.streams.streams import StreamRow

log = logging.getLogger("hubd.claudecode")

DAY: Final = 86_400
# Seconds between two reports of progress.
REPORT_SECONDS: Final = 1.0


class Retention(ClaudeBase):
    """The method that removes old events, and the task that does so every hour."""

    # The setting `retention_days`; 0 keeps everything.
    _retention_days = 0.0

    @asynccontextmanager
    async def removing_old_events(self, days: float) -> AsyncIterator[None]:
        """Inside the block, remove events older than `days` in the background; 0 removes none."""
        self._retention_days = days
        if not days:
            yield
            return
        async with hourly(lambda: self._remove_old(days), "old events", log):
            yield

    @method(destructive=True, render="table")
    async def retention(
        self, dry_run: bool = False, days: Annotated[float, Field(ge=0)] | None = None
    ) -> AsyncIterator[events.RetentionStep | events.RetentionDone]:
        """Remove the events of chats that ended long ago. The conversations stay.

        Args:
            dry_run: List the events, and remove none.
            days: The age in days; the setting `retention_days` by default.
        """
        age = days if days is not None else self._retention_days
        if days is None and not age:
            raise InvalidParams(
                "no age is given, and the setting retention_days keeps all events",
                suggestion="Give days, or set retention_days below [claudecode] in config.toml",
            )
        chats = total = 0
        async for stream, count in self._remove(age, dry_run=dry_run, report=Report(self.host)):
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
        self, days: float, *, dry_run: bool, report: Report | None = None
    ) -> AsyncIterator[tuple[StreamRow, int]]:
        """Yield each chat that ended before, and the number of its events."""
        # No chat ended before 1970, so more days than that change nothing.
        moment, after = int(max(int(time.time()) - days * DAY, 0)) + 1, 0
        while page := await ended_before(self.db, moment, after):
            for stream in page:
                yield (
                    stream,
                    await (self._count(stream) if dry_run else self._remove_from(stream, report)),
                )
            after = page[-1].key

    async def _count(self, stream: StreamRow) -> int:
        return await count_events(self.db, stream.key)

    async def _remove_from(self, stream: StreamRow, report: Report | None) -> int:
        """Remove the events of a chat, a few in each transaction, between other writes."""
        total = 0
        while count := await self.db.transaction(lambda tx: remove_events(tx, stream.key)):
            total += count
            if report is not None:
                await report.add(count)
        return total

    async def _remove_old(self, days: float) -> None:
        removed = [count async for _, count in self._remove(days, dry_run=False)]
        if removed:
            log.info("removed %d events of %d old chats", sum(removed), len(removed))


class Report:
    """Progress of a long removal: at most one message in `REPORT_SECONDS`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._removed = 0
        self._last = time.monotonic()

    async def add(self, count: int) -> None:
        """Count removed events, and report the sum if the last report is old enough."""
        self._removed += count
        if time.monotonic() - self._last >= REPORT_SECONDS:
            self._last = time.monotonic()
            await self._host.progress(f"removed {self._removed} events so far")
