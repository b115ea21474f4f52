"""Where `claude` keeps the files of its sessions. Looks at names, and opens nothing."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from uuid import UUID

from hubd.errors import InvalidParams, Unavailable
from hubd.offline_agent.project import LONGEST_NAME, name_of


def projects_directory(environ: Mapping[str, str]) -> Path:
    """The directory that has a directory for every place where `claude` was run.

    Args:
        environ: The environment that `claude` gets; CLAUDE_CONFIG_DIR and HOME count.

    Raises:
        Unavailable: The environment has neither.
    """
    if configured := environ.get("CLAUDE_CONFIG_DIR"):
        return Path(configured, "projects")
    if home := environ.get("HOME"):
        return Path(home, ".claude", "projects")
    raise Unavailable(
        "nobody knows where claude keeps its sessions: HOME is not set",
        suggestion="Set HOME or CLAUDE_CONFIG_DIR for the daemon",
    )


def session_file(environ: Mapping[str, str], cwd: Path, session_id: str) -> Path:
    """The file of a session: where it is, or else where `claude` would begin it.

    A session is found by its id in whatever project it was begun. If several have it, the one of
    `cwd` counts, then the newest.

    Args:
        environ: The environment that `claude` gets.
        cwd: Where it runs.
        session_id: Its own id, a UUID.

    Raises:
        InvalidParams: The id is no UUID, so it could name any file.
        Unavailable: The environment does not say where sessions are.
    """
    if not is_session_id(session_id):
        raise InvalidParams(f"not the id of a claude session: {session_id!r}")
    projects = projects_directory(environ)
    own = projects / project_name(cwd) / f"{session_id}.jsonl"
    if own.exists():
        return own
    elsewhere = [directory / own.name for directory in project_directories(projects)]
    found = [(path, _modified(path)) for path in elsewhere]
    return max(((time, path) for path, time in found if time is not None), default=(0, own))[1]


def is_session_id(text: str) -> bool:
    """Whether a text is a UUID as `claude` writes them; nothing else names a session."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def project_name(cwd: Path) -> str:
    """The name of the directory for the sessions of a working directory, which may be a link."""
    return name_of(os.path.realpath(cwd))


def project_directories(projects: Path, cwd: Path | None = None) -> Iterator[Path]:
    """The directories that may hold sessions, of one working directory or of all.

    Those of other long paths with the same beginning are among them: not every version of
    `claude` has used the same hash.
    """
    name = project_name(cwd) if cwd is not None else ""
    beginning = f"{name[:LONGEST_NAME]}-" if len(name) > LONGEST_NAME else None
    try:
        entries = sorted(os.scandir(projects), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        fits = cwd is None or entry.name == name
        if fits or (beginning is not None and entry.name.startswith(beginning)):
            yield Path(entry.path)


def _modified(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
