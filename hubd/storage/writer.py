"""The one writer of a database: many transactions, few commits.

A transaction is a plain function `f(tx)`. All transactions that wait share one commit, and each
has a savepoint, so that a failing function does not affect the others. The functions run in the
event loop's thread, a few milliseconds at a time, because in another thread each statement would
wait for the interpreter's lock. Only the commit waits for the disk, in the writer's own thread.
A function that takes too long in the loop is interrupted and runs again in the writer's thread,
with the batch that it belongs to.
"""

import asyncio
import inspect
import logging
import math
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from types import AsyncGeneratorType, CodeType, CoroutineType, GeneratorType
from typing import Any, Final, TypeVar

from hubd.storage.errors import caller_error, code_of, not_plain, unusable
from hubd.storage.readers import STEPS_PER_CHECK, Value

T = TypeVar("T")
Row = dict[str, Any]

log = logging.getLogger(__name__)

# More transactions in one commit would only delay the callers of the first.
MAX_GROUP: Final = 1024
# Seconds that functions run in the event loop before other callbacks get a turn.
TURN_SECONDS: Final = 0.002
# A function that runs for longer in the loop is interrupted.
MAX_SECONDS_IN_LOOP: Final = 0.005
# A function that took too long runs in the thread this many times before it is tried again.
RUNS_IN_THREAD: Final = 100
# Other processes (`hubd check`, `hubd backup`) lock the file only for moments.
BUSY_TIMEOUT_SECONDS: Final = 5.0
BUSY_RETRY_SECONDS: Final = 0.01

# Functions that run only when awaited or iterated, and their results.
_LAZY_FLAGS: Final = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
_LAZY_RESULTS: Final = (CoroutineType, GeneratorType, AsyncGeneratorType)


class Tx:
    """A running transaction. Valid only inside the function that received it."""

    __slots__ = ("messages", "news", "raw", "topics")

    def __init__(self, connection: sqlite3.Connection) -> None:
        # For storage modules that need the speed. They must not begin, commit or roll back.
        self.raw = connection
        # The topics to wake once the transaction is on disk.
        self.topics: list[Hashable] = []
        # For a mention of a topic, the rows that were added to it. Listeners get them in memory.
        self.news: list[tuple[Hashable, Sequence[Any]]] = []
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


