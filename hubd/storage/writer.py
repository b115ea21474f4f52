"""The one writer of a database: many transactions, few commits.

A transaction is a plain function `f(tx)`. All transactions that wait share one commit. They run in
the event loop's thread, a few milliseconds at a time, because in another thread each statement
would wait for the interpreter's lock. The commit waits for the disk in the writer's thread, or
in the loop if that has just taken less than a millisecond: the way to the thread and back, and
the waits of both threads for the interpreter's lock, take as long.

If a function fails or takes too long in the loop, its batch is rolled back and runs again in the
writer's thread, each function in a savepoint. So a failing function does not affect the others.
"""

import asyncio
import logging
import math
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from types import CodeType
from typing import Final, TypeVar

from hubd.storage.batch import Batch, Job, Tx
from hubd.storage.errors import code_of
from hubd.storage.log_pages import LogPages
from hubd.storage.readers import STEPS_PER_CHECK

T = TypeVar("T")

log = logging.getLogger(__name__)

# More transactions in one commit would only delay the callers of the first.
MAX_GROUP: Final = 1024
# Seconds that functions run in the event loop before other callbacks get a turn.
TURN_SECONDS: Final = 0.002
# A group of transactions is committed when a turn of the loop has added none, or after this time.
# Commits that are fewer and larger take less processor time.
GROWTH_SECONDS: Final = 0.002
# A function that runs for longer in the loop is interrupted.
MAX_SECONDS_IN_LOOP: Final = 0.005
# A function that took too long runs in the thread this many times before it is tried again.
RUNS_IN_THREAD: Final = 100
# Larger than SQLite's 1,000: fewer checkpoints while many chats are written.
AUTOCHECKPOINT_PAGES: Final = 4000

# A commit runs in the loop if recent commits took less than this on average, the last one was not
# long ago, the functions took no longer than this either, and the log is not near a checkpoint:
# in so short a time, functions rarely write as many pages.
FAST_COMMIT_SECONDS: Final = 0.001
RECENT_SECONDS: Final = 1.0
PAGES_BEFORE_CHECKPOINT: Final = 500
# The weight of the last commit in the average.
LAST_WEIGHT: Final = 0.25

# Other processes (`hubd check`, `hubd backup`) lock the file only for moments.
BUSY_TIMEOUT_SECONDS: Final = 5.0
BUSY_RETRY_SECONDS: Final = 0.01


