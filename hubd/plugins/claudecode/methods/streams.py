"""List and cancel chats. The events of each chat are a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Unpack

from hubd.activation import method
from hubd.activation.pages import ROWS_PER_ITEM, RowLimit
from hubd.plugins.claudecode import events, store
from hubd.plugins.claudecode.methods.base import ALL_ROWS, LIST_NAMES, ClaudeBase
from hubd.plugins.claudecode.methods.parameters import STREAM, Name, SessionId, StreamAddress
from hubd.storage import ids
from hubd.storage.streams import streams


class Streams(ClaudeBase):
    """Methods that list and cancel chats."""

    @method(one_of=STREAM, completes=LIST_NAMES)
    async def cancel(
        self,
        **where: Unpack[StreamAddress],
    ) -> events.Cancelled:
        """End a chat that runs or waits. Its text so far stays."""
        stream = await self.stream_named(where)
        ended = await self.queue.cancel(stream)
        is_written = ended.status not in streams.OPEN
        if not is_written:
            await self.host.advise(
                "end_not_written",
                "The agent has ended, but the disk refuses the end of the chat. The hub tries "
                "again until it is written; until then the chat is shown as running",
            )
        return events.Cancelled(
            stream_id=ids.text(ended.id), status=ended.status, written=is_written
        )

    @method(name="streams", read_only=True, render="table", completes=LIST_NAMES)
    async def list_streams(
        self,
        session_id: SessionId | None = None,
        name: Name | None = None,
        status: events.StatusName | None = None,
        limit: RowLimit | None = None,
    ) -> AsyncIterator[events.StreamList]:
        """List chats, the newest first, in pages.

        Args:
            session_id: The id of the session to list; all sessions by default.
            name: The name of the session to list, instead of its id.
            status: The status of the chats that are listed; all if absent.
            limit: The maximum number of chats; all if absent.
        """
        session = None
        if session_id is not None or name is not None:
            session = (await self.session_named({"name": name, "session_id": session_id})).id
        before, left = None, limit or ALL_ROWS
        while True:
            count = min(left, ROWS_PER_ITEM)
            page = await streams.page(self.db, session, before, count, status)
            if page or before is None:
                # Other calls run between the parts of a long page.
                await asyncio.sleep(0)
                texts = await store.names_and_prompts(self.db, (row.key for row in page))
                infos = [_stream_info(row, *texts.get(row.key, (None, None))) for row in page]
                await asyncio.sleep(0)
                yield events.StreamList(streams=infos)
            left -= len(page)
            if len(page) < count or not left:
                return
            before = page[-1].key


def _stream_info(row: streams.StreamRow, name: str | None, prompt: str | None) -> events.StreamInfo:
    return events.StreamInfo(
        stream_id=ids.text(row.id),
        session_id=ids.text(row.session_id),
        name=name,
        prompt=prompt,
        tree_id=ids.text(row.tree_id),
        status=row.status,
        root_node=ids.text(row.root) if row.root else None,
        head_node=ids.text(row.head) if row.head else None,
        total_events=row.next_seq,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        error=row.error,
    )
