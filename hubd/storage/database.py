"""One SQLite file, one writer thread with group commit, readers that never wait for it.

A transaction is a plain function `f(tx)`. The writer takes all that wait, runs each in a
savepoint of its own, commits once with full durability and then answers all of them: a call
that returned is on disk. Knows nothing of what the tables mean.
"""

import asyncio
import logging
import marshal
import queue
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from hubd.errors import DatabaseUnusable, HubError, Internal
from hubd.storage import migrations

if TYPE_CHECKING:  # imported when the first long read needs it; it costs start-up time
    import aiosqlite

T = TypeVar("T")
Row = dict[str, Any]
Value = str | int | float | bytes | None

log = logging.getLogger("hubd.storage")

# More than this many transactions in one commit would only delay the answers to the first.
MAX_GROUP: Final = 1024
# Larger than SQLite's 1,000: fewer checkpoints while many chats are written.
WAL_AUTOCHECKPOINT_PAGES: Final = 4000
# A read that takes longer leaves the event loop's thread and starts over in a reader thread.
MAX_SECONDS_IN_LOOP: Final = 0.005
# How often a read looks at the clock, in steps of SQLite's virtual machine.
STEPS_PER_LOOK: Final = 5_000
# Concurrent long reads; more wait their turn.
READERS: Final = 2
# Rows a reader thread hands over at a time.
PAGE_ROWS: Final = 256
# What a streamed read keeps in memory before it goes to a temporary file.
SPOOL_BYTES: Final = 1024 * 1024
# Another process (hubd check, hubd backup) holds the file only for moments.
BUSY_TIMEOUT_SECONDS: Final = 5.0


