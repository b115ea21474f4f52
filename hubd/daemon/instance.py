"""One daemon per home: its lock, and the record of the running daemon."""

import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from hubd.errors import AlreadyRunning, StartupFailed
from hubd.wire.client import ClientError, UnixConnection
from hubd.wire.paths import Paths

# Commands such as `hubd status` hold the lock for an instant. A start retries, so it does not fail.
LOCK_TRIES: Final = 25
LOCK_PAUSE_SECONDS: Final = 0.02
# Files that are written under a name with a pid and renamed when they are complete.
_RENAMED_FILES: Final = ("token", "schemas")
# The errors of a file system without locks on directories.
_NO_DIRECTORY_LOCKS: Final = (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


def prepare_directories(paths: Paths) -> None:
    """Create the hub's directories, for this user only.

    Raises:
        StartupFailed: One cannot be created, or belongs to another user.
    """
    for name in paths.directories:
        directory = Path(name)
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = directory.stat()
            if status.st_uid != os.getuid():
                raise StartupFailed(
                    f"{directory} belongs to another user", suggestion="Use another --home"
                )
            if status.st_mode & 0o077:
                _make_private(directory, status.st_mode)
        except OSError as error:
            raise StartupFailed(
                f"{directory} cannot be used: {error.strerror}", suggestion="Use another --home"
            ) from error


def _make_private(directory: Path, mode: int) -> None:
    """Remove the access of others to a directory, unless it is shared or a link."""
    shared = bool(mode & 0o1000) or directory.resolve() in (Path("/"), Path.home().resolve())
    if shared:
        raise StartupFailed(
            f"{directory} is shared with other programs",
            suggestion="Use an empty directory as --home",
        )
    if directory.is_symlink():
        raise StartupFailed(
            f"{directory} is a link to a directory that other users can read",
            suggestion=f"chmod 700 {directory.resolve()}",
        )
    directory.chmod(0o700)


@contextmanager
def exclusive(paths: Paths) -> Iterator[None]:
    """Hold the lock of the home while the block runs. The system releases it with the process.

    The lock is on the directory of the database, which can't be removed without the database. The
    lock file is for file systems without locks on directories (NFS), and for version 0.1.0, which
    uses only that file.

    Raises:
        AlreadyRunning: Another daemon holds the lock.
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
            # The record of a killed daemon may name a pid that another process has now.
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
    """Remove the temporary files of killed processes."""
    for entry in Path(paths.data).iterdir():
        name, _, suffix = entry.name.rpartition(".")
        if name in (*_RENAMED_FILES, Path(paths.record).name) and suffix.isdecimal():
            entry.unlink(missing_ok=True)


def is_locked(paths: Paths) -> bool:
    """Return whether a daemon holds the lock of the home."""
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
        return False  # This file system does not support the lock.
    else:
        return False
    finally:
        os.close(descriptor)


def owner(paths: Paths) -> int | None:
    """Return the pid of the daemon of the home; None if none runs or it can't be found.

    The record is not read first, because it may be damaged or replaced.
    """
    if not is_locked(paths):
        return None
    pid = _lock_holder(paths.data) or _lock_holder(paths.lock)
    if pid is not None:
        return pid
    pid = (read_record(paths) or {}).get("pid")
    return pid if isinstance(pid, int) and pid > 0 else _listener(paths.socket)


def _lock_holder(path: str) -> int | None:
    """Return the process that has locked a file or directory, if the system lists locks."""
    try:
        locks = Path("/proc/locks").read_text().splitlines()
        wanted = Path(path).stat()
    except OSError:
        return None
    # "1: FLOCK  ADVISORY  WRITE 4711 00:2d:9042 0 EOF"
    pids = {fields[4] for line in locks if (fields := line.split())[1:4:2] == ["FLOCK", "WRITE"]}
    for pid in sorted(pids):
        with suppress(OSError):  # It has ended, or belongs to another user.
            for link in Path("/proc", pid, "fd").iterdir():
                with suppress(OSError):
                    if os.path.samestat(link.stat(), wanted):
                        return int(pid)
    return None


def _listener(path: str) -> int | None:
    """Return the process that listens on a Unix socket; None if the system doesn't tell."""
    with suppress(ClientError, OSError), UnixConnection(path, timeout=1.0) as connection:
        return connection.peer_pid
    return None


def write_record(paths: Paths, record: dict[str, Any]) -> None:
    """Write the addresses of this daemon for other processes, atomically."""
    temporary = Path(f"{paths.record}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(json.dumps(record))
    temporary.replace(paths.record)


def remove_record(paths: Paths) -> None:
    """Remove the record of this process, but not the record of another daemon."""
    record = read_record(paths)
    if record is None or record.get("pid") == os.getpid():
        with suppress(OSError):  # It was replaced by a directory.
            Path(paths.record).unlink()


def read_record(paths: Paths) -> dict[str, Any] | None:
    """Return the record of the newest daemon, which may have ended."""
    try:
        record = json.loads(Path(paths.record).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def running_record(paths: Paths) -> dict[str, Any] | None:
    """Return the record of the running daemon, empty if it can't be read; None if none runs."""
    return read_record(paths) or {} if is_locked(paths) else None
