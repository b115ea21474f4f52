"""cone: the plugin, with its methods in the order of the help, its resolver and its prompts."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from uuid import UUID

from hubd.activation import (
    Document,
    NotFound,
    Prompt,
    PromptMessage,
    Reader,
    SearchSource,
    resolver,
)
from hubd.plugins.cone import events, store
from hubd.plugins.cone.chat import Chat
from hubd.plugins.cone.cones import Cones
from hubd.plugins.cone.handles import NAMESPACE, VERSION, MessageRef
from hubd.plugins.cone.registry import Registry
from hubd.plugins.cone.settings import Settings
from hubd.plugins.cone.tables import MIGRATIONS
from hubd.plugins.cone.transcript import Transcript
from hubd.storage import ids


class Cone(Chat, Cones, Transcript, Registry, namespace=NAMESPACE, version=VERSION):
    """Branching, durable conversations with language models.

    A cone is a named node of a tree and a model that answers there. Nodes of the tree can be
    handles of any plugin. Models are `offline` (built in), Anthropic's, and those of any server
    with OpenAI's protocol.
    """

    migrations = MIGRATIONS
    settings_model = Settings

    @resolver(many=True)
    async def message(self, refs: list[MessageRef]) -> list[events.ResolvedMessage | NotFound]:
        """Read messages."""
        rows = await store.messages(self.db, [ref.message_id.bytes for ref in refs])
        return [_resolved(ref, rows.get(ref.message_id.bytes)) for ref in refs]

    async def marks(self, tree_id: str) -> Mapping[str, Sequence[str]]:
        """Return the cones whose heads are on a tree."""
        return await store.HEADS.marks(self.db, tree_id)

    def search_sources(self) -> Sequence[SearchSource]:
        """Return the messages of all cones."""
        return (SearchSource("messages", store.SEARCHED_MESSAGES, _document),)

    async def offer_prompts(self) -> Sequence[Prompt]:
        """Return the system prompts of cones."""
        cones = await store.with_system_prompts(self.db)
        return [Prompt(name, f"The system prompt of a cone on {model}") for name, model in cones]

    async def fill_prompt(self, name: str, arguments: Mapping[str, str]) -> Sequence[PromptMessage]:
        """Return the system prompt of a cone. It has no arguments."""
        text = await store.system_prompt(self.db, name)
        if text is None:
            raise NotFound(f"no cone '{name}' with a system prompt")
        return [PromptMessage("user", text)]


def _resolved(ref: MessageRef, row: store.MessageRow | None) -> events.ResolvedMessage | NotFound:
    if row is None or row.role != ref.role:
        return NotFound(f"no {ref.role} message {ref.message_id}")
    return events.ResolvedMessage(
        id=ids.text(row.id), role=ref.role, content=row.content, model=row.model, name=row.name
    )


def _document(row: sqlite3.Row, reader: Reader) -> Document:
    ref = MessageRef(message_id=UUID(bytes=row["id"]), role=row["role"], name=row["name"])
    return Document(
        str(ref),
        ref.kind,
        row["content"],
        row["created_at"],
        role=row["role"],
        # The tree of a deleted cone stays for a while.
        hidden=row["state"] != "active",
    )
