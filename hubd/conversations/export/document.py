"""A conversation as a document, in pieces: each is complete lines of text."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing

from pydantic import BaseModel

from hubd.activation import Host
from hubd.conversations.export import markdown
from hubd.conversations.export.conversation import Conversation, without_secrets, written
from hubd.conversations.export.entries import Entry, Types, entries, path_steps
from hubd.conversations.export.secrets import redact, redact_json
from hubd.conversations.params import ExportOptions
from hubd.storage.database import Database


async def export(
    db: Database, host: Host, conversation: Conversation, options: ExportOptions
) -> AsyncGenerator[str, None]:
    """Yield the pieces of a document. Use it inside `aclosing`."""
    redacted = options.get("redact", True)
    if options.get("format") == "jsonl":
        pieces = _json_lines(conversation, redacted)
    elif options.get("format") == "html":
        # Imported here, because the start of the hub would wait for the parser of Markdown.
        from hubd.conversations.export.html.page import page

        pieces = page(db, host, conversation, redacted=redacted)
    else:
        pieces = _markdown(db, host, conversation, redacted)
    async with aclosing(pieces):
        async for piece in pieces:
            # Data may contain half of a character as an escape, which no encoding has.
            yield piece.encode(errors="replace").decode()


async def _json_lines(conversation: Conversation, redacted: bool) -> AsyncGenerator[str, None]:
    def line(message: BaseModel) -> str:
        # A short id may become ambiguous later.
        fields = message.model_dump(mode="json", exclude={"type", "short_id"})
        fields = redact_json(fields) if redacted else fields
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))

    async with aclosing(conversation.messages()) as messages:
        async for message in messages:
            # The size of a message is not known before it is written.
            yield await asyncio.to_thread(line, message)


async def _markdown(
    db: Database, host: Host, conversation: Conversation, redacted: bool
) -> AsyncGenerator[str, None]:
    def write(entry: Entry) -> str:
        return "\n" + markdown.entry(without_secrets(entry) if redacted else entry)

    title = markdown.heading(conversation.title)
    yield redact(title) if redacted else title
    types = Types(host)
    async for nodes in path_steps(db, types, conversation.place):
        async with aclosing(entries(db, host, types, nodes)) as steps:
            async for _, of_step in steps:
                for entry in of_step:
                    yield await written(entry, write)
