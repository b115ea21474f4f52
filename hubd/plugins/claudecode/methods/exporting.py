"""claudecode: conversations as documents."""

from collections.abc import AsyncIterator
from typing import Literal

from hubd.activation import method
from hubd.activation.params import NodeId
from hubd.plugins.claudecode import events
from hubd.plugins.claudecode.handles import VERSION
from hubd.plugins.claudecode.methods.base import LIST_NAMES, Name, SessionId
from hubd.plugins.claudecode.methods.history import History
from hubd.plugins.claudecode.methods.sessions import WHICH
from hubd.plugins.claudecode.record import markdown


class Exporting(History, version=VERSION):
    """The method that writes a conversation down."""

    @method(read_only=True, render="text", one_of=WHICH, completes=LIST_NAMES)
    async def export(
        self,
        name: Name | None = None,
        session_id: SessionId | None = None,
        format: Literal["markdown", "jsonl"] = "markdown",
        node_id: NodeId | None = None,
    ) -> AsyncIterator[events.ExportedPart]:
        """Write a conversation as a document; `-o raw` gives nothing but the text.

        Args:
            name: The session.
            session_id: The same, by its id.
            format: A document for people, or a JSON object for each message.
            node_id: Another node of its tree: its id, or the last 4 or more digits of it.
        """
        session = await self.session_named(name, session_id)
        if format == "markdown":
            yield events.ExportedPart(text=f"# {session.name}")
        async for entry in self.messages_of(session, node_id):
            if format == "markdown":
                yield events.ExportedPart(text=f"\n{markdown.message(entry.role, entry.content)}")
            else:
                yield events.ExportedPart(text=entry.model_dump_json(exclude={"type", "short_id"}))
