"""Results too large to send at once: kept in files for a while, and read page by page.

Knows nothing of MCP. A file holds one event a line.
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

# Nobody reads more than this out of one call; such a call wants another transport.
MAX_RESULT_BYTES: Final = 64 * 1024 * 1024
# What all results together may take before the oldest go.
MAX_KEPT_BYTES: Final = 256 * 1024 * 1024
KEPT_SECONDS: Final = 3600.0
# What one read gives.
PAGE_BYTES: Final = 256 * 1024


class Spooled:
    """One result, while it is written and after that."""

    def __init__(self, path: Path, reserve: Callable[[int], None]) -> None:
        self.id = path.name
        self.size = 0
        # When the last of it was written.
        self.made_at = time.monotonic()
        self._path = path
        self._reserve = reserve
        self._file = path.open("xb")

    @property
    def finished(self) -> bool:
        """Whether all of it is written."""
        return self._file.closed

    def add(self, line: bytes) -> None:
        """Append one event.

        Raises:
            Overloaded: The result is larger than any may be, or all together are.
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
        """All is written.

        Raises:
            Unavailable: The disk is full.
        """
        self.made_at = time.monotonic()
        try:
            self._file.close()
        except OSError as error:
            raise _unwritable(error) from error

    def page(self, start: int) -> tuple[str, int]:
        """What begins at an offset, and where it ends.

        Whole lines, or a piece of one that is longer than a page; never a piece of a character.
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
        """It is not wanted any more."""
        with suppress(OSError):  # what cannot be written is not wanted either
            self._file.close()
        self._path.unlink(missing_ok=True)


class Spool:
    """All results that are kept. They do not outlive the daemon."""

    def __init__(self, directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=0o700, parents=True)
        self._directory = directory
        # The oldest first.
        self._kept: dict[str, Spooled] = {}
        # What they take together.
        self._taken = 0

    def open(self) -> Spooled:
        """A new result, under an id that nobody can guess."""
        self._forget_old()
        spooled = Spooled(self._directory / secrets.token_urlsafe(16), self._reserve)
        self._kept[spooled.id] = spooled
        return spooled

    def drop(self, spooled: Spooled) -> None:
        """Forget a result."""
        if self._kept.pop(spooled.id, None) is not None:
            self._taken -= spooled.size
        spooled.remove()

    async def read(self, result_id: str, start: int) -> tuple[str, int | None]:
        """One page, and where the next begins.

        Raises:
            NotFound: There is no such result, or not any more.
        """
        self._forget_old()
        spooled = self._kept.get(result_id)
        if spooled is None or not spooled.finished or not 0 <= start <= spooled.size:
            raise _gone()
        try:
            text, end = await asyncio.to_thread(spooled.page, start)
        except FileNotFoundError:  # forgotten meanwhile
            raise _gone() from None
        return text, end if end < spooled.size else None

    def close(self) -> None:
        """Nothing is kept beyond this."""
        for spooled in list(self._kept.values()):
            self.drop(spooled)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _reserve(self, size: int) -> None:
        """Make room for so much more: the oldest go, but none that is under way.

        Raises:
            Overloaded: Those under way take all of it.
        """
        if self._taken + size > MAX_KEPT_BYTES:
            for spooled in [one for one in self._kept.values() if one.finished]:
                self.drop(spooled)
                if self._taken + size <= MAX_KEPT_BYTES:
                    break
            else:
                raise Overloaded("too many large results are under way at once")
        self._taken += size

    def _forget_old(self) -> None:
        oldest = time.monotonic() - KEPT_SECONDS
        for spooled in list(self._kept.values()):
            if spooled.finished and spooled.made_at <= oldest:
                self.drop(spooled)


def too_large() -> Overloaded:
    """The error for a result that is larger than any may be."""
    return Overloaded(
        f"the result is larger than {MAX_RESULT_BYTES} bytes",
        suggestion="Ask for less, or call the method over the WebSocket",
    )


def _unwritable(error: OSError) -> Unavailable:
    return Unavailable(f"the result cannot be kept: {error.strerror or error}")


def _gone() -> NotFound:
    return NotFound("no such result, or not any more", suggestion="Call the method once more")
