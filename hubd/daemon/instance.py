"""One daemon per home: the lock that makes sure, and the record of the one that runs."""

import errno
import fcntl
import json
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from hubd.errors import AlreadyRunning, StartupFailed
from hubd.wire.paths import Paths

# `hubd status` and the like test the lock for an instant; a start must not fail because of it.
LOCK_TRIES: Final = 25
LOCK_PAUSE_SECONDS: Final = 0.02
# Files that get their name once they are complete; until then the name ends with a pid.
_WRITTEN_AS_A_WHOLE: Final = ("token", "schemas")
# How a file system says that it has no locks on directories.
_NO_DIRECTORY_LOCKS: Final = (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
# Linux's struct ucred: pid, uid, gid.
_UCRED: Final = struct.Struct("3i")


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
    if directory.is_symlink():
        raise StartupFailed(
            f"{directory} is a link to a directory that other users can read",
            suggestion=f"chmod 700 {directory.resolve()}",
        )
    directory.chmod(0o700)


@contextmanager
def exclusive(paths: Paths) -> Iterator[None]:
    """Own the home while the block runs. The system releases it if the process dies.

    The lock is on the directory of the database: unlike a lock file, it can't be removed without
    removing the database too. The lock file is for file systems without locks on directories
    (NFS), and excludes version 0.1.0, which uses only that one.

    Raises:
        AlreadyRunning: Another daemon owns it.
    """
    directory = os.open(paths.data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            _lock(directory, paths)
        except OSError as error:
            if error.errno not in _NO_DIRECTORY_LOCKS:
                raise
        file = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(file, paths)
            # A killed daemon leaves its record, whose pid another process may have by now.
            Path(paths.record).unlink(missing_ok=True)
            remove_leftovers(paths)
            yield
        finally:
            os.close(file)
    finally:
        os.close(directory)


def _lock(descriptor: int, paths: Paths) -> None:
    for attempt in range(LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if attempt == LOCK_TRIES - 1:
                pid = owner(paths) or "unknown"
                raise AlreadyRunning(
                    f"hubd is already running on {paths.data} (pid {pid})"
                ) from None
            time.sleep(LOCK_PAUSE_SECONDS)


def remove_leftovers(paths: Paths) -> None:
    """Remove the temporary files of processes that were killed while they wrote one."""
    for entry in Path(paths.data).iterdir():
        name, _, suffix = entry.name.rpartition(".")
        if name in (*_WRITTEN_AS_A_WHOLE, Path(paths.record).name) and suffix.isdecimal():
            entry.unlink(missing_ok=True)


def is_locked(paths: Paths) -> bool:
    """Whether a daemon owns the home."""
    return any(map(_is_locked, (paths.data, paths.lock)))


def _is_locked(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # this file system has no such locks
    else:
        return False
    finally:
        os.close(descriptor)


def owner(paths: Paths) -> int | None:
    """Return the pid of the daemon that owns the home; None if it is free or can't be found.

    The record comes second, because it may be damaged or replaced.
    """
    if not is_locked(paths):
        return None
    holder = _lock_holder(paths.data) or _lock_holder(paths.lock)
    if holder is not None:
        return holder
    pid = (read_record(paths) or {}).get("pid")
    return pid if isinstance(pid, int) and pid > 0 else _listener(paths.socket)


def _lock_holder(path: str) -> int | None:
    """Return the process that has locked a file or directory, where the system lists locks."""
    try:
        locks = Path("/proc/locks").read_text().splitlines()
        wanted = Path(path).stat()
    except OSError:
        return None
    # "1: FLOCK  ADVISORY  WRITE 4711 00:2d:9042 0 EOF"
    pids = {fields[4] for line in locks if (fields := line.split())[1:4:2] == ["FLOCK", "WRITE"]}
    for pid in sorted(pids):
        with suppress(OSError):  # it has ended, or is another user's
            for link in Path("/proc", pid, "fd").iterdir():
                with suppress(OSError):
                    if os.path.samestat(link.stat(), wanted):
                        return int(pid)
    return None


def _listener(path: str) -> int | None:
    """Return the process that listens on a Unix socket, where the system tells it."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, suppress(OSError):
        connection.settimeout(1.0)
        connection.connect(path)
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        pid, _, _ = _UCRED.unpack(credentials)
        return int(pid)
    return None


def write_record(paths: Paths, record: dict[str, Any]) -> None:
    """Tell other processes how to reach this daemon; replaced in one step."""
    temporary = Path(f"{paths.record}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(json.dumps(record))
    temporary.replace(paths.record)


def remove_record(paths: Paths) -> None:
    """Remove the record of this process, not that of a daemon in a home made anew."""
    record = read_record(paths)
    if record is None or record.get("pid") == os.getpid():
        with suppress(OSError):  # a directory was put in its place
            Path(paths.record).unlink()


def read_record(paths: Paths) -> dict[str, Any] | None:
    """Return the record that the newest daemon wrote; it may have ended since."""
    try:
        record = json.loads(Path(paths.record).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def running_record(paths: Paths) -> dict[str, Any] | None:
    """Return the record of the daemon that runs now; empty if it can't be read."""
    return read_record(paths) or {} if is_locked(paths) else None
