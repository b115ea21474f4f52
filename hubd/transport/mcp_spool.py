"""Results too large to send at once: kept in files for a while, and read page by page.

Knows nothing of MCP. A file holds one event a line.
"""

import asyncio
import codecs
import secrets
import shutil
import time
from pathlib import Path
from typing import Final

from hubd.errors import NotFound, Overloaded

# Nobody reads more than this out of one call; such a call wants another transport.
MAX_RESULT_BYTES: Final = 64 * 1024 * 1024
# What all results together may take before the oldest go.
MAX_KEPT_BYTES: Final = 256 * 1024 * 1024
KEPT_SECONDS: Final = 3600.0
# What one read gives.
PAGE_BYTES: Final = 256 * 1024


class Spooled:
    """One result, while it is written and after that."""

    def __init__(self, path: Path) -> None:
        self.id = path.name
        self.size = 0
        self.made_at = time.monotonic()
        self._path = path
        self._file = path.open("xb")

    def add(self, line: bytes) -> None:
        """Append one event.

        Raises:
            Overloaded: The result is larger than any may be.
        """
        if self.size + len(line) + 1 > MAX_RESULT_BYTES:
            raise Overloaded(
                f"the result is larger than {MAX_RESULT_BYTES} bytes",
                suggestion="Ask for less, or call the method over the WebSocket",
            )
        self._file.write(line)
        self._file.write(b"\n")
        self.size += len(line) + 1

    def close(self) -> None:
        """All is written."""
        self._file.close()

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

    def open(self) -> Spooled:
        """A new result, under an id that nobody can guess."""
        spooled = Spooled(self._directory / secrets.token_urlsafe(16))
        self._kept[spooled.id] = spooled
        self._forget_old()
        return spooled

    def drop(self, spooled: Spooled) -> None:
        """Forget a result."""
        self._kept.pop(spooled.id, None)
        spooled.remove()

    async def read(self, result_id: str, start: int) -> tuple[str, int | None]:
        """One page, and where the next begins.

        Raises:
            NotFound: There is no such result, or not any more.
        """
        spooled = self._kept.get(result_id)
        if spooled is None or not 0 <= start <= spooled.size:
            raise NotFound(
                "no such result, or not any more", suggestion="Call the method once more"
            )
        text, end = await asyncio.to_thread(spooled.page, start)
        return text, end if end < spooled.size else None

    def close(self) -> None:
        """Nothing is kept beyond this."""
        for spooled in list(self._kept.values()):
            self.drop(spooled)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _forget_old(self) -> None:
        size = sum(spooled.size for spooled in self._kept.values())
        oldest = time.monotonic() - KEPT_SECONDS
        # Never the one that was just opened.
        for spooled in list(self._kept.values())[:-1]:
            if size <= MAX_KEPT_BYTES and spooled.made_at > oldest:
                break
            size -= spooled.size
            self.drop(spooled)
