"""The end of a stream, shared by its followers: always what reading it would give."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.errors import NotFound
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.database import Database, Tx
from hubd.storage.readers import Value
from hubd.storage.streams import retention, streams
from hubd.storage.streams.streams import EventRow, StreamRow
from hubd.storage.streams.tail import MAX_KEPT_CHARACTERS, Tail, Tails
from hubd.wire.handle import WireHandle

HANDLE = WireHandle("claudecode", "1.0.0", "chat_event")
LIMIT = 3


class Gated(Database):
    """A database with reads of streams that return only when the test releases them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        # The reads that wait, in order; None while none has to.
        self.held: list[asyncio.Event] | None = None

    async def fetch_rows(self, sql: str, *params: Value) -> list[tuple[Any, ...]]:
        rows = await super().fetch_rows(sql, *params)
        # The cleanup of blobs reads too, at some moment after the start.
        if self.held is not None and "chat_" in sql:
            gate = asyncio.Event()
            self.held.append(gate)
            await gate.wait()
        return rows


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Gated]:
    """An empty database."""
    async with Gated(tmp_path / "hub.db") as database:
        yield database


def identity(row: EventRow) -> EventRow:
    return row


async def begin(db: Database) -> StreamRow:
    """A stream that runs."""

    def build(tx: Tx) -> StreamRow:
        made = tree.create(tx, "test", 0)
        stream = streams.create(tx, ids.uuid4(), made.key, 0)
        anchor = tree.append(tx, tree.place(tx, made, None), tree.text("hi"), 0)
        streams.start(tx, stream.key, anchor, 0)
        return streams.by_key(tx, stream.key)

    return await db.transaction(build)


async def push(db: Database, stream: StreamRow, data: str = "{}") -> None:
    """One more event."""

    def work(tx: Tx) -> None:
        streams.push(tx, stream.key, tree.origin(tx, HANDLE), "content", data, 0)

    await db.transaction(work)


async def push_two(db: Database, stream: StreamRow) -> None:
    """Two more events at once."""

    def work(tx: Tx) -> None:
        pairs = [("content", "{}"), ("complete", "{}")]
        streams.push_many(tx, stream.key, tree.origin(tx, HANDLE), pairs, 0)

    await db.transaction(work)


async def check(db: Database, stream: StreamRow, tail: Tail[EventRow], seq: int) -> None:
    """Assert that a tail has the stored rows."""
    assert await tail.row() == await streams.reread(db, stream.key)
    assert await tail.page(seq, LIMIT) == await streams.events(db, stream.key, seq, LIMIT)


async def test_new_events_reach_followers_without_a_read(db: Gated) -> None:
    stream = await begin(db)
    with Tails(identity).of(db, stream) as tail:
        await tail.row()
        db.held = []
        for seq in range(3):
            await push(db, stream)
            assert (await tail.row()).next_seq == seq + 1
            assert [event.seq for event in await tail.page(seq, LIMIT)] == [seq]
        assert db.held == []
        db.held = None
        await check(db, stream, tail, 0)


async def test_many_events_are_pushed_as_if_one_by_one(db: Gated) -> None:
    one_by_one, at_once = await begin(db), await begin(db)
    pairs = [("content", f'{{"n":{number}}}') for number in range(5)]

    def work(tx: Tx) -> None:
        origin = tree.origin(tx, HANDLE)
        for event_type, data in pairs:
            streams.push(tx, one_by_one.key, origin, event_type, data, 7)
        last = streams.push_many(tx, at_once.key, origin, pairs[:1], 7)
        last = streams.push_many(tx, at_once.key, origin, pairs[1:], 7, last)
        assert last[1] == 4

    await db.transaction(work)
    single = await streams.events(db, one_by_one.key, 0, 10)
    many = await streams.events(db, at_once.key, 0, 10)
    assert [row._replace(node_id=b"") for row in many] == [
        row._replace(node_id=b"") for row in single
    ]
    stored = await streams.reread(db, at_once.key)
    assert (stored.root, stored.head) == (many[0].node_id, many[-1].node_id)
    path = await db.fetch_rows(
        "SELECT n.id, n.meta FROM arbor_nodes AS n JOIN chat_streams AS s ON n.segment = s.segment "
        "WHERE s.key = ? ORDER BY n.depth",
        at_once.key,
    )
    assert path == [(row.node_id, f"{ids.text(row.node_id)}:content") for row in many]


