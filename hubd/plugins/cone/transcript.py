"""cone: the methods that read and export a conversation."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Literal, Unpack

from pydantic_core import to_json

from hubd.activation import method
from hubd.activation.pages import ROWS_PER_ITEM
from hubd.activation.params import NodeId
from hubd.conversations import context
from hubd.plugins.cone import events, store
from hubd.plugins.cone.base import ALIASES, LIST_CONES, ConeBase, ConversationPath
from hubd.plugins.cone.handles import MessageRef
from hubd.plugins.cone.store import HEADS
from hubd.storage import ids
from hubd.storage.arbor import outline, tree


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
        async with aclosing(_pages_of(self._messages(cone, path.get("node_id")))) as pages:
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

    @method(read_only=True, render="text", aliases=ALIASES, completes=LIST_CONES)
    async def export(
        self,
        format: Literal["markdown", "jsonl"] = "markdown",
        **path: Unpack[ConversationPath],
    ) -> AsyncIterator[events.Exported]:
        """Write a conversation as a document. `-o raw` prints only its text.

        Args:
            format: Markdown, or one JSON object for each message.
        """
        cone = await HEADS.look_up(self.db, path["identifier"])
        if format == "markdown":
            yield events.Exported(text=f"# {cone.name}")
        write = _markdown if format == "markdown" else _json_line
        async with aclosing(self._messages(cone, path.get("node_id"))) as messages:
            async for entry in messages:
                yield events.Exported(text=write(entry))

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


def _markdown(entry: context.Message) -> str:
    speaker = entry.name if entry.name and entry.name != entry.role else None
    title = f"{entry.role} ({speaker})" if speaker else entry.role
    return f"\n## {title}\n\n{entry.content.rstrip()}"


def _json_line(entry: context.Message) -> str:
    fields: dict[str, Any] = {
        "role": entry.role,
        "content": entry.content,
        "name": entry.name,
        "model": entry.model,
        "node_id": ids.text(entry.node.id),
        "handle": entry.node.handle,
        "created_at": entry.node.created_at,
    }
    return to_json(fields).decode()
