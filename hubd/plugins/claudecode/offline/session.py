"""The conversation as a file, of the same kind and in the same place as claude's own.

One JSON object a line; each entry names the one before it. So `--resume`, `--fork-session` and
`--resume-session-at` work, and claude itself can go on where the offline agent stopped.
"""

import json
import os
from pathlib import Path
from typing import Any

from hubd import __version__
from hubd.plugins.claudecode.offline.lines import Line, new_id, timestamp
from hubd.plugins.claudecode.project import name_of


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
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = "".join(f"{json.dumps(each)}\n" for each in self._unwritten)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with open(descriptor, "w") as file:  # noqa: PTH123  only os.open takes a mode
            file.write(text)
        self._unwritten.clear()


def new(session_id: str, cwd: Path) -> Session:
    """A conversation that has not begun.

    Raises:
        SessionError: The id is taken.
    """
    if _find(session_id, cwd) is not None:
        raise SessionError(f"Error: Session ID {session_id} is already in use.")
    return Session(session_id, path_of(session_id, cwd), str(cwd), [])


def resume(session_id: str, cwd: Path, at: str = "") -> Session:
    """Go on with a conversation, wherever it was begun.

    Args:
        session_id: Which one.
        cwd: Where the agent works; only the new entries carry it.
        at: The id of a message; what came after it is left out.

    Raises:
        SessionError: There is no such conversation, or no such message in it.
    """
    path = _find(session_id, cwd)
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


def path_of(session_id: str, cwd: Path) -> Path:
    """Where claude keeps a conversation that was begun in a directory."""
    return _projects() / name_of(str(cwd)) / f"{session_id}.jsonl"


def _projects() -> Path:
    configured = os.environ.get("CLAUDE_CONFIG_DIR")
    return (Path(configured) if configured else Path.home() / ".claude") / "projects"


def _find(session_id: str, cwd: Path) -> Path | None:
    own = path_of(session_id, cwd)
    if own.exists():
        return own
    return next(_projects().glob(f"*/{session_id}.jsonl"), None)


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
