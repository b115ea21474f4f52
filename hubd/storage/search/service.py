"""The search of a running hub: a task that indexes after commits, and queries."""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar

from hubd.errors import HubError
from hubd.storage.database import COMMITTED, Database
from hubd.storage.errors import code_of
from hubd.storage.search import changes, index, indexing, searching
from hubd.storage.search.index import Index
from hubd.storage.search.indexing import Sources
from hubd.storage.search.searching import Filters, Outcome
from hubd.storage.search.source import Reader

log = logging.getLogger(__name__)

T = TypeVar("T")

# Seconds after a commit until its rows are indexed, together with those of later commits.
GATHER_SECONDS: Final = 0.25
# While others write, indexing rests this many times as long as it works. It then costs the writers
# about 2 % of their time, and the slowest case is 180 texts in a second.
REST: Final = 39.0
MAX_REST_SECONDS: Final = 15.0
# Seconds until indexing is tried again after an error, such as a full disk.
RETRY_SECONDS: Final = 30.0
# Searches at a time; others wait.
SEARCHES: Final = 2
# Seconds that a search waits for rows that are not indexed yet.
PATIENCE_SECONDS: Final = 1.0
# Seconds between two checks for deleted documents.
SWEEP_SECONDS: Final = 24 * 3600.0
# Larger than every key.
LAST_KEY: Final = 2**63 - 1
# Removed documents that the index may have before it is built again.
MAX_REMOVED: Final = 10_000


class Status(NamedTuple):
    """The state of the index."""

    # Documents in the index.
    indexed: int
    # Rows that are not indexed yet.
    waiting: int
    # False if SQLite has no FTS5.
    full_text: bool


class _Files(NamedTuple):
    search_index: Index
    reader: Reader


