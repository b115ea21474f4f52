"""The conversation as a file of the same kind as claude's own, in the hub's data directory.

One JSON object a line; each entry names the one before it. So `--resume`, `--fork-session` and
`--resume-session-at` work. Below the directory, files are named as claude names them below
CLAUDE_CONFIG_DIR: claude can read them there.
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
    """There is no such conversation, or no such message in it."""


class Session:
    """One conversation. Nothing is written before the first message."""

    def __init__(self, session_id: str, path: Path, cwd: str, chain: list[Line]) -> None:
        self.id = session_id
        self._path = path
        self._cwd = cwd
        # The entries from the first to the newest; grows with every message.
        self._chain = chain
        # The entries that the file lacks: all of a fork, until its first message.
        self._unwritten: list[Line] = []

    @property
    def history(self) -> int:
        """How many messages the conversation has, as an API would count them."""
        roles = [entry["type"] for entry in self._chain if entry["type"] in ("user", "assistant")]
        return sum(role != before for role, before in zip(roles, ["", *roles], strict=False))

    @property
    def size(self) -> int:
        """How many characters the messages have, to count tokens by."""
        return sum(len(str(entry.get("message", ""))) for entry in self._chain)

    def fork(self, session_id: str, path: Path) -> "Session":
        """A new conversation that starts as a copy of this one."""
        copy = [{**entry, "sessionId": session_id} for entry in self._chain]
        forked = Session(session_id, path, self._cwd, copy)
        forked._unwritten = list(copy)
        return forked

    def append(self, line: Line, **more: Any) -> None:
        """Keep a line of the output (or a prompt of the same shape) as the newest entry."""
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
            # The conversation goes on; the next message tries again.
            note(f"offline agent: {self._path} cannot be written: {error.strerror}")
            return
        self._unwritten.clear()

    def _write(self, text: str) -> None:
        """Append all of a text or nothing of it."""
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
    """Return a conversation that has not begun.

    Raises:
        SessionError: The id is taken.
    """
    if _find(directory, session_id, cwd) is not None:
        raise SessionError(f"Error: Session ID {session_id} is already in use.")
    return Session(session_id, path_of(directory, session_id, cwd), str(cwd), [])


def resume(directory: Path, session_id: str, cwd: Path, at: str = "") -> Session:
    """Continue a conversation, wherever it was begun.

    Args:
        directory: The directory of all conversations.
        session_id: Which one.
        cwd: Where the agent works; only the new entries carry it.
        at: The id of a message; what came after it is left out.

    Raises:
        SessionError: There is no such conversation, or no such message in it.
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
        # Taken out, so that entries which name each other in a circle end too.
        entry = entries.pop(entry.get("parentUuid") or "", None)
    return Session(session_id, path, str(cwd), chain[::-1])


def path_of(directory: Path, session_id: str, cwd: Path) -> Path:
    """Return the file of a conversation that was begun in a working directory."""
    return directory / "projects" / name_of(str(cwd)) / f"{session_id}.jsonl"


def default_directory() -> Path:
    """Return the directory of all conversations if the command line names none."""
    return Path(Paths().data, SESSIONS_DIRECTORY)


def _find(directory: Path, session_id: str, cwd: Path) -> Path | None:
    own = path_of(directory, session_id, cwd)
    if own.exists():
        return own
    return next(directory.glob(f"projects/*/{session_id}.jsonl"), None)


def _read(path: Path) -> dict[str, Line]:
    """The entries of a file by id, without claude's bookkeeping and without what is damaged."""
    entries: dict[str, Line] = {}
    for raw in path.read_bytes().splitlines():
        try:
            entry = json.loads(raw)
        except ValueError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("uuid"), str) and "type" in entry:
            entries[entry["uuid"]] = entry
    return entries
