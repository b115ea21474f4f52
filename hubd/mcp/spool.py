"""Large results in files, which clients read page by page for an hour.

This module knows nothing of MCP. A file holds one event per line.
"""

import asyncio
import codecs
import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from hubd.errors import NotFound, Overloaded, Unavailable

# The largest result of one call; larger ones need another transport.
MAX_RESULT_BYTES: Final = 64 * 1024 * 1024
# The largest size of all results together; the oldest are deleted first.
MAX_KEPT_BYTES: Final = 256 * 1024 * 1024
KEPT_SECONDS: Final = 3600.0
# The largest page of one read.
PAGE_BYTES: Final = 256 * 1024


class Spooled:
    """One result, while it is written and afterwards."""

    def __init__(self, path: Path, reserve: Callable[[int], None]) -> None:
        self.id = path.name
        self.size = 0
        # The time of the last write.
        self.closed_at = time.monotonic()
        self._path = path
        self._reserve = reserve
        self._file = path.open("xb")

    @property
    def finished(self) -> bool:
        """Whether the result is complete."""
        return self._file.closed

    def add(self, line: bytes) -> None:
        """Append one event.

        Raises:
            Overloaded: The result, or all results together, exceed their limit.
            Unavailable: The disk is full.
        """
        if self.size + len(line) + 1 > MAX_RESULT_BYTES:
            raise too_large()
        self._reserve(len(line) + 1)
        self.size += len(line) + 1
        try:
            self._file.write(line)
            self._file.write(b"\n")
        except OSError as error:
            raise _unwritable(error) from error

    def close(self) -> None:
        """Close the file; the result is complete.

        Raises:
            Unavailable: The disk is full.
        """
        self.closed_at = time.monotonic()
        try:
            self._file.close()
        except OSError as error:
            raise _unwritable(error) from error

    def page(self, start: int) -> tuple[str, int]:
        """Return a page of text from an offset, and the offset of its end.

        A page has whole lines, or a part of a line longer than a page. Characters stay whole.
        """
        with self._path.open("rb") as file:
            file.seek(start)
            piece = file.read(PAGE_BYTES)
        piece = piece[: piece.rfind(b"\n") + 1] or piece
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(piece)
        unread, _ = decoder.getstate()
        return text, start + len(piece) - len(unread)

    def remove(self) -> None:
        """Delete the file."""
        with suppress(OSError):  # unwritten data is not needed either
            self._file.close()
        self._path.unlink(missing_ok=True)


class Spool:
    """All large results. They do not outlive the daemon."""

    def __init__(self, directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=0o700, parents=True)
        self._directory = directory
        # The oldest first.
        self._kept: dict[str, Spooled] = {}
        # The size of all results together.
        self._size = 0

    def open(self) -> Spooled:
        """Create a result, with an id that cannot be guessed."""
        self._delete_old()
        spooled = Spooled(self._directory / secrets.token_urlsafe(16), self._reserve)
        self._kept[spooled.id] = spooled
        return spooled

    def drop(self, spooled: Spooled) -> None:
        """Delete a result."""
        if self._kept.pop(spooled.id, None) is not None:
            self._size -= spooled.size
        spooled.remove()

    async def read(self, result_id: str, start: int) -> tuple[str, int | None]:
        """Return one page, and the offset of the next.

        Raises:
            NotFound: The result does not exist, or was deleted.
        """
        self._delete_old()
        spooled = self._kept.get(result_id)
        if spooled is None or not spooled.finished or not 0 <= start <= spooled.size:
            raise _gone()
        try:
            text, end = await asyncio.to_thread(spooled.page, start)
        except FileNotFoundError:  # deleted meanwhile
            raise _gone() from None
        return text, end if end < spooled.size else None

    def close(self) -> None:
        """Delete all results."""
        for spooled in list(self._kept.values()):
            self.drop(spooled)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _reserve(self, size: int) -> None:
        """Reserve space: delete the oldest complete results if necessary.

        Raises:
            Overloaded: Incomplete results take all of the space.
        """
        if self._size + size > MAX_KEPT_BYTES:
            for spooled in [one for one in self._kept.values() if one.finished]:
                self.drop(spooled)
                if self._size + size <= MAX_KEPT_BYTES:
                    break
            else:
                raise Overloaded("too many large results at once; try again later")
        self._size += size

    def _delete_old(self) -> None:
        oldest = time.monotonic() - KEPT_SECONDS
        for spooled in list(self._kept.values()):
            if spooled.finished and spooled.closed_at <= oldest:
                self.drop(spooled)


def too_large() -> Overloaded:
    """Return the error for a result above the size limit."""
    return Overloaded(
        f"the result is larger than {MAX_RESULT_BYTES} bytes",
        suggestion="Narrow the request, or call the method with synapse or over the WebSocket",
    )


def _unwritable(error: OSError) -> Unavailable:
    return Unavailable(f"cannot write the result to disk: {error.strerror or error}")


def _gone() -> NotFound:
    return NotFound(
        "this result does not exist, or was deleted after an hour",
        suggestion="Call the method again",
    )
