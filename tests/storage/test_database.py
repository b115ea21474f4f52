"""The database: acknowledged writes are durable, and reads don't wait for writes."""

import asyncio
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.errors import DatabaseUnusable, HubError, Internal
from hubd.storage.database import SPOOL_BYTES, Database, Tx
from hubd.storage.readers import READERS
from hubd.storage.writer import MAX_GROUP
from tests.support import PATIENCE_SECONDS, environment, examples, few, file_size_limit

# Both halves of a job are written by one transaction: one without the other is a torn state.
HALVES = """CREATE TABLE halves (
    job INTEGER NOT NULL, half INTEGER NOT NULL, body BLOB, PRIMARY KEY (job, half)
) STRICT"""
COUNT_TO = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ?) "
# Reads a table, so that it holds a snapshot for as long as it runs.
COUNT_FOR_EVER = """WITH RECURSIVE c(n) AS (
    SELECT min(number) FROM hub_migrations UNION ALL SELECT n + 1 FROM c) """
# A process that starts an interpreter and writes a hundred times; other tests may use all cores.
HANG_SECONDS = 3 * PATIENCE_SECONDS
endless = pytest.mark.parametrize(
    "sql",
    [COUNT_FOR_EVER + "SELECT max(n) FROM c", COUNT_FOR_EVER + "SELECT n FROM c WHERE n = 1"],
    ids=["looking for its first row", "looking for its second row"],
)


class Refused(Exception):
    """An exception of a caller's function."""


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(tmp_path / "hub.db") as database:
        await database.execute(HALVES)
        yield database


def both_halves(job: int, body: bytes | None = None) -> Callable[[Tx], int]:
    def write(tx: Tx) -> int:
        tx.execute("INSERT INTO halves VALUES (?, 1, NULL)", job)
        tx.execute("INSERT INTO halves VALUES (?, 2, ?)", job, body)
        return job

    return write


def one_half_then(job: int, fail: Callable[[Tx], object]) -> Callable[[Tx], int]:
    def write(tx: Tx) -> int:
        tx.execute("INSERT INTO halves VALUES (?, 1, NULL)", job)
        fail(tx)
        return job

    return write


def refuse(tx: Tx) -> None:
    raise Refused


def break_a_constraint(tx: Tx) -> None:
    tx.execute("INSERT INTO halves VALUES (NULL, 1, NULL)")


def write_nonsense(tx: Tx) -> None:
    tx.execute("INSERT INTO nowhere VALUES (1)")


def stop_iteration(tx: Tx) -> None:
    next(iter(()))


FAILURES: dict[Callable[[Tx], object], type[Exception]] = {
    refuse: Refused,
    break_a_constraint: sqlite3.IntegrityError,
    write_nonsense: sqlite3.OperationalError,
    stop_iteration: Internal,
}


async def whole_jobs(db: Database) -> list[int]:
    """The jobs that are there, in the order they were written; none of them may be torn."""
    rows = await db.fetch_all("SELECT job, count(*) AS n FROM halves GROUP BY job ORDER BY rowid")
    assert {row["n"] for row in rows} <= {2}
    return [row["job"] for row in rows]


def checkpoint(path: Path, patience: float = 0) -> tuple[int, int, int]:
    """Empty the WAL from outside: (busy, pages, pages copied); busy if a snapshot is in use."""
    with closing(sqlite3.connect(path, timeout=patience)) as other:
        result: tuple[int, int, int] = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return result


