"""Write the entries that `claude` printed but did not write before it was killed."""

import json
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from hubd.plugins.claudecode.native.conversations import NativeMessage
from hubd.plugins.claudecode.native.entries import NativeEntry, entry_at, ids_in
from hubd.plugins.claudecode.native.file_end import append, find_last, start_of_line
from hubd.plugins.claudecode.native.files import check_file
from hubd.plugins.claudecode.native.writing import (
    call_of,
    calls_in,
    encoded,
    entries_of,
    frame_of,
    split_results,
)


def restore_entries(
    file: Path,
    *,
    session_id: str,
    cwd: Path,
    messages: Sequence[NativeMessage],
    version: str,
    now: datetime,
) -> bool:
    """Append the entries of the last turn that are missing from a session file.

    Args:
        file: The session file.
        session_id: The id of Claude's session.
        cwd: The working directory of the conversation.
        messages: The turn: its prompt, then the messages with the ids that `claude` printed.
            Results without ids are found by their calls.
        version: The version of `claude` in the entries.
        now: The time of messages without a time.

    Returns:
        Whether the file has the whole turn now. If not, it is unchanged, because it does not exist
        or does not end in this turn; `write_session` can write it anew.

    Raises:
        InvalidParams: Content is not JSON, or the file is not the file of the session.
        OSError: The file cannot be read or written.
    """
    check_file(file, session_id)
    prompt, *turn = messages
    turn = [split_results(each) if each.role == "user" else each for each in turn]
    try:
        with file.open("rb") as stream:
            last = next(_entries_backwards(stream), None)
            if last is None or not _ends_in_turn_of(stream, prompt):
                return False
            missing = _missing(stream, turn, last.uuid, now)
    except FileNotFoundError:
        return False
    if missing:
        frame = frame_of(session_id, cwd, version)
        append(file, encoded([{**entry, **frame} for entry in missing]))
    return True


def _missing(
    stream: BinaryIO, turn: Sequence[NativeMessage], last: str, now: datetime
) -> list[dict[str, Any]]:
    """Return the entries that a file lacks, with their parents."""
    missing: list[dict[str, Any]] = []
    calls: dict[str, str] = {}
    for message in turn:
        before: str | None = None
        for entry in entries_of(message, now):
            # The first entry of a message follows the attachments that `claude` has added.
            parent = call_of(entry, calls) or before or last
            if not _has(stream, entry):
                missing.append({"parentUuid": parent, "isSidechain": False, **entry})
                last = entry["uuid"]
            calls |= calls_in(entry)
            before = entry["uuid"]
    return missing


def _has(stream: BinaryIO, entry: dict[str, Any]) -> bool:
    """Return whether a file has an entry, or another one with the same tool result."""
    results = list(ids_in(entry["message"]["content"], "tool_result", "tool_use_id"))
    needle = json.dumps(results[0] if results else entry["uuid"]).encode()
    end = stream.seek(0, os.SEEK_END)
    while (place := find_last(stream, needle, end)) is not None:
        end = start_of_line(stream, place)
        other = entry_at(stream, end)
        if other is not None and (
            other.uuid == entry["uuid"]
            or (results and results[0] in ids_in(other.blocks, "tool_result", "tool_use_id"))
        ):
            return True
    return False


def _ends_in_turn_of(stream: BinaryIO, prompt: NativeMessage) -> bool:
    """Return whether the last prompt in a file is this one."""
    for entry in _entries_backwards(stream):
        if entry.kind == "user" and entry.is_shown and not entry.is_results:
            if prompt.uuids:
                return entry.uuid in prompt.uuids
            # The entry may begin with attachments.
            texts = _texts(prompt.content)
            return _texts(entry.blocks)[-len(texts) :] == texts
    return False


def _texts(blocks: list[dict[str, Any]]) -> list[object]:
    return [block.get("text") for block in blocks if block.get("type") == "text"]


def _entries_backwards(stream: BinaryIO) -> Iterator[NativeEntry]:
    """Yield the entries of the main conversation, the last one first."""
    offset = stream.seek(0, os.SEEK_END)
    while offset > 0:
        offset = start_of_line(stream, offset - 1)
        entry = entry_at(stream, offset)
        if entry is not None and not entry.is_sidechain:
            yield entry
