"""The session file, in the format of claude, in the hub's data directory.

One JSON object a line; each entry names its parent. `--resume`, `--fork-session` and
`--resume-session-at` read it. Files have the same names as below CLAUDE_CONFIG_DIR, so claude can
read them.
"""

import json
import os
from pathlib import Path
from typing import Any

from hubd import __version__
from hubd.offline_agent.lines import Line, new_id, timestamp
from hubd.offline_agent.pipes import note
from hubd.offline_agent.project import SESSIONS_DIRECTORY, name_of
from hubd.offline_agent.resuming import Deferred, deferred
from hubd.wire.paths import Paths


class SessionError(Exception):
    """The conversation or the message does not exist."""


class Session:
    """One conversation. Its file is written with the first message."""

    def __init__(self, session_id: str, path: Path, cwd: str, chain: list[Line]) -> None:
        self.id = session_id
        self._path = path
        self._cwd = cwd
        # All entries, the oldest first.
        self._chain = chain
        # The entries of tool calls, which are the parents of their results.
        self._calls: dict[str, str] = {}
        for entry in chain:
            self._note_calls(entry)
        # The call that a marker in the file names.
        self.deferred: Deferred | None = None
        # Entries that are not in the file yet: all of a fork, until its first message.
        self._unwritten: list[Line] = []

    @property
    def history(self) -> int:
        """The number of messages, as an API would count them."""
        roles = [entry["type"] for entry in self._chain if entry["type"] in ("user", "assistant")]
        return sum(role != before for role, before in zip(roles, ["", *roles], strict=False))

    @property
    def entries(self) -> list[Line]:
        """All entries, the oldest first."""
        return self._chain

    @property
    def size(self) -> int:
        """The number of characters of all messages."""
        return sum(len(str(entry.get("message", ""))) for entry in self._chain)

    def fork(self, session_id: str, path: Path) -> "Session":
        """Return a new conversation that starts as a copy of this one."""
        copy = [{**entry, "sessionId": session_id} for entry in self._chain]
        forked = Session(session_id, path, self._cwd, copy)
        forked._unwritten = list(copy)
        # As in claude, a call that waits is carried out in the fork too.
        forked.deferred = self.deferred
        return forked

    def append(self, line: Line, **more: Any) -> None:
        """Add a line of the output, or a prompt in the same format."""
        call = self._calls.get(_answered(line))
        if call is not None:
            more["sourceToolAssistantUUID"] = call
        before = self._chain[-1]["uuid"] if self._chain else None
        entry: Line = {
            "parentUuid": call or before,
            "isSidechain": False,
            "type": line["type"],
            **{key: line[key] for key in ("message", "subtype", "content") if key in line},
            "uuid": line.get("uuid") or new_id(),
            "timestamp": line.get("timestamp") or timestamp(),
            **more,
            "userType": "external",
            "entrypoint": "hubd-offline",
            "cwd": self._cwd,
            "sessionId": self.id,
            "version": __version__,
        }
        self._chain.append(entry)
        self._note_calls(entry)
        self._unwritten.append(entry)
        try:
            self._write("".join(f"{_encode(each)}\n" for each in self._unwritten))
        except OSError as error:
            # The conversation continues, and the next message retries.
            note(f"offline agent: {self._path} can't be written: {error.strerror}")
            return
        self._unwritten.clear()

    def _note_calls(self, entry: Line) -> None:
        for block in _blocks(entry):
            if block.get("type") == "tool_use":
                self._calls[block["id"]] = entry["uuid"]

    def _write(self, text: str) -> None:
        """Append a text completely, or not at all."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with open(descriptor, "wb", buffering=0) as file:  # noqa: PTH123  only os.open takes a mode
            size = os.fstat(descriptor).st_size
            if size and _last_byte(self._path) != b"\n":
                # The last line is torn. A line that is glued to it would be lost.
                text = f"\n{text}"
            data = memoryview(text.encode())
            try:
                while data:
                    data = data[file.write(data) :]
            except OSError:
                os.ftruncate(descriptor, size)
                raise


def new(directory: Path, session_id: str, cwd: Path) -> Session:
    """Return a new conversation.

    Raises:
        SessionError: The id is taken.
    """
    if _find(directory, session_id, cwd) is not None:
        raise SessionError(f"Error: Session ID {session_id} is already in use.")
    return Session(session_id, path_of(directory, session_id, cwd), str(cwd), [])


def resume(directory: Path, session_id: str, cwd: Path, at: str = "") -> Session:
    """Continue a conversation of any working directory.

    Args:
        directory: The directory of all conversations.
        session_id: The id of the conversation.
        cwd: The working directory of new entries.
        at: The id of the last message to keep; by default all.

    Raises:
        SessionError: The conversation or the message does not exist.
    """
    path = _find(directory, session_id, cwd)
    if path is None:
        raise SessionError(f"No conversation found with session ID: {session_id}")
    entries = _read(path)
    leaf = at or next(
        (key for key, entry in reversed(entries.items()) if not entry.get("isSidechain")), ""
    )
    if leaf not in entries:
        raise SessionError(f"No message found with message.uuid of: {leaf}")
    chain = _conversation(entries, leaf)
    resumed = Session(session_id, path, str(cwd), chain)
    resumed.deferred = deferred(path, chain)
    return resumed


def _conversation(entries: dict[str, Line], leaf: str) -> list[Line]:
    """Return the entries up to a leaf in order.

    Of several calls in one message, all but one are beside the path, together with their results.
    """
    path: set[str] = set()
    uuid: str | None = leaf
    while uuid in entries and uuid not in path:
        path.add(uuid)
        uuid = entries[uuid].get("parentUuid")
    order = list(entries)
    before = [entries[key] for key in order[: order.index(leaf) + 1]]
    messages = {_message_id(entries[uuid]) for uuid in path} - {""}
    calls = {
        block.get("id")
        for entry in before
        if _message_id(entry) in messages
        for block in _blocks(entry)
        if block.get("type") == "tool_use"
    }
    return [
        entry
        for entry in before
        if entry["uuid"] in path or _message_id(entry) in messages or _answered(entry) in calls
    ]


def _message_id(entry: Line) -> str:
    return str(entry.get("message", {}).get("id", "")) if entry["type"] == "assistant" else ""


def _answered(line: Line) -> str:
    """Return the call whose result a line or an entry is; empty if it is none."""
    results = [block for block in _blocks(line) if block.get("type") == "tool_result"]
    return str(results[0].get("tool_use_id", "")) if results else ""


def _blocks(entry: Line) -> list[Line]:
    content = entry.get("message", {}).get("content")
    return content if isinstance(content, list) else []


def _encode(entry: Line) -> str:
    # Compact, because markers look for `"tool_use_id":"ID"` in the text.
    return json.dumps(entry, separators=(",", ":"))


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1)


def path_of(directory: Path, session_id: str, cwd: Path) -> Path:
    """Return the file of a conversation of a working directory."""
    return directory / "projects" / name_of(str(cwd)) / f"{session_id}.jsonl"


def default_directory() -> Path:
    """Return the default directory of all conversations."""
    return Path(Paths().data, SESSIONS_DIRECTORY)


def _find(directory: Path, session_id: str, cwd: Path) -> Path | None:
    own = path_of(directory, session_id, cwd)
    if own.exists():
        return own
    return next(directory.glob(f"projects/*/{session_id}.jsonl"), None)


def _read(path: Path) -> dict[str, Line]:
    """Return the entries of a file by id. Damaged and other lines are skipped."""
    entries: dict[str, Line] = {}
    for raw in path.read_bytes().splitlines():
        try:
            entry = json.loads(raw)
        except ValueError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("uuid"), str) and "type" in entry:
            entries[entry["uuid"]] = entry
    return entries
