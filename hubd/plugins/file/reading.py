"""Read regular files, and nothing that could block or never end.

A symbolic link is followed. A directory, a device, a FIFO and a socket are refused.
"""

import asyncio
import errno
import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from hubd.activation import HubError, InvalidParams, NotFound, PermissionDenied
from hubd.plugins.file.text_check import TextCheck
from hubd.storage.blobs.store import Staging

CHUNK_BYTES: Final = 1024 * 1024

_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
}


class Copied(NamedTuple):
    """The properties of a file that was copied."""

    is_text: bool
    # The permission bits.
    mode: int
    modified_at: int
    # Whether the file changed while it was read.
    changed: bool


class FileNow(NamedTuple):
    """A file as it is now."""

    size: int
    digest: bytes
    # None if it is too large to be compared by lines.
    content: bytes | None


def absolute(path: str, directory: str | None) -> str:
    """Return an absolute path without `.` and `..`; links stay.

    Args:
        path: The path; relative to the caller's directory, or `~/…`.
        directory: The caller's directory, or None if the caller sent none.

    Raises:
        InvalidParams: The path is relative, and the directory is not known.
    """
    if "\0" in path:
        raise InvalidParams("a path can't contain NUL", suggestion="Give another path")
    expanded = os.path.expanduser(path)  # noqa: PTH111 -- never raises
    if not os.path.isabs(expanded) and directory is None:  # noqa: PTH117
        raise InvalidParams(
            f"'{path}' is relative, and the caller's directory is not known",
            suggestion="Give an absolute path",
        )
    return os.path.normpath(os.path.join(directory or "/", expanded))  # noqa: PTH118


def open_regular(path: str) -> BinaryIO:
    """Open a regular file for reading; it never blocks.

    Raises:
        NotFound: The file does not exist.
        PermissionDenied: The daemon may not read it.
        InvalidParams: It is not a regular file.
    """
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable(path, error) from None
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise InvalidParams(
            f"{path} is {_KINDS.get(kind, 'not a file')}", suggestion="Give a regular file"
        )
    return os.fdopen(descriptor, "rb", buffering=0)


async def copy(file: BinaryIO, staging: Staging, max_bytes: int) -> Copied:
    """Copy an open file from its beginning into a staging.

    Raises:
        InvalidParams: It has more than `max_bytes`.
        HubError: It cannot be read.
    """
    before = os.fstat(file.fileno())
    check = TextCheck()
    file.seek(0)
    while chunk := await _read(file):
        if staging.size + len(chunk) > max_bytes:
            raise too_large(file.name, max_bytes)
        check.add(chunk)
        await staging.write(chunk)
    after = os.fstat(file.fileno())
    return Copied(
        check.ends_as_text(),
        stat.S_IMODE(after.st_mode) & 0o777,
        int(after.st_mtime),
        _version(before) != _version(after),
    )


async def examine(path: str, max_bytes: int, keep: int) -> FileNow:
    """Return the size and the digest of a file, and its content if that is small.

    Args:
        path: The file.
        max_bytes: The largest size.
        keep: The largest content to return.

    Raises:
        InvalidParams: It has more than `max_bytes`.
        HubError: As `open_regular`.
    """
    digest, content, size = sha256(), bytearray(), 0
    with await asyncio.to_thread(open_regular, path) as file:
        while chunk := await _read(file):
            size += len(chunk)
            if size > max_bytes:
                raise too_large(path, max_bytes)
            await asyncio.to_thread(digest.update, chunk)
            if size <= keep:
                content += chunk
    return FileNow(size, digest.digest(), bytes(content) if size <= keep else None)


def too_large(path: object, max_bytes: int) -> InvalidParams:
    """Return the error for a file that exceeds a limit."""
    return InvalidParams(
        f"{path} is larger than {max_bytes:,} bytes",
        suggestion="Give a larger max_bytes, or increase the setting file.max_mib",
    )


def unreadable(path: str, error: OSError) -> HubError:
    """Return the error for a path that cannot be used."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return NotFound(f"{path} does not exist", suggestion="Check the path")
    if error.errno in (errno.EACCES, errno.EPERM):
        return PermissionDenied(f"{path}: {error.strerror}", suggestion="Check its permissions")
    return InvalidParams(f"{path}: {error.strerror}", suggestion="Check the path")


async def _read(file: BinaryIO) -> bytes:
    try:
        return await asyncio.to_thread(file.read, CHUNK_BYTES) or b""
    except OSError as error:
        raise unreadable(str(Path(str(file.name))), error) from None


def _version(entry: os.stat_result) -> tuple[int, int]:
    return entry.st_size, entry.st_mtime_ns
