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
        # Entries that are not in the file yet: all of a fork, until its first message.
        self._unwritten: list[Line] = []

    @property
    def history(self) -> int:
        """The number of messages, as an API would count them."""
        roles = [entry["type"] for entry in self._chain if entry["type"] in ("user", "assistant")]
        return sum(role != before for role, before in zip(roles, ["", *roles], strict=False))

    @property
    def size(self) -> int:
        """The number of characters of all messages."""
        return sum(len(str(entry.get("message", ""))) for entry in self._chain)

    def fork(self, session_id: str, path: Path) -> "Session":
        """Return a new conversation that starts as a copy of this one."""
        copy = [{**entry, "sessionId": session_id} for entry in self._chain]
        forked = Session(session_id, path, self._cwd, copy)
        forked._unwritten = list(copy)
        return forked

    def append(self, line: Line, **more: Any) -> None:
        """Add a line of the output, or a prompt in the same format."""
        entry = {
            "parentUuid": self._chain[-1]["uuid"] if self._chain else None,
            "isSidechain": False,
            "type": line["type"],
            "message": line["message"],
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
        self._unwritten.append(entry)
        try:
            self._write("".join(f"{json.dumps(each)}\n" for each in self._unwritten))
        except OSError as error:
            # The conversation continues, and the next message retries.
            note(f"offline agent: {self._path} can't be written: {error.strerror}")
            return
        self._unwritten.clear()

    def _write(self, text: str) -> None:
        """Append a text completely, or not at all."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with open(descriptor, "wb", buffering=0) as file:  # noqa: PTH123  only os.open takes a mode
            size = os.fstat(descriptor).st_size
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
    chain: list[Line] = []
    entry: Line | None = entries.pop(leaf)
    while entry is not None:
        chain.append(entry)
        # Removed, so that a cycle of entries ends.
        entry = entries.pop(entry.get("parentUuid") or "", None)
    return Session(session_id, path, str(cwd), chain[::-1])


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
