"""Long reads: each runs in a thread, and ends when its caller is cancelled."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hubd.storage.errors import caller_error, closed_error

if TYPE_CHECKING:  # Imported by the first long read, because it delays the start.
    import aiosqlite

Value = str | int | float | bytes | None

# Concurrent long reads; others wait.
READERS: Final = 2
# Steps of SQLite's virtual machine between two checks for cancellation.
STEPS_PER_CHECK: Final = 5_000


class LongReads:
    """The connections for long reads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Readers that are idle, that read, and that are being closed.
        self._idle: list[_Reader] = []
        self._busy: set[_Reader] = set()
        self._retiring: set[asyncio.Future[None]] = set()
        self._slots = asyncio.Semaphore(READERS)
        # Set by `close`: later reads fail.
        self._closed = False

    @asynccontextmanager
    async def read(self, sql: str, params: tuple[Value, ...]) -> AsyncIterator["aiosqlite.Cursor"]:
        """Yield a cursor that reads in a thread. Cancelling interrupts the thread.

        Raises:
            DatabaseUnusable: The file is damaged, or the database is closed.
        """
        async with self._slots:
            if self._closed:
                raise closed_error()
            reader = self._idle.pop() if self._idle else _Reader()
            self._busy.add(reader)
            try:
                connection = await reader.open(self._path)
                async with connection.execute(sql, params) as cursor:
                    try:
                        yield cursor
                    except BaseException:
                        # Must be set before the cursor closes, because that waits for the thread.
                        reader.abandoned = True
                        raise
            except sqlite3.DatabaseError as error:
                raise (
                    closed_error() if self._closed else caller_error(error, self._path)
                ) from error
            except BaseException:
                reader.abandoned = True
                raise
            finally:
                self._busy.remove(reader)
                if reader.abandoned:
                    self._retire(reader)
                else:
                    self._idle.append(reader)

    async def close(self) -> None:
        """Interrupt all reads and end their threads."""
        self._closed = True
        for busy in self._busy:
            busy.abandoned = True
        for _ in range(READERS):
            await self._slots.acquire()
        for _ in range(READERS):  # Waiting callers then find the database closed.
            self._slots.release()
        await asyncio.gather(*self._retiring, *(reader.close() for reader in self._idle))

    def _retire(self, reader: "_Reader") -> None:
        """Close a reader. Its thread may still be busy for a moment."""
        task = asyncio.ensure_future(reader.close())
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)


class _Reader:
    """A connection for long reads, with its thread."""

    def __init__(self) -> None:
        self._opening: asyncio.Task[aiosqlite.Connection] | None = None
        # Set when the caller was cancelled. The thread checks it while it works, because an
        # interrupt would miss a statement that has not started.
        self.abandoned = False

    async def open(self, path: Path) -> "aiosqlite.Connection":
        """Return the connection. If the caller is cancelled, `close` still closes it."""
        if self._opening is None:
            self._opening = asyncio.create_task(self._open(path))
        try:
            return await asyncio.shield(self._opening)
        except sqlite3.Error:
            # The connection does not exist, so it can't be closed or used again.
            self.abandoned, self._opening = True, None
            raise

    async def close(self) -> None:
        """End the thread."""
        if self._opening is not None:
            connection = await self._opening
            await connection.close()

    async def _open(self, path: Path) -> "aiosqlite.Connection":
        import aiosqlite

        connection = await aiosqlite.connect(read_only(path), uri=True)
        await connection.set_progress_handler(lambda: self.abandoned, STEPS_PER_CHECK)
        return connection


def read_only(path: Path) -> str:
    return f"{path.absolute().as_uri()}?mode=ro"
