"""The conversation that a document is made of, and how its entries are written."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from hubd.conversations.export.entries import Entry
from hubd.conversations.export.secrets import redact, redact_json
from hubd.storage.arbor.tree import Place, TreeRow

# Characters of an entry above which a thread writes it, because it would delay other calls.
LARGE: Final = 4096


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


async def written(entry: Entry, write: Callable[[Entry], str]) -> str:
    """Return an entry as text. A thread writes a large one, so that other calls continue."""
    return await asyncio.to_thread(write, entry) if entry.size > LARGE else write(entry)


def without_secrets(entry: Entry) -> Entry:
    """Return an entry with its secrets replaced."""
    name = redact(entry.name) if entry.name else None
    return entry._replace(blocks=[_block(block) for block in entry.blocks], name=name)


def _block(block: dict[str, Any]) -> dict[str, Any]:
    if block.get("type") == "attachment":
        # A summary may end in the middle of a secret, which would not be recognised.
        block = {**block, "text": _whole_words(str(block.get("text")))}
    redacted: dict[str, Any] = redact_json(block)
    return redacted


def _whole_words(summary: str) -> str:
    """Return a summary without the last word if the word is cut."""
    if not summary.endswith("…"):
        return summary
    *words, _ = summary.split(" ")
    return " ".join((*words, "…"))
