"""A conversation as a document, in pieces: each is complete lines of text."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Annotated, Final, Literal, NamedTuple, TypedDict

from pydantic import BaseModel, Field

from hubd.activation import Host
from hubd.conversations.export import markdown
from hubd.conversations.export.entries import Entry, Types, entries, path_steps
from hubd.conversations.export.secrets import redact, redact_json
from hubd.storage.arbor.tree import Place, TreeRow
from hubd.storage.database import Database

Format = Literal["markdown", "jsonl"]

# Characters of a message above which a thread writes it, because it would delay other calls.
LARGE: Final = 4096


class ExportOptions(TypedDict, total=False):
    """The form of an exported document."""

    format: Annotated[
        Format,
        Field(
            default="markdown",
            description="Markdown, or one JSON object for each message.",
        ),
    ]
    redact: Annotated[
        bool,
        Field(
            default=True,
            description="Replace secrets, such as API keys and private keys, by `[REDACTED:kind]`.",
        ),
    ]


class Conversation(NamedTuple):
    """The conversation to export."""

    title: str
    tree: TreeRow
    # The last node of the path.
    place: Place
    # The names of heads in the tree, and the ids of their nodes.
    heads: Sequence[tuple[str, bytes]]
    # The messages of the path, for JSON lines.
    messages: Callable[[], AsyncGenerator[BaseModel, None]]


async def export(
    db: Database, host: Host, conversation: Conversation, options: ExportOptions
) -> AsyncGenerator[str, None]:
    """Yield the pieces of a document. Use it inside `aclosing`."""
    redacted = options.get("redact", True)
    if options.get("format") == "jsonl":
        pieces = _json_lines(conversation, redacted)
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
    async for page in path_steps(db, types, conversation.place):
        async with aclosing(entries(db, host, types, page)) as steps:
            async for _, of_step in steps:
                for entry in of_step:
                    yield await written(entry, write)


async def written(entry: Entry, write: Callable[[Entry], str]) -> str:
    """Return an entry as text. A thread writes a large one, so that other calls continue."""
    return await asyncio.to_thread(write, entry) if entry.size > LARGE else write(entry)


def without_secrets(entry: Entry) -> Entry:
    """Return an entry with its secrets replaced."""
    name = redact(entry.name) if entry.name else None
    return entry._replace(blocks=redact_json(entry.blocks), name=name)
