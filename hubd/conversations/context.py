"""The context of a node: the messages that a model is sent, from the root of the tree to the node.

A text node is a message of the user. An external node of any plugin is resolved through the hub,
and its kind decides the message:

    message                    its text; each tool call as `[Tool call: NAME INPUT]`, and the
                               results of these calls in a message of the user that follows
    turn                       the messages of the turn, up to the next node of the path
    output, document, block    its text; a tool call as in a message
    binary, event, session,    `[KIND: …]` with its one-line summary
    approval
    any other                  its text, else its data as JSON
    (it can't be resolved)     `[External reference: HANDLE]`

The role of a message is the one that the resolved data names: `system`, `user` or `assistant`.
Without one of these, the user says it. Thinking is not told, because it belongs to its own model.
A block or result on the path that came with the message above it is not told twice.
"""

import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar, cast, get_args

from hubd.activation import Host, HubError, Resolved
from hubd.storage.arbor import walk
from hubd.storage.arbor.tree import Place
from hubd.storage.arbor.walk import MAIN_ONLY, Node
from hubd.storage.database import Database

Role = Literal["system", "user", "assistant"]

ROLES: Final = frozenset(get_args(Role))
# Kinds of which a model is told no more than the summary.
SUMMARISED: Final = frozenset(("binary", "event", "session", "approval"))
# In place of the result of a tool call that has none: no model takes a call without a result.
NO_RESULT: Final = "[The tool was interrupted before it gave a result]"

# Blocks that are not told: thinking, and tool calls that broke off.
_NOT_TOLD: Final = ("thinking", "redacted_thinking", "tool_use")

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Message(NamedTuple):
    """A message of a context, and the node that it comes from."""

    node: Node
    role: Role
    content: str
    name: str | None = None
    model: str | None = None


class OwnNodes(Protocol[T_co]):
    """Reads the nodes of one plugin, which needs more of them than their text."""

    def owns(self, node: Node) -> bool:
        """Return whether the node is one of the plugin."""

    async def read(
        self, node: Node, above: Node | None, below: Node | None
    ) -> Sequence[T_co] | None:
        """Read the messages of a node between its neighbours on the path.

        None if the node is resolved like those of other plugins.
        """


def messages(db: Database, host: Host, place: Place) -> AsyncGenerator[Message, None]:
    """Read the context of a place, in order. Use it inside `aclosing`."""
    return messages_with(db, host, place, _NoOwnNodes())


async def messages_with(
    db: Database, host: Host, place: Place, own: OwnNodes[T]
) -> AsyncGenerator[Message | T, None]:
    """As `messages`; `own` reads the plugin's own nodes."""
    foreign = _Foreign(db, host)
    above: Node | None = None
    async for page in _path(db, place):
        handles = [node.handle for node, _ in page if node.handle and not own.owns(node)]
        async with aclosing(host.resolve_each(handles)) as answers:
            for node, below in page:
                if node.handle is None:
                    if node.text:
                        yield Message(node, "user", node.text)
                elif not own.owns(node):
                    for message in await foreign.read(node, above, below, await anext(answers)):
                        yield message
                elif (kept := await own.read(node, above, below)) is not None:
                    for entry in kept:
                        yield entry
                else:
                    [answer] = [each async for each in host.resolve_each([node.handle])]
                    for message in await foreign.read(node, above, below, answer):
                        yield message
                above = node


async def children(db: Database, node: Node) -> list[Node]:
    """Read all children of a node in lane `main`, in order of creation."""
    place = Place(node.key, node.id, 0, node.segment, node.depth, node.lane)
    found: list[Node] = []
    while page := await walk.children(db, place, MAIN_ONLY, found[-1].key if found else 0):
        found += page
    return found


def belongs(message: Node, role: str | None, below: Node | None, *, complete: bool) -> bool:
    """Return whether a message of a turn is part of the context of a path through the turn.

    Args:
        message: A child of the turn.
        role: The role of the message.
        below: The node of the path below the turn, if the path goes on.
        complete: False if the message broke off and was asked for again.
    """
    if role == "user":
        return True
    if below is None or message.key > below.key:
        return False
    return message.key == below.key or complete


class _NoOwnNodes:
    """For a plugin that needs only the text of all nodes."""

    def owns(self, node: Node) -> bool:
        return False

    async def read(
        self, node: Node, above: Node | None, below: Node | None
    ) -> Sequence[Message] | None:
        return None


