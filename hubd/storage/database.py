"""One SQLite file with one writer thread, group commit, and readers that never wait for writers.

A transaction is a plain function `f(tx)`. The writer thread takes all waiting transactions, runs
each in a savepoint, commits once with full durability, and then wakes their callers. A call that
has returned is on disk.
"""

import asyncio
import inspect
import logging
import marshal
import queue
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import SpooledTemporaryFile
from types import AsyncGeneratorType, CoroutineType, GeneratorType, TracebackType
from typing import Any, Final, Self, TypeVar

from hubd.storage import migrations
from hubd.storage.blobs.store import Blobs
from hubd.storage.errors import caller_error, closed_error, code_of, not_plain, unusable
from hubd.storage.identity import Identity, lost, mark_created, refuse_emptied
from hubd.storage.must_await import must_await
from hubd.storage.readers import STEPS_PER_CHECK, LongReads, Value, read_only
from hubd.storage.tables import HUB_MIGRATIONS
from hubd.storage.waiters import Waiters

T = TypeVar("T")
Row = dict[str, Any]

log = logging.getLogger(__name__)

# More transactions in one commit would only delay the callers of the first.
MAX_GROUP: Final = 1024
# Larger than SQLite's 1,000: fewer checkpoints while many chats are written.
WAL_AUTOCHECKPOINT_PAGES: Final = 4000
# A read that takes longer in the event loop's thread starts over in a reader thread.
MAX_SECONDS_IN_LOOP: Final = 0.005
# Rows that a reader thread returns at a time.
PAGE_ROWS: Final = 256
# A streamed read with more bytes than this uses a temporary file.
SPOOL_BYTES: Final = 1024 * 1024
# Other processes (`hubd check`, `hubd backup`) lock the file only for moments.
BUSY_TIMEOUT_SECONDS: Final = 5.0
# The topic that every commit wakes.
COMMITTED: Final = "committed"
# Functions that run only when awaited or iterated, and their results.
_LAZY_FLAGS: Final = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
_LAZY_RESULTS: Final = (CoroutineType, GeneratorType, AsyncGeneratorType)


class Tx:
    """A running transaction. Valid only inside the function that received it."""

    __slots__ = ("messages", "raw", "topics")

    def __init__(self, connection: sqlite3.Connection) -> None:
        # For storage modules that need the speed. They must not begin, commit or roll back.
        self.raw = connection
        # The topics to wake once the transaction is on disk.
        self.topics: list[Hashable] = []
        # Lines for the log, which are written at that moment too.
        self.messages: list[str] = []

    def execute(self, sql: str, *params: Value) -> sqlite3.Cursor:
        """Run one statement and return its cursor, with `rowcount` and `lastrowid`."""
        return self.raw.execute(sql, params)

    def fetch_one(self, sql: str, *params: Value) -> Row | None:
        """Return the first row, or None."""
        cursor = self.raw.execute(sql, params)
        row = cursor.fetchone()
        return None if row is None else _as_dict(cursor, row)

    def fetch_all(self, sql: str, *params: Value) -> list[Row]:
        """Return all rows."""
        cursor = self.raw.execute(sql, params)
        return [_as_dict(cursor, row) for row in cursor]


