"""The entries of a document: the messages and attachments of a conversation, read from its tree.

A *step* is a node that is shown by itself. The parts of a message, which are the nodes of its
blocks and its tool results, are shown with the message. The messages of a turn follow each other:
each is the step after the one before, although all are children of the turn.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Final, Literal, NamedTuple, cast

from hubd.activation import Host, HubError, Resolved
from hubd.conversations.context import ROLES, children, is_attachment
from hubd.storage.arbor import walk
from hubd.storage.arbor.tree import Place
from hubd.storage.arbor.walk import MAIN_ONLY, Node
from hubd.storage.database import Database
from hubd.wire.summary import SUMMARY_LENGTH
from hubd.wire.text import shorten

Speaker = Literal["system", "user", "assistant", "tool", "attachment"]

# Kinds of data that are part of a message if the message is above them.
PARTS: Final = frozenset(("block", "output"))


class Entry(NamedTuple):
    """A message, the results of its tools, or an attachment.

    `blocks` are those of a model's API.
    """

    node: Node
    speaker: Speaker
    blocks: list[dict[str, Any]]
    name: str | None = None
    model: str | None = None
    # About the number of characters of its blocks.
    size: int = 0


class Type(NamedTuple):
    """The type of a node's data: the plugin of its handle, and the kind of its handle type."""

    plugin: str = ""
    kind: str = ""

    def has_part(self, other: "Type") -> bool:
        """Return whether a node of the other type is a part of this one if it is below it."""
        if self.plugin != other.plugin or not self.plugin:
            return False
        # The messages below a tool call are those of a subagent.
        return (self.kind == "message" and other.kind in PARTS) or (
            self.kind in PARTS and other.kind == "message"
        )

    def has_message(self, other: "Type") -> bool:
        """Return whether a node of the other type is a message of this turn."""
        return self.kind == "turn" and other.kind == "message" and self.plugin == other.plugin


class Types:
    """The types of nodes, by the handle types that the hub has, and their data in one line."""

    def __init__(self, host: Host) -> None:
        self._kinds: Mapping[str, str] = host.handle_kinds()
        self._text_of = host.renderer("compact")

    def of(self, node: Node) -> Type:
        """Return the type of a node; an empty one for texts, attachments and unknown handles."""
        if node.handle is None or is_attachment(node):
            return Type()
        plugin, _, rest = node.handle.partition("@")
        method = rest.partition("::")[2].partition(":")[0]
        kind = self._kinds.get(f"{plugin}::{method}")
        return Type(plugin, kind) if kind else Type()

    async def line(self, answer: Resolved) -> str:
        """Return data in one line: by the template of its handle type, else its summary."""
        text = await self._text_of(answer)
        return shorten(" ".join(text.split()), SUMMARY_LENGTH)


async def path_steps(db: Database, types: Types, place: Place) -> AsyncIterator[list[Node]]:
    """Yield the steps from the root to a place, in pages."""
    above = Type()
    turn: Node | None = None
    async for page in walk.nodes(db, await walk.path(db, place), MAIN_ONLY):
        steps: list[Node] = []
        for node in page:
            if turn is not None:
                steps += await _messages(db, types, turn, node)
                turn = None
            type_of = types.of(node)
            if type_of.kind == "turn":
                turn = node
            if not (above.has_part(type_of) or above.has_message(type_of)):
                steps.append(node)
            above = type_of
        yield steps
    if turn is not None:
        yield await _messages(db, types, turn, None)


async def _messages(db: Database, types: Types, turn: Node, below: Node | None) -> list[Node]:
    """Return the messages of a turn up to the next node of the path; without one only the first."""
    own = types.of(turn)
    nodes = [node for node in await children(db, turn) if own.has_message(types.of(node))]
    return [node for node in nodes if node.key <= below.key] if below else nodes[:1]


async def entries(
    db: Database, host: Host, types: Types, nodes: Iterable[Node]
) -> AsyncGenerator[tuple[Node, list[Entry]], None]:
    """Yield each step with its entries, in order. Use it inside `aclosing`."""
    steps = list(nodes)
    handles = [node.handle for node in steps if node.handle is not None]
    async with aclosing(host.resolve_each(handles)) as answers:
        for node in steps:
            if node.handle is None:
                blocks = [_text_block(node.text)] if node.text else []
                size = len(node.text or "")
                yield node, [Entry(node, "user", blocks, size=size)] if blocks else []
            else:
                answer = await anext(answers)
                if isinstance(answer, HubError):
                    note = f"[External reference: {node.handle}]"
                    yield node, [Entry(node, "attachment", [_text_block(note)])]
                else:
                    yield node, await _of_data(db, host, types, node, answer)


async def _of_data(
    db: Database, host: Host, types: Types, node: Node, answer: Resolved
) -> list[Entry]:
    """Return the entries of a node by its resolved data."""
    type_of = types.of(node)
    if type_of.kind == "turn":
        return []  # its messages are steps of their own
    if answer.kind != "message":
        note = {"type": "attachment", "kind": answer.kind, "text": await types.line(answer)}
        return [Entry(node, "attachment", [note])]
    data = answer.data
    if data.get("synthetic") is True:
        return []
    content = data.get("content")
    blocks = (
        [block for block in content if isinstance(block, dict)]
        if isinstance(content, list)
        else [_text_block(answer.text)]
    )
    role, name, model = data.get("role"), data.get("name"), data.get("model")
    speaker = cast("Speaker", role) if role in ROLES else "user"
    size = len(answer.json)
    written = [Entry(node, speaker, blocks, _string(name), _string(model), size)]
    calls = [block.get("id") for block in blocks if block.get("type") == "tool_use"]
    if calls and type_of.kind == "message":
        results, size = await _results(db, host, types, node, calls)
        if results:
            written.append(Entry(node, "tool", results, size=size))
    return written


async def _results(
    db: Database, host: Host, types: Types, node: Node, calls: list[Any]
) -> tuple[list[dict[str, Any]], int]:
    """Return the results of the tool calls of a message, in order of arrival, and their size."""
    own = types.of(node)
    handles = [
        child.handle
        for child in await children(db, node)
        if child.handle and types.of(child) == Type(own.plugin, "output")
    ]
    results: list[dict[str, Any]] = []
    size = 0
    async with aclosing(host.resolve_each(handles)) as answers:
        async for answer in answers:
            if not isinstance(answer, HubError):
                block = answer.data.get("block")
                if isinstance(block, dict) and block.get("tool_use_id") in calls:
                    results.append(block)
                    size += len(answer.json)
    return results, size


def _text_block(text: str | None) -> dict[str, Any]:
    return {"type": "text", "text": text or ""}


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None