class Tx:
    """A running transaction. Only valid inside the function it was given to."""

    __slots__ = ("raw",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        # For storage modules that count microseconds; they must not begin, commit or roll back.
        self.raw = connection

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
        # Connections for long reads: waiting for the next one, at work, and being closed.
        self._idle_readers: list[_Reader] = []
        self._busy_readers: set[_Reader] = set()
        self._retiring: set[asyncio.Future[None]] = set()
        self._reader_slots = asyncio.Semaphore(READERS)
        # Set once, by close(): nothing is accepted after it.
        self._closed = False
        # How many commits the writer made; read by benchmarks and tests.
        self.commits = 0
        self._thread = threading.Thread(target=self._write_loop, name="hubd-writer", daemon=True)

    async def __aenter__(self) -> Self:
        """Open the file and bring the hub's own tables up to date.

        Raises:
            DatabaseUnusable: It is corrupt, not ours, or cannot be written.
            DatabaseNewer: A newer hubd wrote it; it was left untouched.
        """
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
            await self.migrate(migrations.HUB, migrations.HUB_MIGRATIONS)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
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
        for busy in self._busy_readers:
            busy.abandoned = True
        for _ in range(READERS):
            await self._reader_slots.acquire()
        for _ in range(READERS):  # who still waits for one finds the database closed
            self._reader_slots.release()
        await asyncio.gather(*self._retiring, *(reader.close() for reader in self._idle_readers))
        assert self._reader is not None
        self._reader.close()
        # The writer last: closing the last connection tidies the WAL away.
        self._batches.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    async def migrate(self, owner: str, steps: Sequence[str], prefix: str = "") -> None:
        """Bring one owner's tables up to date, one transaction for each migration.

        Raises:
            DatabaseNewer: The database holds more of the owner's migrations than `steps`.
            DatabaseUnusable: An applied migration was edited, or one of them fails.
        """
        if not steps:
            return
        numbers = await self.transaction(lambda tx: migrations.missing(tx.raw, owner, steps))
        for number in numbers:
            step = steps[number - 1]
            await self.transaction(
                lambda tx, number=number, step=step: migrations.apply(  # type: ignore[misc]
                    tx.raw, owner, number, step, prefix
                )
            )

    async def transaction(self, function: Callable[[Tx], T]) -> T:
        """Run `function(tx)` in the writer thread, once, and return when it is on disk.

        What the function raises is raised here, and nothing it did remains. Cancelling the
        caller does not undo the transaction.

        Raises:
            DatabaseUnusable: The disk is full or the file is damaged; nothing was written.
        """
        if self._closed:
            raise _closed_error()
        assert self._loop is not None, "the database is not open"
        job = _Job(function, self._loop.create_future())
        if not self._waiting:
            # All that is submitted until the loop comes round again shares one commit.
            self._loop.call_soon(self._flush)
        self._waiting.append(job)
        result: T = await job.future
        return result

    async def execute(self, sql: str, *params: Value) -> int:
        """Run one statement as a transaction; returns the number of rows changed."""
        return await self.transaction(lambda tx: tx.execute(sql, *params).rowcount)

    async def fetch_one(self, sql: str, *params: Value) -> Row | None:
        """The first row, if any. Sees everything that was acknowledged."""
        rows = await self._fetch(sql, params, one=True)
        return rows[0] if rows else None

    async def fetch_all(self, sql: str, *params: Value) -> list[Row]:
        """All rows, at once: for results that are known to be small."""
        return await self._fetch(sql, params, one=False)

    async def iterate(self, sql: str, *params: Value) -> AsyncIterator[Row]:
        """Stream the rows of one consistent read, however long, with bounded memory.

        The rows are spooled first, so no snapshot of the database is held while the consumer
        takes its time.
        """
        with SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
            async with self._long_read(sql, params) as cursor:
                columns = [column[0] for column in cursor.description]
                while page := await cursor.fetchmany(PAGE_ROWS):
                    marshal.dump(list(map(tuple, page)), spool)
            end = spool.tell()
            spool.seek(0)
            while spool.tell() < end:
                for row in marshal.load(spool):
                    yield dict(zip(columns, row, strict=True))

    async def _fetch(self, sql: str, params: tuple[Value, ...], *, one: bool) -> list[Row]:
        if self._closed:
            raise _closed_error()
        assert self._reader is not None, "the database is not open"
        self._read_until = time.monotonic() + MAX_SECONDS_IN_LOOP
        try:
            cursor = self._reader.execute(sql, params)
            rows = cursor.fetchmany(1) if one else cursor.fetchall()
            result = [_as_dict(cursor, row) for row in rows]
            cursor.close()
            return result
        except sqlite3.DatabaseError as error:
            if code_of(error) != sqlite3.SQLITE_INTERRUPT:
                raise _caller_error(error, self.path) from error
        # Too long for the event loop's thread.
        async with self._long_read(sql, params) as found:
            slow = await found.fetchmany(1) if one else await found.fetchall()
            columns = [column[0] for column in found.description]
            return [dict(zip(columns, row, strict=True)) for row in slow]

    def _takes_too_long(self) -> bool:
        return time.monotonic() > self._read_until

    @asynccontextmanager
    async def _long_read(
        self, sql: str, params: tuple[Value, ...]
    ) -> AsyncIterator["aiosqlite.Cursor"]:
        """A cursor in a thread of its own. Cancelling ends what the thread is doing."""
        async with self._reader_slots:
            if self._closed:
                raise _closed_error()
            reader = self._idle_readers.pop() if self._idle_readers else _Reader()
            self._busy_readers.add(reader)
            try:
                connection = await reader.open(self.path)
                async with connection.execute(sql, params) as cursor:
                    try:
                        yield cursor
                    except BaseException:
                        # Before the cursor is closed, which has to wait for the thread.
                        reader.abandoned = True
                        raise
            except sqlite3.DatabaseError as error:
                raise (
                    _closed_error() if self._closed else _caller_error(error, self.path)
                ) from error
            except BaseException:
                reader.abandoned = True
                raise
            finally:
                self._busy_readers.remove(reader)
                if reader.abandoned:
                    self._retire(reader)
                else:
                    self._idle_readers.append(reader)

    def _retire(self, reader: "_Reader") -> None:
        """Close a reader whose thread may still be busy for a moment."""
        task = asyncio.ensure_future(reader.close())
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

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
            _commit(self._writer, batch, self.path)
            self.commits += 1
            try:
                self._loop.call_soon_threadsafe(_fulfil, batch)
            except RuntimeError:
                # The loop is closed and nobody waits any more; the data is on disk all the same.
                log.debug("the callers of %d transactions are gone", len(batch))
        self._writer.close()


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

        connection = await aiosqlite.connect(_read_only(path), uri=True)
        await connection.set_progress_handler(lambda: self.abandoned, STEPS_PER_LOOK)
        return connection


class _Job:
    """One transaction on its way through the writer."""

    __slots__ = ("error", "function", "future", "result")

    def __init__(self, function: Callable[[Tx], Any], future: asyncio.Future[Any]) -> None:
        self.function = function
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None


def _commit(connection: sqlite3.Connection, batch: list[_Job], path: Path) -> None:
    """Run every job and commit once. Never raises: each job gets its result or its error."""
    tx = Tx(connection)
    # One cursor for the savepoints: making two for each job would show in the rate.
    control = connection.cursor()
    # A job that shares its commit with nobody needs no savepoint: the transaction is its own.
    alone = len(batch) == 1
    try:
        control.execute("BEGIN IMMEDIATE")
        for job in batch:
            if not alone:
                control.execute("SAVEPOINT job")
            try:
                job.result = job.function(tx)
            except BaseException as error:  # it belongs to the caller, not to us
                job.error = _caller_error(error, path)
                # A failure of the disk may already have ended the whole transaction.
                if alone or not connection.in_transaction:
                    raise
                control.execute("ROLLBACK TO job")
            if not alone:
                control.execute("RELEASE job")
        control.execute("COMMIT")
    except BaseException as error:  # noqa: BLE001 -- the whole group failed; all must hear of it
        for job in batch:
            job.error = job.error or unusable(path, error)
        with suppress(sqlite3.Error):  # the failure may have rolled back already
            control.execute("ROLLBACK")


def _fulfil(jobs: list[_Job]) -> None:
    """Wake the callers, all in one turn of the loop."""
    for job in jobs:
        if job.future.done():  # the caller was cancelled; the transaction stands
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


def _open_for_writing(path: Path) -> sqlite3.Connection:
    migrations.refuse_foreign_or_newer(path)
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
    )
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
        _read_only(path), uri=True, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None
    )