class Database:
    """The hub's database. An async context manager that can be entered once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # The event loop that uses the database; set when it is opened.
        self._loop: asyncio.AbstractEventLoop | None = None
        # The writer's connection. After the opening, only the writer thread uses it.
        self._writer: sqlite3.Connection | None = None
        # The connection for short reads in the event loop's thread.
        self._reader: sqlite3.Connection | None = None
        # Batches for the writer thread; None ends it.
        self._batches: queue.SimpleQueue[list[_Job] | None] = queue.SimpleQueue()
        # Jobs of the current turn of the event loop. They become one batch in its next turn.
        self._waiting: list[_Job] = []
        # The time at which the read in the event loop's thread is interrupted.
        self._read_until = 0.0
        # Runs the reads that were interrupted.
        self._long_reads = LongReads(path)
        # Set when the block ends: later calls fail.
        self._closed = False
        # The readers that wait for a write.
        self.waiters = Waiters()
        # The number of commits, for benchmarks and tests.
        self.commits = 0
        # The open files; None until the tables exist.
        self.identity: Identity | None = None
        # Large contents, which the rows of plugins refer to by their digest.
        self.blobs = Blobs(self)
        self._thread = threading.Thread(target=self._write_loop, name="hubd-writer", daemon=True)

    async def __aenter__(self) -> Self:
        """Open the file and bring the hub's own tables up to date.

        Raises:
            DatabaseUnusable: It is corrupt, foreign or not writable.
            DatabaseNewer: A newer hubd wrote it. It was not changed.
        """
        refuse_emptied(self.path)
        try:
            self._writer = _open_for_writing(self.path)
            self._reader = _open_for_reading(self.path)
            self._reader.set_progress_handler(self._takes_too_long, STEPS_PER_CHECK)
        except (sqlite3.Error, OSError) as error:
            if self._writer is not None:
                self._writer.close()
            raise unusable(self.path, error) from error
        self._loop = asyncio.get_running_loop()
        self._thread.start()
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
        self._flush()
        await self._long_reads.close()
        assert self._reader is not None
        self._reader.close()
        # The writer closes last, because the last connection removes the WAL.
        self._batches.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)
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
        numbers = await self.transaction(lambda tx: migrations.missing(tx.raw, owner, steps))
        for number in numbers:
            step = steps[number - 1]
            await self.transaction(
                lambda tx, number=number, step=step: migrations.apply(  # type: ignore[misc]
                    tx.raw, owner, number, step
                )
            )

    def transaction(self, function: Callable[[Tx], T]) -> "asyncio.Future[T]":
        """Run `function(tx)` in the writer thread. The future is done when its data is on disk.

        The function takes effect once, but it may run again, so it keeps no state outside `tx`.

        An exception of the function is raised where the future is awaited, and its changes are
        rolled back. Cancelling the caller does not undo the transaction.

        Raises:
            DatabaseUnusable: The disk is full or the file is damaged. Nothing was written.
            TypeError: The function is async or a generator.
        """
        code = getattr(function, "__code__", None)
        if code is not None and code.co_flags & _LAZY_FLAGS:
            raise not_plain(code.co_name)
        if self._closed:
            raise closed_error()
        assert self._loop is not None, "the database is not open"
        # A coroutine around the future would slow down many small transactions.
        future: asyncio.Future[T] = self._loop.create_future()
        if not self._waiting:
            # All jobs that are submitted until the next turn of the loop share one commit.
            self._loop.call_soon(self._flush)
        self._waiting.append(_Job(function, future))
        return future

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

    def _flush(self) -> None:
        if self._waiting:
            self._batches.put(self._waiting)
            self._waiting = []

    def _write_loop(self) -> None:
        """Commit batches in the writer thread; all waiting ones share a commit."""
        assert self._writer is not None
        assert self._loop is not None
        ending = False
        while not ending:
            batch = self._batches.get()
            if batch is None:
                break
            while len(batch) < MAX_GROUP:
                try:
                    more = self._batches.get_nowait()
                except queue.Empty:
                    break
                if more is None:
                    ending = True
                    break
                batch += more
            tx = _commit(self._writer, batch, self.path)
            self.commits += 1
            if self.identity is not None and self.identity.is_lost():
                # The commit went to a file without a name, so it is not durable.
                tx = Tx(self._writer)
                for job in batch:
                    job.error = job.error or lost(self.path)
            for message in tx.messages:
                log.info(message)
            try:
                self._loop.call_soon_threadsafe(self._fulfil, batch, tx.topics)
            except RuntimeError:
                # The loop is closed, so no caller waits. The data is on disk nevertheless.
                log.debug("the event loop closed before %d transactions returned", len(batch))
        self._writer.close()

    def _fulfil(self, jobs: list["_Job"], topics: list[Hashable]) -> None:
        """Wake the callers, and the readers that wait for their topics, in one turn of the loop."""
        for job in jobs:
            if job.future.done():  # The caller was cancelled. The transaction stays.
                continue
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)
        for topic in dict.fromkeys(topics):
            self.waiters.wake(topic)
        self.waiters.wake(COMMITTED)


class _Job:
    """One submitted transaction."""

    __slots__ = ("error", "function", "future", "result")

    def __init__(self, function: Callable[[Tx], Any], future: asyncio.Future[Any]) -> None:
        self.function = function
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None


def _commit(connection: sqlite3.Connection, batch: list[_Job], path: Path) -> Tx:
    """Run every job and commit once. Never raises: each job gets its result or its error.

    Returns:
        The transaction, with the topics and messages of the jobs that succeeded.
    """
    tx = Tx(connection)
    # One cursor for all savepoints, because two new ones for each job would be slower.
    control = connection.cursor().execute
    # A job that does not share its commit needs no savepoint.
    alone = len(batch) == 1
    try:
        control("BEGIN IMMEDIATE")
        for job in batch:
            topics, messages = len(tx.topics), len(tx.messages)
            if not alone:
                control("SAVEPOINT job")
            try:
                job.result = job.function(tx)
                if isinstance(job.result, _LAZY_RESULTS):
                    raise _not_run(job.result)
            except BaseException as error:  # The caller receives it.
                job.error = caller_error(error, path)
                # A failure of the disk may have ended the whole transaction.
                if alone or not connection.in_transaction:
                    raise
                control("ROLLBACK TO job")
                del tx.topics[topics:]
                del tx.messages[messages:]
            if not alone:
                control("RELEASE job")
        control("COMMIT")
    except BaseException as error:  # noqa: BLE001 -- all jobs of the batch receive it
        for job in batch:
            job.error = job.error or unusable(path, error)
        with suppress(sqlite3.Error):  # The failure may have rolled back already.
            control("ROLLBACK")
        return Tx(connection)
    return tx


def _not_run(result: Any) -> TypeError:
    """Return the error for a result that still has to be awaited or iterated."""
    if not isinstance(result, AsyncGeneratorType):
        result.close()
    return not_plain(result.__name__)


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
    connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_AUTOCHECKPOINT_PAGES}")
    return connection


def _open_for_reading(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        read_only(path), uri=True, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None
    )


def _as_dict(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> Row:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}
