"""What a running chat is saying at this moment, before it is a durable event.

Followers do not get a queue of deltas: they compare what they have shown with what is here, so
one that is slow gets larger pieces and costs no memory, and one that comes late gets the text so
far and then the rest.
"""

from dataclasses import dataclass, field
from typing import Any

from hubd.plugins.claudecode.protocol.facts import BlockDelta, BlockFinished, BlockStarted
from hubd.plugins.claudecode.record.mirror import MessageKey

BlockKey = tuple[MessageKey, int]


@dataclass
class Growing:
    """A block that is being written."""

    kind: str
    # Which block of which message, as every live event about it says.
    name: dict[str, Any]
    # Which tool is called, if one is.
    call: dict[str, Any]
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

    def start(self, fact: BlockStarted, after_seq: int) -> None:
        """A block begins. What is only kept is not shown before it is whole."""
        if fact.kind == "other":
            return
        name: dict[str, Any] = {"block_index": fact.index, "message_id": fact.message_id}
        if fact.parent_tool_use_id is not None:
            name["parent_tool_use_id"] = fact.parent_tool_use_id
        call = {"tool_use_id": fact.tool_use_id, "tool_name": fact.tool_name}
        is_call = fact.kind == "tool_use"
        self.blocks[block_key(fact)] = Growing(fact.kind, name, call if is_call else {}, after_seq)

    def grow(self, fact: BlockDelta) -> None:
        """A block grew."""
        block = self.blocks.get(block_key(fact))
        piece = fact.text if fact.text is not None else fact.partial_json
        if block is not None and piece:
            block.parts.append(piece)

    def finish(self, key: BlockKey) -> None:
        """A block is about to be a durable event: who has shown part of it has the rest there.

        Not later: a follower could read the event first, and then take the block for a new one.
        """
        self.blocks.pop(key, None)


@dataclass
class _Progress:
    """How much of a block one follower has shown."""

    # Kept, because a block that is finished is nowhere else as the text that was sent.
    block: Growing
    parts: int = 0
    characters: int = 0

    def rest(self) -> list[dict[str, Any]]:
        """An event for what is new, if anything is."""
        text = "".join(self.block.parts[self.parts :])
        self.parts = len(self.block.parts)
        return self.show(text)

    def show(self, text: str) -> list[dict[str, Any]]:
        """An event for a piece of it."""
        if not text:
            return []
        offset, kind = self.characters, self.block.kind
        self.characters += len(text)
        piece = {"partial_json" if kind == "tool_use" else "text": text}
        return [{"type": f"{kind}_delta", **self.block.name, "offset": offset, **piece}]


class Shown:
    """What one follower has shown of the blocks that are being written."""

    def __init__(self) -> None:
        self._shown: dict[BlockKey, _Progress] = {}

    def news(self, live: Live, seq: int) -> list[dict[str, Any]]:
        """Events for what is new, as long as all durable events before it were shown."""
        found: list[dict[str, Any]] = []
        for key, block in live.blocks.items():
            if block.after_seq <= seq:
                if key not in self._shown:
                    self._shown[key] = _Progress(block)
                    found.append({"type": f"{block.kind}_start", **block.name, **block.call})
                found += self._shown[key].rest()
        return found

    def finish(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Events for the rest of a block whose durable event comes next."""
        message = (event.get("parent_tool_use_id"), event.get("message_id", ""))
        progress = self._shown.pop((message, event.get("block_index", -1)), None)
        if progress is None:
            return []
        kind, name = progress.block.kind, progress.block.name
        end = {"type": f"{kind}_end", **name, "position": event["position"]}
        if kind == "tool_use":
            # The event has the input parsed; the rest of its text is only here.
            return [*progress.rest(), {**end, "input": event.get("input")}]
        return [*progress.show(event["text"][progress.characters :]), end]


def block_key(fact: BlockStarted | BlockDelta | BlockFinished) -> BlockKey:
    """Which block a fact is about."""
    return (fact.parent_tool_use_id, fact.message_id), fact.index
