"""claudecode: the plugin: what handles point at, and its life."""

from collections.abc import AsyncIterator
from uuid import UUID

from pydantic_core import from_json

from hubd.activation import NotFound, resolver
from hubd.plugins.claudecode import events, store
from hubd.plugins.claudecode.handles import (
    NAMESPACE,
    VERSION,
    ContentRef,
    EventRef,
    MessageRef,
    SessionRef,
    ThinkingRef,
    ToolResultRef,
    ToolUseRef,
    TurnRef,
)
from hubd.plugins.claudecode.methods.exporting import Exporting
from hubd.plugins.claudecode.methods.retention import Retention
from hubd.plugins.claudecode.program.engine import Settings
from hubd.plugins.claudecode.protocol.messages import output_text
from hubd.plugins.claudecode.queue import Chats
from hubd.plugins.claudecode.record.context import Context, is_kept
from hubd.plugins.claudecode.record.mirror import SYNTHETIC
from hubd.plugins.claudecode.tables import MIGRATIONS
from hubd.storage import ids
from hubd.storage.streams import streams


class ClaudeCode(Retention, Exporting, namespace=NAMESPACE, version=VERSION):
    """Claude Code sessions: every chat a durable stream, every conversation a branching tree.

    A chat runs in the background and outlives its caller. Any number of readers follow it, each
    at its own pace. Sessions fork without copying, at their end or at any message.
    """

    migrations = MIGRATIONS
    settings_model = Settings

    async def lifespan(self) -> AsyncIterator[None]:
        """Go on where an earlier hub has stopped, and interrupt what runs when this one stops."""
        context = Context(self.db, self.host, self.path)
        settings = self.settings(Settings)
        chats = Chats(self.db, self.host, context, settings)
        await chats.recover()
        self._chats = chats
        try:
            async with self.keeping(settings.retention_days):
                yield
        finally:
            await chats.close()
            self._chats = None

    @resolver
    async def turn(self, ref: TurnRef) -> AsyncIterator[events.ResolvedTurn]:
        """Read a turn back."""
        data = (await self.blob_of(ref.turn_id, "turn")).data
        yield events.ResolvedTurn(
            handle=ref,
            index=data["index"],
            prompt=data["prompt"],
            status=data["status"],
            data=data,
        )

    @resolver
    async def message(self, ref: MessageRef) -> AsyncIterator[events.ResolvedMessage]:
        """Read a message back, with its blocks."""
        data = (await self.blob_of(ref.blob_id, "message")).data
        content = data.get("content")
        if content is None:
            blobs = [await store.blob(self.db, UUID(name).bytes) for name in data["blocks"]]
            content = [blob.data["block"] for blob in blobs if blob is not None]
        yield events.ResolvedMessage(
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
    async def content(self, ref: ContentRef) -> AsyncIterator[events.ResolvedBlock]:
        """Read a block of text back; the text so far while it is being written."""
        # What has no kind of its own is kept as content.
        yield await self._block(ref, "content", "other")

    @resolver
    async def thinking(self, ref: ThinkingRef) -> AsyncIterator[events.ResolvedBlock]:
        """Read a block of thinking back."""
        yield await self._block(ref, "thinking")

    @resolver
    async def tool_use(self, ref: ToolUseRef) -> AsyncIterator[events.ResolvedToolUse]:
        """Read a call of a tool back."""
        blob = await self.blob_of(ref.blob_id, "tool_use")
        block = blob.data["block"]
        yield events.ResolvedToolUse(
            handle=ref,
            tool_name=ref.tool_name,
            input=block.get("input", block.get("text")),
            block=block,
            complete=blob.whole,
        )

    @resolver
    async def tool_result(self, ref: ToolResultRef) -> AsyncIterator[events.ResolvedToolResult]:
        """Read back what a tool gave, whole."""
        block = (await self.blob_of(ref.blob_id, "tool_result")).data["block"]
        yield events.ResolvedToolResult(
            handle=ref,
            output=output_text(block.get("content")),
            is_error=ref.is_error,
            block=block,
        )

    @resolver
    async def chat_event(self, ref: EventRef) -> AsyncIterator[events.ResolvedEvent]:
        """Read a durable event back."""
        row = await streams.event(self.db, ref.event_id.bytes)
        if row is None:
            raise NotFound(f"no event {ref.event_id}")
        yield events.ResolvedEvent(
            handle=ref,
            event_type=row.event_type,
            seq=row.seq,
            timestamp=row.timestamp,
            event=from_json(row.data),
        )

    @resolver
    async def session(self, ref: SessionRef) -> AsyncIterator[events.ResolvedSession]:
        """Read a session back."""
        found = await store.look_up_session(self.db, ids.text(ref.session_id.bytes))
        yield events.ResolvedSession(handle=ref, name=found.name, session=await self.info(found))

    async def _block(self, ref: ContentRef | ThinkingRef, *kinds: str) -> events.ResolvedBlock:
        blob = await self.blob_of(ref.blob_id, *kinds)
        block = blob.data["block"]
        return events.ResolvedBlock(
            handle=ref,
            text=str(block.get("text") or block.get("thinking") or ""),
            block=block,
            complete=blob.whole,
        )