class Search:
    """The index of a hub. An async context manager that can be entered once."""

    def __init__(self, db: Database, sources: Callable[[], Sources]) -> None:
        self._db = db
        # Returns the sources of the plugins at present, by their names.
        self._sources = sources
        self.path: Path = index.index_path(db.path)
        # The open index and database; None before the first round and after an error.
        self._files: _Files | None = None
        self._slots = asyncio.Semaphore(SEARCHES)
        # Set to start indexing without the wait for more commits.
        self._urgent = asyncio.Event()
        # The number of callers of `caught_up`.
        self._hurried = 0
        # The callers that wait for the next round of indexing.
        self._waiting: list[asyncio.Future[None]] = []
        # The number of commits when the last complete round began.
        self._indexed_commits = -1
        # Rows of documents that a search did not find any more.
        self._gone: list[tuple[str, int]] = []
        self._swept_at = -SWEEP_SECONDS
        self.status = Status(0, 0, full_text=True)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start indexing."""
        self._task = asyncio.create_task(self._run(), name="search index")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop indexing after the current step."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        self._close()

    async def query(
        self,
        terms: list[str],
        filters: Filters,
        limit: int,
        sees: Callable[[str], bool] = lambda source: True,
    ) -> tuple[Outcome, int]:
        """Return the documents with all terms, and the number of rows that are not indexed yet.

        Waits a moment for such rows.

        Args:
            terms: The terms, as `terms_of` returns them.
            filters: The documents to search.
            limit: Maximum number of hits.
            sees: Returns whether the caller may see the documents of a source.
        """
        waiting = 0
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self.caught_up()
        except TimeoutError:
            waiting = max(self.status.waiting, 1)
        async with self._slots:
            outcome = await asyncio.to_thread(
                searching.search,
                self.path,
                self._db.path,
                {name: source for name, source in self._sources().items() if sees(name)},
                terms,
                filters,
                limit,
            )
        self._gone += outcome.gone
        return outcome, waiting

    async def caught_up(self) -> None:
        """Wait until everything that is on disk now is indexed."""
        if self._indexed_commits == self._db.commits and self._is_current():
            return
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._urgent.set()
        self._hurried += 1
        try:
            await done
        finally:
            self._hurried -= 1
            if not self._hurried:
                # A search that waits no longer must not make indexing go on without rests.
                self._urgent.clear()

    async def _run(self) -> None:
        with self._db.waiters.waiting_for(COMMITTED) as committed:
            committed.set()  # The first round needs no commit.
            while True:
                await self._pause(committed)
                committed.clear()
                if not self._hurried:
                    self._urgent.clear()
                commits = self._db.commits
                waiting, self._waiting = self._waiting, []
                try:
                    await self._catch_up()
                except (sqlite3.Error, OSError, HubError) as error:
                    self._waiting += waiting
                    await self._fail(error)
                    continue
                self._indexed_commits = commits
                for done in waiting:
                    if not done.done():
                        done.set_result(None)

    async def _pause(self, committed: asyncio.Event) -> None:
        """Wait for a commit and for those that follow it soon, or for a search."""
        waits = [asyncio.ensure_future(each.wait()) for each in (committed, self._urgent)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        await self._rest(GATHER_SECONDS)

    async def _catch_up(self) -> None:
        """Index everything that is on disk."""
        sources = self._sources()
        at = await self._in_thread(self._open)
        gone, self._gone = self._gone, []
        if gone:
            await self._in_thread(lambda: _discard(at.search_index, gone))
        while batch := await changes.waiting(self._db):
            await self._in_thread(partial(indexing.apply_changes, *at, sources, batch))
            await self._db.transaction(partial(changes.forget, last=batch[-1].number))
        await self._in_thread(lambda: indexing.finish(*at, sources))
        while await self._in_thread(lambda: indexing.step(*at, sources)):
            await self._in_thread(lambda: self._count(at, sources))
        await self._sweep(at, sources)
        await self._in_thread(lambda: self._count(at, sources))

    async def _sweep(self, at: _Files, sources: Sources) -> None:
        """Remove the documents of deleted rows, and build the index again if many were removed."""
        if time.monotonic() - self._swept_at < SWEEP_SECONDS:
            return
        for name, source in sources.items():
            before: int | None = LAST_KEY
            while before is not None:
                before = await self._in_thread(partial(indexing.sweep, *at, name, source, before))
        self._swept_at = time.monotonic()
        if at.search_index.removed > max(MAX_REMOVED, at.search_index.documents):
            log.info("building the search index again without its removed documents")
            index.remove(self.path)
            self._urgent.set()

    async def _in_thread(self, function: Callable[[], T]) -> T:
        """Run a step in a thread, then rest, so that writers of the database are not slowed down.

        A cancelled task waits for the step, because the step uses the connections.
        """
        commits, start = self._db.commits, time.monotonic()
        step = asyncio.ensure_future(asyncio.to_thread(function))
        try:
            result = await asyncio.shield(step)
        except asyncio.CancelledError:
            await asyncio.wait([step])
            raise
        if self._db.commits != commits:
            await self._rest(min((time.monotonic() - start) * REST, MAX_REST_SECONDS))
        return result

    async def _rest(self, seconds: float) -> None:
        """Wait, but not if a search needs the index."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._urgent.wait()

    def _open(self) -> _Files:
        """Return the open files. If the index was removed, a new one is built."""
        if self._files is not None and not self._is_current():
            self._close()
        if self._files is None:
            self._files = _Files(Index(self.path), Reader(self._db.path))
            self._swept_at = -SWEEP_SECONDS
        return self._files

    def _is_current(self) -> bool:
        return self._files is not None and self._files.search_index.is_current()

    def _count(self, at: _Files, sources: Sources) -> None:
        waiting = indexing.rows_waiting(*at, sources)
        self.status = Status(at.search_index.documents, waiting, at.search_index.full_text)

    def _close(self) -> None:
        for opened in self._files or ():
            opened.close()
        self._files = None

    async def _fail(self, error: Exception) -> None:
        """Log an error of the index, and try again later. A damaged index is built again."""
        log.warning("the search index is behind: %s", error)
        self._close()
        if code_of(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            index.remove(self.path)
        await asyncio.sleep(RETRY_SECONDS)
        self._urgent.set()


def _discard(search_index: Index, gone: list[tuple[str, int]]) -> None:
    with search_index.writing():
        for source, key in gone:
            search_index.discard(source, [key])