def run_apart(scenario: Callable[..., Awaitable[None]], *arguments: str) -> None:
    """Run a coroutine of this module in another process, with a timeout."""
    code = (
        f"import asyncio, sys; from {__name__} import {scenario.__name__} as scenario; "
        "asyncio.run(scenario(*sys.argv[1:]))"
    )
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    done = subprocess.run(
        command,
        env=environment(),
        timeout=HANG_SECONDS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# Writing


async def test_a_transaction_returns_the_result_of_its_function(db: Database) -> None:
    assert await db.transaction(both_halves(7)) == 7
    assert await db.execute("UPDATE halves SET body = x'00'") == 2


@pytest.mark.parametrize("fail", FAILURES)
async def test_an_exception_of_a_transaction_reaches_the_caller_and_rolls_back(
    db: Database, fail: Callable[[Tx], object]
) -> None:
    with pytest.raises(FAILURES[fail]):
        await db.transaction(one_half_then(1, fail))
    assert await db.fetch_all("SELECT * FROM halves") == []
    assert await db.transaction(both_halves(1)) == 1


async def test_a_function_that_raises_system_exit_does_not_end_the_writer(db: Database) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises((SystemExit, HubError)):
            await db.transaction(one_half_then(1, lambda tx: sys.exit("bye")))
        assert await db.transaction(both_halves(1)) == 1


@given(waves=st.lists(st.lists(st.sampled_from([None, *FAILURES]), min_size=1), max_size=5))
@examples(12)
async def test_a_failing_transaction_does_not_affect_others_in_its_batch(
    waves: list[list[Callable[[Tx], object] | None]],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with Database(Path(directory) / "hub.db") as db:
            await db.execute(HALVES)
            tasks: list[asyncio.Task[int]] = []
            expected: list[int | type[Exception]] = []
            for wave in waves:
                for fail in wave:
                    job = len(tasks)
                    write = one_half_then(job, fail) if fail else both_halves(job)
                    tasks.append(asyncio.ensure_future(db.transaction(write)))
                    expected.append(FAILURES[fail] if fail else job)
                await asyncio.sleep(0)  # the next wave is another batch
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            assert [a if isinstance(a, int) else type(a) for a in answers] == expected
            assert await whole_jobs(db) == [job for job in expected if isinstance(job, int)]


async def test_foreign_keys_are_enforced(db: Database) -> None:
    await db.execute("CREATE TABLE parents (id INTEGER PRIMARY KEY) STRICT")
    await db.execute("CREATE TABLE children (parent INTEGER REFERENCES parents) STRICT")
    with pytest.raises(sqlite3.IntegrityError):
        await db.execute("INSERT INTO children VALUES (1)")


async def test_commits_are_durable_and_the_files_private(db: Database) -> None:
    assert await db.transaction(lambda tx: tx.fetch_one("PRAGMA synchronous")) == {"synchronous": 2}
    assert await db.fetch_one("PRAGMA journal_mode") == {"journal_mode": "wal"}
    files = sorted(db.path.parent.iterdir())
    names = ["hub.db", "hub.db-shm", "hub.db-wal", "hub.db.created"]
    assert [file.name for file in files] == names
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


async def test_concurrent_producers_share_commits(db: Database) -> None:
    producers, rounds = 64, 10
    before = db.commits

    async def produce(producer: int) -> None:
        for turn in range(rounds):
            await db.transaction(both_halves(producer * rounds + turn))

    await asyncio.gather(*map(produce, range(producers)))
    assert len(await whole_jobs(db)) == producers * rounds
    assert db.commits - before <= producers * rounds / 32


async def test_more_than_one_group_of_transactions_is_answered(db: Database) -> None:
    jobs = list(range(2 * MAX_GROUP + 1))
    assert await asyncio.gather(*(db.transaction(both_halves(job)) for job in jobs)) == jobs
    assert await whole_jobs(db) == jobs


@pytest.mark.parametrize("running", [False, True])
async def test_cancelling_the_caller_does_not_undo_the_transaction(
    db: Database, running: bool
) -> None:
    started, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def write(tx: Tx) -> None:
        loop.call_soon_threadsafe(started.set)
        assert go_on.wait(PATIENCE_SECONDS)
        both_halves(1)(tx)

    task = asyncio.ensure_future(db.transaction(write, in_thread=True))
    await asyncio.sleep(0)
    if running:
        await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    await db.transaction(both_halves(2))
    assert await whole_jobs(db) == [1, 2]


async def test_a_write_that_returned_is_seen_by_every_kind_of_read(db: Database) -> None:
    for job in range(50):
        await db.transaction(both_halves(job))
        found = await db.fetch_one("SELECT max(job) AS last FROM halves")
        assert found == {"last": job}
        assert len(await db.fetch_all("SELECT job FROM halves")) == 2 * (job + 1)
        assert [row async for row in db.iterate("SELECT max(job) AS last FROM halves")] == [found]


async def test_closing_finishes_the_submitted_transactions(tmp_path: Path) -> None:
    db = Database(tmp_path / "hub.db")
    async with db:
        await db.execute(HALVES)
        tasks = [asyncio.ensure_future(db.transaction(both_halves(job))) for job in range(100)]
        await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await asyncio.gather(*tasks) == list(range(100))
    await db.__aexit__(None, None, None)  # once more does no harm
    async with Database(tmp_path / "hub.db") as again:
        assert await whole_jobs(again) == list(range(100))


@pytest.mark.parametrize("method", ["execute", "fetch_one", "fetch_all", "iterate"])
async def test_nothing_is_accepted_after_closing(tmp_path: Path, method: str) -> None:
    async with Database(tmp_path / "hub.db") as db:
        assert await consume(db, "iterate", "SELECT 1 AS n") == [{"n": 1}]
    with pytest.raises(DatabaseUnusable):
        await consume(db, method, "SELECT 1 AS n")


# Reading


async def consume(db: Database, method: str, sql: str, *params: int) -> Any:
    """Everything that one way of reading gives."""
    if method == "iterate":
        async with aclosing(db.iterate(sql, *params)) as rows:
            return [row async for row in rows]
    return await getattr(db, method)(sql, *params)


values = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
)


@given(rows=st.lists(st.tuples(values, values)))
@examples(8)
async def test_rows_are_read_as_they_were_written(rows: list[tuple[Any, Any]]) -> None:
    expected = [{"a": a, "b": b} for a, b in rows]
    sql = "SELECT a, b FROM anything ORDER BY rowid"
    with tempfile.TemporaryDirectory() as directory:
        async with Database(Path(directory) / "hub.db") as db:
            await db.execute("CREATE TABLE anything (a ANY, b ANY) STRICT")
            insert = "INSERT INTO anything VALUES (?, ?)"
            await asyncio.gather(*(db.execute(insert, a, b) for a, b in rows))
            assert await db.transaction(lambda tx: tx.fetch_all(sql)) == expected
            assert await db.transaction(lambda tx: tx.fetch_one(sql)) == next(iter(expected), None)
            assert await db.fetch_all(sql) == expected
            assert await db.fetch_one(sql) == next(iter(expected), None)
            assert [row async for row in db.iterate(sql)] == expected


@pytest.mark.parametrize("method", ["fetch_one", "fetch_all"])
async def test_a_long_read_does_not_block_the_event_loop(db: Database, method: str) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await db.transaction(both_halves(ticks))

    ticking = asyncio.create_task(tick())
    n = 200_000
    sql = COUNT_TO + "SELECT sum(n) AS total FROM c"
    for _ in range(3):
        found = await consume(db, method, sql, n)
        assert found in ({"total": n * (n + 1) // 2}, [{"total": n * (n + 1) // 2}])
    ticking.cancel()
    assert ticks
    await asyncio.wait([ticking])
    await db.execute("DELETE FROM halves")  # answered after everything before it
    assert checkpoint(db.path)[0] == 0


async def test_short_reads_do_not_wait_for_a_transaction(db: Database) -> None:
    started, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def write(tx: Tx) -> bool:
        both_halves(1)(tx)
        loop.call_soon_threadsafe(started.set)
        return go_on.wait(PATIENCE_SECONDS)

    task = asyncio.ensure_future(db.transaction(write, in_thread=True))
    await started.wait()
    for method in ("fetch_all", "iterate"):
        assert await consume(db, method, "SELECT job FROM halves") == []
    go_on.set()
    assert await task
    assert await whole_jobs(db) == [1]


async def test_a_slow_consumer_holds_no_snapshot_and_reads_no_later_rows(db: Database) -> None:
    await asyncio.gather(*(db.transaction(both_halves(job)) for job in range(1000)))
    seen = []
    async with aclosing(db.iterate("SELECT job FROM halves WHERE half = 1")) as rows:
        async for row in rows:
            seen.append(row["job"])
            if len(seen) in (1, 500, 999):
                await db.transaction(both_halves(1000 + len(seen)))
                assert checkpoint(db.path) == (0, 0, 0)
    assert seen == list(range(1000))


async def test_a_read_longer_than_memory_allows_is_streamed(db: Database) -> None:
    size, count = 4096, 8 * SPOOL_BYTES // 2048
    sql = COUNT_TO + f"SELECT n, hex(zeroblob({size // 2})) AS text FROM c"
    tracemalloc.start()
    try:
        expected = 1
        async for row in db.iterate(sql, count):
            assert (row["n"], len(row["text"])) == (expected, size)
            expected += 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert expected == count + 1
    assert peak < size * count / 2


async def test_more_streams_than_readers_take_turns(db: Database) -> None:
    sql = COUNT_TO + "SELECT n FROM c"
    streams = (consume(db, "iterate", sql, 1000) for _ in range(4 * READERS))
    for rows in await asyncio.gather(*streams):
        assert [row["n"] for row in rows] == list(range(1, 1001))


@pytest.mark.parametrize("method", ["fetch_one", "fetch_all", "iterate"])
async def test_a_read_that_fails_leaves_the_readers_usable(db: Database, method: str) -> None:
    for _ in range(2 * READERS):
        with pytest.raises(sqlite3.OperationalError):
            await consume(db, method, "SELECT nothing FROM nowhere")
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await consume(db, "iterate", "SELECT 1 AS n") == [{"n": 1}]


@pytest.mark.parametrize("method", few(["iterate", "fetch_all"], 1))
@endless
def test_a_read_cancelled_at_any_moment_leaves_the_readers_usable(
    tmp_path: Path, sql: str, method: str
) -> None:
    run_apart(cancel_reads, str(tmp_path / "hub.db"), method, sql)


async def cancel_reads(path: str, method: str, sql: str) -> None:
    async with Database(Path(path)) as db:
        await db.execute(HALVES)
        for writes in (0, 1, 2, 4, 8, 16):
            for turns in range(3):
                task = asyncio.create_task(consume(db, method, sql))
                for _ in range(turns):
                    await asyncio.sleep(0)
                for _ in range(writes):  # time passes in which the read gets under way
                    await db.execute("DELETE FROM halves")
                task.cancel()
                await asyncio.wait([task])
                assert task.cancelled()
        reads = (consume(db, "iterate", "SELECT 1 AS n") for _ in range(2 * READERS))
        assert await asyncio.gather(*reads) == 2 * READERS * [[{"n": 1}]]
        # In a thread, because the event loop has to end reads of the cleanup of blobs.
        busy, _, _ = await asyncio.to_thread(checkpoint, db.path, PATIENCE_SECONDS / 2)
        assert busy == 0


@endless
def test_closing_does_not_wait_for_a_read_that_never_ends(tmp_path: Path, sql: str) -> None:
    run_apart(close_under_a_read, str(tmp_path / "hub.db"), sql)


async def close_under_a_read(path: str, sql: str) -> None:
    async with Database(Path(path)) as db:
        task = asyncio.create_task(consume(db, "iterate", sql))
        for _ in range(20):
            await db.execute("CREATE TABLE IF NOT EXISTS t (x)")
    await asyncio.wait([task])
    assert task.exception() is not None


# Failing disks


@asynccontextmanager
async def no_room_in_the_log(db: Database) -> AsyncIterator[None]:
    checkpoint(db.path)
    with file_size_limit(256 * 1024):
        yield


@asynccontextmanager
async def no_more_pages(db: Database) -> AsyncIterator[None]:
    pages = await db.transaction(lambda tx: tx.fetch_one("PRAGMA page_count"))
    assert pages is not None
    limit = "PRAGMA max_page_count = {}".format
    await db.transaction(lambda tx: tx.fetch_one(limit(pages["page_count"] + 32)))
    yield
    await db.transaction(lambda tx: tx.fetch_one(limit(2**30)))


@pytest.mark.parametrize("full", [no_room_in_the_log, no_more_pages])
@pytest.mark.parametrize("together", [1, 4, 40])
async def test_a_full_disk_fails_transactions_as_a_whole_until_there_is_room_again(
    db: Database,
    full: Callable[[Database], Any],
    together: int,
) -> None:
    await db.transaction(both_halves(-1))
    answers: list[int | BaseException] = []
    async with full(db):
        while len(answers) < 80:
            jobs = range(len(answers), len(answers) + together)
            writes = (db.transaction(both_halves(j, bytes(j % 4 * 8192) or None)) for j in jobs)
            answers += await asyncio.gather(*writes, return_exceptions=True)
        written = [answer for answer in answers if isinstance(answer, int)]
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        assert errors
        assert {type(error) for error in errors} == {DatabaseUnusable}
        assert {error.code for error in errors if isinstance(error, HubError)} == {"unavailable"}
        assert sorted(await whole_jobs(db)) == [-1, *written]
    assert await db.transaction(both_halves(1000, bytes(100_000))) == 1000
    assert sorted(await whole_jobs(db)) == [-1, *written, 1000]
    assert await db.fetch_all("PRAGMA integrity_check") == [{"integrity_check": "ok"}]


@pytest.mark.parametrize("method", ["execute", "fetch_all", "iterate"])
async def test_a_damaged_table_is_reported_as_an_unusable_database(
    tmp_path: Path, method: str
) -> None:
    path = tmp_path / "hub.db"
    async with Database(path) as db:
        await db.execute("CREATE TABLE pages (body BLOB)")
        insert = "INSERT INTO pages " + COUNT_TO + "SELECT zeroblob(1000) FROM c"
        await db.execute(insert, 1000)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : -4096] = b"\xff" * (len(content) // 2 - 4096)
    path.write_bytes(content)
    sql = "UPDATE pages SET body = x'00'" if method == "execute" else "SELECT body FROM pages"
    async with Database(path) as db:
        with pytest.raises(DatabaseUnusable, match="damaged"):
            await consume(db, method, sql)
