"""The paths of Claude's session files. No file is opened here."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from uuid import UUID

from hubd.errors import InvalidParams, Unavailable
from hubd.offline_agent.project import LONGEST_NAME, name_of


def projects_directory(environ: Mapping[str, str]) -> Path:
    """Return the directory with one subdirectory for each working directory of `claude`.

    Args:
        environ: The environment of `claude`, with CLAUDE_CONFIG_DIR or HOME.

    Raises:
        Unavailable: The environment has neither.
    """
    if configured := environ.get("CLAUDE_CONFIG_DIR"):
        return Path(configured, "projects")
    if home := environ.get("HOME"):
        return Path(home, ".claude", "projects")
    raise Unavailable(
        "cannot find Claude's session directory: HOME is not set",
        suggestion="Set HOME or CLAUDE_CONFIG_DIR for the daemon",
    )


def session_file(environ: Mapping[str, str], cwd: Path, session_id: str) -> Path:
    """Return the path of a session file, or the path at which `claude` would create it.

    The id is looked up in the projects of all directories. The project of `cwd` is preferred, then
    the newest file.

    Args:
        environ: The environment of `claude`.
        cwd: The working directory of `claude`.
        session_id: The id of Claude's session, a UUID.

    Raises:
        InvalidParams: The id is not a UUID, so it could name any file.
        Unavailable: The environment does not name the directory of sessions.
    """
    if not is_session_id(session_id):
        raise InvalidParams(f"not the id of one of Claude's sessions: {session_id!r}")
    projects = projects_directory(environ)
    own = projects / project_name(cwd) / f"{session_id}.jsonl"
    if own.exists():
        return own
    elsewhere = [directory / own.name for directory in project_directories(projects)]
    times = [(_modified(path), path) for path in elsewhere]
    return max(((time, path) for time, path in times if time is not None), default=(0, own))[1]


def check_file(file: Path, session_id: str) -> None:
    """Check that a path is the file of a session, before the file is changed.

    Raises:
        InvalidParams: It is another file.
    """
    if not is_session_id(session_id) or file.name != f"{session_id}.jsonl":
        raise InvalidParams(f"{file} is not the file of Claude's session {session_id!r}")


def is_session_id(text: str) -> bool:
    """Return whether a text is a UUID as `claude` writes them."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def project_name(cwd: Path) -> str:
    """Return the name of the project directory of a working directory; links are followed."""
    return name_of(os.path.realpath(cwd))


def project_directories(projects: Path, cwd: Path | None = None) -> Iterator[Path]:
    """Yield the project directories of one working directory, or all.

    Directories of other long paths with the same prefix are included, because the hash at the end
    differs between versions of `claude`.
    """
    name = project_name(cwd) if cwd is not None else ""
    prefix = f"{name[:LONGEST_NAME]}-" if len(name) > LONGEST_NAME else None
    try:
        entries = sorted(os.scandir(projects), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        matches = cwd is None or entry.name == name
        if matches or (prefix is not None and entry.name.startswith(prefix)):
            yield Path(entry.path)


def _modified(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
