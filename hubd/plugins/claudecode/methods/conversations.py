"""Read conversations: messages, the model's context, single blocks, documents."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Unpack

from hubd.activation import method
from hubd.activation.params import WholeId
from hubd.conversations.export import conversation as exported
from hubd.conversations.export import document
from hubd.conversations.params import ExportOptions
from hubd.plugins.claudecode import events, sessions, store
from hubd.plugins.claudecode.handles import MessageRef
from hubd.plugins.claudecode.methods.base import LIST_NAMES, ClaudeBase
from hubd.plugins.claudecode.methods.parameters import SESSION, NodeAddress
from hubd.plugins.claudecode.record import conversation_message
from hubd.plugins.claudecode.sessions import SessionRow
from hubd.storage import ids
from hubd.storage.arbor import outline, tree
from hubd.storage.arbor.tree import Place


class ExportedNode(NodeAddress, ExportOptions, total=False):
    """The last node of a conversation, and the form of its document."""


class Conversations(ClaudeBase):
    """Methods that read conversations."""

    @method(
        read_only=True, render="chat", one_of=SESSION, completes=LIST_NAMES, produces=[MessageRef]
    )
    async def get_conversation(
        self,
        **where: Unpack[NodeAddress],
    ) -> AsyncIterator[events.ConversationMessage]:
        """Read a conversation: every message from the root of the tree to the session's head."""
        async for message in self._messages(where):
            yield message

    @method(read_only=True, one_of=SESSION, completes=LIST_NAMES, produces=[MessageRef])
    async def render_context(
        self,
        **where: Unpack[NodeAddress],
    ) -> AsyncIterator[events.ConversationMessage]:
        """Return the context: the messages that a model would be sent, with handles resolved."""
        async for message in self._messages(where):
            yield message

    @method(read_only=True, render="text", one_of=SESSION, completes=LIST_NAMES)
    async def export(self, **where: Unpack[ExportedNode]) -> AsyncIterator[events.ExportedPart]:
        """Write a conversation as a document. With `-o raw`, the output is only the text."""
        session = await self.session_named(where)
        row = await tree.look_up(self.db, ids.text(session.tree_id))
        place = await tree.look_up_place(self.db, row, where.get("node_id") or session.head_id)
        on_tree = await sessions.heads_in(self.db, session.tree)
        conversation = exported.Conversation(
            title=session.name,
            tree=row,
            place=place,
            heads=[(name, head.id) for name, head in on_tree],
            messages=lambda: self._streamed(place),
        )
        async with aclosing(document.export(self.db, self.host, conversation, where)) as pieces:
            async for text in pieces:
                yield events.ExportedPart(text=text)

    @method(read_only=True)
    async def get_block(self, blob_id: WholeId) -> events.Block:
        """Read one block, message or turn in full.

        Args:
            blob_id: The id in its handle.
        """
        blob = await store.look_up_blob(self.db, blob_id)
        return events.Block(
            blob_id=ids.text(blob.id),
            blob_type=blob.blob_type,
            complete=blob.complete,
            data=blob.data,
        )

    async def _messages(self, where: NodeAddress) -> AsyncIterator[events.ConversationMessage]:
        session = await self.session_named(where)
        async for message in self._messages_of(session, where.get("node_id")):
            yield message

    async def _messages_of(
        self, session: SessionRow, node_id: str | None
    ) -> AsyncIterator[events.ConversationMessage]:
        """Yield the messages up to a node of a session's tree; up to its head by default."""
        messages = await self.queue.context.session_messages(session, node_id)
        nodes = [message.node_id for message in messages if message.node_id]
        short_ids = await outline.short_ids(self.db, session.tree, nodes)
        for message in messages:
            yield conversation_message.conversation_message(
                message, short_ids.get(message.node_id or b"")
            )

    async def _streamed(self, place: Place) -> AsyncGenerator[events.ConversationMessage, None]:
        """Yield the messages up to a place as they are read, without short ids."""
        async with aclosing(self.queue.context.stream(place)) as messages:
            async for message in messages:
                yield conversation_message.conversation_message(message)
