"""One SQLite file: transactions with group commit, and readers that never wait for writers.

A transaction is a plain function `f(tx)`, and `writer.py` runs it. A call that has returned is on
disk. Short reads run in the event loop, long ones in threads.
"""

import asyncio
import marshal
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from hubd.storage import migrations
from hubd.storage.batch import Row, Tx
from hubd.storage.blobs.store import Blobs
from hubd.storage.errors import caller_error, closed_error, code_of, unusable
from hubd.storage.identity import Identity, lost, mark_created, refuse_emptied
from hubd.storage.must_await import must_await
from hubd.storage.readers import STEPS_PER_CHECK, LongReads, Value, read_only
from hubd.storage.tables import HUB_MIGRATIONS
from hubd.storage.waiters import Waiters
from hubd.storage.writer import AUTOCHECKPOINT_PAGES, BUSY_TIMEOUT_SECONDS, Writer

__all__ = ["COMMITTED", "Database", "Row", "Tx"]

T = TypeVar("T")

# A read that takes longer in the event loop's thread starts over in a reader thread.
MAX_SECONDS_IN_LOOP: Final = 0.005
# Rows that a reader thread returns at a time.
PAGE_ROWS: Final = 256
# A streamed read with more bytes than this uses a temporary file.
SPOOL_BYTES: Final = 1024 * 1024
# The topic that every commit wakes.
COMMITTED: Final = "committed"


