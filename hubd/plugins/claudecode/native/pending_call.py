"""Prepare a session file so that another process of `claude` carries out an open tool call.

`claude --resume=ID` carries out the call that the last `hook_deferred_tool` entry names, under its
original id. It writes such a marker itself when a hook defers a call. A marker that was written by
hand works for any call that has no result yet.

`claude` writes its session file with a delay of about 100 ms, so SIGKILL may lose the newest
entries. SIGTERM does not. `restore_entries` writes lost entries again.
"""

import json
import os
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple
from uuid import uuid4

from hubd.errors import Conflict
from hubd.plugins.claudecode.native.entries import (
    NativeEntry,
    entry_at,
    entry_of,
    ids_in,
)
from hubd.plugins.claudecode.native.file_end import (
    append,
    find_last,
    rewrite_end,
    start_of_line,
    sync_directory,
    truncate,
)
from hubd.plugins.claudecode.native.files import check_file

# The settings of a stage: the tool runs and its result is recorded, but the hook refuses the
# prompt "Continue from where you left off.", so the model is not asked. Thus all open calls but
# the last one are carried out without a turn.
STAGE_SETTINGS: Final[dict[str, Any]] = {
    "hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "exit 2"}]}]}
}

# The results that `claude` records if its stdin closes while a question is open.
_CLOSED_BY_HUB_DEATH: Final = re.compile(r"Tool permission request failed: .*\bstream closed", re.I)

# `claude` looks for a marker in this many bytes at the end of the file. It takes the input from the
# call itself, so the marker of a larger input has none.
_SEARCHED: Final = 1024 * 1024
_MOST_INPUT: Final = 64 * 1024

# The versions that were tried. Between them, stages are unknown.
_OLDEST_WITH_MARKER: Final = (2, 1, 197)
_OLDEST_WITH_STAGES: Final = (2, 1, 325)


@dataclass(frozen=True, slots=True)
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


def inspect(file: Path, tool_use_id: str) -> CallState:
    """Return the state of a call. Memory holds the calls of its message and the longest line.

    Raises:
        OSError: The file exists but cannot be read.
    """
    try:
        with file.open("rb") as stream:
            message = _read_message(stream, tool_use_id)
    except FileNotFoundError:
        return CallState("missing", (), "the agent's session file does not exist")
    if message is None:
        return CallState("missing", (), "the agent's session file does not contain the call")
    return message.state(tool_use_id)


def cut(file: Path, tool_use_id: str) -> None:
    """Remove the failures that a dying hub caused, and the text that followed them.

    Results of other calls of the same message stay. After a crash the file is as before, or
    completely cut.

    Raises:
        Conflict: The state of the call is not `closed_by_hub_death`.
        OSError: The file cannot be written.
    """
    check_file(file, file.stem)
    with file.open("rb") as stream:
        message = _read_message(stream, tool_use_id)
        state = message.state(tool_use_id) if message is not None else None
        if message is None or state is None or state.kind != "closed_by_hub_death":
            reason = state.reason if state is not None else "the file does not contain the call"
            raise Conflict(f"cannot remove the failure of call {tool_use_id}: {reason}")
        offset = min(message.failures.values())
        stream.seek(offset)
        kept = [line for line in stream if message.keeps(line)]
        if kept:
            rewrite_end(file, stream, offset, kept)
        else:
            truncate(file, offset)


def write_marker(
    file: Path,
    call: OpenCall,
    *,
    session_id: str,
    cwd: Path | str,
    version: str,
    permission_mode: str,
) -> None:
    """Append the marker of a call. The next process that resumes the session carries it out.

    Args:
        file: The session file.
        call: The call, from `inspect`.
        session_id: The id of Claude's session.
        cwd: The working directory of the session.
        version: The version of `claude` in the entry.
        permission_mode: The mode in which the call was asked.

    Raises:
        InvalidParams: The file is not the file of the session.
        OSError: The file does not exist or cannot be written; it is unchanged.
    """
    tool_input = call.tool_input
    if len(json.dumps(tool_input)) > _MOST_INPUT:
        tool_input = {}
    attachment = {
        "type": "hook_deferred_tool",
        "toolUseID": call.tool_use_id,
        "toolName": call.tool_name,
        "toolInput": tool_input,
        "hookName": "hubd",
        "hookEvent": "PreToolUse",
        "permissionMode": permission_mode,
    }
    entry = {"type": "attachment", "attachment": attachment, "uuid": str(uuid4())}
    check_file(file, session_id)
    append(file, _framed(entry, call.entry_uuid, session_id, cwd, version))


