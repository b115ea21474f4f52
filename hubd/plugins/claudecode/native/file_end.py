"""Search a large file from its end, and change its end so that a crash leaves no partial change."""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

from hubd.errors import NotFound

# Bytes that are read or copied at once.
_CHUNK: Final = 1024 * 1024


def find_last(stream: BinaryIO, needle: bytes, end: int) -> int | None:
    """Return the offset of the last occurrence that starts before an offset."""
    while end > 0:
        start = max(0, end - _CHUNK)
        stream.seek(start)
        # The occurrence may end in the part that was searched before.
        place = stream.read(end - start + len(needle) - 1).rfind(needle)
        if place >= 0:
            return start + place
        end = start
    return None


def start_of_line(stream: BinaryIO, offset: int) -> int:
    """Return the offset of the first byte of the line that contains an offset."""
    newline = find_last(stream, b"\n", offset)
    return 0 if newline is None else newline + 1


def append(file: Path, lines: bytes) -> None:
    """Append lines to an existing file, completely or not at all, and write them to the disk.

    Raises:
        OSError: The file does not exist, is a symbolic link, or cannot be written.
    """
    with _changing(file) as descriptor:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            # The last line is torn. A line that is glued to it would be lost.
            lines = b"\n" + lines
        try:
            rest = memoryview(lines)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except OSError:
            os.ftruncate(descriptor, size)
            raise


def truncate(file: Path, size: int) -> None:
    """Remove everything after the first bytes of an existing file."""
    with _changing(file) as descriptor:
        os.ftruncate(descriptor, size)


def rewrite_end(file: Path, stream: BinaryIO, size: int, lines: Sequence[bytes]) -> None:
    """Replace a file by its first bytes and some lines.

    Args:
        file: The file.
        stream: The open file.
        size: The number of bytes to keep.
        lines: The lines after them.
    """
    # Not *.jsonl, because `claude` would take it for a session.
    temporary = file.with_name(f".{file.name}.{uuid4().hex}.tmp")
    try:
        mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as copy:
            stream.seek(0)
            while size > 0 and (piece := stream.read(min(size, _CHUNK))):
                copy.write(piece)
                size -= len(piece)
            copy.writelines(lines)
            copy.flush()
            os.fsync(copy.fileno())
        temporary.replace(file)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
    sync_directory(file.parent)


def sync_directory(directory: Path) -> None:
    """Write the names of a directory to the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _changing(file: Path) -> Iterator[int]:
    """Open an existing file for changes, which are on the disk at the end."""
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotFound(f"not a session file: {file}")
        yield descriptor
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