@given(
    st.lists(
        st.sampled_from(["push", "push many", "end", "remove"]) | st.integers(0, 5), max_size=20
    ),
)
def test_every_reader_of_a_tail_gets_the_stored_events(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str | int]
) -> None:
    async def example() -> None:
        async with Database(tmp_path_factory.mktemp("tail") / "hub.db") as db:
            stream = await begin(db)
            with Tails(identity).of(db, stream) as tail:
                for step in steps:
                    if step == "push":
                        await push(db, stream)
                    elif step == "push many":
                        await push_two(db, stream)
                    elif step == "end":
                        await db.transaction(
                            lambda tx: streams.set_status(tx, stream.key, "complete", 1)
                        )
                    elif step == "remove":
                        await db.transaction(lambda tx: retention.remove_events(tx, stream.key))
                    else:
                        assert isinstance(step, int)
                        await check(db, stream, tail, step)
                await check(db, stream, tail, 0)

    asyncio.run(example())


async def test_all_followers_share_one_read_until_the_next_write(db: Gated) -> None:
    stream = await begin(db)
    tails = Tails(identity)
    await push(db, stream)
    with tails.of(db, stream) as first, tails.of(db, stream) as second:
        row, page = await first.row(), await first.page(0, LIMIT)
        assert await second.row() is row
        assert await second.page(0, LIMIT) is page
        await push(db, stream)
        assert (await second.row()).next_seq == 2
        assert [event.seq for event in await second.page(0, LIMIT)] == [0, 1]


async def test_an_older_read_does_not_replace_a_newer_one(db: Gated) -> None:
    stream = await begin(db)
    with Tails(identity).of(db, stream) as tail:
        db.held = []
        async with asyncio.TaskGroup() as tasks:
            early = tasks.create_task(tail.page(0, LIMIT))
            await asyncio.sleep(0)
            await push(db, stream)
            # The new event is there without a read.
            assert len(await tail.page(0, LIMIT)) == 1
            [first] = db.held
            first.set()
            assert len(await early) == 0
        db.held = None
        assert len(await tail.page(0, LIMIT)) == 1


async def test_an_older_read_of_the_stream_does_not_replace_a_newer_one(db: Gated) -> None:
    stream = await begin(db)
    with Tails(identity).of(db, stream) as tail:
        db.held = []
        async with asyncio.TaskGroup() as tasks:
            early = tasks.create_task(tail.row())
            await asyncio.sleep(0)
            await push(db, stream)
            late = tasks.create_task(tail.row())
            await asyncio.sleep(0)
            [first, second] = db.held
            second.set()
            assert (await late).next_seq == 1
            first.set()
            assert (await early).next_seq == 0
        db.held = None
        assert (await tail.row()).next_seq == 1


async def test_large_events_are_not_kept(db: Gated) -> None:
    stream = await begin(db)
    await push(db, stream, '"' + "x" * MAX_KEPT_CHARACTERS + '"')
    with Tails(identity).of(db, stream) as tail:
        page = await tail.page(0, LIMIT)
        assert len(page) == 1
        assert await tail.page(0, LIMIT) is not page


async def test_a_tail_is_dropped_with_its_last_follower(db: Gated) -> None:
    stream = await begin(db)
    tails = Tails(identity)
    with tails.of(db, stream) as first:
        with tails.of(db, stream) as second:
            assert second is first
        with tails.of(db, stream) as third:
            assert third is first
    with tails.of(db, stream) as other:
        assert other is not first
    # The stream has no followers now, so a write does not reach the first tail.
    page = await first.page(0, LIMIT)
    await push(db, stream)
    assert await first.page(0, LIMIT) is page


async def test_a_deleted_stream_is_not_found(db: Gated) -> None:
    stream = await begin(db)
    with Tails(identity).of(db, stream) as tail:
        await tail.row()

        def delete(tx: Tx) -> None:
            tx.execute("DELETE FROM chat_streams")
            tx.topics.append(stream.topic)

        await db.transaction(delete)
        with pytest.raises(NotFound):
            await tail.row()
