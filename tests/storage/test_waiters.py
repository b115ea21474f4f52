"""A write wakes all readers of its topic, and no others."""

import asyncio
from pathlib import Path

import pytest

from hubd.errors import Conflict
from hubd.storage.database import Database, Tx
from hubd.storage.waiters import Waiters


def test_a_write_wakes_all_waiters_of_its_topic_and_no_others() -> None:
    waiters = Waiters()
    with (
        waiters.waiting_for("a") as first,
        waiters.waiting_for("a") as second,
        waiters.waiting_for("b") as other,
    ):
        waiters.wake("a")
        assert (first.is_set(), second.is_set(), other.is_set()) == (True, True, False)


def test_a_write_before_the_wait_does_not_wake_it() -> None:
    waiters = Waiters()
    waiters.wake("a")
    with waiters.waiting_for("a") as changed:
        assert not changed.is_set()


def test_a_reader_that_has_left_is_not_woken() -> None:
    waiters = Waiters()
    with waiters.waiting_for("a") as stays:
        with waiters.waiting_for("a") as left:
            pass
        waiters.wake("a")
        assert (stays.is_set(), left.is_set()) == (True, False)
        stays.clear()
        with waiters.waiting_for("a") as came:
            waiters.wake("a")
            assert (stays.is_set(), came.is_set()) == (True, True)


def test_a_topic_is_forgotten_with_its_last_waiter() -> None:
    waiters = Waiters()
    with pytest.raises(ValueError, match="gone wrong"), waiters.waiting_for("a"):
        raise ValueError("gone wrong")
    assert not waiters._events


async def test_a_woken_reader_finds_the_new_rows(tmp_path: Path) -> None:
    async with Database(tmp_path / "hub.db") as db:
        await db.execute("CREATE TABLE notes (text TEXT)")

        def write(tx: Tx) -> None:
            tx.execute("INSERT INTO notes VALUES ('hello')")
            tx.topics.append("notes")

        async def wait() -> list[tuple[str]]:
            with db.waiters.waiting_for("notes") as changed:
                await changed.wait()
                return await db.fetch_rows("SELECT text FROM notes")

        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            waiting = [tasks.create_task(wait()) for _ in range(3)]
            # Not before all of them wait.
            await asyncio.sleep(0)
            await db.transaction(write)
        assert [task.result() for task in waiting] == [[("hello",)]] * 3


async def test_a_failed_transaction_wakes_no_readers(tmp_path: Path) -> None:
    async with Database(tmp_path / "hub.db") as db:

        def fail(tx: Tx) -> None:
            tx.topics.append("notes")
            raise Conflict("not like this")

        def succeed(tx: Tx) -> None:
            tx.topics.append("others")

        with (
            db.waiters.waiting_for("notes") as changed,
            db.waiters.waiting_for("others") as others,
        ):
            # Submitted together, they share one commit.
            failed, _ = await asyncio.gather(
                db.transaction(fail), db.transaction(succeed), return_exceptions=True
            )
            assert isinstance(failed, Conflict)
            await others.wait()
            assert not changed.is_set()
