"""Long reads: each in a thread of its own, and ended when nobody waits for it any more."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hubd.storage.errors import caller_error, closed_error

if TYPE_CHECKING:  # imported when the first long read needs it; it costs start-up time
    import aiosqlite

Value = str | int | float | bytes | None

# Concurrent long reads; more wait their turn.
READERS: Final = 2
# How often a read looks whether it should go on, in steps of SQLite's virtual machine.
STEPS_PER_LOOK: Final = 5_000


class LongReads:
    """The connections for long reads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Waiting for the next read, at work, and being closed.
        self._idle: list[_Reader] = []
        self._busy: set[_Reader] = set()
        self._retiring: set[asyncio.Future[None]] = set()
        self._slots = asyncio.Semaphore(READERS)
        # Set once, by close(): nothing is accepted after it.
        self._closed = False

    @asynccontextmanager
    async def read(self, sql: str, params: tuple[Value, ...]) -> AsyncIterator["aiosqlite.Cursor"]:
        """A cursor in a thread of its own. Cancelling ends what the thread is doing.

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
                        # Before the cursor is closed, which has to wait for the thread.
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
        """End what runs, and all threads."""
        self._closed = True
        for busy in self._busy:
            busy.abandoned = True
        for _ in range(READERS):
            await self._slots.acquire()
        for _ in range(READERS):  # who still waits for one finds the database closed
            self._slots.release()
        await asyncio.gather(*self._retiring, *(reader.close() for reader in self._idle))

    def _retire(self, reader: "_Reader") -> None:
        """Close a reader whose thread may still be busy for a moment."""
        task = asyncio.ensure_future(reader.close())
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)


class _Reader:
    """A connection for long reads, in a thread of its own."""

    def __init__(self) -> None:
        self._opening: asyncio.Task[aiosqlite.Connection] | None = None
        # Set when nobody waits for the result any more; the thread looks at it as it works,
        # because an interrupt would miss a statement that has not begun.
        self.abandoned = False

    async def open(self, path: Path) -> "aiosqlite.Connection":
        """The connection. Cancelling is safe: what is being opened is closed with the rest."""
        if self._opening is None:
            self._opening = asyncio.create_task(self._open(path))
        try:
            return await asyncio.shield(self._opening)
        except sqlite3.Error:
            # Nothing was opened, so there is nothing to close, and nothing to use again.
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
        await connection.set_progress_handler(lambda: self.abandoned, STEPS_PER_LOOK)
        return connection


def read_only(path: Path) -> str:
    return f"{path.absolute().as_uri()}?mode=ro"
