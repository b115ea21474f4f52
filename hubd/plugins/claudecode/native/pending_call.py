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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from hubd.errors import Conflict
from hubd.plugins.claudecode.native.call_message import (
    CallState,
    OpenCall,
    find_call,
    read_message,
)
from hubd.plugins.claudecode.native.entries import entry_of
from hubd.plugins.claudecode.native.file_end import (
    append,
    rewrite_end,
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

# `claude` looks for a marker in this many bytes at the end of the file. It takes the input from the
# call itself, so the marker of a larger input has none.
_SEARCHED: Final = 1024 * 1024
_MOST_INPUT: Final = 64 * 1024

# The versions that were tried. Between them, stages are unknown.
_OLDEST_WITH_MARKER: Final = (2, 1, 197)
_OLDEST_WITH_STAGES: Final = (2, 1, 325)


def inspect(file: Path, tool_use_id: str) -> CallState:
    """Return the state of a call. Memory holds the calls of its message and the longest line.

    Raises:
        OSError: The file exists but cannot be read.
    """
    try:
        with file.open("rb") as stream:
            message = read_message(stream, tool_use_id)
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
        message = read_message(stream, tool_use_id)
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
            has_call = tool_use_id is None or find_call(stream, tool_use_id) is not None
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