class Writer:
    """Runs and commits transactions.

    Args:
        connection: The connection that writes. No other code uses it.
        path: The database file, for error messages.
        is_lost: Returns the error if the file is not at its path any more; called in the event
            loop after each commit.
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
        self._waiting: deque[Job] = deque()
        # The transactions that have run in the loop and are not committed.
        self._batch = Batch(connection)
        # Whether `_run_turn` is going to be called.
        self._is_scheduled = False
        # Whether the thread uses the connection. The loop must not use it then.
        self._is_in_thread = False
        # The time at which the running function is interrupted, and whether that happened.
        self._run_until = math.inf
        self._is_interrupted = False
        # The average time of recent commits, and the time of the last one.
        self._commit_seconds = math.inf
        self._committed_at = -math.inf
        # None until the first commit, which creates the log.
        self._log_pages: LogPages | None = None
        # The end of the last function in the loop.
        self._now = 0.0
        # Functions that took too long in the loop, with their remaining runs in the thread.
        self._long: dict[CodeType, int] = {}
        # Set when the last transaction is answered, if `close` waits for that.
        self._drained: asyncio.Future[None] | None = None
        connection.set_progress_handler(self._takes_too_long, STEPS_PER_CHECK)
        # Batches for the thread; None ends it.
        self._batches: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="hubd-writer", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[Tx], T], *, in_thread: bool) -> "asyncio.Future[T]":
        """Run a transaction: see `Database.transaction`."""
        # A coroutine around the future, or the loop's own function for it, would take longer.
        future: asyncio.Future[T] = asyncio.Future(loop=self._loop)
        self._waiting.append(Job(function, future, in_thread=in_thread))
        self._schedule()
        return future

    async def close(self) -> None:
        """Finish the submitted transactions, then close the connection."""
        if self._waiting or self._batch.jobs or self._is_in_thread:
            self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)
        self._batches.put(None)
        await self._loop.run_in_executor(None, self._thread.join)
        if self._log_pages is not None:
            self._log_pages.close()

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._is_in_thread:
            self._is_scheduled = True
            # All transactions that are submitted until then share the commit.
            self._loop.call_soon(self._run_turn)

    def _run_turn(self) -> None:
        """Run waiting transactions for a moment. Commit when the group is complete."""
        self._is_scheduled = False
        batch, waiting = self._batch, self._waiting
        self._now = perf_counter()
        turn_ends = self._now + TURN_SECONDS
        while waiting and len(batch.jobs) < MAX_GROUP:
            job = waiting[0]
            if job.in_thread or (self._long and self._is_still_long(job)):
                break
            waiting.popleft()
            batch.jobs.append(job)
            if not self._run_in_loop(job):
                self._roll_back()
                self._pass_to_thread()
                return
            if waiting and self._now > turn_ends:
                self._schedule()
                return
        if not batch.jobs:
            # The next one takes long. All others that wait share its commit.
            while waiting and len(batch.jobs) < MAX_GROUP:
                batch.jobs.append(waiting.popleft())
            self._pass_to_thread()
            return
        if self._is_growing():
            self._schedule()
            return
        batch.has_run = True
        if self._commits_fast():
            self._batch = Batch(self._connection)
            self._commit(batch)
            self._finish(batch)
        else:
            self._pass_to_thread()

    def _is_growing(self) -> bool:
        """Return whether this turn has added to the group, so the next one may do so too."""
        batch = self._batch
        size, batch.size_before = batch.size_before, len(batch.jobs)
        if size == 0:
            batch.began = self._now
        # A single transaction does not wait, because mostly no other one comes.
        return 1 < len(batch.jobs) > size and self._now - batch.began < GROWTH_SECONDS

    def _commits_fast(self) -> bool:
        """Return whether the commit of the batch would not hold up the event loop."""
        return (
            not self._waiting
            and self._commit_seconds < FAST_COMMIT_SECONDS
            and self._batch.run_seconds < FAST_COMMIT_SECONDS
            and perf_counter() - self._committed_at < RECENT_SECONDS
            and self._log_pages is not None
            and self._log_pages.count() < AUTOCHECKPOINT_PAGES - PAGES_BEFORE_CHECKPOINT
        )

    def _is_still_long(self, job: Job) -> bool:
        """Return whether the function took too long in the loop, in its last runs there."""
        if job.code is None or job.code not in self._long:
            return False
        # After some runs in the thread, the function gets another chance.
        runs = self._long[job.code] - 1
        if runs:
            self._long[job.code] = runs
        else:
            del self._long[job.code]
        return True

    def _run_in_loop(self, job: Job) -> bool:
        """Run a transaction in the event loop; return False if the batch must leave the loop."""
        self._is_interrupted = False
        began = self._now
        self._run_until = began + MAX_SECONDS_IN_LOOP
        try:
            self._batch.run(job, self._begin)
        except BaseException:  # noqa: BLE001 -- the thread runs it again, and reports the error
            return False
        finally:
            self._run_until = math.inf
            self._now = perf_counter()
            seconds = self._now - began
            self._batch.run_seconds += seconds
            if seconds > MAX_SECONDS_IN_LOOP and job.code is not None:
                self._long[job.code] = RUNS_IN_THREAD
        return not self._is_interrupted

    def _begin(self) -> None:
        self._control("BEGIN IMMEDIATE")

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._control("ROLLBACK")
        self._batch.is_open = False

    def _pass_to_thread(self) -> None:
        """Let the thread commit the batch; it runs the batch first if necessary."""
        batch, self._batch = self._batch, Batch(self._connection)
        self._is_in_thread = True
        self._batches.put(batch)

    def _takes_too_long(self) -> bool:
        """Return whether to interrupt the statement. SQLite calls it every few thousand steps."""
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

    def _commit(self, batch: Batch) -> None:
        """Run the batch if the loop has not, and commit it. Each job gets its result or error."""
        try:
            if not batch.has_run:
                batch.forget()
                for job in batch.jobs:
                    begin = self._begin_patiently
                    batch.run_in_savepoint(job, self._control, begin, self._path)
            if batch.is_open:
                began = perf_counter()
                # Releases the interpreter's lock once; a cursor would for each step.
                self._connection.commit()
                self._note_commit(began)
        except BaseException as error:  # noqa: BLE001 -- all jobs of the batch receive it
            batch.fail(error, self._path)
            with suppress(sqlite3.Error):  # The failure may have rolled back already.
                self._control("ROLLBACK")
        self.commits += 1

    def _note_commit(self, began: float) -> None:
        if self._log_pages is None:
            with suppress(OSError):  # Another program removed the file; commits stay in the thread.
                self._log_pages = LogPages(self._path)
        self._committed_at = perf_counter()
        seconds = self._committed_at - began
        if self._commit_seconds < math.inf:
            seconds = LAST_WEIGHT * seconds + (1 - LAST_WEIGHT) * self._commit_seconds
        self._commit_seconds = seconds

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

    def _finish(self, batch: Batch) -> None:
        """Wake the callers, and the readers that wait for their topics, in one turn of the loop."""
        self._is_in_thread = False
        if (problem := self._is_lost()) is not None:
            # The commit went to a file without a name, so it is not durable.
            batch.fail(problem, self._path)
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