class Database:
    """The hub's database. An async context manager that can be entered once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Runs the transactions; set when the database is opened.
        self._writer: Writer | None = None
        # The connection for short reads in the event loop's thread.
        self._reader: sqlite3.Connection | None = None
        # The time at which the read in the event loop's thread is interrupted.
        self._read_until = 0.0
        # Runs the reads that were interrupted.
        self._long_reads = LongReads(path)
        # Set when the block ends: later calls fail.
        self._closed = False
        # The readers that wait for a write.
        self.waiters = Waiters()
        # The open files; None until the tables exist.
        self.identity: Identity | None = None
        # Large contents, which the rows of plugins refer to by their digest.
        self.blobs = Blobs(self)

    @property
    def commits(self) -> int:
        """The number of commits."""
        return 0 if self._writer is None else self._writer.commits

    async def __aenter__(self) -> Self:
        """Open the file and bring the hub's own tables up to date.

        Raises:
            DatabaseUnusable: It is corrupt, foreign or not writable.
            DatabaseNewer: A newer hubd wrote it. It was not changed.
        """
        refuse_emptied(self.path)
        connection: sqlite3.Connection | None = None
        try:
            connection = _open_for_writing(self.path)
            self._reader = _open_for_reading(self.path)
            self._reader.set_progress_handler(self._takes_too_long, STEPS_PER_CHECK)
        except (sqlite3.Error, OSError) as error:
            if connection is not None:
                connection.close()
            raise unusable(self.path, error) from error
        self._writer = Writer(connection, self.path, self._lost, self._wake)
        try:
            await self.migrate(migrations.HUB, HUB_MIGRATIONS)
            mark_created(self.path)
            self.blobs.start()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        self.identity = Identity(self.path)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish the submitted transactions, then close. Idempotent."""
        if self._closed:
            return
        await self.blobs.stop()
        self._closed = True
        await self._long_reads.close()
        assert self._reader is not None
        self._reader.close()
        # The writer closes last, because the last connection removes the WAL.
        assert self._writer is not None
        await self._writer.close()
        if self.identity is not None and self.identity.is_lost():
            self.identity.set_log_aside()

    async def migrate(self, owner: str, steps: Sequence[str]) -> None:
        """Bring one owner's tables up to date, one transaction for each migration.

        Raises:
            DatabaseNewer: The database has more of the owner's migrations than `steps`.
            DatabaseUnusable: An applied migration was edited, or one fails or uses tables of
                another owner.
        """
        if not steps:
            return
        # The hub's own come first, and create the record.
        if owner != migrations.HUB and migrations.is_complete(
            await self.fetch_rows(migrations.RECORDED, owner), steps
        ):
            return
        numbers = await self.transaction(
            lambda tx: migrations.missing(tx.raw, owner, steps), in_thread=True
        )
        for number in numbers:
            step = steps[number - 1]
            await self.transaction(
                lambda tx, number=number, step=step: migrations.apply(  # type: ignore[misc]
                    tx.raw, owner, number, step
                ),
                in_thread=True,
            )

    def transaction(
        self, function: Callable[[Tx], T], *, in_thread: bool = False
    ) -> "asyncio.Future[T]":
        """Run `function(tx)`. The future is done when its data is on disk.

        The function takes effect once, but it may run more than once and in any thread, so it
        keeps no state outside `tx`. It never waits, because it usually runs in the event loop.

        An exception of the function is raised where the future is awaited, and its changes are
        rolled back. Cancelling the caller does not undo the transaction.

        Args:
            function: The transaction.
            in_thread: True for a function that is known to take more than a few milliseconds. It
                runs in a thread at once. Without it, it is interrupted in the event loop first.

        Raises:
            DatabaseUnusable: The disk is full or the file is damaged. Nothing was written.
            TypeError: The function is async or a generator.
        """
        if self._closed:
            raise closed_error()
        assert self._writer is not None, "the database is not open"
        return self._writer.submit(function, in_thread=in_thread)

    @must_await
    async def execute(self, sql: str, *params: Value) -> int:
        """Run one statement as a transaction; return the number of changed rows."""
        return await self.transaction(lambda tx: tx.execute(sql, *params).rowcount)

    @must_await
    async def fetch_one(self, sql: str, *params: Value) -> Row | None:
        """Return the first row, or None. Sees every transaction that has returned."""
        columns, rows = await self._fetch(sql, params, one=True)
        return dict(zip(columns, rows[0], strict=True)) if rows else None

    @must_await
    async def fetch_all(self, sql: str, *params: Value) -> list[Row]:
        """Return all rows. For results that are known to be small."""
        columns, rows = await self._fetch(sql, params, one=False)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    @must_await
    async def fetch_rows(self, sql: str, *params: Value) -> list[tuple[Any, ...]]:
        """Return all rows as tuples. For storage modules, which read thousands of rows."""
        return (await self._fetch(sql, params, one=False))[1]

    async def iterate(self, sql: str, *params: Value) -> AsyncGenerator[Row, None]:
        """Stream the rows of one consistent read of any length, with bounded memory.

        The rows are spooled first, so that a slow consumer does not hold a snapshot.
        """
        with SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
            async with self._long_reads.read(sql, params) as cursor:
                columns = [column[0] for column in cursor.description]
                while page := await cursor.fetchmany(PAGE_ROWS):
                    marshal.dump(list(map(tuple, page)), spool)
            end = spool.tell()
            spool.seek(0)
            while spool.tell() < end:
                for row in marshal.load(spool):
                    yield dict(zip(columns, row, strict=True))

    async def _fetch(
        self, sql: str, params: tuple[Value, ...], *, one: bool
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the names of the columns, and the rows."""
        if self._closed:
            raise closed_error()
        assert self._reader is not None, "the database is not open"
        self._read_until = time.monotonic() + MAX_SECONDS_IN_LOOP
        try:
            cursor = self._reader.execute(sql, params)
            rows = cursor.fetchmany(1) if one else cursor.fetchall()
            columns = [column[0] for column in cursor.description]
            cursor.close()
            return columns, rows
        except sqlite3.DatabaseError as error:
            if code_of(error) != sqlite3.SQLITE_INTERRUPT:
                raise caller_error(error, self.path) from error
        # The read took too long for the event loop's thread.
        async with self._long_reads.read(sql, params) as long_read:
            slow = await long_read.fetchmany(1) if one else await long_read.fetchall()
            return [column[0] for column in long_read.description], list(map(tuple, slow))

    def _takes_too_long(self) -> bool:
        return time.monotonic() > self._read_until

    def _lost(self) -> BaseException | None:
        """Return the error of a commit to a file that is not at its path any more."""
        if self.identity is not None and self.identity.is_lost():
            return lost(self.path)
        return None

    def _wake(self, tx: Tx) -> None:
        """Wake the readers that wait for topics of a commit."""
        self.waiters.commit(tx.topics, tx.news)
        self.waiters.wake(COMMITTED)


def _open_for_writing(path: Path) -> sqlite3.Connection:
    migrations.refuse_foreign_or_newer(path)
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
    )
    if not path.is_symlink():  # The target of a link belongs to the user.
        path.chmod(0o600)
    if migrations.is_blank(connection):
        connection.execute(f"PRAGMA application_id = {migrations.APPLICATION_ID}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA wal_autocheckpoint = {AUTOCHECKPOINT_PAGES}")
    # The event loop must not wait for another process. The writer's thread waits by itself.
    connection.execute("PRAGMA busy_timeout = 0")
    return connection


def _open_for_reading(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        read_only(path), uri=True, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None
    )
