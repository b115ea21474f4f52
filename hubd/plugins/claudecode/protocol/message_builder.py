"""Build one assistant message: its blocks come as deltas or complete, and each is finished once.

accumulator.py decides which message a line belongs to and when a message ends.
"""

from typing import Any, Final

from pydantic_core import from_json

from hubd.plugins.claudecode.protocol.updates import (
    BlockDelta,
    BlockFinished,
    BlockKind,
    BlockStarted,
    MessageFinished,
    Update,
)

# The kind of a block by its type; all other types are `other`.
KINDS: Final[dict[str, BlockKind]] = {
    "thinking": "thinking",
    "text": "content",
    "tool_use": "tool_use",
    "server_tool_use": "tool_use",
    "mcp_tool_use": "tool_use",
}

# The type of the delta that extends a block of this kind, and the key of its text.
GROWTH: Final[dict[BlockKind, tuple[str, str]]] = {
    "thinking": ("thinking_delta", "thinking"),
    "content": ("text_delta", "text"),
    "tool_use": ("input_json_delta", "partial_json"),
}

# The key of a tool call's input that is not a JSON object; the program uses the same key.
UNPARSED_INPUT: Final = "__unparsedToolInput"


class MessageBuilder:
    """An assistant message, open or finished."""

    def __init__(self, message_id: str, parent_tool_use_id: str | None) -> None:
        self.message_id = message_id
        self.parent_tool_use_id = parent_tool_use_id
        # Set by the first line that names it.
        self.model: str | None = None
        # The ids of the complete lines.
        self.uuids: list[str] = []
        # The newest counts of tokens.
        self.usage: dict[str, Any] = {}
        # Set by `message_delta`.
        self.stop_reason: str | None = None
        # Set by `message_start`. After that, only a message with a stop reason is complete.
        self.streamed = False
        # False after a block was cut off.
        self._intact = True
        # The number of blocks so far, which is the index of the next block.
        self._count = 0
        # The unfinished blocks in order of arrival, by the index in the stream.
        self._open: dict[int, _Block] = {}

    def add_usage(self, usage: dict[str, Any]) -> None:
        """Merge usage. Counts are running totals, so a smaller count is ignored."""
        for name, value in usage.items():
            total = self.usage.get(name)
            smaller = isinstance(total, int) and isinstance(value, int) and value < total
            if value is not None and not smaller:
                self.usage[name] = value

    def start_block(self, stream_index: int, start: dict[str, Any]) -> list[Update]:
        """Start a block of the stream."""
        # The stream continues, so the stopped blocks before this one are complete.
        updates = self.settle(complete=True)
        if stream_index in self._open:
            updates.append(self._finish(self._open.pop(stream_index), complete=False))
        block = _Block(self._count, start)
        self._open[stream_index] = block
        updates.append(self._start(block))
        if block.length:
            updates.append(self._delta(block, 0, block.built_text()))
        return updates

    def grow_block(self, stream_index: int, delta: dict[str, Any]) -> list[Update] | None:
        """Extend a block; return None if the delta fits no open block."""
        block = self._open.get(stream_index)
        if block is None or block.stopped:
            return None
        offset = block.length
        added = block.grow(delta)
        if added is None:
            return None
        return [self._delta(block, offset, added)] if added else []

    def stop_block(self, stream_index: int) -> None:
        """Mark a block as stopped by the stream. Finished blocks are not here any more."""
        if stream_index in self._open:
            self._open[stream_index].stopped = True

    def settle(self, *, complete: bool) -> list[Update]:
        """Finish the blocks that were stopped without a complete line."""
        stopped = [index for index, block in self._open.items() if block.stopped]
        return [self._finish(self._open.pop(index), complete=complete) for index in stopped]

    def complete_block(
        self, given: dict[str, Any], *, complete: bool, raw: dict[str, Any]
    ) -> list[Update]:
        """Take a complete block: the end of a block of the stream, or a new one."""
        for index, block in self._open.items():
            if block.is_start_of(given):
                del self._open[index]
                return [self._finish(block, complete=complete, given=given, raw=raw)]
        block = _Block(self._count, given)
        return [
            self._start(block),
            self._finish(block, complete=complete, given=given, raw=raw),
        ]

    def cut_off(self) -> list[Update]:
        """Finish every open block as cut off."""
        updates: list[Update] = [
            self._finish(block, complete=False) for block in self._open.values()
        ]
        self._open.clear()
        return updates

    def finish(self, *, trusted: bool) -> list[Update]:
        """Finish the message.

        Args:
            trusted: Whether a message without a stop reason is complete if it came in complete
                lines only.
        """
        updates = self.cut_off()
        ended = self.stop_reason is not None or (trusted and not self.streamed)
        updates.append(
            MessageFinished(
                message_id=self.message_id,
                parent_tool_use_id=self.parent_tool_use_id,
                model=self.model,
                uuids=tuple(self.uuids),
                usage=dict(self.usage),
                stop_reason=self.stop_reason,
                complete=self._intact and ended,
            )
        )
        return updates

    def _start(self, block: "_Block") -> BlockStarted:
        self._count += 1
        return BlockStarted(
            message_id=self.message_id,
            parent_tool_use_id=self.parent_tool_use_id,
            index=block.index,
            kind=block.kind,
            tool_use_id=block.text_of("id") if block.kind == "tool_use" else None,
            tool_name=block.text_of("name") if block.kind == "tool_use" else None,
        )

    def _delta(self, block: "_Block", offset: int, added: str) -> BlockDelta:
        is_call = block.kind == "tool_use"
        return BlockDelta(
            message_id=self.message_id,
            parent_tool_use_id=self.parent_tool_use_id,
            index=block.index,
            kind=block.kind,
            offset=offset,
            text=None if is_call else added,
            partial_json=added if is_call else None,
        )

    def _finish(
        self,
        block: "_Block",
        *,
        complete: bool,
        given: dict[str, Any] | None = None,
        raw: dict[str, Any] | None = None,
    ) -> BlockFinished:
        self._intact = self._intact and complete
        return BlockFinished(
            message_id=self.message_id,
            parent_tool_use_id=self.parent_tool_use_id,
            index=block.index,
            kind=block.kind,
            block=block.built() if given is None else given,
            complete=complete,
            raw=raw,
        )


