"""The times of approvals: their deadlines, and the moments at which people are asked."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from hubd.activation import Actor, Host
from hubd.errors import HubError
from hubd.plugins.claudecode.approvals import actors, store
from hubd.plugins.claudecode.approvals.store import ApprovalRow, Resolution
from hubd.plugins.claudecode.record.disk import DISK_FAILURES
from hubd.storage.database import Database

log = logging.getLogger(__name__)

# The reason of a denial by the deadline.
TOO_LATE: Final = "No answer came before the deadline, so the call was denied."
PERSON: Final = Actor("person")
# Seconds that the notifying command may take.
NOTIFY_SECONDS: Final = 30.0
# Notifying commands that run at once.
MAX_NOTIFYING: Final = 4
# Seconds between two attempts if the disk refuses a write.
RETRY_SECONDS: Final = 1.0


class Clock:
    """Denies approvals at their deadlines, and notifies people about those they are asked about."""

    def __init__(
        self, db: Database, host: Host, notify: Sequence[str], now: Callable[[], float] = time.time
    ) -> None:
        self._db = db
        self._host = host
        self._notify = notify
        self._now = now
        # The approvals that people are asked about, so that each is announced once.
        self._announced: set[int] = set()
        self._notifying: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(MAX_NOTIFYING)

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            with self._db.waiters.waiting_for(store.ALL) as changed:
                await self._skip_announced()
                while True:
                    changed.clear()
                    pause = await self._look()
                    try:
                        async with asyncio.timeout(pause):
                            await changed.wait()
                    except TimeoutError:
                        continue
        finally:
            for task in self._notifying:
                task.cancel()
            if self._notifying:
                await asyncio.wait(self._notifying)

    async def _skip_announced(self) -> None:
        """Leave out the approvals that people were asked about before the hub was restarted.

        One that escalates is announced again, because that may have happened in between.
        """
        rows = await store.all_pending(self._db)
        self._announced = {row.key for row in rows if row.approver == "human"}

    async def _look(self) -> float | None:
        """Act on what is due; return the seconds until the next time, if there is one."""
        rows = await store.all_pending(self._db)
        now = self._now()
        times: list[float] = []
        for row in rows:
            if row.deadline_at <= now:
                try:
                    await self._deny(row, int(now))
                except DISK_FAILURES as error:
                    log.warning("a deadline could not be written: %s", error)
                    times.append(now + RETRY_SECONDS)
                continue
            times.append(row.deadline_at)
            if actors.is_asked(PERSON, row, now):
                self._announce(row)
            elif row.escalate_at is not None and row.approver == "parent_then_human":
                times.append(row.escalate_at)
        self._announced &= {row.key for row in rows}
        return max(0.0, min(times) - now) if times else None

    async def _deny(self, row: ApprovalRow, now: int) -> None:
        late = Resolution("timed_out", "deadline", TOO_LATE)
        await self._db.transaction(lambda tx: store.resolve(tx, row, late, now))

    def _announce(self, row: ApprovalRow) -> None:
        if row.key in self._announced:
            return
        self._announced.add(row.key)
        if row.escalate_at is not None:
            # Watchers look again: people are asked from now on.
            self._db.waiters.wake(store.ALL)
        if self._notify:
            task = asyncio.create_task(self._run_command(row), name="notify about an approval")
            self._notifying.add(task)
            task.add_done_callback(self._notifying.discard)

    async def _run_command(self, row: ApprovalRow) -> None:
        data = json.dumps(row.public()).encode()
        try:
            async with (
                self._room,
                asyncio.timeout(NOTIFY_SECONDS),
                self._host.process(self._notify, stdin=data, acts_as=PERSON) as child,
            ):
                async for _ in child.lines():
                    pass
                status = await child.wait()
        except TimeoutError:
            log.warning("the command of notify took longer than %g s", NOTIFY_SECONDS)
        except HubError as error:
            log.warning("the command of notify failed: %s", error.message)
        else:
            if status:
                tail = child.stderr_tail.strip().splitlines()[-1:]
                log.warning("the command of notify ended with status %d %s", status, *tail or [""])
