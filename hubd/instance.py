"""One daemon per home: the lock that makes sure, and the record of the one that runs."""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from hubd.errors import AlreadyRunning, StartupFailed
from hubd.wire.defaults import Paths

# `hubd status` and the like test the lock for an instant; a start must not fail because of it.
LOCK_TRIES: Final = 25
LOCK_PAUSE_SECONDS: Final = 0.02


def prepare_directories(paths: Paths) -> None:
    """Make the hub's directories, for this user only.

    Raises:
        StartupFailed: One cannot be made, or is somebody else's.
    """
    for name in paths.directories:
        directory = Path(name)
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            facts = directory.stat()
            if facts.st_uid != os.getuid():
                raise StartupFailed(
                    f"{directory} belongs to another user", suggestion="Use another --home"
                )
            if facts.st_mode & 0o077:
                _make_private(directory, facts.st_mode)
        except OSError as error:
            raise StartupFailed(
                f"{directory} cannot be used: {error.strerror}", suggestion="Use another --home"
            ) from error


def _make_private(directory: Path, mode: int) -> None:
    """Close a directory to others, unless it is plainly not ours to close."""
    shared = bool(mode & 0o1000) or directory.resolve() in (Path("/"), Path.home().resolve())
    if shared:
        raise StartupFailed(
            f"{directory} is not a directory for one program",
            suggestion="Use a directory of its own as --home",
        )
    directory.chmod(0o700)


@contextmanager
def exclusive(paths: Paths) -> Iterator[None]:
    """Hold the home for as long as the block runs; the system lets go if we die.

    Raises:
        AlreadyRunning: Another daemon holds it.
    """
    descriptor = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for attempt in range(LOCK_TRIES):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if attempt == LOCK_TRIES - 1:
                    pid = (read_record(paths) or {}).get("pid", "unknown")
                    raise AlreadyRunning(
                        f"hubd is already running on {Path(paths.database).parent} (pid {pid})"
                    ) from None
                time.sleep(LOCK_PAUSE_SECONDS)
        # That of a daemon that was killed: its pid may be anybody's by now.
        remove_record(paths)
        yield
    finally:
        os.close(descriptor)


def is_locked(paths: Paths) -> bool:
    """Whether a daemon holds the home."""
    try:
        descriptor = os.open(paths.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def write_record(paths: Paths, record: dict[str, Any]) -> None:
    """Tell other processes how to reach this daemon; replaced in one step."""
    temporary = Path(f"{paths.record}.{os.getpid()}")
    temporary.write_text(json.dumps(record))
    temporary.chmod(0o600)
    temporary.replace(paths.record)


def remove_record(paths: Paths) -> None:
    """The daemon is no more."""
    Path(paths.record).unlink(missing_ok=True)


def read_record(paths: Paths) -> dict[str, Any] | None:
    """What the newest daemon wrote of itself; it need not run any more."""
    try:
        record = json.loads(Path(paths.record).read_bytes())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def running_record(paths: Paths) -> dict[str, Any] | None:
    """The record of the daemon that runs now, if one does."""
    return read_record(paths) if is_locked(paths) else None
