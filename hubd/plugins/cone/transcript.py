"""cone: the methods that read and export a conversation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Unpack

from hubd.activation import method
from hubd.activation.pages import ROWS_PER_ITEM
from hubd.activation.params import NodeId
from hubd.conversations import context
from hubd.conversations.export import conversation as exported
from hubd.conversations.export import document
from hubd.conversations.params import ExportOptions
from hubd.plugins.cone import events, store
from hubd.plugins.cone.base import ALIASES, LIST_CONES, ConeBase, ConversationPath
from hubd.plugins.cone.handles import MessageRef
from hubd.plugins.cone.store import HEADS
from hubd.storage import ids
from hubd.storage.arbor import outline, tree


class ExportedPath(ConversationPath, ExportOptions):
    """The path of a conversation, and the form of its document."""


class Transcript(ConeBase):
    """Methods for the messages of a conversation."""

    @method(
        read_only=True,
        render="chat",
        aliases=ALIASES,
        completes=LIST_CONES,
        produces=[MessageRef],
    )
    async def get_conversation(
        self, **path: Unpack[ConversationPath]
    ) -> AsyncIterator[events.ConversationMessage]:
        """Read the messages of a conversation, from the root of the tree to the cone's head."""
        cone = await HEADS.look_up(self.db, path["identifier"])
        async with aclosing(self._conversation(cone, path.get("node_id"))) as messages:
            async for message in messages:
                yield message

    @method(read_only=True, render="text", aliases=ALIASES, completes=LIST_CONES)
    async def export(self, **path: Unpack[ExportedPath]) -> AsyncIterator[events.Exported]:
        """Write a conversation as a document. `-o raw` prints only its text."""
        cone = await HEADS.look_up(self.db, path["identifier"])
        row = await tree.look_up(self.db, ids.text(cone.tree_id))
        conversation = exported.Conversation(
            title=cone.name,
            tree=row,
            place=await tree.look_up_place(self.db, row, path.get("node_id") or cone.head_id),
            heads=await store.heads_in(self.db, cone.tree),
            messages=lambda: self._conversation(cone, path.get("node_id")),
        )
        async with aclosing(document.export(self.db, self.host, conversation, path)) as pieces:
            async for text in pieces:
                yield events.Exported(text=text)

    async def _conversation(
        self, cone: store.ConeRow, node_id: NodeId | None
    ) -> AsyncGenerator[events.ConversationMessage, None]:
        """Yield the messages from the root to a node as events."""
        async with aclosing(_pages_of(self._messages(cone, node_id))) as pages:
            async for page in pages:
                nodes = [entry.node.id for entry in page]
                short_ids = await outline.short_ids(self.db, cone.tree, nodes)
                for entry in page:
                    yield events.ConversationMessage(
                        role=entry.role,
                        content=entry.content,
                        name=entry.name,
                        model=entry.model,
                        node_id=ids.text(entry.node.id),
                        short_id=short_ids.get(entry.node.id),
                        handle=entry.node.handle,
                        created_at=entry.node.created_at,
                    )

    async def _messages(
        self, cone: store.ConeRow, node_id: NodeId | None
    ) -> AsyncGenerator[context.Message, None]:
        """Yield the messages from the root to a node of a cone's tree."""
        row = await tree.look_up(self.db, ids.text(cone.tree_id))
        place = await tree.look_up_place(self.db, row, node_id or cone.head_id)
        limit = self.configured.attachment_chars
        async with aclosing(context.messages(self.db, self.host, place, limit)) as messages:
            async for entry in messages:
                yield entry


async def _pages_of(
    messages: AsyncGenerator[context.Message, None],
) -> AsyncGenerator[list[context.Message], None]:
    """Yield the messages in pages."""
    page: list[context.Message] = []
    async with aclosing(messages):
        async for entry in messages:
            page.append(entry)
            if len(page) == ROWS_PER_ITEM:
                yield page
                page = []
    if page:
        yield page
