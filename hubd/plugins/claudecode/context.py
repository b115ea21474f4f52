"""The context of a node: the messages a model would be sent, read from the tree alone.

Turns on the path give their messages, with all blocks; text nodes and the handles of other
plugins on the path belong to it as well, these resolved through the hub.
"""

from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from hubd.activation import Host, HubError
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.mirror import SYNTHETIC
from hubd.plugins.claudecode.native import NativeMessage
from hubd.storage import tree, walk
from hubd.storage.database import Database
from hubd.storage.tree import Place
from hubd.storage.walk import Node
from hubd.wire.handle import WireHandle, parse

MAIN: Final = frozenset((tree.MAIN,))
BLOCKS: Final = frozenset(("content", "thinking", "tool_use"))


class Context:
    """Reads contexts for one plugin, whose own handles it knows by their path."""

    def __init__(self, db: Database, host: Host, path: str) -> None:
        self._db = db
        self._host = host
        self._path = path

    async def nodes(self, place: Place) -> list[Node]:
        """The nodes on the way to a place."""
        stretches = await walk.path(self._db, place)
        return [node async for page in walk.nodes(self._db, stretches, MAIN) for node in page]

    async def messages(self, place: Place) -> list[NativeMessage]:
        """The whole context, in order."""
        nodes = await self.nodes(place)
        found: list[NativeMessage] = []
        # Messages that came with their turn.
        known: set[bytes] = set()
        for number, node in enumerate(nodes):
            below = nodes[number + 1] if number + 1 < len(nodes) else None
            handle = self.own(node)
            if node.text is not None:
                if node.text:
                    found.append(_said(node.text, node))
            elif handle is None:
                assert node.handle is not None
                found.append(_said(await self._foreign(node.handle), node))
            elif handle.method == "turn":
                for message in await self._of_turn(node, below):
                    known.add(message.id)
                    found += await self.message(message)
            elif handle.method == "message" and node.id not in known:
                found += await self.message(node)
        return found

    async def turns(self, place: Place) -> int:
        """How many turns lie on the way to a place."""
        handles = [self.own(node) for node in await self.nodes(place)]
        return sum(1 for handle in handles if handle is not None and handle.method == "turn")

    async def message(self, node: Node) -> list[NativeMessage]:
        """The message at a node and, after an assistant's, what its tools gave."""
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
            elif part.method in BLOCKS and (block := _usable(inner)) is not None:
                blocks.append(block)
        found = [_native("assistant", blocks, node, blob.data)] if blocks else []
        calls = [str(block["id"]) for block in blocks if block.get("type") == "tool_use"]
        if calls:
            # In the order in which they came; those that never came are said to be missing,
            # because a model takes no call without an answer.
            given = [block for called, block in results.items() if called in calls]
            missing = [_missing(called) for called in calls if called not in results]
            found.append(_native("user", given + missing, node, {}))
        return found

    async def calls_tools(self, node: Node) -> bool:
        """Whether the message at a node calls tools."""
        handles = [self.own(child) for child in await self.children(node)]
        return any(handle is not None and handle.method == "tool_use" for handle in handles)

    async def children(self, node: Node) -> list[Node]:
        """All children of a node in the main lane."""
        place = Place(node.key, node.id, 0, node.segment, node.depth, node.lane)
        found: list[Node] = []
        after = 0
        while page := await walk.children(self._db, place, MAIN, after):
            found += page
            after = page[-1].key
        return found

    async def blob(self, handle: WireHandle | None) -> store.Blob | None:
        """What one of our handles points at."""
        if handle is None or not handle.meta:
            return None
        try:
            name = UUID(handle.meta[0]).bytes
        except ValueError:
            return None
        return await store.blob(self._db, name)

    def own(self, node: Node) -> WireHandle | None:
        """The handle of a node, if it is one of ours."""
        if node.handle is None:
            return None
        handle = parse(node.handle)
        return handle if handle.plugin == self._path else None

    async def _of_turn(self, turn: Node, below: Node | None) -> list[Node]:
        """The messages of a turn, as far as the path goes."""
        last = below.key if below is not None else 0
        found = []
        for child in await self.children(turn):
            handle = self.own(child)
            if handle is None or handle.method != "message":
                continue
            on_the_way = handle.meta[1:2] == ("user",) or child.key == last
            if on_the_way or (child.key < last and not await self._asked_again(handle)):
                found.append(child)
        return found

    async def _asked_again(self, handle: WireHandle) -> bool:
        """Whether a message was cut off and the program did not keep it, but asked again."""
        blob = await self.blob(handle)
        return (
            blob is not None and blob.data.get("finished") is False and not blob.data.get("uuids")
        )

    async def _foreign(self, handle: str) -> str:
        try:
            return (await self._host.resolve(handle)).text
        except HubError:
            return f"[External reference: {handle}]"


def _usable(blob: store.Blob) -> dict[str, Any] | None:
    """A block as a model can be sent it; of one that broke off only text is of use."""
    block: dict[str, Any] = blob.data["block"]
    if blob.complete and blob.data.get("finished", True):
        return block
    text = block.get("text")
    return {"type": "text", "text": text} if blob.blob_type == "content" and text else None


def _missing(called: str) -> dict[str, Any]:
    """In place of what a tool did not give."""
    said = "[The tool was interrupted before it gave a result]"
    return {"type": "tool_result", "tool_use_id": called, "content": said, "is_error": True}


def _said(text: str, node: Node) -> NativeMessage:
    return _native("user", [{"type": "text", "text": text}], node, {})


def _native(
    role: str, content: list[dict[str, Any]], node: Node, about: dict[str, Any]
) -> NativeMessage:
    return NativeMessage(
        role="user" if role == "user" else "assistant",
        content=content,
        model=about.get("model"),
        message_id=about.get("message_id"),
        uuids=tuple(about.get("uuids") or ()),
        timestamp=datetime.fromtimestamp(node.created_at, UTC).isoformat(),
        node_id=node.id,
        handle=node.handle,
    )
