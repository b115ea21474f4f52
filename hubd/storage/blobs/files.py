"""The files of large contents: `blobs/DIGEST` beside the database.

A file gets its name when it is complete and on disk. All functions here block; the store runs them
in threads, except for `remove`.
"""

import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

DIRECTORY: Final = "blobs"
# A backup holds a shared lock on this file; meanwhile no file is removed.
LOCK: Final = ".lock"
UNFINISHED: Final = ".tmp"
DIGEST_DIGITS: Final = 64


class BlobFiles:
    """The directory of one hub."""

    def __init__(self, database: Path) -> None:
        self.directory = database.parent / DIRECTORY

    def path(self, digest: bytes) -> Path:
        """Return the name of a content's file."""
        return self.directory / digest.hex()

    def create(self) -> BinaryIO:
        """Create a file for a content that is being written."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        path = self.directory / f"{secrets.token_hex(16)}{UNFINISHED}"
        return open(path, "xb", opener=_private)

    def publish(self, file: BinaryIO, digest: bytes) -> None:
        """Give a complete file its name. It is on disk afterwards."""
        Path(file.name).replace(self.path(digest))
        _sync_directory(self.directory)

    def remove(self, digest: bytes) -> bool:
        """Remove the file of a content; False while a backup reads the files."""
        try:
            lock = self._open_lock()
        except FileNotFoundError:
            return True  # The whole directory was removed.
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.path(digest).unlink(missing_ok=True)
        except BlockingIOError:
            return False
        finally:
            os.close(lock)
        return True

    def remove_unfinished(self) -> None:
        """Remove files that a killed daemon was writing."""
        with suppress(FileNotFoundError):
            for file in self.directory.glob(f"*{UNFINISHED}"):
                file.unlink(missing_ok=True)

    def digests(self) -> list[bytes]:
        """Return the digests of all files."""
        try:
            names = [entry.name for entry in os.scandir(self.directory)]
        except FileNotFoundError:
            return []
        return [bytes.fromhex(name) for name in names if _is_digest(name)]

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Inside the block, no daemon removes a file."""
        try:
            lock = self._open_lock()
        except OSError:
            yield  # There are no files, or no daemon can write to the disk.
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)
            yield
        finally:
            os.close(lock)

    def _open_lock(self) -> int:
        return os.open(self.directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def digest_of(path: Path) -> bytes:
    """Return the digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def read(path: Path, offset: int, length: int) -> bytes:
    """Read a part of a file."""
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(length)


def _is_digest(name: str) -> bool:
    return len(name) == DIGEST_DIGITS and all(digit in "0123456789abcdef" for digit in name)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
