"""The writer: short transactions run in the event loop, long ones in the writer's thread."""

import asyncio
import sqlite3
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.errors import HubError, NotFound
from hubd.storage import writer
from hubd.storage.batch import Batch, Job
from hubd.storage.database import Database, Tx
from hubd.storage.log_pages import LogPages
from hubd.storage.writer import RUNS_IN_THREAD, Writer
from tests.support import PATIENCE_SECONDS, examples

LOOP_THREAD = threading.main_thread()
# Runs until it is interrupted.
ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT max(n) FROM c"


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow longer than a busy machine makes a short function wait for its turn."""
    monkeypatch.setattr(writer, "MAX_SECONDS_IN_LOOP", 0.2)


def is_in_loop() -> bool:
    return threading.current_thread() is LOOP_THREAD


def take_long_in_the_loop(tx: Tx, sql: str = ENDLESS) -> None:
    if is_in_loop():
        tx.execute(sql).fetchall()


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(tmp_path / "hub.db") as database:
        await database.execute("CREATE TABLE notes (key INTEGER PRIMARY KEY, text ANY) STRICT")
        yield database


def note(text: str) -> Callable[[Tx], str]:
    """Return a transaction that adds a row and returns its text."""

    def write(tx: Tx) -> str:
        tx.execute("INSERT INTO notes (text) VALUES (?)", text)
        return text

    return write


async def texts(db: Database) -> list[object]:
    return [row["text"] for row in await db.fetch_all("SELECT text FROM notes ORDER BY key")]


async def test_short_transactions_run_in_the_event_loop(db: Database) -> None:
    threads: list[threading.Thread] = []
    await db.transaction(lambda tx: threads.append(threading.current_thread()))
    assert threads == [LOOP_THREAD]


@pytest.mark.parametrize(
    "sql", [ENDLESS, f"INSERT INTO notes (text) {ENDLESS}"], ids=["read", "write"]
)
async def test_a_long_transaction_runs_again_in_the_thread(db: Database, sql: str) -> None:
    threads: list[threading.Thread] = []

    def slow(tx: Tx) -> None:
        threads.append(threading.current_thread())
        tx.execute("INSERT INTO notes (text) VALUES ('slow')")
        take_long_in_the_loop(tx, sql)

    first, last = db.transaction(note("before")), db.transaction(note("between"))
    await db.transaction(slow)
    assert (await first, await last) == ("before", "between")
    assert [thread is LOOP_THREAD for thread in threads] == [True, False]
    assert await texts(db) == ["before", "between", "slow"]


async def test_a_function_that_hides_the_interruption_runs_again_too(db: Database) -> None:
    outcomes: list[str] = []

    def slow(tx: Tx) -> None:
        try:
            take_long_in_the_loop(tx)
            outcomes.append("complete")
        except sqlite3.OperationalError:
            outcomes.append("interrupted")
        tx.execute("INSERT INTO notes (text) VALUES (?)", outcomes[-1])

    await db.transaction(slow)
    assert outcomes == ["interrupted", "complete"]
    assert await texts(db) == ["complete"]


async def test_a_function_that_took_long_starts_in_the_thread_for_a_while(db: Database) -> None:
    in_loop: list[bool] = []

    def sometimes_slow(tx: Tx) -> None:
        in_loop.append(is_in_loop())
        if len(in_loop) == 1:
            take_long_in_the_loop(tx)

    await db.transaction(sometimes_slow)
    assert in_loop == [True, False]
    for _ in range(RUNS_IN_THREAD):
        await db.transaction(sometimes_slow)
    assert not any(in_loop[2:])
    await db.transaction(sometimes_slow)
    assert in_loop[-1]


async def test_a_function_that_is_known_to_take_long_never_runs_in_the_loop(db: Database) -> None:
    threads: list[threading.Thread] = []
    await db.transaction(lambda tx: threads.append(threading.current_thread()), in_thread=True)
    assert len(threads) == 1
    assert threads[0] is not LOOP_THREAD


async def test_other_callbacks_run_between_many_short_transactions(db: Database) -> None:
    writes = [db.transaction(note(str(number))) for number in range(1000)]
    running = asyncio.gather(*writes)
    commits, turns = db.commits, 0
    while not running.done():
        await asyncio.sleep(0)
        turns += 1
    assert len(await texts(db)) == 1000
    # They take many turns of the loop, but share one commit.
    assert turns > 2
    assert db.commits - commits == 1


async def test_topics_wake_readers_only_after_the_commit(db: Database) -> None:
    with db.waiters.waiting_for("notes") as written:

        def write(tx: Tx) -> None:
            note("one")(tx)
            tx.topics.append("notes")

        def fail(tx: Tx) -> None:
            tx.topics.append("failed")
            raise NotFound("nothing")

        with db.waiters.waiting_for("failed") as failed:
            done = asyncio.gather(
                db.transaction(write), db.transaction(fail), return_exceptions=True
            )
            async with asyncio.timeout(PATIENCE_SECONDS):
                await written.wait()
            with closing(sqlite3.connect(db.path)) as other:
                assert other.execute("SELECT text FROM notes").fetchall() == [("one",)]
            await done
            assert not failed.is_set()


async def test_a_lock_of_another_process_does_not_block_the_event_loop(db: Database) -> None:
    with closing(sqlite3.connect(db.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        write = db.transaction(note("waits"))
        for _ in range(5):
            # The loop goes on while the transaction waits for the lock.
            await asyncio.sleep(0)
            assert await db.fetch_all("SELECT text FROM notes") == []
        assert not write.done()
        other.execute("COMMIT")
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await write == "waits"


@given(
    jobs=st.lists(
        st.sampled_from(["short", "fails", "slow", "slow and fails", "in a thread"]), max_size=8
    ),
    pauses=st.sets(st.integers(0, 7)),
)
@examples(10)
async def test_any_mixture_gives_each_caller_its_result_in_order(
    jobs: list[str], pauses: set[int]
) -> None:
    def function(number: int, kind: str) -> Callable[[Tx], int]:
        def run(tx: Tx) -> int:
            tx.execute("INSERT INTO notes (text) VALUES (?)", number)
            if "slow" in kind:
                take_long_in_the_loop(tx)
            if "fails" in kind:
                raise NotFound(str(number))
            return number

        return run

    with tempfile.TemporaryDirectory() as directory:
        async with Database(Path(directory) / "hub.db") as db:
            await db.execute("CREATE TABLE notes (key INTEGER PRIMARY KEY, text ANY) STRICT")
            futures = []
            for number, kind in enumerate(jobs):
                futures.append(
                    db.transaction(function(number, kind), in_thread=kind == "in a thread")
                )
                if number in pauses:
                    await asyncio.sleep(0)
            answers = await asyncio.gather(*futures, return_exceptions=True)
            expected = [number for number, kind in enumerate(jobs) if "fails" not in kind]
            assert [answer for answer in answers if isinstance(answer, int)] == expected
            assert [str(answer) for answer in answers if isinstance(answer, NotFound)] == [
                str(number) for number, kind in enumerate(jobs) if "fails" in kind
            ]
            assert await texts(db) == expected


async def test_closing_waits_for_transactions_that_wait_for_the_thread(tmp_path: Path) -> None:
    async with Database(tmp_path / "hub.db") as db:
        await db.execute("CREATE TABLE notes (key INTEGER PRIMARY KEY, text ANY) STRICT")
        writes = [
            db.transaction(note("long"), in_thread=True),
            db.transaction(note("short")),
        ]
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                await writes[1]
    assert await writes[0] == "long"
    async with Database(tmp_path / "hub.db") as again:
        assert await texts(again) == ["long", "short"]


async def committing_threads(
    db: Database, monkeypatch: pytest.MonkeyPatch, sizes: Sequence[int]
) -> list[bool]:
    """Return for each of some groups of transactions whether the event loop committed it."""
    in_loop: list[bool] = []
    commit = Writer._commit

    def watched(self: Writer, batch: Batch) -> None:
        in_loop.append(is_in_loop())
        commit(self, batch)

    monkeypatch.setattr(Writer, "_commit", watched)
    for size in sizes:
        await asyncio.gather(*(db.transaction(note(str(number))) for number in range(size)))
    return in_loop


async def test_short_transactions_are_committed_in_the_loop_while_the_disk_is_fast(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "FAST_COMMIT_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(writer, "RECENT_SECONDS", PATIENCE_SECONDS)
    assert await committing_threads(db, monkeypatch, (1, 1, 20)) == [True] * 3
    with closing(sqlite3.connect(db.path)) as other:
        assert other.execute("SELECT count(*) FROM notes").fetchone() == (22,)


@pytest.mark.parametrize("limit", ["FAST_COMMIT_SECONDS", "RECENT_SECONDS"])
async def test_a_slow_or_idle_disk_never_holds_up_the_loop(
    db: Database, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(writer, limit, 0.0)
    assert await committing_threads(db, monkeypatch, (1, 1, 20)) == [False] * 3


async def test_functions_that_took_long_together_are_committed_in_the_thread(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "FAST_COMMIT_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(writer, "RECENT_SECONDS", PATIENCE_SECONDS)
    run = Batch.run

    def run_long(self: Batch, job: Job, begin: Callable[[], None]) -> None:
        run(self, job, begin)
        self.run_seconds += PATIENCE_SECONDS / 10

    monkeypatch.setattr(Batch, "run", run_long)
    assert await committing_threads(db, monkeypatch, (1, 20)) == [True, False]


async def test_a_checkpoint_never_runs_in_the_loop(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "FAST_COMMIT_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(writer, "RECENT_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(writer, "PAGES_BEFORE_CHECKPOINT", writer.AUTOCHECKPOINT_PAGES)
    assert await committing_threads(db, monkeypatch, (1, 1, 20)) == [False] * 3


async def end_the_transaction(db: Database, how: str) -> Callable[[Tx], None]:
    """Return a transaction that ends SQLite's transaction and hides it."""
    if how == "full":
        [[pages]] = await db.fetch_rows("PRAGMA page_count")
        await db.transaction(lambda tx: tx.execute(f"PRAGMA max_page_count = {pages + 1}"))
    else:
        await db.execute("CREATE TABLE once (key INTEGER UNIQUE ON CONFLICT ROLLBACK) STRICT")
        await db.execute("INSERT INTO once VALUES (1)")

    def work(tx: Tx) -> None:
        with suppress(sqlite3.Error):
            if how == "full":
                tx.execute("INSERT INTO notes (text) VALUES (?)", "x" * 100_000)
            elif how == "conflict":
                tx.execute("INSERT INTO once VALUES (1)")
            else:
                tx.execute("ROLLBACK")

    return work


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize("how", ["full", "conflict", "statement"])
@pytest.mark.parametrize("others", [0, 1])
async def test_a_function_that_hides_the_end_of_the_transaction_is_not_answered_as_stored(
    db: Database, how: str, others: int, in_thread: bool
) -> None:
    before = await texts(db)
    ending = await end_the_transaction(db, how)
    written = [db.transaction(note(f"before {number}")) for number in range(others)]
    ended = db.transaction(ending, in_thread=in_thread)
    written += [db.transaction(note(f"after {number}")) for number in range(others)]
    answers = await asyncio.gather(*written, return_exceptions=True)
    with pytest.raises(HubError):
        await ended
    stored = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert await texts(db) == before + stored


async def test_a_group_grows_while_each_turn_of_the_loop_adds_to_it(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "GROWTH_SECONDS", PATIENCE_SECONDS)
    before = db.commits
    written: list[asyncio.Future[str]] = []
    for turn in range(5):
        written += [db.transaction(note(f"{turn} {number}")) for number in range(2)]
        await asyncio.sleep(0)
    await asyncio.gather(*written)
    assert db.commits == before + 1


async def test_a_group_does_not_grow_for_ever(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "GROWTH_SECONDS", 0.0)
    before = db.commits
    first = [db.transaction(note(str(number))) for number in range(2)]
    await asyncio.sleep(0)
    later = [db.transaction(note(str(number))) for number in range(2)]
    await asyncio.gather(*first, *later)
    assert db.commits == before + 2


async def test_the_pages_of_the_log_are_counted_as_sqlite_counts_them(db: Database) -> None:
    pages = LogPages(db.path)
    counts = []
    for number in range(3):
        await db.transaction(note("x" * 10_000 * number))
        counts.append(pages.count())
        with closing(sqlite3.connect(db.path)) as other:
            [row] = other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        assert row[1] == counts[-1]
    assert counts[-1] > 0
    # Left open: closing it here would drop the locks of the open database.
