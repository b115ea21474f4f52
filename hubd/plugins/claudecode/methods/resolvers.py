"""Resolvers: read back the data behind claudecode's handles."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TypeVar
from uuid import UUID

from pydantic_core import to_json

from hubd.activation import Encoded, NotFound, resolver
from hubd.plugins.claudecode import events, store
from hubd.plugins.claudecode.approvals import store as approvals
from hubd.plugins.claudecode.handles import (
    ApprovalRef,
    ContentRef,
    EventRef,
    MessageRef,
    SessionRef,
    ThinkingRef,
    ToolResultRef,
    ToolUseRef,
    TurnRef,
)
from hubd.plugins.claudecode.methods.base import ClaudeBase
from hubd.plugins.claudecode.protocol import messages
from hubd.plugins.claudecode.record import context, mirror
from hubd.plugins.claudecode.sessions import SESSIONS
from hubd.storage import ids
from hubd.storage.streams.by_id import events_by_id
from hubd.storage.streams.streams import EventRow

R = TypeVar("R")


class Resolvers(ClaudeBase):
    """One resolver for each type of handle. Each reads its rows with one query."""

    @resolver(many=True)
    async def turn(self, refs: list[TurnRef]) -> AsyncIterator[events.ResolvedTurn | NotFound]:
        """Return turns."""
        blobs = store.each_blob(self.db, [ref.turn_id for ref in refs], "turn")
        async for ref, blob in _pairs(refs, blobs):
            if isinstance(blob, NotFound):
                yield blob
                continue
            data = blob.data
            yield events.ResolvedTurn(
                handle=ref,
                index=data["index"],
                prompt=data["prompt"],
                status=data["status"],
                data=data,
            )

    @resolver(many=True)
    async def message(
        self, refs: list[MessageRef]
    ) -> AsyncIterator[events.ResolvedMessage | NotFound]:
        """Return messages with their blocks."""
        blobs = store.each_blob(self.db, [ref.blob_id for ref in refs], "message")
        async for ref, blob in _pairs(refs, blobs):
            if isinstance(blob, NotFound):
                yield blob
                continue
            data = blob.data
            content = data.get("content")
            if content is None:
                blocks = store.each_blob(self.db, list(map(UUID, data["blocks"])))
                content = [
                    block.data["block"] async for block in blocks if isinstance(block, store.Blob)
                ]
            yield events.ResolvedMessage(
                handle=ref,
                role=data["role"],
                text=data["text"],
                content=content,
                model=data.get("model"),
                complete=context.is_kept(data),
                synthetic=data.get("model") == mirror.SYNTHETIC,
                data={name: value for name, value in data.items() if name != "content"},
            )

    @resolver(many=True)
    async def content(
        self, refs: list[ContentRef]
    ) -> AsyncIterator[events.ResolvedBlock | NotFound]:
        """Return blocks of text, or the text so far while a block grows."""
        # Blocks of kind `other` have the handle of a text block.
        async for result in self._blocks(refs, "content", "other"):
            yield result

    @resolver(many=True)
    async def thinking(
        self, refs: list[ThinkingRef]
    ) -> AsyncIterator[events.ResolvedBlock | NotFound]:
        """Return blocks of thinking."""
        async for result in self._blocks(refs, "thinking"):
            yield result

    @resolver(many=True)
    async def tool_use(
        self, refs: list[ToolUseRef]
    ) -> AsyncIterator[events.ResolvedToolUse | NotFound]:
        """Return tool calls."""
        blobs = store.each_blob(self.db, [ref.blob_id for ref in refs], "tool_use")
        async for ref, blob in _pairs(refs, blobs):
            if isinstance(blob, NotFound):
                yield blob
                continue
            block = blob.data["block"]
            yield events.ResolvedToolUse(
                handle=ref,
                tool_use_id=ref.tool_use_id,
                tool_name=ref.tool_name,
                input=block.get("input", block.get("text")),
                block=block,
                complete=blob.intact,
            )

    @resolver(many=True)
    async def tool_result(
        self, refs: list[ToolResultRef]
    ) -> AsyncIterator[events.ResolvedToolResult | NotFound]:
        """Return the full results of tool calls."""
        blobs = store.each_blob(self.db, [ref.blob_id for ref in refs], "tool_result")
        async for ref, blob in _pairs(refs, blobs):
            if isinstance(blob, NotFound):
                yield blob
                continue
            block = blob.data["block"]
            yield events.ResolvedToolResult(
                handle=ref,
                tool_use_id=ref.tool_use_id,
                output=messages.output_text(block.get("content")),
                is_error=ref.is_error,
                block=block,
            )

    @resolver(many=True)
    async def chat_event(
        self, refs: list[EventRef]
    ) -> list[events.ResolvedEvent | Encoded | NotFound]:
        """Return durable events."""
        event_ids = [ref.event_id.bytes for ref in refs]
        rows = await events_by_id(self.db, event_ids)
        return [
            _event(ref, row) if (row := rows.get(event_id)) else _no_event(ref)
            for ref, event_id in zip(refs, event_ids, strict=True)
        ]

    @resolver
    async def approval(self, ref: ApprovalRef) -> events.ResolvedApproval:
        """Return an approval."""
        row = await approvals.look_up(self.db, ids.text(ref.approval_id.bytes))
        return events.ResolvedApproval(
            handle=ref, approval=row.public(), tool_name=row.tool_name, status=row.status
        )

    @resolver
    async def session(self, ref: SessionRef) -> events.ResolvedSession:
        """Return a session."""
        session = await SESSIONS.look_up(self.db, ids.text(ref.session_id.bytes))
        [info] = await self.session_infos([session])
        return events.ResolvedSession(handle=ref, name=session.name, session=info)

    async def _blocks(
        self, refs: Sequence[ContentRef | ThinkingRef], *kinds: str
    ) -> AsyncIterator[events.ResolvedBlock | NotFound]:
        blobs = store.each_blob(self.db, [ref.blob_id for ref in refs], *kinds)
        async for ref, blob in _pairs(refs, blobs):
            if isinstance(blob, NotFound):
                yield blob
                continue
            block = blob.data["block"]
            yield events.ResolvedBlock(
                handle=ref,
                text=str(block.get("text") or block.get("thinking") or ""),
                block=block,
                complete=blob.intact,
            )


async def _pairs(
    refs: Sequence[R], blobs: AsyncIterator[store.Blob | NotFound]
) -> AsyncIterator[tuple[R, store.Blob | NotFound]]:
    """Yield each handle with its blob."""
    remaining = iter(refs)
    async for blob in blobs:
        yield next(remaining), blob


def _event(ref: EventRef, row: EventRow) -> Encoded:
    """Return a `ResolvedEvent` with the stored JSON of the event, which is not parsed."""
    kind = to_json(row.event_type)
    return Encoded(
        b'{"type":"resolved_event","handle":%b,"event_type":%b,"seq":%d,"timestamp":%d,"event":%b}'
        % (to_json(str(ref)), kind, row.seq, row.timestamp, row.data.encode()),
        {"event_type": row.event_type},
    )


def _no_event(ref: EventRef) -> NotFound:
    return NotFound(f"no event {ref.event_id}")
