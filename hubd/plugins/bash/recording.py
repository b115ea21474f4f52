"""The outputs of a running command: sent as lines, and written to the store as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Literal

from hubd.plugins.bash import events
from hubd.plugins.bash.line_pieces import LinePieces, Piece
from hubd.plugins.bash.store import Recorded
from hubd.storage.blobs.store import Staging
from hubd.storage.database import Database
from hubd.wire.escaped_bytes import escape

Stream = Literal["stdout", "stderr"]


class OutputRecording:
    """One output. Bytes beyond the limit are counted and dropped."""

    def __init__(self, stream: Stream, staging: Staging, limit: int) -> None:
        self._event = events.LINES[stream]
        self._staging = staging
        self._limit = limit
        self._pieces = LinePieces()
        self.dropped = 0

    async def take(self, chunk: bytes) -> Iterator[events.Line]:
        """Write a chunk, and return the events of the lines that are complete with it.

        Raises:
            DatabaseUnusable: The disk is full or fails.
        """
        kept = chunk[: self._limit - self._staging.size]
        self.dropped += len(chunk) - len(kept)
        await self._staging.write(kept)
        return map(self._line, self._pieces.feed(kept))

    def rest(self) -> Iterator[events.Line]:
        """Return the event of the last line if it has no line end."""
        return map(self._line, self._pieces.finish())

    async def finish(self) -> Recorded:
        """Return the recorded output, which is on disk if it is large.

        Raises:
            DatabaseUnusable: The disk is full or fails.
        """
        blob = await self._staging.finish() if self._staging.size else None
        return Recorded(blob, self.dropped)

    def lost(self) -> Recorded:
        """Return the record of an output that could not be stored."""
        return Recorded(None, self._staging.size + self.dropped)

    def _line(self, piece: Piece) -> events.Line:
        text, escaped = escape(piece.data)
        return self._event(line=text, partial=piece.partial, escaped=escaped)


class Recording:
    """Both outputs of a command."""

    def __init__(self, stdout: OutputRecording, stderr: OutputRecording) -> None:
        self.stdout = stdout
        self.stderr = stderr

    @property
    def truncated(self) -> bool:
        """Whether bytes were dropped."""
        return bool(self.stdout.dropped or self.stderr.dropped)

    async def take(self, stream: Stream, chunk: bytes) -> Iterator[events.Line]:
        """Write a chunk, and return the events of its lines. Raises as `OutputRecording.take`."""
        return await (self.stdout if stream == "stdout" else self.stderr).take(chunk)

    def rest(self) -> Iterator[events.Line]:
        """Yield the events of the last lines without a line end."""
        yield from self.stdout.rest()
        yield from self.stderr.rest()


@asynccontextmanager
async def recording(db: Database, limit: int) -> AsyncIterator[Recording]:
    """Yield the recording of a command. It is kept if it is referred to inside the block.

    Args:
        db: The database.
        limit: The maximum number of bytes of each output.
    """
    async with db.blobs.stage() as stdout, db.blobs.stage() as stderr:
        yield Recording(
            OutputRecording("stdout", stdout, limit), OutputRecording("stderr", stderr, limit)
        )
