"""The context of a node: the messages to a model, from the root of the tree to the node.

A text node is a message of the user. An external node of any plugin is resolved through the hub,
and its kind decides the message:

    message                    its text; each tool call as `[Tool call: NAME INPUT]`, and the
                               results of these calls in a message of the user that follows
    turn                       the messages of the turn, up to the next node of the path; without
                               messages in this tree as `session`
    output, document, binary   as in rendering.py, by its fields; else its text
    block                      its text; a tool call as in a message
    event, session, approval   `[KIND: …]` with its one-line summary
    any other                  its text, else its data as JSON
    (unresolvable)             `[External reference: HANDLE]`

The role of a message is the one that the resolved data names: `system`, `user` or `assistant`.
Any other message has the role `user`. Thinking is left out, because only its model can read it.
A block or result on the path that is part of the message above it is not repeated. An attachment is
always one message.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar, cast, get_args

from hubd.activation import Host, HubError, Resolved
from hubd.conversations import rendering
from hubd.storage.arbor import walk
from hubd.storage.arbor.tree import Place
from hubd.storage.arbor.walk import MAIN_ONLY, Node
from hubd.storage.database import Database

Role = Literal["system", "user", "assistant"]

ROLES: Final = frozenset(get_args(Role))
# Kinds with only a summary in the context.
SUMMARISED: Final = frozenset(("turn", "event", "session", "approval"))
# Replaces the missing result of a tool call, because providers refuse a call without a result.
NO_RESULT: Final = "[The tool was interrupted before it gave a result]"

# Bytes of data above which a thread renders it, because parsing it takes too long for other calls.
_LARGE: Final = 256 * 1024

# The metadata of an attachment's node.
ATTACHMENT: Final = '{"attachment":true}'

# Blocks that are left out: thinking, and incomplete tool calls.
_LEFT_OUT: Final = ("thinking", "redacted_thinking", "tool_use")

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Message(NamedTuple):
    """A message of a context, and its node."""

    node: Node
    role: Role
    content: str
    name: str | None = None
    model: str | None = None


class OwnNodes(Protocol[T_co]):
    """A reader of a plugin's own nodes, for a plugin that needs more than their text."""

    def owns(self, node: Node) -> bool:
        """Return whether the node belongs to the plugin."""

    async def read(
        self, node: Node, above: Node | None, below: Node | None
    ) -> Sequence[T_co] | None:
        """Read the messages of a node between its neighbours on the path.

        None if the node should be resolved like a node of another plugin.
        """


def messages(db: Database, host: Host, place: Place, limit: int) -> AsyncGenerator[Message, None]:
    """Read the context of a place, in order. Use it inside `aclosing`.

    Args:
        db: The database.
        host: The hub.
        place: The last node of the path.
        limit: The maximum number of characters of an output or a document.
    """
    return messages_with(db, host, place, limit, _NoOwnNodes())


async def messages_with(
    db: Database, host: Host, place: Place, limit: int, own: OwnNodes[T]
) -> AsyncGenerator[Message | T, None]:
    """Do the same as `messages`, but `own` reads the plugin's own nodes."""
    foreign = _Foreign(db, host, limit)
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
                elif (entries := await own.read(node, above, below)) is not None:
                    for entry in entries:
                        yield entry
                else:
                    [answer] = [each async for each in host.resolve_each([node.handle])]
                    for message in await foreign.read(node, above, below, answer):
                        yield message
                above = node


def is_attachment(node: Node) -> bool:
    """Return whether a node is the attachment of a prompt.

    Such a node only refers to its data. The nodes below it are not parts of a message or a turn
    that it points at.
    """
    if node.handle is None or node.metadata is None:
        return False
    metadata = json.loads(node.metadata)
    return isinstance(metadata, dict) and metadata.get("attachment") is True


async def reference(answer: Resolved, limit: int) -> tuple[Role, str]:
    """Return the role and the text of data that is not in the tree.

    The node of an attachment has the same ones.

    Args:
        answer: The data.
        limit: The maximum number of characters of an output or a document.
    """
    text = await _text(answer, limit)
    return _role(answer), text


async def children(db: Database, node: Node) -> list[Node]:
    """Read all children of a node in lane `main`, in order of creation."""
    place = Place(node.key, node.id, 0, node.segment, node.depth, node.lane)
    nodes: list[Node] = []
    while page := await walk.children(db, place, MAIN_ONLY, nodes[-1].key if nodes else 0):
        nodes += page
    return nodes


def belongs(message: Node, role: str | None, below: Node | None, *, complete: bool) -> bool:
    """Return whether a message of a turn is part of the context of a path through the turn.

    Args:
        message: A child of the turn.
        role: The role of the message.
        below: The node of the path below the turn, or None at its end.
        complete: False if the message was interrupted and requested again.
    """
    if role == "user":
        return True
    if below is None or message.key > below.key:
        return False
    return message.key == below.key or complete


class _NoOwnNodes:
    """A reader for a plugin that needs only the text of nodes."""

    def owns(self, node: Node) -> bool:
        return False

    async def read(
        self, node: Node, above: Node | None, below: Node | None
    ) -> Sequence[Message] | None:
        return None