class Writer:
    """Runs and commits transactions.

    Args:
        connection: The connection that writes. No other code uses it.
        path: The database file, for error messages.
        is_lost: Returns the error if the file is not at its path any more; called after each
            commit, in any thread.
        committed: Called in the event loop after each commit, for the topics and the news.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        is_lost: Callable[[], BaseException | None],
        committed: Callable[[Tx], None],
    ) -> None:
        self._connection = connection
        # One cursor for all control statements, because a new one for each would be slower.
        self._control = connection.cursor().execute
        self._path = path
        self._is_lost = is_lost
        self._committed = committed
        self._loop = asyncio.get_running_loop()
        # The number of commits, for benchmarks and tests.
        self.commits = 0
        # Submitted transactions that have not run.
        self._waiting: deque[_Job] = deque()
        # The transactions that have run in the loop and are not committed.
        self._batch = _Batch(connection)
        # Whether `_run_turn` is going to be called.
        self._is_scheduled = False
        # Whether the thread uses the connection. The loop must not use it then.
        self._is_in_thread = False
        # The time at which the running function is interrupted, and whether that happened.
        self._run_until = math.inf
        self._is_interrupted = False
        # Functions that took too long in the loop, with their remaining runs in the thread.
        self._long: dict[CodeType, int] = {}
        # Set when the last transaction is answered, if `close` waits for that.
        self._drained: asyncio.Future[None] | None = None
        connection.set_progress_handler(self._takes_too_long, STEPS_PER_CHECK)
        # Batches for the thread; None ends it.
        self._batches: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="hubd-writer", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[Tx], T], *, in_thread: bool) -> "asyncio.Future[T]":
        """Run a transaction: see `Database.transaction`."""
        code: CodeType | None = getattr(function, "__code__", None)
        if code is not None and code.co_flags & _LAZY_FLAGS:
            raise not_plain(code.co_name)
        # A coroutine around the future would slow down many small transactions.
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting.append(_Job(function, future, code, in_thread))
        self._schedule()
        return future

    async def close(self) -> None:
        """Finish the submitted transactions, then close the connection."""
        if self._waiting or self._batch.jobs or self._is_in_thread:
            self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)
        self._batches.put(None)
        await self._loop.run_in_executor(None, self._thread.join)

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._is_in_thread:
            self._is_scheduled = True
            # All transactions that are submitted until then share the commit.
            self._loop.call_soon(self._run_turn)

    def _run_turn(self) -> None:
        """Run waiting transactions for a moment. Commit when none waits."""
        self._is_scheduled = False
        batch, waiting = self._batch, self._waiting
        turn_ends = perf_counter() + TURN_SECONDS
        while waiting and len(batch.jobs) < MAX_GROUP and not self._is_long(waiting[0]):
            job = waiting.popleft()
            batch.jobs.append(job)
            if not self._run_in_loop(job):
                self._roll_back()
                self._pass_to_thread()
                return
            if waiting and perf_counter() > turn_ends:
                self._schedule()
                return
        if batch.jobs:
            batch.has_run = True
        else:
            # The next one takes long. All others that wait share its commit.
            while waiting and len(batch.jobs) < MAX_GROUP:
                batch.jobs.append(waiting.popleft())
        self._pass_to_thread()

    def _is_long(self, job: "_Job") -> bool:
        if job.in_thread or job.code not in self._long:
            return job.in_thread
        # After some runs in the thread, the function gets another chance.
        runs = self._long[job.code] - 1
        if runs:
            self._long[job.code] = runs
        else:
            del self._long[job.code]
        return True

    def _run_in_loop(self, job: "_Job") -> bool:
        """Run a transaction in the event loop; return False if the batch must leave the loop."""
        self._is_interrupted = False
        self._run_until = perf_counter() + MAX_SECONDS_IN_LOOP
        try:
            self._batch.run(job, self._control, self._begin, self._path)
        except BaseException as error:  # noqa: BLE001 -- the callers receive it
            if self._is_interrupted or code_of(error) == sqlite3.SQLITE_BUSY:
                return False
            # The disk failed, and the changes of the batch are lost.
            self._batch.fail(error, self._path)
            return False
        finally:
            if perf_counter() > self._run_until and job.code is not None:
                self._long[job.code] = RUNS_IN_THREAD
            self._run_until = math.inf
        return not self._is_interrupted

    def _begin(self) -> None:
        self._control("BEGIN IMMEDIATE")

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._control("ROLLBACK")
        self._batch.is_open = False

    def _pass_to_thread(self) -> None:
        """Let the thread commit the batch, and run it before if it has not run as a whole."""
        batch, self._batch = self._batch, _Batch(self._connection)
        self._is_in_thread = True
        self._batches.put(batch)

    def _takes_too_long(self) -> bool:
        """Interrupt the running statement? SQLite asks this every few thousand steps."""
        if perf_counter() <= self._run_until:
            return False
        self._is_interrupted = True
        return True

    def _work(self) -> None:
        """Commit batches, in the writer's thread."""
        while (batch := self._batches.get()) is not None:
            self._commit(batch)
            try:
                self._loop.call_soon_threadsafe(self._finish, batch)
            except RuntimeError:
                # The loop is closed, so no caller waits. The data is on disk nevertheless.
                log.debug("the event loop closed before %d transactions returned", len(batch.jobs))
        self._connection.close()

    def _commit(self, batch: "_Batch") -> None:
        """Run the batch if the loop has not, and commit it. Each job gets its result or error."""
        try:
            if not batch.has_run:
                batch.forget()
                for job in batch.jobs:
                    batch.run(job, self._control, self._begin_patiently, self._path)
            if batch.is_open:
                self._control("COMMIT")
        except BaseException as error:  # noqa: BLE001 -- all jobs of the batch receive it
            batch.fail(error, self._path)
            with suppress(sqlite3.Error):  # The failure may have rolled back already.
                self._control("ROLLBACK")
        self.commits += 1
        if (problem := self._is_lost()) is not None:
            # The commit went to a file without a name, so it is not durable.
            batch.fail(problem, self._path)

    def _begin_patiently(self) -> None:
        """Begin a transaction; wait for other processes that write."""
        deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
        while True:
            try:
                return self._begin()
            except sqlite3.OperationalError as error:
                if code_of(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(BUSY_RETRY_SECONDS)

    def _finish(self, batch: "_Batch") -> None:
        """Wake the callers, and the readers that wait for their topics, in one turn of the loop."""
        self._is_in_thread = False
        for message in batch.tx.messages:
            log.info(message)
        for job in batch.jobs:
            if job.future.done():  # The caller was cancelled. The transaction stays.
                continue
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)
        self._committed(batch.tx)
        if self._waiting:
            self._schedule()
        elif self._drained is not None and not self._drained.done():
            self._drained.set_result(None)


