"""The sessions that there are, the newest first. Reads little of each, however big it is."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from pydantic_core import from_json

from hubd.offline_agent.project import name_of
from hubd.plugins.claudecode.native.files import (
    is_session_id,
    project_directories,
    project_name,
    projects_directory,
)
from hubd.plugins.claudecode.native.history import (
    NativeEntry,
    as_entry,
    read_lines,
)
from hubd.plugins.claudecode.native.messages import conversation

# A file up to this size is read whole: several turns, each with its prompts and tools.
WHOLE: Final = 512 * 1024
# Of a bigger one its beginning and its end, which is where the first prompt and the newest
# entries are.
EDGE: Final = 64 * 1024

# How much of the first prompt is shown.
PROMPT_LENGTH: Final = 200

# What `claude` writes in the user's name about a command of its own, such as /compact.
_NOT_A_PROMPT: Final = ("<command-", "<local-command-", "<system-reminder>")


@dataclass(frozen=True, slots=True)
class NativeSession:
    """A session as a list shows it.

    Attributes:
        session_id: Its id, which is also the name of its file.
        path: The file.
        cwd: Where it was begun, if it says so.
        modified: When something was last written.
        prompt: The beginning of the first prompt, on one line; empty if there is none.
        messages: How many messages the conversation has; None if the file is too big to count.
        size: Of the file, in bytes.
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
    """The sessions of a working directory or of all, the newest first.

    What cannot be read and what is no session is left out.

    Args:
        environ: The environment that `claude` gets.
        cwd: Only sessions that were begun here.
        limit: No more than so many; the others are not even opened.

    Raises:
        Unavailable: The environment does not say where sessions are.
    """
    found: list[NativeSession] = []
    for status, path in _files(projects_directory(environ), cwd):
        if limit is not None and len(found) >= limit:
            break
        session = _look(path, status)
        if session is not None and (cwd is None or _is_of(session, cwd)):
            found.append(session)
    return found


def _files(projects: Path, cwd: Path | None) -> list[tuple[os.stat_result, Path]]:
    """The files that are named like sessions, the newest first."""
    found: list[tuple[os.stat_result, Path]] = []
    for directory in project_directories(projects, cwd):
        for path in _in(directory):
            if path.suffix == ".jsonl" and is_session_id(path.stem):
                try:
                    status = path.stat()
                except OSError:
                    continue
                # To open a pipe would wait for its writer.
                if stat.S_ISREG(status.st_mode):
                    found.append((status, path))
    return sorted(found, key=lambda each: (each[0].st_mtime_ns, each[1]), reverse=True)


def _in(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _is_of(session: NativeSession, cwd: Path) -> bool:
    """Whether a session in the directory of `cwd` is its own: other paths have the same name."""
    if session.cwd is None or session.cwd == os.path.realpath(cwd):
        return True
    # Moved here on purpose, unless it is here because its path has this name too.
    name = session.path.parent.name
    return name_of(session.cwd) != name and project_name(cwd) == name


def _look(path: Path, status: os.stat_result) -> NativeSession | None:
    try:
        with path.open("rb") as file:
            if status.st_size <= WHOLE:
                entries, messages = _whole(file.read(WHOLE))
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


def _whole(data: bytes) -> tuple[list[NativeEntry], int]:
    history = read_lines(BytesIO(data))
    return list(history.entries), len(conversation(history).messages)


def _edges(head: bytes, tail: bytes) -> list[NativeEntry]:
    """The entries at the beginning and at the end of a file."""
    *first, cut = head.split(b"\n")
    entries = [*read_lines(line + b"\n" for line in first).entries]
    # A first prompt with an image is one long line, and what was typed stands before the image.
    if (entry := _as_far_as_it_goes(cut)) is not None:
        entries.append(entry)
    _, *last = tail.split(b"\n")
    return [*entries, *read_lines(line + b"\n" for line in last).entries]


def _as_far_as_it_goes(line: bytes) -> NativeEntry | None:
    try:
        raw: Any = from_json(line.decode(errors="ignore"), allow_partial="trailing-strings")
        if not isinstance(raw, dict):
            return None
        # Its id comes after the message, so a line that was cut inside of it has none.
        return as_entry({"uuid": "", "parentUuid": None, **raw})
    except ValueError:
        return None


def _prompt(entry: NativeEntry) -> str:
    """What a user typed, on one line and cut."""
    if entry.kind != "user" or not entry.is_shown:
        return ""
    for block in entry.blocks:
        text = block.get("text")
        if block.get("type") == "text" and isinstance(text, str):
            words = " ".join(text[: PROMPT_LENGTH * 4].split())
            if words and not words.startswith(_NOT_A_PROMPT):
                return words[:PROMPT_LENGTH]
    return ""
