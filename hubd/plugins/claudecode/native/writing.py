"""Write a conversation as a session file for `claude --resume`."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from hubd.errors import Conflict, InvalidParams
from hubd.plugins.claudecode.native.conversations import NativeMessage
from hubd.plugins.claudecode.native.entries import ids_in
from hubd.plugins.claudecode.native.file_end import sync_directory

# The tokens of the written messages were not paid for in this session.
_NO_USAGE: Final = {
    "input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 0,
}


# The model of messages that `claude` itself has made up.
_SYNTHETIC: Final = "<synthetic>"


def write_session(
    path: Path,
    *,
    session_id: str,
    cwd: Path,
    messages: Sequence[NativeMessage],
    version: str,
    now: datetime,
    overwrite: bool = False,
) -> str:
    """Write a conversation as a session file. The file appears complete or not at all.

    The messages keep the order of the list; `parent_uuid` is ignored. Ids and times of a message
    are kept, so that the message can be found again; missing ones are generated. A message of
    several entries has one entry for each block, and the last entry has the remaining blocks.

    `claude` leaves out thinking of other models, and thinking without a model.

    The last message of the assistant may have calls without results. After `write_marker`,
    `claude` carries out one of them. A message without a model then gets one, because 2.1.197 does
    not carry out its calls otherwise.

    Args:
        path: The file; missing directories are created. See `session_file`.
        session_id: The id for `--resume`.
        cwd: The working directory of the conversation.
        messages: The messages, at least one.
        version: The version of `claude` in the entries.
        now: The time of messages without a time.
        overwrite: Whether to replace an existing file.

    Returns:
        The id of the last entry.

    Raises:
        Conflict: The file exists.
        InvalidParams: The list is empty, an id is used twice, or content is not JSON.
        OSError: The file cannot be written; no part of it stays.
    """
    frame = frame_of(session_id, cwd, version)
    entries: list[dict[str, Any]] = []
    calls: dict[str, str] = {}
    partial = _answers_some_calls(messages)
    complete = messages[:-1] if partial else messages
    for message in complete:
        named = _with_model(message) if message is complete[-1] else message
        for entry in entries_of(named, now):
            before = entries[-1]["uuid"] if entries else None
            entries.append({"parentUuid": before, "isSidechain": False, **entry, **frame})
            calls |= calls_in(entry)
    if partial:
        # Each result follows its call. `claude` finds it there when it continues at another call.
        for entry in entries_of(split_results(messages[-1]), now):
            parent = {"parentUuid": call_of(entry, calls), "isSidechain": False}
            entries.append({**parent, **entry, **frame})
    if not entries:
        raise InvalidParams("a session needs at least one message")
    if len({entry["uuid"] for entry in entries}) < len(entries):
        raise InvalidParams("two entries of a session cannot have the same id")
    _write(path, encoded(entries), overwrite=overwrite)
    last: str = entries[-1]["uuid"]
    return last


def frame_of(session_id: str, cwd: Path, version: str) -> dict[str, Any]:
    """Return the fields that all entries of a file share."""
    return {
        "userType": "external",
        "entrypoint": "hubd",
        "cwd": str(cwd),
        "sessionId": session_id,
        "version": version,
    }


def entries_of(message: NativeMessage, now: datetime) -> Iterator[dict[str, Any]]:
    """Yield the entries of one message, without their parents."""
    identity = message.message_id or f"msg_{uuid4().hex[:24]}"
    for uuid, blocks in _parts(message):
        entry = {"uuid": uuid, "timestamp": message.timestamp or _timestamp(now)}
        if message.role == "user":
            yield {"type": "user", "message": {"role": "user", "content": blocks}, **entry}
            continue
        content = {
            "id": identity,
            "type": "message",
            "role": "assistant",
            "content": blocks,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _NO_USAGE,
        }
        if message.model is not None:
            content["model"] = message.model
        flags = {"isApiErrorMessage": True} if message.is_api_error else {}
        yield {"type": "assistant", "message": content, **flags, **entry}


def _parts(message: NativeMessage) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the id and the blocks of each entry of a message."""
    blocks = message.content
    uuids = message.uuids
    if not uuids:
        # As in Claude's files: one entry for each block of the assistant, one for the user.
        count = len(blocks) if message.role == "assistant" else 1
        uuids = tuple(str(uuid4()) for _ in range(max(1, count)))
    for position, uuid in enumerate(uuids[:-1]):
        yield uuid, blocks[position : position + 1]
    yield uuids[-1], blocks[len(uuids) - 1 :]


def calls_in(entry: dict[str, Any]) -> dict[str, str]:
    """Return the entry's id for each tool call in it."""
    calls = ids_in(entry["message"]["content"], "tool_use", "id")
    return dict.fromkeys(calls, entry["uuid"])


def call_of(entry: dict[str, Any], calls: dict[str, str]) -> str | None:
    """Return the entry of the call that an entry answers, if it answers one."""
    results = list(ids_in(entry["message"]["content"], "tool_result", "tool_use_id"))
    return calls.get(results[0]) if results else None


def split_results(message: NativeMessage) -> NativeMessage:
    """Return a message with one entry for each block, as `claude` writes tool results."""
    if len(message.uuids) == len(message.content):
        return message
    return replace(message, uuids=tuple(str(uuid4()) for _ in message.content))


def _with_model(message: NativeMessage) -> NativeMessage:
    """Return a message with tool calls that has a model."""
    if message.model is not None or not any(ids_in(message.content, "tool_use", "id")):
        return message
    return replace(message, model=_SYNTHETIC)


def _answers_some_calls(messages: Sequence[NativeMessage]) -> bool:
    """Return whether the last message has results of some calls of the message before it."""
    if len(messages) < 2 or messages[-1].role != "user":
        return False
    calls = set(ids_in(messages[-2].content, "tool_use", "id"))
    answered = set(ids_in(messages[-1].content, "tool_result", "tool_use_id"))
    return len(answered) == len(messages[-1].content) and answered < calls


def encoded(entries: Sequence[dict[str, Any]]) -> bytes:
    """Return the lines of entries.

    Raises:
        InvalidParams: Content is not JSON.
    """
    try:
        # Compact, as `claude` writes them: it looks for `"tool_use_id":"ID"` in the text.
        separators = (",", ":")
        lines = [json.dumps(entry, allow_nan=False, separators=separators) for entry in entries]
    except (TypeError, ValueError, RecursionError) as problem:
        raise InvalidParams(f"a message cannot be written as JSON: {problem}") from None
    return "".join(f"{line}\n" for line in lines).encode()


def _timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _write(path: Path, data: bytes, *, overwrite: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Not *.jsonl, because `claude` would take it for a session.
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            temporary.replace(path)
        else:
            # Unlike a rename, a link fails if the file exists.
            path.hardlink_to(temporary)
    except FileExistsError:
        raise Conflict(f"the session file exists already: {path}") from None
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
    sync_directory(path.parent)