class _Foreign:
    """Turns resolved nodes into messages, for one context."""

    def __init__(self, db: Database, host: Host, limit: int) -> None:
        self._db = db
        self._host = host
        self._limit = limit
        # The ids of messages that were sent with their turn.
        self._sent: set[bytes] = set()
        # The blocks of the last message, and the ids of its tool calls.
        self._blocks: list[Any] = []
        self._calls: list[str] = []
        # The id of that message's node.
        self._last: bytes | None = None

    async def read(
        self, node: Node, above: Node | None, below: Node | None, answer: Resolved | HubError
    ) -> list[Message]:
        """Return the messages of a node of the path."""
        if isinstance(answer, HubError):
            return [Message(node, "user", f"[External reference: {node.handle}]")]
        if is_attachment(node):
            text = await _text(answer, self._limit)
            return [_message(node, answer, text)]
        if answer.kind == "turn" and (nodes := await children(self._db, node)):
            return await self._turn(nodes, below)
        if answer.kind == "message":
            return [] if node.id in self._sent else await self._message(node, answer)
        if above is not None and above.id == self._last and self._is_sent(answer.data):
            return []
        text = await _text(answer, self._limit)
        return [_message(node, answer, text)]

    async def _turn(self, nodes: list[Node], below: Node | None) -> list[Message]:
        """Return the messages among the nodes below a turn."""
        messages: list[Message] = []
        nodes = [node for node in nodes if node.handle is not None]
        async with aclosing(
            self._host.resolve_each([node.handle for node in nodes if node.handle])
        ) as answers:
            for node in nodes:
                answer = await anext(answers)
                if isinstance(answer, HubError) or answer.kind != "message":
                    continue
                complete = answer.data.get("complete") is not False
                if belongs(node, _string(answer.data.get("role")), below, complete=complete):
                    self._sent.add(node.id)
                    messages += await self._message(node, answer)
        return messages

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
        messages = [_message(node, answer, text)] if text else []
        if self._calls:
            messages.append(Message(node, "user", await self._results(node, self._calls)))
        return messages

    async def _results(self, node: Node, calls: list[str]) -> str:
        """Return the results of tool calls in order of arrival, then a note for each other call."""
        results: dict[str, str] = {}
        nodes = [child for child in await children(self._db, node) if child.handle is not None]
        handles = [child.handle for child in nodes if child.handle]
        async with aclosing(self._host.resolve_each(handles)) as answers:
            async for answer in answers:
                if not isinstance(answer, HubError) and answer.kind == "output":
                    call_id = _call_id(answer.data)
                    if call_id in calls:
                        error = answer.data.get("is_error") is True
                        kind = "Tool error" if error else "Tool result"
                        results[call_id] = f"[{kind}: {answer.text}]"
        missing = [NO_RESULT for call in calls if call not in results]
        return "\n".join((*results.values(), *missing))

    def _is_sent(self, data: Mapping[str, Any]) -> bool:
        """Return whether a block or a result is part of the last message."""
        return _call_id(data) in self._calls or data.get("block", self) in self._blocks


async def _path(db: Database, place: Place) -> AsyncGenerator[list[tuple[Node, Node | None]], None]:
    """Yield the nodes of a path in pages, each with the node below it."""
    last: Node | None = None
    async for page in walk.nodes(db, await walk.path(db, place), MAIN_ONLY):
        nodes = page if last is None else [last, *page]
        yield [*pairwise(nodes)]
        last = nodes[-1]
    if last is not None:
        yield [(last, None)]


def _message(node: Node, answer: Resolved, text: str) -> Message:
    name, model = (_string(answer.data.get(field)) for field in ("name", "model"))
    return Message(node, _role(answer), text, name, model)


def _role(answer: Resolved) -> Role:
    role = _string(answer.data.get("role"))
    return cast("Role", role) if role in ROLES else "user"


async def _text(answer: Resolved, limit: int) -> str:
    if len(answer.json) > _LARGE:
        return await asyncio.to_thread(_text_of_data, answer, limit)
    return _text_of_data(answer, limit)


def _text_of_data(answer: Resolved, limit: int) -> str:
    if answer.kind in SUMMARISED:
        return f"[{answer.kind}: {answer.summary}]"
    if (text := rendering.render(answer.kind, answer.data, limit)) is not None:
        return text
    if answer.kind == "binary":
        return f"[binary: {answer.summary}]"
    content = answer.data.get("content")
    if answer.kind == "message" and isinstance(content, list):
        return "" if answer.data.get("synthetic") is True else _text_of_blocks(content)
    block = answer.data.get("block")
    if isinstance(block, dict) and block.get("type") == "tool_use":
        return _text_of_blocks([block])
    return answer.text


def _text_of_blocks(blocks: Iterable[Any]) -> str:
    """Return the text of blocks. Other blocks, such as images, become `[image]`."""
    parts = []
    for block in blocks:
        if not isinstance(block, dict):
            continue
        if block.get("type") == "tool_use" and "name" in block:
            tool_input = json.dumps(block.get("input"), ensure_ascii=False)
            parts.append(f"[Tool call: {block['name']} {tool_input}]")
        elif block.get("type") in _LEFT_OUT:
            continue
        elif text := block.get("text"):
            parts.append(str(text))
        elif "text" not in block:
            parts.append(f"[{block.get('type')}]")
    return "\n\n".join(parts)


def _call_id(data: Mapping[str, Any]) -> str | None:
    """Return the id of the tool call of a result."""
    block = data.get("block")
    return _string(block.get("tool_use_id")) if isinstance(block, dict) else None


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None
