"""Ask the caller about each approval as it arrives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from hubd.activation import Actor, Cancelled, Conflict, InvalidParams, PermissionDenied, method
from hubd.activation.params import IdPrefix
from hubd.plugins.claudecode.approvals import actors, store
from hubd.plugins.claudecode.approvals.store import ApprovalRow
from hubd.plugins.loopback import answering
from hubd.plugins.loopback import approval_events as events
from hubd.plugins.loopback import dialogue as dialogues
from hubd.plugins.loopback.methods.base import LoopbackBase
from hubd.storage import ids
from hubd.storage.streams import streams


class Watching(LoopbackBase):
    """The method `watch`."""

    @method(bidirectional=True)
    async def watch(
        self, stream_id: IdPrefix | None = None
    ) -> AsyncIterator[events.Asked | events.Answered | events.Declined]:
        """Ask the caller about each approval as it arrives, until the caller leaves.

        Any number of callers may watch. The first answer counts, and the question is withdrawn
        from the others.

        Args:
            stream_id: The chat to watch: its id, or the first 8 or more digits; all by default.
        """
        stream = await streams.look_up(self.db, stream_id) if stream_id else None
        actor = self.host.client.actor
        # Approvals that the caller declined to answer are not put to it again.
        declined: set[int] = set()
        with self.db.waiters.waiting_for(store.ALL) as changed:
            while True:
                changed.clear()
                row = await self._next(actor, stream, declined)
                if row is None:
                    await changed.wait()
                    continue
                yield events.Asked(approval=row.public())
                reply = asyncio.create_task(self._ask(actor, row), name="question")
                try:
                    await self._until_answered(row, reply, changed)
                finally:
                    reply.cancel()
                    await asyncio.wait([reply])
                row = await store.reread(self.db, row.key)
                if row.status == "pending":
                    declined.add(row.key)
                    yield events.Declined(approval_id=ids.text(row.id))
                else:
                    yield events.Answered(
                        approval_id=ids.text(row.id),
                        status=row.status,
                        by=row.decided_by or "",
                        text=answering.outcome(row),
                    )
                changed.set()

    async def _next(
        self, actor: Actor, stream: streams.StreamRow | None, declined: set[int]
    ) -> ApprovalRow | None:
        now = time.time()
        for row in await store.all_pending(self.db):
            is_here = stream is None or row.stream == stream.key
            if is_here and row.key not in declined and actors.is_asked(actor, row, now):
                return row
        return None

    async def _until_answered(
        self, row: ApprovalRow, reply: asyncio.Task[None], changed: asyncio.Event
    ) -> None:
        """Wait for the caller's answer, or for another one, which withdraws the question."""
        while not reply.done():
            current = await store.reread(self.db, row.key)
            if current.status != "pending":
                reply.cancel(answering.outcome(current))
                return
            changed.clear()
            wait = asyncio.create_task(changed.wait())
            try:
                await asyncio.wait([reply, wait], return_when=asyncio.FIRST_COMPLETED)
            finally:
                wait.cancel()

    async def _ask(self, actor: Actor, row: ApprovalRow) -> None:
        """Put one approval to the caller and record the answer; return if it declines."""
        dialogue, problem = dialogues.Dialogue(self.host, row.public()), ""
        while True:
            try:
                await self.answering.answer(actor, row, await dialogue.reply(problem))
            except (PermissionDenied, InvalidParams) as error:
                # A rule forbids the call, or it can't be remembered: the caller decides again.
                problem = f"This is not possible: {error.message}"
            except (Conflict, Cancelled):
                # Another answer was first, or the caller declined.
                return
            else:
                return
