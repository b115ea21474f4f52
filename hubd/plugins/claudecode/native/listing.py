"""List Claude's sessions, the newest first. Of a large file only the two ends are read."""

import os
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from pydantic_core import from_json

from hubd.offline_agent.project import name_of
from hubd.plugins.claudecode.native.conversations import conversation
from hubd.plugins.claudecode.native.entries import (
    NativeEntry,
    as_entry,
    read_lines,
)
from hubd.plugins.claudecode.native.files import (
    is_session_id,
    project_directories,
    project_name,
    projects_directory,
)
from hubd.wire.lazy_dataclass import dataclass

# Bytes of a file that is read in full: several turns with their prompts and tools.
WHOLE: Final = 512 * 1024
# Bytes of each end of a larger file. They hold the first prompt and the newest entries.
EDGE: Final = 64 * 1024

# Characters of the first prompt that a list shows.
PROMPT_LENGTH: Final = 200

# Starts of user messages that `claude` writes about its own commands, such as /compact.
_NOT_A_PROMPT: Final = ("<command-", "<local-command-", "<system-reminder>")


@dataclass(frozen=True)
class NativeSession:
    """A session as a list shows it.

    Attributes:
        session_id: The id, which is also the name of the file.
        path: The file.
        cwd: The first working directory, if the file names one.
        modified: The time of the last write.
        prompt: The beginning of the first prompt, on one line; may be empty.
        messages: The number of messages; None if the file is too large to count them.
        size: The size of the file in bytes.
    """

    session_id: str
    path: Path
    cwd: str | None
    modified: datetime
    prompt: str
    messages: int | None
    size: int


def list_sessions(
    environ: Mapping[str, str], cwd: Path | None = None, limit: int | None = None
) -> list[NativeSession]:
    """Return the sessions of one working directory or of all, the newest first.

    Unreadable files and files that are not sessions are left out.

    Args:
        environ: The environment of `claude`.
        cwd: The working directory; all by default.
        limit: The maximum number of sessions; the others are not opened.

    Raises:
        Unavailable: The environment does not name the directory of sessions.
    """
    sessions: list[NativeSession] = []
    for status, path in _files(projects_directory(environ), cwd):
        if limit is not None and len(sessions) >= limit:
            break
        session = _summarise(path, status)
        if session is not None and (cwd is None or _is_of(session, cwd)):
            sessions.append(session)
    return sessions


def _files(projects: Path, cwd: Path | None) -> list[tuple[os.stat_result, Path]]:
    """Return the files that are named like sessions, the newest first."""
    files: list[tuple[os.stat_result, Path]] = []
    for directory in project_directories(projects, cwd):
        for path in _in(directory):
            if path.suffix == ".jsonl" and is_session_id(path.stem):
                try:
                    status = path.stat()
                except OSError:
                    continue
                # Opening a pipe would wait for its writer.
                if stat.S_ISREG(status.st_mode):
                    files.append((status, path))
    return sorted(files, key=lambda each: (each[0].st_mtime_ns, each[1]), reverse=True)


def _in(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _is_of(session: NativeSession, cwd: Path) -> bool:
    """Return whether a session belongs to `cwd`: other paths may have the same project name."""
    if session.cwd is None or session.cwd == os.path.realpath(cwd):
        return True
    # A session of another path was moved here, unless its path has this project name too.
    name = session.path.parent.name
    return name_of(session.cwd) != name and project_name(cwd) == name


def _summarise(path: Path, status: os.stat_result) -> NativeSession | None:
    try:
        with path.open("rb") as file:
            if status.st_size <= WHOLE:
                entries, messages = _read_all(file.read(WHOLE))
            else:
                head = file.read(EDGE)
                file.seek(-EDGE, os.SEEK_END)
                entries, messages = _edges(head, file.read(EDGE)), None
    except OSError:
        return None
    if not entries:
        return None
    places = (entry.raw.get("cwd") for entry in entries)
    return NativeSession(
        session_id=path.stem,
        path=path,
        cwd=next((place for place in places if isinstance(place, str)), None),
        modified=datetime.fromtimestamp(status.st_mtime, UTC),
        prompt=next(filter(None, map(_prompt, entries)), ""),
        messages=messages,
        size=status.st_size,
    )


def _read_all(data: bytes) -> tuple[list[NativeEntry], int]:
    history = read_lines(BytesIO(data))
    return list(history.entries), len(conversation(history).messages)


def _edges(head: bytes, tail: bytes) -> list[NativeEntry]:
    """Return the entries at both ends of a file."""
    *first, cut = head.split(b"\n")
    entries = [*read_lines(line + b"\n" for line in first).entries]
    # A first prompt with an image is one long line, with the text before the image.
    if (entry := _partial_entry(cut)) is not None:
        entries.append(entry)
    _, *last = tail.split(b"\n")
    return [*entries, *read_lines(line + b"\n" for line in last).entries]


def _partial_entry(line: bytes) -> NativeEntry | None:
    try:
        raw: Any = from_json(line.decode(errors="ignore"), allow_partial="trailing-strings")
        if not isinstance(raw, dict):
            return None
        # The id comes after the message, so a line that is cut inside the message has none.
        return as_entry({"uuid": "", "parentUuid": None, **raw})
    except ValueError:
        return None


def _prompt(entry: NativeEntry) -> str:
    """Return the text of a user's prompt, on one line and shortened."""
    if entry.kind != "user" or not entry.is_shown:
        return ""
    for block in entry.blocks:
        text = block.get("text")
        if block.get("type") == "text" and isinstance(text, str):
            words = " ".join(text[: PROMPT_LENGTH * 4].split())
            if words and not words.startswith(_NOT_A_PROMPT):
                return words[:PROMPT_LENGTH]
    return ""
