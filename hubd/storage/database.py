"""One SQLite file, one writer thread with group commit, readers that never wait for it.

A transaction is a plain function `f(tx)`. The writer takes all that wait, runs each in a
savepoint of its own, commits once with full durability and then answers all of them: a call
that returned is on disk. Knows nothing of what the tables mean.
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
from hubd.storage.errors import caller_error, closed_error, code_of, not_plain, unusable
from hubd.storage.identity import Identity, lost, mark_created, refuse_emptied
from hubd.storage.must_await import must_await
from hubd.storage.readers import STEPS_PER_LOOK, LongReads, Value, read_only
from hubd.storage.tables import HUB_MIGRATIONS
from hubd.storage.waiters import Waiters

T = TypeVar("T")
Row = dict[str, Any]

log = logging.getLogger("hubd.storage")

# More than this many transactions in one commit would only delay the answers to the first.
MAX_GROUP: Final = 1024
# Larger than SQLite's 1,000: fewer checkpoints while many chats are written.
WAL_AUTOCHECKPOINT_PAGES: Final = 4000
# A read that takes longer leaves the event loop's thread and starts over in a reader thread.
MAX_SECONDS_IN_LOOP: Final = 0.005
# Rows a reader thread hands over at a time.
PAGE_ROWS: Final = 256
# What a streamed read keeps in memory before it goes to a temporary file.
SPOOL_BYTES: Final = 1024 * 1024
# Another process (hubd check, hubd backup) holds the file only for moments.
BUSY_TIMEOUT_SECONDS: Final = 5.0
# Functions that only run when they are awaited or iterated, and what they return.
_LAZY_FLAGS: Final = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
_LAZY_RESULTS: Final = (CoroutineType, GeneratorType, AsyncGeneratorType)


class Tx:
    """A running transaction. Only valid inside the function it was given to."""

    __slots__ = ("raw", "topics")

    def __init__(self, connection: sqlite3.Connection) -> None:
        # For storage modules that count microseconds; they must not begin, commit or roll back.
        self.raw = connection
        # Who waits for one of these is woken once it is on disk.
        self.topics: list[Hashable] = []

    def execute(self, sql: str, *params: Value) -> sqlite3.Cursor:
        """Run one statement; the cursor has `rowcount` and `lastrowid`."""
        return self.raw.execute(sql, params)

    def fetch_one(self, sql: str, *params: Value) -> Row | None:
        """The first row, if any."""
        cursor = self.raw.execute(sql, params)
        row = cursor.fetchone()
        return None if row is None else _as_dict(cursor, row)

    def fetch_all(self, sql: str, *params: Value) -> list[Row]:
        """All rows."""
        cursor = self.raw.execute(sql, params)
        return [_as_dict(cursor, row) for row in cursor]


class Database:
    """The hub's database. An async context manager; not reusable once closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # The event loop in which it is used; known once it is open.
        self._loop: asyncio.AbstractEventLoop | None = None
        # The writer's connection; touched by its thread only, after opening.
        self._writer: sqlite3.Connection | None = None
        # Short reads in the event loop's thread.
        self._reader: sqlite3.Connection | None = None
        # Batches on their way to the writer; None tells it to end.
        self._batches: queue.SimpleQueue[list[_Job] | None] = queue.SimpleQueue()
        # Jobs submitted since the loop last ran; one batch as soon as it runs again.
        self._waiting: list[_Job] = []
        # When the read that is running in the loop's thread is given up there.
        self._read_until = 0.0
        # Everything that takes longer than that.
        self._long_reads = LongReads(path)
        # Set once, by close(): nothing is accepted after it.
        self._closed = False
        # Those who wait for something to be written.
        self.waiters = Waiters()
        # How many commits the writer made; read by benchmarks and tests.
        self.commits = 0
        # The files that are open; None until they have their tables.
        self.identity: Identity | None = None
        self._thread = threading.Thread(target=self._write_loop, name="hubd-writer", daemon=True)

    async def __aenter__(self) -> Self:
        """Open the file and bring the hub's own tables up to date.

        Raises:
            DatabaseUnusable: It is corrupt, not ours, or cannot be written.
            DatabaseNewer: A newer hubd wrote it; it was left untouched.
        """
        refuse_emptied(self.path)
        try:
            self._writer = _open_for_writing(self.path)
            self._reader = _open_for_reading(self.path)
            self._reader.set_progress_handler(self._takes_too_long, STEPS_PER_LOOK)
        except (sqlite3.Error, OSError) as error:
            if self._writer is not None:
                self._writer.close()
            raise unusable(self.path, error) from error
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        try:
            await self.migrate(migrations.HUB, HUB_MIGRATIONS)
            mark_created(self.path)
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
        """Finish what was submitted, then close. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._flush()
        await self._long_reads.close()
        assert self._reader is not None
        self._reader.close()
        # The writer last: closing the last connection tidies the WAL away.
        self._batches.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)
        if self.identity is not None and self.identity.is_lost():
            self.identity.set_log_aside()

    async def migrate(self, owner: str, steps: Sequence[str]) -> None:
        """Bring one owner's tables up to date, one transaction for each migration.

        Raises:
            DatabaseNewer: The database holds more of the owner's migrations than `steps`.
            DatabaseUnusable: An applied migration was edited, or one of them fails or uses
                tables that are not the owner's.
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
        """Run `function(tx)` in the writer thread, once. Done when it is on disk.

        What the function raises is raised where it is awaited, and nothing it did remains.
        Cancelling the caller does not undo the transaction.

        Raises:
            DatabaseUnusable: The disk is full or the file is damaged; nothing was written.
            TypeError: The function is async or a generator.
        """
        code = getattr(function, "__code__", None)
        if code is not None and code.co_flags & _LAZY_FLAGS:
            raise not_plain(code.co_name)
        if self._closed:
            raise closed_error()
        assert self._loop is not None, "the database is not open"
        # No coroutine around the future: many small transactions would feel it.
        future: asyncio.Future[T] = self._loop.create_future()
        if not self._waiting:
            # All that is submitted until the loop comes round again shares one commit.
            self._loop.call_soon(self._flush)
        self._waiting.append(_Job(function, future))
        return future

    @must_await
    async def execute(self, sql: str, *params: Value) -> int:
        """Run one statement as a transaction; returns the number of rows changed."""
        return await self.transaction(lambda tx: tx.execute(sql, *params).rowcount)

    @must_await
    async def fetch_one(self, sql: str, *params: Value) -> Row | None:
        """The first row, if any. Sees everything that was acknowledged."""
        columns, rows = await self._fetch(sql, params, one=True)
        return dict(zip(columns, rows[0], strict=True)) if rows else None

    @must_await
    async def fetch_all(self, sql: str, *params: Value) -> list[Row]:
        """All rows, at once: for results that are known to be small."""
        columns, rows = await self._fetch(sql, params, one=False)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    @must_await
    async def fetch_rows(self, sql: str, *params: Value) -> list[tuple[Any, ...]]:
        """As `fetch_all`, each row a tuple: for storage modules, which read by the thousand."""
        return (await self._fetch(sql, params, one=False))[1]

    async def iterate(self, sql: str, *params: Value) -> AsyncGenerator[Row, None]:
        """Stream the rows of one consistent read, however long, with bounded memory.

        The rows are spooled first, so no snapshot of the database is held while the consumer
        takes its time.
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
        """The names of the columns, and the rows."""
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
        # Too long for the event loop's thread.
        async with self._long_reads.read(sql, params) as found:
            slow = await found.fetchmany(1) if one else await found.fetchall()
            return [column[0] for column in found.description], list(map(tuple, slow))

    def _takes_too_long(self) -> bool:
        return time.monotonic() > self._read_until

    def _flush(self) -> None:
        if self._waiting:
            self._batches.put(self._waiting)
            self._waiting = []

    def _write_loop(self) -> None:
        """The writer thread: whatever waits becomes one commit."""
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
            topics = _commit(self._writer, batch, self.path)
            self.commits += 1
            if self.identity is not None and self.identity.is_lost():
                # Committed to a file that has no name any more: not durable.
                topics = []
                for job in batch:
                    job.error = job.error or lost(self.path)
            try:
                self._loop.call_soon_threadsafe(self._fulfil, batch, topics)
            except RuntimeError:
                # The loop is closed and nobody waits any more; the data is on disk all the same.
                log.debug("the callers of %d transactions are gone", len(batch))
        self._writer.close()

    def _fulfil(self, jobs: list["_Job"], topics: list[Hashable]) -> None:
        """Wake the callers, and who waits for what they wrote, all in one turn of the loop."""
        for job in jobs:
            if job.future.done():  # the caller was cancelled; the transaction stands
                continue
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)
        for topic in dict.fromkeys(topics):
            self.waiters.wake(topic)


class _Job:
    """One transaction on its way through the writer."""

    __slots__ = ("error", "function", "future", "result")

    def __init__(self, function: Callable[[Tx], Any], future: asyncio.Future[Any]) -> None:
        self.function = function
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None


def _commit(connection: sqlite3.Connection, batch: list[_Job], path: Path) -> list[Hashable]:
    """Run every job and commit once. Never raises: each job gets its result or its error.

    Returns:
        What was written, for those who wait for it.
    """
    tx = Tx(connection)
    # One cursor for the savepoints: making two for each job would show in the rate.
    control = connection.cursor().execute
    # A job that shares its commit with nobody needs no savepoint: the transaction is its own.
    alone = len(batch) == 1
    try:
        control("BEGIN IMMEDIATE")
        for job in batch:
            written = len(tx.topics)
            if not alone:
                control("SAVEPOINT job")
            try:
                job.result = job.function(tx)
                if isinstance(job.result, _LAZY_RESULTS):
                    raise _not_run(job.result)
            except BaseException as error:  # it belongs to the caller, not to us
                job.error = caller_error(error, path)
                # A failure of the disk may already have ended the whole transaction.
                if alone or not connection.in_transaction:
                    raise
                control("ROLLBACK TO job")
                del tx.topics[written:]
            if not alone:
                control("RELEASE job")
        control("COMMIT")
    except BaseException as error:  # noqa: BLE001 -- the whole group failed; all must hear of it
        for job in batch:
            job.error = job.error or unusable(path, error)
        with suppress(sqlite3.Error):  # the failure may have rolled back already
            control("ROLLBACK")
        return []
    return tx.topics


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
    if not path.is_symlink():  # the target of a link is not ours to change
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