class _Foreign:
    """Makes messages of resolved nodes. Each context has its own."""

    def __init__(self, db: Database, host: Host) -> None:
        self._db = db
        self._host = host
        # The messages that came with their turn.
        self._told: set[bytes] = set()
        # The blocks of the last message, and the ids of the tools it calls.
        self._blocks: list[Any] = []
        self._calls: list[str] = []
        # The node of that message.
        self._last: bytes | None = None

    async def read(
        self, node: Node, above: Node | None, below: Node | None, answer: Resolved | HubError
    ) -> list[Message]:
        """Return the messages of a node of the path."""
        if isinstance(answer, HubError):
            return [Message(node, "user", f"[External reference: {node.handle}]")]
        if answer.kind == "turn":
            return await self._turn(node, below)
        if answer.kind == "message":
            return [] if node.id in self._told else await self._message(node, answer)
        if above is not None and above.id == self._last and self._is_told(answer.data):
            return []
        return [_message(node, answer, _text(answer))]

    async def _turn(self, turn: Node, below: Node | None) -> list[Message]:
        told: list[Message] = []
        nodes = [node for node in await children(self._db, turn) if node.handle is not None]
        async with aclosing(
            self._host.resolve_each([node.handle for node in nodes if node.handle])
        ) as answers:
            for node in nodes:
                answer = await anext(answers)
                if isinstance(answer, HubError) or answer.kind != "message":
                    continue
                complete = answer.data.get("complete") is not False
                if belongs(node, _string(answer.data.get("role")), below, complete=complete):
                    self._told.add(node.id)
                    told += await self._message(node, answer)
        return told

    async def _message(self, node: Node, answer: Resolved) -> list[Message]:
        content = answer.data.get("content")
        if not isinstance(content, list):
            return [_message(node, answer, answer.text)]
        if answer.data.get("synthetic") is True:
            return []
        self._last, self._blocks = node.id, content
        self._calls = [
            str(block["id"])
            for block in content
            if isinstance(block, dict) and block.get("type") == "tool_use" and "id" in block
        ]
        text = _text_of_blocks(content)
        told = [_message(node, answer, text)] if text else []
        if self._calls:
            told.append(Message(node, "user", await self._results(node, self._calls)))
        return told

    async def _results(self, node: Node, calls: list[str]) -> str:
        """Return the results of tool calls in order of arrival, then a note for each missing."""
        results: dict[str, str] = {}
        nodes = [child for child in await children(self._db, node) if child.handle is not None]
        handles = [child.handle for child in nodes if child.handle]
        async with aclosing(self._host.resolve_each(handles)) as answers:
            async for answer in answers:
                if not isinstance(answer, HubError) and answer.kind == "output":
                    called = _called(answer.data)
                    if called in calls:
                        error = answer.data.get("is_error") is True
                        kind = "Tool error" if error else "Tool result"
                        results[called] = f"[{kind}: {answer.text}]"
        missing = [NO_RESULT for call in calls if call not in results]
        return "\n".join((*results.values(), *missing))

    def _is_told(self, data: Mapping[str, Any]) -> bool:
        """Return whether a block or a result came with the last message."""
        return _called(data) in self._calls or data.get("block", self) in self._blocks


async def _path(db: Database, place: Place) -> AsyncGenerator[list[tuple[Node, Node | None]], None]:
    """The nodes of a path in pages, each with the node below it."""
    last: Node | None = None
    async for page in walk.nodes(db, await walk.path(db, place), MAIN_ONLY):
        nodes = page if last is None else [last, *page]
        yield [*pairwise(nodes)]
        last = nodes[-1]
    if last is not None:
        yield [(last, None)]


def _message(node: Node, answer: Resolved, text: str) -> Message:
    role, name, model = (_string(answer.data.get(field)) for field in ("role", "name", "model"))
    return Message(node, cast("Role", role) if role in ROLES else "user", text, name, model)


def _text(answer: Resolved) -> str:
    if answer.kind in SUMMARISED:
        return f"[{answer.kind}: {answer.summary}]"
    block = answer.data.get("block")
    if isinstance(block, dict) and block.get("type") == "tool_use":
        return _text_of_blocks([block])
    return answer.text


def _text_of_blocks(blocks: Iterable[Any]) -> str:
    """The text of a message that consists of blocks; of an image, say, only `[image]`."""
    parts = []
    for block in blocks:
        if not isinstance(block, dict):
            continue
        if block.get("type") == "tool_use" and "name" in block:
            given = json.dumps(block.get("input"), ensure_ascii=False)
            parts.append(f"[Tool call: {block['name']} {given}]")
        elif block.get("type") in _NOT_TOLD:
            continue
        elif text := block.get("text"):
            parts.append(str(text))
        elif "text" not in block:
            parts.append(f"[{block.get('type')}]")
    return "\n\n".join(parts)


def _called(data: Mapping[str, Any]) -> str | None:
    """The id of the tool call whose result this is."""
    block = data.get("block")
    return _string(block.get("tool_use_id")) if isinstance(block, dict) else None


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None