class _Job:
    """One submitted transaction."""

    __slots__ = ("code", "error", "function", "future", "in_thread", "result")

    def __init__(
        self,
        function: Callable[[Tx], Any],
        future: asyncio.Future[Any],
        code: CodeType | None,
        in_thread: bool,
    ) -> None:
        self.function = function
        self.future = future
        # Tells functions apart; all closures of one `def` have the same.
        self.code = code
        self.in_thread = in_thread
        self.result: Any = None
        self.error: BaseException | None = None


class _Batch:
    """Transactions that share a commit."""

    __slots__ = ("has_run", "is_open", "jobs", "tx")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.jobs: list[_Job] = []
        self.tx = Tx(connection)
        # Whether SQLite's transaction has begun.
        self.is_open = False
        # Whether each job has its result or error, and only the commit is missing.
        self.has_run = False

    def run(
        self, job: _Job, control: Callable[[str], Any], begin: Callable[[], None], path: Path
    ) -> None:
        """Run one transaction. If its function fails, only its own changes are rolled back.

        Raises:
            BaseException: SQLite's transaction can't begin, or a failure of the disk ended it.
        """
        tx = self.tx
        topics, news, messages = len(tx.topics), len(tx.news), len(tx.messages)
        # The first job needs no savepoint, because no other has changed anything yet.
        is_first = not self.is_open
        if is_first:
            begin()
            self.is_open = True
        else:
            control("SAVEPOINT job")
        try:
            job.result = job.function(tx)
            if isinstance(job.result, _LAZY_RESULTS):
                raise _not_run(job.result)
        except BaseException as error:  # The caller receives it.
            job.error = caller_error(error, path)
            # A failure of the disk may have ended the whole transaction.
            if not tx.raw.in_transaction:
                raise
            control("ROLLBACK" if is_first else "ROLLBACK TO job")
            self.is_open = not is_first
            del tx.topics[topics:]
            del tx.news[news:]
            del tx.messages[messages:]
        if not is_first:
            control("RELEASE job")

    def forget(self) -> None:
        """Forget an interrupted run, before the jobs run again."""
        self.tx = Tx(self.tx.raw)
        self.is_open = False
        for job in self.jobs:
            job.result = job.error = None

    def fail(self, error: BaseException, path: Path) -> None:
        """Give every job an error, because nothing of the batch is on disk."""
        for job in self.jobs:
            job.error = job.error or unusable(path, error)
        self.tx = Tx(self.tx.raw)
        self.is_open = False
        self.has_run = True


def _not_run(result: Any) -> TypeError:
    """Return the error for a result that still has to be awaited or iterated."""
    if not isinstance(result, AsyncGeneratorType):
        result.close()
    return not_plain(result.__name__)


def _as_dict(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> Row:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}
