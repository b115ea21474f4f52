"""Unfinished blocks of a running chat, and the live events that show them to followers.

Followers have no queue of deltas. Each one compares the text that it has sent with the text that
is here. A slow follower gets larger pieces and costs no memory; a late one gets the text so far.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from hubd.plugins.claudecode import chat_events
from hubd.plugins.claudecode.protocol.updates import BlockDelta, BlockFinished, BlockStarted
from hubd.plugins.claudecode.record.mirror import MessageKey
from hubd.wire.lazy_dataclass import dataclass

BlockKey = tuple[MessageKey, int]


@dataclass
class LiveText:
    """The text so far of an unfinished block."""

    events: chat_events.BlockEvents
    # The fields of every live event about the block: its index and its message.
    name: dict[str, Any]
    # The id and the name of the tool, if the block is a tool call.
    call: dict[str, Any]
    # The number of durable events before the block.
    after_seq: int
    parts: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the text so far."""
        return "".join(self.parts)


class Live:
    """The unfinished blocks of one chat."""

    def __init__(self) -> None:
        self.blocks: dict[BlockKey, LiveText] = {}

    def start(self, update: BlockStarted, after_seq: int) -> None:
        """Add a block that starts. A block of kind `other` is not shown before it is complete."""
        if update.kind == "other":
            return
        name: dict[str, Any] = {
            "block_index": update.index,
            "message_id": update.message_id,
            "parent_tool_use_id": update.parent_tool_use_id,
        }
        call = {"tool_use_id": update.tool_use_id, "tool_name": update.tool_name}
        is_call = update.kind == "tool_use"
        self.blocks[block_key(update)] = LiveText(
            chat_events.BLOCK_EVENTS[update.kind], name, call if is_call else {}, after_seq
        )

    def grow(self, update: BlockDelta) -> None:
        """Append text to a block."""
        block = self.blocks.get(block_key(update))
        piece = update.text if update.text is not None else update.partial_json
        if block is not None and piece:
            block.parts.append(piece)

    def finish(self, key: BlockKey) -> None:
        """Remove a block just before it becomes a durable event.

        If this came later, a follower could read the event and take the block for a new one.
        """
        self.blocks.pop(key, None)


@dataclass
class _Progress:
    """The part of a block that one follower has sent."""

    # Kept here, because `Live` drops a finished block.
    block: LiveText
    parts: int = 0
    characters: int = 0

    def rest(self) -> list[dict[str, Any]]:
        """Return an event with the new text, if there is any."""
        text = "".join(self.block.parts[self.parts :])
        self.parts = len(self.block.parts)
        return self.show(text)

    def show(self, text: str) -> list[dict[str, Any]]:
        """Return an event with this text, if there is any."""
        if not text:
            return []
        offset, events = self.characters, self.block.events
        self.characters += len(text)
        piece = {events.delta_field: text}
        return [events.delta.fields(**self.block.name, offset=offset, **piece)]


class SentText:
    """The parts of unfinished blocks that one follower has sent."""

    def __init__(self) -> None:
        self._progress: dict[BlockKey, _Progress] = {}

    def new_events(self, live: Live, seq: int) -> list[dict[str, Any]]:
        """Return events with new text, if all durable events before its block were sent."""
        events: list[dict[str, Any]] = []
        for key, block in live.blocks.items():
            if block.after_seq <= seq:
                if key not in self._progress:
                    self._progress[key] = _Progress(block)
                    events.append(block.events.start.fields(**block.name, **block.call))
                events += self._progress[key].rest()
        return events

    def finish(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Return events with the rest of a block, just before its durable event."""
        message = (event.get("parent_tool_use_id"), event.get("message_id", ""))
        progress = self._progress.pop((message, event.get("block_index", -1)), None)
        if progress is None:
            return []
        block = progress.block
        content = {"input": event.get("input")} if block.call else {}
        end = block.events.end.fields(**block.name, position=event["position"], **content)
        if block.call:
            # The durable event has the parsed input; the rest of its text is only here.
            return [*progress.rest(), end]
        return [*progress.show(event["text"][progress.characters :]), end]


def block_key(update: BlockStarted | BlockDelta | BlockFinished) -> BlockKey:
    """Return the key of the block that an update is about."""
    return (update.parent_tool_use_id, update.message_id), update.index
