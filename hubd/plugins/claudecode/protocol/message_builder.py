"""One assistant message while it grows: its blocks, from deltas or whole, each finished once.

Knows nothing of other messages or of who may end one; that is accumulator.py.
"""

from typing import Any, Final

from pydantic_core import from_json

from hubd.plugins.claudecode.protocol.facts import (
    BlockDelta,
    BlockFinished,
    BlockKind,
    BlockStarted,
    Fact,
    MessageFinished,
)

# What a block is, by its type; all others are `other`.
KINDS: Final[dict[str, BlockKind]] = {
    "thinking": "thinking",
    "text": "content",
    "tool_use": "tool_use",
    "server_tool_use": "tool_use",
    "mcp_tool_use": "tool_use",
}

# Which delta makes a block of this kind longer, and the key of its text there.
GROWTH: Final[dict[BlockKind, tuple[str, str]]] = {
    "thinking": ("thinking_delta", "thinking"),
    "content": ("text_delta", "text"),
    "tool_use": ("input_json_delta", "partial_json"),
}

# Where the input of a tool call goes that is not a JSON object; the program uses the same key.
UNPARSED_INPUT: Final = "__unparsedToolInput"


class GrowingMessage:
    """A message that is open, or was and is only remembered."""

    def __init__(self, message_id: str, parent_tool_use_id: str | None) -> None:
        self.message_id = message_id
        self.parent_tool_use_id = parent_tool_use_id
        # Set by the first line that names it.
        self.model: str | None = None
        # One for each whole line.
        self.uuids: list[str] = []
        # Every line that has usage adds to it.
        self.usage: dict[str, Any] = {}
        # Known from `message_delta` on.
        self.stop_reason: str | None = None
        # Set by `message_start`: from then on, only a stop reason means a proper end.
        self.streamed = False
        # Cleared by a block that was cut off.
        self._intact = True
        # Grows with every block that starts; the next block's index.
        self._count = 0
        # Blocks that started and are not finished, in order of arrival, by the stream's own index.
        self._open: dict[int, _Block] = {}

    def add_usage(self, usage: dict[str, Any]) -> None:
        """Take over usage; counts are running totals, so that a smaller one is no news."""
        for name, value in usage.items():
            known = self.usage.get(name)
            smaller = isinstance(known, int) and isinstance(value, int) and value < known
            if value is not None and not smaller:
                self.usage[name] = value

    def start_block(self, stream_index: int, start: dict[str, Any]) -> list[Fact]:
        """A block begins in the stream."""
        # That the stream goes on shows that the blocks before were stopped as they should.
        facts = self.settle(complete=True)
        if stream_index in self._open:
            facts.append(self._finish(self._open.pop(stream_index), complete=False))
        block = _Block(self._count, start)
        self._open[stream_index] = block
        facts.append(self._start(block))
        if block.length:
            facts.append(self._delta(block, 0, block.built_text()))
        return facts

    def grow_block(self, stream_index: int, delta: dict[str, Any]) -> list[Fact] | None:
        """A block grows; None if this delta fits no open block."""
        block = self._open.get(stream_index)
        if block is None or block.stopped:
            return None
        offset = block.length
        added = block.grow(delta)
        if added is None:
            return None
        return [self._delta(block, offset, added)] if added else []

    def stop_block(self, stream_index: int) -> None:
        """The stream says that a block is over. Finished ones have been forgotten already."""
        if stream_index in self._open:
            self._open[stream_index].stopped = True

    def settle(self, *, complete: bool) -> list[Fact]:
        """Finish the blocks that were stopped but never given whole."""
        stopped = [index for index, block in self._open.items() if block.stopped]
        return [self._finish(self._open.pop(index), complete=complete) for index in stopped]

    def whole_block(
        self, given: dict[str, Any], *, complete: bool, raw: dict[str, Any]
    ) -> list[Fact]:
        """A block as the program gave it: the end of one from the stream, or a new one."""
        for index, block in self._open.items():
            if block.is_start_of(given):
                del self._open[index]
                return [self._finish(block, complete=complete, given=given, raw=raw)]
        block = _Block(self._count, given)
        return [
            self._start(block),
            self._finish(block, complete=complete, given=given, raw=raw),
        ]

    def cut_off(self) -> list[Fact]:
        """Finish every open block with what is there."""
        facts: list[Fact] = [self._finish(block, complete=False) for block in self._open.values()]
        self._open.clear()
        return facts

    def finish(self, *, trusted: bool) -> list[Fact]:
        """Close the message.

        Args:
            trusted: Whether a message without a stop reason that came in whole lines only may
                be taken for complete.
        """
        facts = self.cut_off()
        ended = self.stop_reason is not None or (trusted and not self.streamed)
        facts.append(
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
        return facts

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
    """A block of the stream: how it started, and what was added."""

    def __init__(self, index: int, start: dict[str, Any]) -> None:
        self.index = index
        self.kind: BlockKind = KINDS.get(_string(start.get("type")), "other")
        # Set by `content_block_stop`.
        self.stopped = False
        # How many characters came so far.
        self.length = 0
        self._start = start
        # These grow with the deltas.
        self._parts: list[str] = []
        self._signature = _string(start.get("signature"))
        self._citations: list[Any] = []
        if self.kind in ("thinking", "content"):
            self._append(_string(start.get(GROWTH[self.kind][1])))

    def text_of(self, name: str) -> str | None:
        return _string(self._start.get(name)) or None

    def is_start_of(self, given: dict[str, Any]) -> bool:
        """Whether a whole block is what this one became."""
        names = ("type", "id") if self.kind == "tool_use" else ("type",)
        return all(self._start.get(name) == given.get(name) for name in names)

    def grow(self, delta: dict[str, Any]) -> str | None:
        """Take a delta; what a reader sees of it, or None if it does not belong here."""
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
        """The block as far as the stream gave it."""
        block, text = dict(self._start), self.built_text()
        if self.kind == "content":
            block["text"] = text
            if self._citations:
                known = block.get("citations")
                block["citations"] = [*(known if isinstance(known, list) else []), *self._citations]
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
    """Return the input of a tool call from its JSON; kept as raw text if it is not an object."""
    try:
        parsed = from_json(text, allow_inf_nan=False)
    except ValueError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {UNPARSED_INPUT: {"raw": text}}


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