def _read_only(path: Path) -> str:
    return f"{path.absolute().as_uri()}?mode=ro"


def _as_dict(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> Row:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


def _caller_error(error: BaseException, path: Path) -> BaseException:
    """A failing disk is the hub's trouble and is said in its words; the rest is the caller's."""
    if isinstance(error, StopIteration) or not isinstance(error, Exception):
        # A future refuses the one, and the others would end more than the call.
        return Internal(f"a transaction raised {type(error).__name__}")
    if isinstance(error, sqlite3.DatabaseError) and code_of(error) in (
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_READONLY,
    ):
        return unusable(path, error)
    return error


def code_of(error: BaseException) -> int:
    """SQLite's primary error code; 0 for errors of Python's own module, which have none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _closed_error() -> DatabaseUnusable:
    return DatabaseUnusable("the database is closed: the daemon is stopping")


def unusable(path: Path, error: BaseException) -> HubError:
    """Say in one sentence why the database cannot be used."""
    if isinstance(error, HubError):
        return error
    code = code_of(error)
    if code == sqlite3.SQLITE_NOTADB:
        return DatabaseUnusable(f"{path} is not a database")
    if code == sqlite3.SQLITE_CORRUPT:
        return DatabaseUnusable(
            f"{path} is damaged ({error})", suggestion="Restore a backup, or look at: hubd check"
        )
    if code == sqlite3.SQLITE_FULL:
        return DatabaseUnusable(f"the disk is full: {path} cannot grow", suggestion="Free space")
    if code == sqlite3.SQLITE_IOERR:
        return DatabaseUnusable(
            f"{path} cannot be written or read ({error})",
            suggestion="Check the free space and the disk",
        )
    return DatabaseUnusable(f"{path} cannot be used: {error}")
