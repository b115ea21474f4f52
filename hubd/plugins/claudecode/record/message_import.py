"""Import messages of a native session into the tree, as if the hub had recorded them."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from hubd.activation import Handle
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.handles import (
    MessageRef,
    ToolResultRef,
    TurnRef,
    block_handle,
)
from hubd.plugins.claudecode.native import NativeMessage
from hubd.plugins.claudecode.record.mirror import TEXT_LENGTH
from hubd.plugins.claudecode.sessions import SessionRow
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.arbor.tree import Place
from hubd.storage.database import Tx


class MessageImport:
    """An import of messages below a head, turn by turn, in one transaction."""

    def __init__(self, tx: Tx, session: SessionRow, head: Place, index: int, now: int) -> None:
        self._tx = tx
        self._session = session
        self._now = now
        self._index = index
        # The head of the conversation; the next turn follows it.
        self.head = head
        self._turn: Place | None = None
        self._callers: dict[str, Place] = {}

    def add(self, messages: Iterable[NativeMessage], native_id: str) -> None:
        """Add messages in order."""
        for message in messages:
            if message.role == "assistant":
                self._assistant(message, native_id)
                continue
            results = [block for block in message.content if block.get("type") == "tool_result"]
            prompt = [block for block in message.content if block.get("type") != "tool_result"]
            for block in results:
                self._result(block, message)
            if prompt:
                self._user(prompt, message)

    def _user(self, content: list[dict[str, Any]], message: NativeMessage) -> None:
        text = " ".join(str(block.get("text", "")) for block in content).strip()[:TEXT_LENGTH]
        turn = {
            "index": self._index,
            "session_id": ids.text(self._session.id),
            "prompt": text,
            "engine": "claude",
            "status": "imported",
        }
        self._index += 1
        blob = store.add_blob(self._tx, self.head.tree, self._session.id, "turn", turn, self._now)
        reference = TurnRef(turn_id=UUID(bytes=blob), turn_index=turn["index"])  # type: ignore[arg-type]
        self._turn = self.head = self._node(self.head, reference, side=False)
        data = {"role": "user", "content": content, "text": text, "uuids": list(message.uuids)}
        blob = store.add_blob(
            self._tx, self.head.tree, self._session.id, "message", data, self._now
        )
        self._node(self._turn, MessageRef(blob_id=UUID(bytes=blob), role="user"))

    def _assistant(self, message: NativeMessage, native_id: str) -> None:
        if self._turn is None:
            self._user([{"type": "text", "text": ""}], message)
        assert self._turn is not None
        texts = [str(block.get("text", "")) for block in message.content]
        data: dict[str, Any] = {
            "role": "assistant",
            "message_id": message.message_id,
            "engine": "claude",
            "model": message.model,
            "text": "".join(texts)[:TEXT_LENGTH],
            "uuids": list(message.uuids),
            "native_id": native_id,
            "blocks": [],
            "finished": True,
        }
        blob = store.add_blob(
            self._tx, self._turn.tree, self._session.id, "message", data, self._now, complete=False
        )
        reference = MessageRef(blob_id=UUID(bytes=blob), role="assistant")
        self.head = self._node(self._turn, reference, side=False)
        for index, block in enumerate(message.content):
            data["blocks"].append(self._block(index, block))
        store.grow_blob(self._tx, blob, data, complete=True)

    def _block(self, index: int, block: dict[str, Any]) -> str:
        kind = {"thinking": "thinking", "tool_use": "tool_use"}.get(
            block.get("type", ""), "content"
        )
        data = {"block": block, "block_index": index, "finished": True}
        blob = store.add_blob(self._tx, self.head.tree, self._session.id, kind, data, self._now)
        call_id = str(block.get("id", ""))
        if kind == "tool_use":
            self._callers[call_id] = self.head
        reference = block_handle(kind, blob, index, call_id, block.get("name"))
        self._node(self.head, reference)
        return ids.text(blob)

    def _result(self, block: dict[str, Any], message: NativeMessage) -> None:
        call_id = str(block.get("tool_use_id", ""))
        data = {"block": block, "uuid": message.uuids[0] if message.uuids else None}
        blob = store.add_blob(
            self._tx, self.head.tree, self._session.id, "tool_result", data, self._now
        )
        reference = ToolResultRef(
            blob_id=UUID(bytes=blob), tool_use_id=call_id, is_error=bool(block.get("is_error"))
        )
        self._node(self._callers.get(call_id, self.head), reference)

    def _node(self, above: Place, handle: Handle, *, side: bool = True) -> Place:
        content = tree.external(self._tx, handle.wire)
        return tree.append(self._tx, above, content, self._now, side=side)