def write_result(
    file: Path,
    call: OpenCall,
    content: str | list[dict[str, Any]],
    *,
    session_id: str,
    cwd: Path | str,
    version: str,
    is_error: bool = True,
    uuid: str | None = None,
) -> None:
    """Append a result of a call. A marker of the call then has no effect any more.

    Args:
        file: The session file.
        call: The call, from `inspect`.
        content: The text, or the blocks, that the model gets.
        session_id: The id of Claude's session.
        cwd: The working directory of the session.
        version: The version of `claude` in the entry.
        is_error: Whether the call failed, or was not carried out. False for a result that the
            program printed but did not write before it ended.
        uuid: The id of the entry, if the program has printed the result; by default a new one.

    Raises:
        InvalidParams: The file is not the file of the session.
        OSError: The file does not exist or cannot be written; it is unchanged.
    """
    block = {
        "type": "tool_result",
        "content": content,
        "is_error": is_error,
        "tool_use_id": call.tool_use_id,
    }
    message = {"role": "user", "content": [block]}
    entry = {"type": "user", "message": message, "uuid": uuid or str(uuid4())}
    source = {"sourceToolAssistantUUID": call.entry_uuid}
    check_file(file, session_id)
    append(file, _framed({**entry, **source}, call.entry_uuid, session_id, cwd, version))


def live_marker(file: Path) -> str | None:
    """Return the call that the next process would carry out, also in a fork of the session.

    Raises:
        OSError: The file exists but cannot be read.
    """
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - _SEARCHED))
            lines = stream.read().split(b"\n")
    except FileNotFoundError:
        return None
    for place, line in reversed(list(enumerate(lines))):
        entry = entry_of(line) if b'"hook_deferred_tool"' in line else None
        attachment = entry.raw.get("attachment") if entry is not None else None
        if isinstance(attachment, dict) and attachment.get("type") == "hook_deferred_tool":
            key = str(attachment.get("toolUseID"))
            answer = f'"tool_use_id":{json.dumps(key)}'.encode()
            return None if any(answer in later for later in lines[place + 1 :]) else key
    return None


def withdraw_marker(file: Path, tool_use_id: str, *, session_id: str) -> None:
    """Make a marker ineffective without a result. A later marker works again.

    A fork of the session, even at an earlier message, would carry the call out, or ask the model to
    continue.

    Raises:
        InvalidParams: The file is not the file of the session.
        OSError: The file does not exist or cannot be written; it is unchanged.
    """
    check_file(file, session_id)
    # `claude` ignores lines of unknown types, except in its search for the id.
    line = {"type": "hubd-withdrawn", "tool_use_id": tool_use_id, "sessionId": session_id}
    append(file, _encoded(line))


def withdraw_live_marker(file: Path) -> None:
    """Make the marker that the next process would follow ineffective, if there is one.

    Raises:
        InvalidParams, OSError: As `withdraw_marker`.
    """
    marked = live_marker(file)
    if marked is not None:
        withdraw_marker(file, marked, session_id=file.stem)


def sync(file: Path, tool_use_id: str | None = None) -> bool:
    """Write the file's data to the disk. `claude` itself never does.

    `claude` may write a call up to 100 ms after its question, so the caller should sync again if
    the call is not there.

    Returns:
        Whether the file exists and has the call, if one is given.

    Raises:
        OSError: The file cannot be written to the disk.
    """
    try:
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
            has_call = tool_use_id is None or _find_call(stream, tool_use_id) is not None
    except FileNotFoundError:
        return False
    # The file itself may be new.
    sync_directory(file.parent)
    return has_call


def supports_marker(version: str) -> bool:
    """Return whether a version of `claude`, or of the offline agent, follows markers."""
    return _is_offline(version) or _numbers(version) >= _OLDEST_WITH_MARKER


def supports_stages(version: str) -> bool:
    """Return whether a version carries out several open calls of a message, one by one.

    Older versions tell the model that the results of all calls but the first are missing.
    """
    return _is_offline(version) or _numbers(version) >= _OLDEST_WITH_STAGES


def _is_offline(version: str) -> bool:
    return version.startswith("offline-")


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    return tuple(map(int, match.groups())) if match else ()


class _Message:
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


def _read_message(stream: BinaryIO, tool_use_id: str) -> _Message | None:
    """Read the message of a call and the entries after it, as far as they matter."""
    offset = _find_call(stream, tool_use_id)
    if offset is None:
        return None
    call = entry_at(stream, offset)
    assert call is not None
    message = _Message(call.message_id)
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


def _find_call(stream: BinaryIO, tool_use_id: str) -> int | None:
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


def _framed(
    entry: dict[str, Any], parent: str, session_id: str, cwd: Path | str, version: str
) -> bytes:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    frame = {
        "timestamp": now,
        "userType": "external",
        "entrypoint": "hubd",
        "cwd": str(cwd),
        "sessionId": session_id,
        "version": version,
    }
    line = {"parentUuid": parent, "isSidechain": False, **entry, **frame}
    return _encoded(line)


def _encoded(line: dict[str, Any]) -> bytes:
    # Compact, because `claude` looks for `"tool_use_id":"ID"` in the text of the lines.
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"
