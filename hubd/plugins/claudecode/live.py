"""What a running chat is saying at this moment, before it is a durable event.

Followers do not get a queue of deltas: they compare what they have shown with what is here, so
one that is slow gets larger pieces and costs no memory, and one that comes late gets the text so
far and then the rest.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from hubd.plugins.claudecode.facts import BlockDelta, BlockFinished, BlockStarted
from hubd.plugins.claudecode.mirror import MessageKey

BlockKey = tuple[MessageKey, int]
# Tool input that was sent piece by piece is kept until the end of the chat, within reason: the
# durable event has it parsed, and a follower in the middle of it wants the rest of the text.
MAX_KEPT: Final = 64


@dataclass
class Growing:
    """A block that is being written."""

    kind: str
    start: dict[str, Any]
    # How many durable events came before it.
    after_seq: int
    parts: list[str] = field(default_factory=list)

    def text(self) -> str:
        """All of it so far."""
        return "".join(self.parts)


class Live:
    """The blocks of one chat that are being written."""

    def __init__(self) -> None:
        self.blocks: dict[BlockKey, Growing] = {}
        # Tool input of blocks that are finished, by block.
        self._finished: dict[BlockKey, Growing] = {}

    def start(self, fact: BlockStarted, after_seq: int) -> None:
        """A block begins."""
        start: dict[str, Any] = {"block_index": fact.index}
        if fact.kind == "tool_use":
            start |= {"tool_use_id": fact.tool_use_id, "tool_name": fact.tool_name}
        if fact.parent_tool_use_id is not None:
            start["parent_tool_use_id"] = fact.parent_tool_use_id
        self.blocks[_key(fact)] = Growing(fact.kind, start, after_seq)

    def grow(self, fact: BlockDelta) -> None:
        """A block grew."""
        block = self.blocks.get(_key(fact))
        piece = fact.text if fact.text is not None else fact.partial_json
        if block is not None and piece:
            block.parts.append(piece)

    def finish(self, fact: BlockFinished) -> None:
        """A block is a durable event now."""
        block = self.blocks.pop(_key(fact), None)
        if block is not None and block.kind == "tool_use":
            self._finished[_key(fact)] = block
            if len(self._finished) > MAX_KEPT:
                del self._finished[next(iter(self._finished))]

    def finished_input(self, key: BlockKey) -> Growing | None:
        """The text of a tool's input, for who has shown only part of it."""
        return self._finished.get(key)


class Shown:
    """What one follower has shown of the blocks that are being written."""

    def __init__(self) -> None:
        # How many parts of each block, and how many characters that is.
        self._shown: dict[BlockKey, tuple[int, int]] = {}

    def news(self, live: Live, seq: int) -> list[dict[str, Any]]:
        """Events for what is new, as long as all durable events before it were shown."""
        found: list[dict[str, Any]] = []
        for key, block in live.blocks.items():
            if block.after_seq <= seq:
                if key not in self._shown:
                    self._shown[key] = (0, 0)
                    found.append({"type": f"{block.kind}_start", **block.start})
                found += self._rest(key, block)
        return found

    def finish(self, event: dict[str, Any], live: Live | None) -> list[dict[str, Any]]:
        """Events for the rest of a block whose durable event comes next."""
        index = event.get("block_index")
        key = ((event.get("parent_tool_use_id"), event.get("message_id", "")), index)
        if key not in self._shown:
            return []
        kind = event["type"]
        found: list[dict[str, Any]] = []
        if kind == "tool_use":
            block = live.finished_input(key) if live else None
            found += self._rest(key, block) if block else []
        else:
            _, offset = self._shown[key]
            rest = event["text"][offset:]
            found += [_delta(kind, event["block_index"], offset, rest)] if rest else []
        del self._shown[key]
        found.append({"type": f"{kind}_end", "block_index": index, "position": event["position"]})
        return found

    def _rest(self, key: BlockKey, block: Growing) -> list[dict[str, Any]]:
        parts, offset = self._shown[key]
        rest = "".join(block.parts[parts:])
        self._shown[key] = (len(block.parts), offset + len(rest))
        return [_delta(block.kind, key[1], offset, rest)] if rest else []


def _delta(kind: str, index: int, offset: int, text: str) -> dict[str, Any]:
    name = "partial_json" if kind == "tool_use" else "text"
    return {"type": f"{kind}_delta", "block_index": index, "offset": offset, name: text}


def _key(fact: BlockStarted | BlockDelta | BlockFinished) -> BlockKey:
    return (fact.parent_tool_use_id, fact.message_id), fact.index
