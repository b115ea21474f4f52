"""The context of a node as messages for the program, read from the tree alone.

A turn on the path yields its messages with all blocks, exactly as the program has them. Text
nodes, handles of other plugins and single blocks are read as in conversations/context.py.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from hubd.activation import Host
from hubd.conversations import attachments
from hubd.conversations.context import (
    NO_RESULT,
    Message,
    Role,
    belongs,
    children,
    is_attachment,
    messages_with,
)
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.handles import ContentRef, ThinkingRef, ToolUseRef
from hubd.plugins.claudecode.native import NativeMessage
from hubd.plugins.claudecode.record.mirror import SYNTHETIC
from hubd.plugins.claudecode.sessions import SessionRow
from hubd.storage import ids
from hubd.storage.arbor import tree, walk
from hubd.storage.arbor.tree import Place
from hubd.storage.arbor.walk import MAIN_ONLY, Node
from hubd.storage.database import Database
from hubd.wire.handle import WireHandle, parse

# The methods of handles of blocks.
BLOCKS: Final = frozenset(ref.method for ref in (ContentRef, ThinkingRef, ToolUseRef))


class Context:
    """A reader of contexts. It knows the handles of its plugin by the plugin's path."""

    def __init__(self, db: Database, host: Host, path: str, limit: int) -> None:
        self._db = db
        self._host = host
        self._path = path
        # The maximum number of characters of an output or a document.
        self._limit = limit

    async def nodes(self, place: Place) -> list[Node]:
        """Return the nodes from the root to a place."""
        stretches = await walk.path(self._db, place)
        return [node async for page in walk.nodes(self._db, stretches, MAIN_ONLY) for node in page]

    async def messages(self, place: Place) -> list[NativeMessage]:
        """Return the messages of a context in order."""
        return [message async for message in self.stream(place)]

    async def stream(self, place: Place) -> AsyncGenerator[NativeMessage, None]:
        """Yield the messages of a context in order. Use it inside `aclosing`."""
        own = _OwnNodes(self)
        reader = messages_with(self._db, self._host, place, self._limit, own)
        async with aclosing(reader) as messages:
            async for message in messages:
                if isinstance(message, NativeMessage):
                    yield message
                elif message.content.strip():
                    yield _native_text(message)

    async def session_messages(
        self, session: SessionRow, node_id: str | None = None
    ) -> list[NativeMessage]:
        """Return the context of a session's head, or of another node of its tree.

        Raises:
            NotFound: The tree has no such node.
        """
        own_tree = await tree.look_up(self._db, ids.text(session.tree_id))
        place = await tree.look_up_place(self._db, own_tree, node_id or session.head_id)
        return await self.messages(place)

    async def attached(self, handles: Iterable[WireHandle]) -> list[NativeMessage]:
        """Return the messages of attachments, which are not in the tree yet.

        Raises:
            HubError: As `attachments.read`.
        """
        return [
            NativeMessage(role=role, content=[{"type": "text", "text": content}])
            for _, role, content in await attachments.read(self._host, handles, self._limit)
            if content.strip()
        ]

    async def turns(self, place: Place) -> int:
        """Return the number of turns from the root to a place."""
        handles = [self.own(node) for node in await self.nodes(place)]
        return sum(1 for handle in handles if handle is not None and handle.method == "turn")

    async def message(self, node: Node) -> list[NativeMessage]:
        """Return the message at a node; after an assistant's, also the results of its tools."""
        handle = self.own(node)
        blob = await self.blob(handle)
        if handle is None or blob is None:
            return []
        if blob.data["role"] == "user":
            return [_native("user", blob.data["content"], node, blob.data)]
        if blob.data.get("model") == SYNTHETIC:
            return []
        blocks: list[dict[str, Any]] = []
        results: dict[str, dict[str, Any]] = {}
        for child in await self.children(node):
            part = self.own(child)
            inner = await self.blob(part)
            if part is None or inner is None:
                continue
            if part.method == "tool_result":
                results[part.meta[1]] = inner.data["block"]
            elif ids.text(inner.id) in blob.data["blocks"] and (block := _usable(inner)):
                blocks.append(block)
        messages = [_native("assistant", blocks, node, blob.data)] if blocks else []
        calls = [str(block["id"]) for block in blocks if block.get("type") == "tool_use"]
        if calls:
            # In order of arrival, then a note for each missing result, because a model refuses a
            # call without a result.
            given = [block for called, block in results.items() if called in calls]
            missing = [_missing(called) for called in calls if called not in results]
            messages.append(_native("user", given + missing, node, {}))
        return messages

    async def calls_tools(self, node: Node) -> bool:
        """Return whether the message at a node has tool calls."""
        handles = [self.own(child) for child in await self.children(node)]
        return any(handle is not None and handle.method == "tool_use" for handle in handles)

    async def has_blocks(self, node: Node) -> bool:
        """Return whether blocks are below the message at a node."""
        handles = [self.own(child) for child in await self.children(node)]
        return any(handle is not None and handle.method in BLOCKS for handle in handles)

    async def children(self, node: Node) -> list[Node]:
        """Return all children of a node in the main lane."""
        return await children(self._db, node)

    async def below_attachments(self, node: Node) -> Node:
        """Return the turn below a chain of attachments; the node itself if it is not one."""
        while is_attachment(node) and (nodes := await self.children(node)):
            node = nodes[0]
        return node

    async def blob(self, handle: WireHandle | None) -> store.Blob | None:
        """Return the blob behind a handle of this plugin."""
        if handle is None or not handle.meta:
            return None
        try:
            name = UUID(handle.meta[0]).bytes
        except ValueError:
            return None
        return await store.blob(self._db, name)

    def own(self, node: Node) -> WireHandle | None:
        """Return the handle of a node if it is a part of a conversation of this plugin."""
        if node.handle is None or is_attachment(node):
            return None
        handle = parse(node.handle)
        return handle if handle.plugin == self._path else None

    async def of_turn(self, turn: Node, below: Node | None) -> list[Node]:
        """Return the messages of a turn up to the next node of the path."""
        nodes = []
        for child in await self.children(turn):
            handle = self.own(child)
            if handle is None or handle.method != "message":
                continue
            role = handle.meta[1] if len(handle.meta) > 1 else None
            blob = await self.blob(handle)
            complete = blob is None or is_kept(blob.data)
            if belongs(child, role, below, complete=complete):
                nodes.append(child)
        return nodes

    async def is_part(self, node: Node, message: Node) -> bool:
        """Return whether a block or a tool result belongs to the message above it."""
        handle, above = self.own(node), self.own(message)
        blob = await self.blob(above)
        if handle is None or above is None or above.method != "message" or blob is None:
            return False
        if handle.method == "tool_result":
            parts = [self.own(child) for child in await self.children(message)]
            calls = {part.meta[1] for part in parts if part and part.method == "tool_use"}
            return handle.meta[1:2] != () and handle.meta[1] in calls
        block = await self.blob(handle)
        return block is not None and ids.text(block.id) in blob.data.get("blocks", ())


