"""Read the message of a tool call from a session file, with the entries after it."""

import json
import os
import re
from dataclasses import field
from typing import Any, BinaryIO, Final, Literal, NamedTuple

from hubd.plugins.claudecode.native.entries import NativeEntry, entry_at, entry_of, ids_in
from hubd.plugins.claudecode.native.file_end import find_last, start_of_line
from hubd.wire.lazy_dataclass import dataclass
from hubd.wire.lazy_pattern import lazy_pattern

# The results that `claude` records if its stdin closes while a question is open.
_CLOSED_BY_HUB_DEATH: Final = lazy_pattern(
    r"Tool permission request failed: .*\bstream closed", re.I
)


@dataclass(frozen=True)
class OpenCall:
    """A tool call without a result.

    Attributes:
        tool_use_id: The id of the call.
        tool_name: The name of the tool.
        tool_input: The input that the model gave.
        entry_uuid: The entry of the call, which is the parent of its result.
    """

    tool_use_id: str
    tool_name: str
    tool_input: dict[str, Any] = field(repr=False)
    entry_uuid: str


Kind = Literal["open", "closed_by_hub_death", "answered", "moved_on", "missing"]


class CallState(NamedTuple):
    """The state of a call in a session file.

    Attributes:
        kind: `open`: a marker works. `closed_by_hub_death`: a marker works after `cut`. `answered`:
            the call has a result. `moved_on`: the conversation continued, so the model would not
            see a result. `missing`: the file does not have the call.
        open_calls: All calls of the same message without a result, in order. Failures that `cut`
            removes do not count as results.
        reason: Why the call can't be carried out, in words; empty if it can.
    """

    kind: Kind
    open_calls: tuple[OpenCall, ...]
    reason: str


class CallMessage:
    """The message of a call, its results, and the kind of entries after it."""

    def __init__(self, message_id: str | None) -> None:
        self.message_id = message_id
        # All calls of the message, in order.
        self.calls: dict[str, OpenCall] = {}
        # The calls with a result, except failures caused by the end of a hub.
        self.answered: set[str] = set()
        # The offsets of those failures, by call.
        self.failures: dict[str, int] = {}
        # The ids of the entries of the calls and of their results.
        self.uuids: set[str] = set()
        # Whether the model answered after the message, with text only.
        self.has_text = False
        # Why the conversation can't return to the message; empty if it can.
        self.obstacle = ""

    def add(self, entry: NativeEntry, offset: int) -> None:
        """Take the next entry of the file."""
        if entry.kind == "assistant" and entry.message_id == self.message_id:
            self.uuids.add(entry.uuid)
            for block in entry.blocks:
                if block.get("type") == "tool_use":
                    self._add_call(block, entry.uuid)
        elif entry.kind == "user" and entry.is_results:
            self._add_results(entry, offset)
        elif entry.is_meta and entry.parent_uuid in self.uuids and self.failures:
            self.obstacle = "the agent added context after the call"
        elif entry.kind == "assistant":
            if any(block.get("type") == "tool_use" for block in entry.blocks):
                self.obstacle = "the agent went on to other tool calls without a result"
            self.has_text = True
        elif entry.kind == "user" and entry.is_shown:
            self.obstacle = "the conversation continued without a result"

    def _add_call(self, block: dict[str, Any], uuid: str) -> None:
        key, name, tool_input = block.get("id"), block.get("name"), block.get("input")
        if isinstance(key, str) and isinstance(name, str):
            given = tool_input if isinstance(tool_input, dict) else {}
            self.calls[key] = OpenCall(key, name, given, uuid)

    def _add_results(self, entry: NativeEntry, offset: int) -> None:
        for block in entry.blocks:
            key = str(block.get("tool_use_id"))
            if key not in self.calls:
                continue
            content = block.get("content")
            is_failure = block.get("is_error") is True and isinstance(content, str)
            if is_failure and _CLOSED_BY_HUB_DEATH.match(str(content)):
                self.failures.setdefault(key, offset)
            else:
                self.answered.add(key)
                self.uuids.add(entry.uuid)

    def state(self, tool_use_id: str) -> CallState:
        """Return the state of one of its calls."""
        open_calls = tuple(call for key, call in self.calls.items() if key not in self.answered)
        if tool_use_id in self.answered:
            return CallState("answered", open_calls, "the call already has a result")
        if self.obstacle:
            return CallState("moved_on", open_calls, self.obstacle)
        if self.failures:
            reason = "the agent recorded a failure, because the hub ended while it was asking"
            return CallState("closed_by_hub_death", open_calls, reason)
        if self.has_text:
            return CallState("moved_on", open_calls, "the agent answered without a result")
        return CallState("open", open_calls, "")

    def keeps(self, line: bytes) -> bool:
        """Return whether a line after the first failure stays."""
        entry = entry_of(line)
        if entry is None or entry.is_sidechain:
            return False
        if entry.kind == "assistant":
            return entry.message_id == self.message_id
        return entry.kind == "user" and entry.uuid in self.uuids


def read_message(stream: BinaryIO, tool_use_id: str) -> CallMessage | None:
    """Read the message of a call and the entries after it, as far as they matter."""
    offset = find_call(stream, tool_use_id)
    if offset is None:
        return None
    call = entry_at(stream, offset)
    assert call is not None
    message = CallMessage(call.message_id)
    start = _start_of_message(stream, offset, call.message_id)
    stream.seek(start)
    for line in stream:
        entry = entry_of(line)
        if entry is not None and not entry.is_sidechain:
            message.add(entry, start)
            if message.obstacle:
                break
        start += len(line)
    return message


def find_call(stream: BinaryIO, tool_use_id: str) -> int | None:
    """Return the offset of the entry of a call."""
    needle = json.dumps(tool_use_id).encode()
    end = stream.seek(0, os.SEEK_END)
    while (place := find_last(stream, needle, end)) is not None:
        start = start_of_line(stream, place)
        entry = entry_at(stream, start)
        if (
            entry is not None
            and entry.kind == "assistant"
            and not entry.is_sidechain
            and tool_use_id in ids_in(entry.blocks, "tool_use", "id")
        ):
            return start
        end = start
    return None


def _start_of_message(stream: BinaryIO, offset: int, message_id: str | None) -> int:
    """Return the offset of the first entry of a message, of which one entry is at an offset."""
    first = offset
    while offset > 0:
        offset = start_of_line(stream, offset - 1)
        entry = entry_at(stream, offset)
        if entry is None or entry.is_sidechain or entry.is_results:
            continue
        if entry.kind == "assistant" and message_id and entry.message_id == message_id:
            first = offset
        elif entry.is_shown:
            break
    return first
