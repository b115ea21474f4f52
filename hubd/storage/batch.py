"""Transactions that share a commit."""

import asyncio
import inspect
import sqlite3
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from types import AsyncGeneratorType, CodeType, CoroutineType, GeneratorType
from typing import Any, Final

from hubd.storage.errors import caller_error, ended_error, not_plain, unusable
from hubd.storage.readers import Value

Row = dict[str, Any]

# Functions that run only when awaited or iterated, and their results.
_LAZY_FLAGS: Final = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
_LAZY_RESULTS: Final = (CoroutineType, GeneratorType, AsyncGeneratorType)


class Tx:
    """A running transaction. Valid only inside the function that received it."""

    __slots__ = ("cursor", "messages", "news", "raw", "topics")

    def __init__(self, connection: sqlite3.Connection) -> None:
        # For storage modules that need the speed. They must not begin, commit or roll back.
        self.raw = connection
        # For statements without rows, or whose rows are read at once. It saves a cursor for each.
        self.cursor = connection.cursor()
        # The topics to wake once the transaction is on disk.
        self.topics: list[Hashable] = []
        # The rows that were added to a topic. Its listener gets them without reading them again.
        self.news: list[tuple[Hashable, Sequence[Any]]] = []
        # Lines for the log, written once the transaction is on disk.
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


class Job:
    """One submitted transaction."""

    __slots__ = ("code", "error", "function", "future", "in_thread", "result")

    def __init__(
        self, function: Callable[[Tx], Any], future: asyncio.Future[Any], *, in_thread: bool
    ) -> None:
        self.function = function
        self.future = future
        # Tells functions apart; all closures of one `def` have the same.
        self.code: CodeType | None = getattr(function, "__code__", None)
        if self.code is not None and self.code.co_flags & _LAZY_FLAGS:
            raise not_plain(self.code.co_name)
        self.in_thread = in_thread
        self.result: Any = None
        self.error: BaseException | None = None


class Batch:
    """Transactions that share a commit."""

    __slots__ = ("began", "has_run", "is_open", "jobs", "run_seconds", "size_before", "tx")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.jobs: list[Job] = []
        self.tx = Tx(connection)
        # The end of its first turn in the loop, and the number of jobs at the end of the last one.
        self.began = 0.0
        self.size_before = 0
        # The time that its functions took in the loop.
        self.run_seconds = 0.0
        # Whether SQLite's transaction has begun.
        self.is_open = False
        # Whether each job has its result or error, and only the commit is missing.
        self.has_run = False

    def run(self, job: Job, begin: Callable[[], None]) -> None:
        """Run one transaction. If its function fails, the whole batch must be rolled back.

        Raises:
            BaseException: SQLite's transaction can't begin, the function failed, or it hid an
                error that ended SQLite's transaction.
        """
        if not self.is_open:
            begin()
            self.is_open = True
        job.result = job.function(self.tx)
        if isinstance(job.result, _LAZY_RESULTS):
            raise _not_run(job.result)
        if not self.tx.raw.in_transaction:
            # The changes of all jobs are lost, and `Connection.commit` would not notice.
            raise ended_error()

    def run_in_savepoint(
        self, job: Job, control: Callable[[str], Any], begin: Callable[[], None], path: Path
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
            self.run(job, begin)
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
        """Drop the results of an interrupted run, before the jobs run again."""
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