class _Block:
    """A block of the stream: its start and its deltas."""

    def __init__(self, index: int, start: dict[str, Any]) -> None:
        self.index = index
        self.kind: BlockKind = KINDS.get(_string(start.get("type")), "other")
        # Set by `content_block_stop`.
        self.stopped = False
        # The number of characters so far.
        self.length = 0
        self._start = start
        # The content of the deltas.
        self._parts: list[str] = []
        self._signature = _string(start.get("signature"))
        self._citations: list[Any] = []
        if self.kind in ("thinking", "content"):
            self._append(_string(start.get(GROWTH[self.kind][1])))

    def text_of(self, name: str) -> str | None:
        return _string(self._start.get(name)) or None

    def is_start_of(self, given: dict[str, Any]) -> bool:
        """Return whether a complete block is the end of this one."""
        names = ("type", "id") if self.kind == "tool_use" else ("type",)
        return all(self._start.get(name) == given.get(name) for name in names)

    def grow(self, delta: dict[str, Any]) -> str | None:
        """Add a delta; return its visible text, or None if it does not fit the block."""
        match self.kind, delta:
            case "thinking", {"type": "signature_delta", "signature": str(signature)}:
                self._signature += signature
                return ""
            case "content", {"type": "citations_delta", "citation": citation}:
                self._citations.append(citation)
                return ""
        wanted, key = GROWTH.get(self.kind, ("", ""))
        added = delta.get(key)
        if delta.get("type") != wanted or not isinstance(added, str):
            return None
        self._append(added)
        return added

    def built_text(self) -> str:
        return "".join(self._parts)

    def built(self) -> dict[str, Any]:
        """Return the block as the stream built it so far."""
        block, text = dict(self._start), self.built_text()
        if self.kind == "content":
            block["text"] = text
            if self._citations:
                first = block.get("citations")
                block["citations"] = [*(first if isinstance(first, list) else []), *self._citations]
        elif self.kind == "thinking":
            block["thinking"] = text
            if self._signature:
                block["signature"] = self._signature
        elif self.kind == "tool_use" and text:
            block["input"] = tool_input(text)
        return block

    def _append(self, text: str) -> None:
        if text:
            self._parts.append(text)
            self.length += len(text)


def tool_input(text: str) -> dict[str, Any]:
    """Return the input of a tool call from its JSON; as raw text if it is not an object."""
    try:
        parsed = from_json(text, allow_inf_nan=False)
    except ValueError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {UNPARSED_INPUT: {"raw": text}}


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
