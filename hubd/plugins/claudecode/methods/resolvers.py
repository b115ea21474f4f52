"""Resolvers: read back the data behind claudecode's handles."""

from uuid import UUID

from pydantic_core import from_json

from hubd.activation import NotFound, resolver
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
from hubd.plugins.claudecode.protocol.messages import output_text
from hubd.plugins.claudecode.record.context import is_kept
from hubd.plugins.claudecode.record.mirror import SYNTHETIC
from hubd.plugins.claudecode.sessions import SESSIONS
from hubd.storage import ids
from hubd.storage.streams import streams


class Resolvers(ClaudeBase):
    """One resolver for each type of handle."""

    @resolver
    async def turn(self, ref: TurnRef) -> events.ResolvedTurn:
        """Return a turn."""
        data = (await store.look_up_blob(self.db, ref.turn_id, "turn")).data
        return events.ResolvedTurn(
            handle=ref,
            index=data["index"],
            prompt=data["prompt"],
            status=data["status"],
            data=data,
        )

    @resolver
    async def message(self, ref: MessageRef) -> events.ResolvedMessage:
        """Return a message with its blocks."""
        data = (await store.look_up_blob(self.db, ref.blob_id, "message")).data
        content = data.get("content")
        if content is None:
            blobs = [await store.blob(self.db, UUID(name).bytes) for name in data["blocks"]]
            content = [blob.data["block"] for blob in blobs if blob is not None]
        return events.ResolvedMessage(
            handle=ref,
            role=data["role"],
            text=data["text"],
            content=content,
            model=data.get("model"),
            complete=is_kept(data),
            synthetic=data.get("model") == SYNTHETIC,
            data={name: value for name, value in data.items() if name != "content"},
        )

    @resolver
    async def content(self, ref: ContentRef) -> events.ResolvedBlock:
        """Return a block of text, or the text so far while the block grows."""
        # Blocks of kind `other` have the handle of a text block.
        return await self._block(ref, "content", "other")

    @resolver
    async def thinking(self, ref: ThinkingRef) -> events.ResolvedBlock:
        """Return a block of thinking."""
        return await self._block(ref, "thinking")

    @resolver
    async def tool_use(self, ref: ToolUseRef) -> events.ResolvedToolUse:
        """Return a tool call."""
        blob = await store.look_up_blob(self.db, ref.blob_id, "tool_use")
        block = blob.data["block"]
        return events.ResolvedToolUse(
            handle=ref,
            tool_name=ref.tool_name,
            input=block.get("input", block.get("text")),
            block=block,
            complete=blob.intact,
        )

    @resolver
    async def tool_result(self, ref: ToolResultRef) -> events.ResolvedToolResult:
        """Return the full result of a tool call."""
        block = (await store.look_up_blob(self.db, ref.blob_id, "tool_result")).data["block"]
        return events.ResolvedToolResult(
            handle=ref,
            output=output_text(block.get("content")),
            is_error=ref.is_error,
            block=block,
        )

    @resolver
    async def chat_event(self, ref: EventRef) -> events.ResolvedEvent:
        """Return a durable event."""
        row = await streams.event(self.db, ref.event_id.bytes)
        if row is None:
            raise NotFound(f"no event {ref.event_id}")
        return events.ResolvedEvent(
            handle=ref,
            event_type=row.event_type,
            seq=row.seq,
            timestamp=row.timestamp,
            event=from_json(row.data),
        )

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

    async def _block(self, ref: ContentRef | ThinkingRef, *kinds: str) -> events.ResolvedBlock:
        blob = await store.look_up_blob(self.db, ref.blob_id, *kinds)
        block = blob.data["block"]
        return events.ResolvedBlock(
            handle=ref,
            text=str(block.get("text") or block.get("thinking") or ""),
            block=block,
            complete=blob.intact,
        )