class _OwnNodes:
    """The plugin's nodes on the path of one context, as messages of the program."""

    def __init__(self, context: Context) -> None:
        self._context = context
        # Messages that were read with their turn.
        self._read: set[bytes] = set()

    def owns(self, node: Node) -> bool:
        """As `OwnNodes.owns`."""
        return self._context.own(node) is not None

    async def read(
        self, node: Node, above: Node | None, below: Node | None
    ) -> list[NativeMessage] | None:
        """As `OwnNodes.read`."""
        handle = self._context.own(node)
        blob = await self._context.blob(handle)
        if handle is None or blob is None:
            return None
        if handle.method == "turn":
            nodes = await self._context.of_turn(node, below)
            messages: list[NativeMessage] = []
            for message in nodes:
                self._read.add(message.id)
                messages += await self._context.message(message)
            # The messages of a turn from another place are not below this node.
            return messages if nodes else None
        if handle.method == "message":
            if node.id in self._read:
                return []
            # The same holds for the blocks of an answer.
            is_here = not blob.data.get("blocks") or await self._context.has_blocks(node)
            return await self._context.message(node) if is_here else None
        if above is not None and await self._context.is_part(node, above):
            return []
        return None


def is_kept(message: dict[str, Any]) -> bool:
    """Return whether the program kept a message; it may request a cut one again."""
    return message.get("finished") is not False or bool(message.get("uuids"))


def for_program(messages: Iterable[NativeMessage]) -> list[NativeMessage]:
    """Return the messages for the program, which has no role `system`.

    A system message becomes a message of the user, in `<system>` tags.
    """
    return [
        replace(
            message,
            role="user",
            content=[
                {"type": "text", "text": f"<system>\n{block.get('text', '')}\n</system>"}
                for block in message.content
            ],
        )
        if message.role == "system"
        else message
        for message in messages
    ]


def open_messages(messages: Iterable[NativeMessage]) -> list[NativeMessage]:
    """Return the messages for the program without the notes about missing tool results.

    The last message of the assistant then has calls that wait to be carried out.
    """
    shortened = [
        replace(
            message,
            content=[block for block in message.content if block.get("content") != NO_RESULT],
        )
        for message in for_program(messages)
    ]
    return [message for message in shortened if message.content]


def _usable(blob: store.Blob) -> dict[str, Any] | None:
    """Return a block for a model; of a block that was cut off only its text."""
    block: dict[str, Any] = blob.data["block"]
    if blob.complete and blob.data.get("finished", True):
        return block
    text = block.get("text")
    return {"type": "text", "text": text} if blob.blob_type == "content" and text else None


def _missing(called: str) -> dict[str, Any]:
    """Return the replacement of a missing tool result."""
    return {"type": "tool_result", "tool_use_id": called, "content": NO_RESULT, "is_error": True}


def _native_text(message: Message) -> NativeMessage:
    """Return a message of another plugin as a text message."""
    block = {"type": "text", "text": message.content}
    return _native(message.role, [block], message.node, {"model": message.model})


def _native(
    role: Role, content: list[dict[str, Any]], node: Node, data: dict[str, Any]
) -> NativeMessage:
    return NativeMessage(
        role=role,
        content=content,
        model=data.get("model"),
        message_id=data.get("message_id"),
        uuids=tuple(data.get("uuids") or ()),
        timestamp=datetime.fromtimestamp(node.created_at, UTC).isoformat(),
        node_id=node.id,
        handle=node.handle,
    )
