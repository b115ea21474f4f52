"""Write and read large contents.

    async with db.blobs.stage() as staging:
        await staging.write(chunk)
        blob = await staging.finish()
        await db.transaction(lambda tx: blobs.refer(tx, blob))

A large content is on disk before a row names it, and its row is removed before its file. A crash
in between leaves a file without a row, which the next start removes. Inside the block no cleanup
removes the content.
"""

import asyncio
import hashlib
import logging
import os
import threading
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from hubd.errors import DatabaseUnusable, HubError, NotFound
from hubd.storage.blobs import files, rows
from hubd.storage.blobs.files import BlobFiles
from hubd.storage.blobs.rows import PART_BYTES, RELEASED, Blob, BlobRow

if TYPE_CHECKING:
    from hubd.storage.database import Database

log = logging.getLogger(__name__)

# A content up to this size is kept in the database.
MAX_ROW_BYTES: Final = 64 * 1024
# Bytes that a staging collects before a thread writes them.
BUFFER_BYTES: Final = 1024 * 1024
# Rows or files that one step of a cleanup looks at.
CLEANUP_STEP: Final = 200
# Seconds until a removal is tried again that a backup has prevented.
RETRY_SECONDS: Final = 60.0


class Blobs:
    """The stored contents of one database."""

    def __init__(self, db: "Database") -> None:
        self._db = db
        self._files = BlobFiles(db.path)
        # How many stagings keep the file of a digest.
        self._staged: Counter[bytes] = Counter()
        # Tasks that finish a staging after its block has ended.
        self._settling: set[asyncio.Task[None]] = set()
        # Files to remove if no row names them.
        self._candidates: set[bytes] = set()
        self._cleanup: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the cleanup."""
        # Before the first staging, which would lose its file.
        self._files.remove_unfinished()
        self._cleanup = asyncio.create_task(self._clean_up(), name="cleanup of blobs")

    async def stop(self) -> None:
        """Stop the cleanup. The next start continues it."""
        tasks = [*self._settling, *([self._cleanup] if self._cleanup else ())]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    @asynccontextmanager
    async def stage(self) -> AsyncIterator["Staging"]:
        """Yield a staging for one content. It is kept only if a row refers to it.

        Raises:
            DatabaseUnusable: The disk is full or fails.
        """
        staging = Staging(self._files, self._keep)
        try:
            yield staging
        finally:
            # In a task of its own, because the caller may be cancelled.
            task = asyncio.create_task(self._settle(staging))
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)

    async def read(self, digest: bytes, offset: int = 0, length: int | None = None) -> bytes:
        """Return a part of a content, by default all of it.

        Raises:
            NotFound: No content has this digest.
            DatabaseUnusable: The content's file is missing or cannot be read.
        """
        row = await self._look_up(digest)
        end = row.size if length is None else min(offset + length, row.size)
        if offset >= end:
            return b""
        if row.place == "rows":
            return await self._read_parts(digest, offset, end)
        return await self._read_file(digest, offset, end - offset)

    async def chunks(self, digest: bytes) -> AsyncGenerator[bytes, None]:
        """Yield a content in pieces of at most `PART_BYTES`. Raises as `read`."""
        offset, size = 0, (await self._look_up(digest)).size
        while offset < size:
            chunk = await self.read(digest, offset, PART_BYTES)
            yield chunk
            offset += len(chunk)

    async def _look_up(self, digest: bytes) -> BlobRow:
        sql = "SELECT size, refs, place FROM hub_blobs WHERE digest = ?"
        for row in await self._db.fetch_rows(sql, digest):
            return BlobRow(*row)
        raise NotFound(f"the content {digest.hex()[:16]}… is not stored any more")

    async def _read_parts(self, digest: bytes, offset: int, end: int) -> bytes:
        first = offset // PART_BYTES
        parts = await self._db.fetch_rows(
            "SELECT content FROM hub_blob_parts WHERE digest = ? AND number BETWEEN ? AND ?"
            " ORDER BY number",
            digest,
            first,
            (end - 1) // PART_BYTES,
        )
        content = b"".join(part for (part,) in parts)
        start = first * PART_BYTES
        return content[offset - start : end - start]

    async def _read_file(self, digest: bytes, offset: int, length: int) -> bytes:
        path = self._files.path(digest)
        try:
            content = await asyncio.to_thread(files.read, path, offset, length)
        except FileNotFoundError:
            await self._look_up(digest)  # Raises if the content was deleted meanwhile.
            raise DatabaseUnusable(f"{path} is missing", suggestion="Restore a backup") from None
        except OSError as error:
            raise unusable(path, error) from error
        if len(content) < length:
            raise DatabaseUnusable(f"{path} is too short", suggestion="Restore a backup")
        return content

    def _keep(self, digest: bytes) -> None:
        self._staged[digest] += 1
        self._candidates.discard(digest)

    async def _settle(self, staging: "Staging") -> None:
        """Remove the file of a staging if no row refers to it."""
        digest, named = staging.digest, True
        try:
            await asyncio.to_thread(staging.discard)
            if digest is not None:
                # A transaction, because it runs after the caller's, even if that was abandoned.
                row = await self._db.transaction(lambda tx: rows.look_up(tx.raw, digest))
                named = row is not None and row.place == "file"
        except (HubError, OSError) as error:
            # The next start removes the file.
            log.warning("the cleanup of a stored content failed: %s", error)
        finally:
            if digest is not None:
                self._staged[digest] -= 1
                if not self._staged[digest]:
                    del self._staged[digest]
                self._candidates.discard(digest)
                if not named:
                    self._remove(digest)

    def _remove(self, digest: bytes) -> None:
        """Remove a file that no row names, unless a staging keeps it.

        It runs in the event loop, so that no staging begins between the check and the removal.
        """
        if self._staged[digest]:
            return
        if self._files.remove(digest):
            self._candidates.discard(digest)
        else:  # A backup reads the files.
            self._candidates.add(digest)

    async def _clean_up(self) -> None:
        """Remove files that no row names: after a crash, and after a release."""
        with self._db.waiters.waiting_for(RELEASED) as released:
            # All files; those with a row are kept.
            self._candidates.update(await asyncio.to_thread(self._files.digests))
            while True:
                try:
                    await self._remove_released()
                    await self._remove_unnamed()
                except (HubError, OSError) as error:
                    log.warning("the cleanup of stored contents failed: %s", error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(RETRY_SECONDS if self._candidates else None):
                        await released.wait()
                released.clear()

    async def _remove_released(self) -> None:
        """Remove the rows without references. Their files follow."""
        released = "SELECT digest FROM hub_blobs WHERE refs = 0 LIMIT ?"
        while await self._db.fetch_rows(released, 1):
            step = await self._db.transaction(lambda tx: rows.remove_released(tx, CLEANUP_STEP))
            self._candidates.update(step)

    async def _remove_unnamed(self) -> None:
        """Remove the candidates that no row names."""
        waiting = list(self._candidates)
        for start in range(0, len(waiting), CLEANUP_STEP):
            step = waiting[start : start + CLEANUP_STEP]
            marks = ", ".join("?" * len(step))
            sql = f"SELECT digest FROM hub_blobs WHERE place = 'file' AND digest IN ({marks})"
            named = {digest for (digest,) in await self._db.fetch_rows(sql, *step)}
            for digest in step:
                if digest in named:
                    self._candidates.discard(digest)
                # A staging may have taken it back during the read.
                elif digest in self._candidates:
                    self._remove(digest)


class Staging:
    """A content that is being written."""

    def __init__(self, blob_files: BlobFiles, keep: Callable[[bytes], None]) -> None:
        self._files = blob_files
        # Protects the file of a digest from the cleanup, until the staging is settled.
        self._keep = keep
        self._hash = hashlib.sha256()
        # The bytes that are not in the file yet.
        self._buffer = bytearray()
        # The file of a content that is too large for a row, until it has its name.
        self._file: BinaryIO | None = None
        # A cancelled caller leaves a thread behind that may still write to the file.
        self._lock = threading.Lock()
        self._discarded = False
        # The bytes so far.
        self.size = 0
        # The digest of a named file, which the staging keeps.
        self.digest: bytes | None = None

    async def write(self, data: bytes) -> None:
        """Add bytes to the content.

        Raises:
            DatabaseUnusable: The disk is full or fails.
        """
        self.size += len(data)
        self._buffer += data
        if len(self._buffer) >= BUFFER_BYTES:
            await self._in_thread(self._spill)

    async def finish(self) -> Blob:
        """Return the content for `refer`. A large one is on disk.

        Raises:
            DatabaseUnusable: The disk is full or fails.
        """
        if self._file is None and self.size <= MAX_ROW_BYTES:
            content = bytes(self._buffer)
            return Blob(hashlib.sha256(content).digest(), self.size, content)
        await self._in_thread(self._sync)
        digest = self._hash.digest()
        self._keep(digest)
        self.digest = digest
        await self._in_thread(self._publish)
        return Blob(digest, self.size)

    def discard(self) -> None:
        """Close the file, and remove it if it has no name yet."""
        with self._lock:
            self._discarded = True
            if self._file is not None:
                self._file.close()
                Path(self._file.name).unlink(missing_ok=True)
                self._file = None

    async def _in_thread(self, step: Callable[[], None]) -> None:
        try:
            await asyncio.to_thread(self._run, step)
        except OSError as error:
            raise unusable(self._files.directory, error) from error

    def _run(self, step: Callable[[], None]) -> None:
        with self._lock:
            if not self._discarded:
                step()

    def _spill(self) -> None:
        data, self._buffer = self._buffer, bytearray()
        if self._file is None:
            self._file = self._files.create()
        self._hash.update(data)
        self._file.write(data)

    def _sync(self) -> None:
        self._spill()
        assert self._file is not None
        self._file.flush()
        os.fsync(self._file.fileno())

    def _publish(self) -> None:
        assert self._file is not None
        assert self.digest is not None
        self._files.publish(self._file, self.digest)
        self._file.close()
        self._file = None


def unusable(path: Path, error: OSError) -> DatabaseUnusable:
    """Return the error of a disk that is full or fails."""
    return DatabaseUnusable(
        f"{path} cannot be written or read: {error.strerror or error}",
        suggestion="Check the free space and the disk",
    )
