"""The search: time of indexing, latency of hits, and the cost of indexing for durable pushes.

`python -m tests.bench.search [EVENTS [FOLDER]]`; 50,000 events unless told otherwise. Each event is
a stored message, tool call or tool result. The database is kept in the folder, and used again if it
is there, because a large one takes minutes. Latencies are those of a whole search for 20 hits. The
lag of the event loop is that of a task that wakes every millisecond.
"""

import asyncio
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.claudecode.plugin import ClaudeCode
from hubd.plugins.claudecode.tables import MIGRATIONS
from hubd.storage.database import Database
from hubd.storage.search.searching import Filters
from hubd.storage.search.source import SearchSource
from hubd.storage.search.text import terms_of
from tests.bench.search.corpus import DAYS, ONCE, RARE, fill
from tests.bench.search.overhead import PausedSearch, overhead

EVENTS = 50_000
LIMIT = 20
RUNS = 50
# Seconds between two reports while the index is built.
REPORT_SECONDS = 30.0
QUERIES = {
    "rare word": RARE,
    "word in one text": ONCE,
    "common word": "self",
    "two words": "return error",
    "phrase": '"raise valueerror"',
    "two CJK characters": "连接",
    "two rare CJK characters": "斑马",
    "two Latin letters": "th",
    "no text, rare parts": "xqzylophone",
    "no text, common parts": "returnselfimport",
}


def filters() -> dict[str, Filters]:
    """Return the filters, each alone."""
    now = int(time.time())
    return {
        "no filter": Filters(),
        "session": Filters(session="session 100"),
        "role": Filters(role="user"),
        "tool": Filters(tool="WebFetch"),
        "kind": Filters(kind="message"),
        "since": Filters(since=now - 7 * 86400),
        "until": Filters(until=now - (DAYS - 7) * 86400),
    }


def sources() -> dict[str, SearchSource]:
    """Return the sources of the plugins that a chat writes to."""
    return {
        f"{plugin.namespace}.{source.name}": source
        for plugin in (Arbor(), ClaudeCode())
        for source in plugin.search_sources()
    }


async def build(db: Database, search: PausedSearch, events: int) -> None:
    began = time.perf_counter()
    done = asyncio.ensure_future(search.caught_up())
    while not done.done():
        await asyncio.wait([done], timeout=REPORT_SECONDS)
        status = search.status
        print(f"  {status.indexed:,} texts indexed, {status.waiting:,} rows to go", flush=True)
    seconds = time.perf_counter() - began
    size, database = (_size(path) for path in (search.path, db.path))
    print(f"{events:,} events indexed in {seconds:.1f} s ({events / seconds:,.0f} /s)")
    print(f"index {size:,.0f} MiB, database {database:,.0f} MiB")


async def latencies(search: PausedSearch) -> None:
    print(f"\nsearch for {LIMIT} hits, ms: median, 99th percentile of {RUNS}  (target: p99 < 100)")
    for label, wanted in filters().items():
        for name, query in QUERIES.items():
            terms = terms_of(query)
            outcome, _ = await search.query(terms, wanted, LIMIT)
            samples = await _samples(partial(search.query, terms, wanted, LIMIT))
            mark = "  *" if _percentile(samples, 99) >= 100 else ""
            print(
                f"  {label:<10} {name:<24} {statistics.median(samples):>8.1f}"
                f" {_percentile(samples, 99):>8.1f}   {len(outcome.hits):>2} hits{mark}"
            )


async def loop_lag(search: PausedSearch) -> None:
    print("\nlag of the event loop, ms: median, 99th percentile")
    queries = [
        partial(search.query, terms_of(query), Filters(), LIMIT) for query in QUERIES.values()
    ]

    async def idle() -> None:
        await asyncio.sleep(2.0)

    async def searching() -> None:
        end = time.monotonic() + 2.0
        while time.monotonic() < end:
            for query in queries:
                await query()

    for name, work in (("without searches", idle), ("while searches run", searching)):
        async with _measured_lag() as samples:
            await work()
        print(f"  {name:<20} {statistics.median(samples):>8.2f} {_percentile(samples, 99):>8.2f}")


@asynccontextmanager
async def _measured_lag() -> AsyncIterator[list[float]]:
    samples: list[float] = []

    async def sample() -> None:
        while True:
            due = time.perf_counter() + 0.001
            await asyncio.sleep(0.001)
            samples.append(1000 * (time.perf_counter() - due))

    task = asyncio.create_task(sample())
    try:
        yield samples
    finally:
        task.cancel()


def _size(path: Path) -> float:
    """Return the MiB of a database and its log."""
    return sum(Path(f"{path}{end}").stat().st_size for end in ("", "-wal")) / 1024**2


def _percentile(samples: list[float], percent: int) -> float:
    return sorted(samples)[min(len(samples) * percent // 100, len(samples) - 1)]


async def _samples(work: Callable[[], Awaitable[object]]) -> list[float]:
    samples = []
    for _ in range(RUNS):
        began = time.perf_counter()
        await work()
        samples.append(1000 * (time.perf_counter() - began))
    return samples


async def main(events: int, folder: Path) -> None:
    random.seed(1)
    async with _opened(folder, events) as (db, search):
        await build(db, search, events)
        await latencies(search)
        await loop_lag(search)
    # The pushes must not change the database that is used again.
    copy = folder / "copy"
    shutil.copytree(folder, copy)
    try:
        async with _opened(copy, events) as (db, search):
            await search.caught_up()
            await overhead(db, search)
    finally:
        shutil.rmtree(copy)


@asynccontextmanager
async def _opened(folder: Path, events: int) -> AsyncIterator[tuple[Database, PausedSearch]]:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "hub.db"
    is_new = not path.exists()
    async with Database(path) as db:
        await db.migrate("claudecode", MIGRATIONS)
        if is_new:
            began = time.perf_counter()
            await fill(db, events)
            print(f"{events:,} events stored in {time.perf_counter() - began:.1f} s", flush=True)
        async with PausedSearch(db, sources) as search:
            yield db, search


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    if len(sys.argv) > 2:
        asyncio.run(main(wanted, Path(sys.argv[2])))
    else:
        with tempfile.TemporaryDirectory() as directory:
            asyncio.run(main(wanted, Path(directory)))
