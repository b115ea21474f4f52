"""Durable event streams: a chain of events, where their readers stand, and how they go."""

import asyncio
import random
import sqlite3
import tempfile
from collections.abc import AsyncIterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.errors import Ambiguous, CursorExpired, InvalidParams, NotFound
from hubd.storage import ids, migrations
from hubd.storage.arbor import tree, walk
from hubd.storage.arbor.tree import EVENTS, MAIN, Place, TreeRow
from hubd.storage.database import Database, Tx
from hubd.storage.streams import consumers, retention, streams
from hubd.storage.streams.by_id import events_by_id
from hubd.storage.streams.streams import EventRow, Status, StreamRow
from hubd.storage.tables import HUB_MIGRATIONS
from hubd.wire.handle import WireHandle, parse
from tests.support import examples

NOW = 1_700_000_000
HANDLE = WireHandle("claudecode", "1.0.0", "chat_event")
SESSION = bytes.fromhex("5e55" + "00" * 14)
BOTH = frozenset((MAIN, EVENTS))


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(tmp_path / "hub.db") as opened:
        yield opened


@pytest.fixture
async def oak(db: Database) -> TreeRow:
    return await db.transaction(lambda tx: tree.create(tx, "system", NOW))


def begin(
    tx: Tx, oak: TreeRow, session: bytes = SESSION, stream_id: bytes | None = None
) -> StreamRow:
    """Return a running stream below a new message."""
    stream = streams.create(tx, session, oak.key, NOW, stream_id=stream_id)
    streams.start(tx, stream.key, tree.append(tx, tree.place(tx, oak, None), HELLO, NOW), NOW)
    return streams.by_key(tx, stream.key)


HELLO = tree.text("hello")


def push(tx: Tx, stream: StreamRow, *numbers: int) -> list[Place]:
    origin = tree.origin(tx, HANDLE)
    return [
        streams.push(tx, stream.key, origin, "number", f'{{"n":{number}}}', NOW + number)
        for number in numbers
    ]


async def running(db: Database, oak: TreeRow, events: int = 0) -> StreamRow:
    """A stream with some events."""

    def build(tx: Tx) -> StreamRow:
        stream = begin(tx, oak)
        push(tx, stream, *range(events))
        return streams.by_key(tx, stream.key)

    return await db.transaction(build)


async def ended(
    db: Database, oak: TreeRow, events: int, at: int = NOW, status: Status = "complete"
) -> StreamRow:
    stream = await running(db, oak, events)
    await db.transaction(lambda tx: streams.set_status(tx, stream.key, status, at))
    return await streams.reread(db, stream.key)


async def chain(db: Database, oak: TreeRow, node_id: bytes | None) -> list[walk.Node]:
    """The nodes of all lanes on the way to a node."""
    place = await tree.look_up_place(db, oak, node_id)
    stretches = await walk.path(db, place)
    return [node async for page in walk.nodes(db, stretches, BOTH) for node in page]


def numbers(rows: list[EventRow]) -> list[tuple[int, str]]:
    return [(row.seq, row.data) for row in rows]


# Pushing


async def test_events_are_a_chain_below_the_message_and_the_head_is_the_last(
    db: Database, oak: TreeRow
) -> None:
    def build(tx: Tx) -> tuple[Place, StreamRow, list[Place]]:
        message = tree.append(tx, tree.place(tx, oak, None), HELLO, NOW)
        stream = streams.create(tx, SESSION, oak.key, NOW)
        streams.start(tx, stream.key, message, NOW)
        return message, stream, push(tx, stream, 0, 1, 2, 3)

    message, stream, places = await db.transaction(build)
    row = await streams.reread(db, stream.key)
    assert (row.root, row.head) == (places[0].id, places[-1].id)
    assert (row.first_seq, row.next_seq) == (0, 4)
    nodes = await chain(db, oak, row.head)
    assert [node.id for node in nodes] == [oak.root_id, message.id, *(p.id for p in places)]
    assert [node.parent for node in nodes[1:]] == [node.id for node in nodes[:-1]]
    assert [node.lane for node in nodes] == [MAIN, MAIN, EVENTS, EVENTS, EVENTS, EVENTS]


async def test_an_event_has_the_id_of_its_node_whose_handle_names_it(
    db: Database, oak: TreeRow
) -> None:
    stream = await running(db, oak, 2)
    for row in await streams.events(db, stream.key, 0, 10):
        [*_, node] = await chain(db, oak, row.node_id)
        assert node.handle is not None
        assert parse(node.handle).meta == (ids.text(row.node_id), "number")
        assert node.created_at == row.timestamp == NOW + row.seq
        assert await events_by_id(db, [row.node_id]) == {row.node_id: row}
    assert await events_by_id(db, [ids.uuid7()]) == {}


async def test_a_queued_stream_has_no_events_no_root_and_no_head(
    db: Database, oak: TreeRow
) -> None:
    stream = await db.transaction(lambda tx: streams.create(tx, SESSION, oak.key, NOW))
    assert (stream.status, stream.root, stream.head) == ("queued", None, None)
    assert (stream.started_at, stream.ended_at) == (None, None)
    assert await streams.events(db, stream.key, 0, 10) == []


async def test_a_failed_push_leaves_no_gap(db: Database, oak: TreeRow) -> None:
    stream = await running(db, oak, 2)

    def fail(tx: Tx) -> None:
        push(tx, stream, 98, 99)
        raise InvalidParams("never mind")

    with pytest.raises(InvalidParams):
        await db.transaction(fail)
    assert (await streams.reread(db, stream.key)) == stream
    await db.transaction(lambda tx: push(tx, stream, 2))
    found = await streams.events(db, stream.key, 0, 10)
    assert numbers(found) == [(0, '{"n":0}'), (1, '{"n":1}'), (2, '{"n":2}')]


async def test_a_first_event_that_failed_can_be_pushed_again(db: Database, oak: TreeRow) -> None:
    stream = await running(db, oak)

    def fail(tx: Tx) -> None:
        push(tx, stream, 0)
        raise InvalidParams("never mind")

    with pytest.raises(InvalidParams):
        await db.transaction(fail)
    [place] = await db.transaction(lambda tx: push(tx, stream, 0))
    row = await streams.reread(db, stream.key)
    assert row.root == row.head == place.id


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=20))
@examples(8)
def test_concurrent_streams_have_gapless_sequence_numbers(steps: list[tuple[int, int]]) -> None:
    async def example(directory: Path) -> None:
        async with Database(directory / "hub.db") as db:
            oak = await db.transaction(lambda tx: tree.create(tx, "system", NOW))
            rows = [await running(db, oak) for _ in range(3)]
            counts = [0, 0, 0]
            for which, some in steps:
                more = range(counts[which], counts[which] + some)
                await db.transaction(lambda tx, w=which, m=more: push(tx, rows[w], *m))  # type: ignore[misc]
                counts[which] += some
            for row, count in zip(rows, counts, strict=True):
                found = await streams.events(db, row.key, 0, 1000)
                assert numbers(found) == [(n, f'{{"n":{n}}}') for n in range(count)]
                current = await streams.reread(db, row.key)
                nodes = await chain(db, oak, current.head) if count else []
                assert [node.id for node in nodes[2:]] == [event.node_id for event in found]

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(example(Path(directory)))


# Statuses


@pytest.mark.parametrize("status", ["complete", "failed", "cancelled", "interrupted"])
async def test_an_ended_stream_has_its_time_and_its_error(
    db: Database, oak: TreeRow, status: Status
) -> None:
    stream = await running(db, oak)
    await db.transaction(lambda tx: streams.set_status(tx, stream.key, status, NOW + 5, "so"))
    row = await streams.reread(db, stream.key)
    assert (row.status, row.ended_at, row.error) == (status, NOW + 5, "so")


async def test_a_stream_continues_after_an_approval(db: Database, oak: TreeRow) -> None:
    stream = await running(db, oak)
    for status in ("awaiting_permission", "running"):
        await db.transaction(lambda tx, s=status: streams.set_status(tx, stream.key, s, NOW))  # type: ignore[misc]
        row = await streams.reread(db, stream.key)
        assert (row.status, row.ended_at) == (status, None)


async def test_only_chats_that_ran_or_waited_when_the_hub_died_are_left_open(
    db: Database, oak: TreeRow
) -> None:
    runs = await running(db, oak, 2)
    waits = await running(db, oak)
    await db.transaction(lambda tx: streams.set_status(tx, waits.key, "awaiting_permission", NOW))
    queued = await db.transaction(lambda tx: streams.create(tx, SESSION, oak.key, NOW))
    done = await ended(db, oak, 1)
    rows = await db.transaction(streams.left_open)
    assert {row.key for row in rows} == {runs.key, waits.key}
    assert {queued.key, done.key}.isdisjoint(row.key for row in rows)


async def test_events_and_statuses_wake_the_readers_of_the_stream(
    db: Database, oak: TreeRow
) -> None:
    stream, other = await running(db, oak), await running(db, oak)
    with (
        db.waiters.waiting_for(stream.topic) as changed,
        db.waiters.waiting_for(other.topic) as untouched,
    ):
        for change in (
            lambda tx: push(tx, stream, 0),
            lambda tx: streams.set_status(tx, stream.key, "complete", NOW),
        ):
            changed.clear()
            await db.transaction(change)
            await asyncio.wait_for(changed.wait(), 20)
        assert not untouched.is_set()


# Finding them


async def test_a_stream_is_found_by_its_id_or_a_unique_prefix(db: Database, oak: TreeRow) -> None:
    twins = [bytes.fromhex("abcdef12" + "00" * 11 + end) for end in ("01", "02")]
    for twin in twins:
        await db.transaction(lambda tx, twin=twin: begin(tx, oak, stream_id=twin))  # type: ignore[misc]
    assert (await streams.look_up(db, ids.text(twins[0]))).id == twins[0]
    stream = await running(db, oak)
    assert (await streams.look_up(db, ids.text(stream.id)[:8])).key == stream.key
    with pytest.raises(Ambiguous):
        await streams.look_up(db, "abcdef12")
    with pytest.raises(NotFound):
        await streams.look_up(db, ids.text(ids.uuid4()))
    with pytest.raises(InvalidParams):
        await streams.look_up(db, "no id")


async def test_the_newest_stream_of_a_session_is_its_last_and_pages_go_back(
    db: Database, oak: TreeRow
) -> None:
    other = ids.uuid4()
    assert await streams.newest(db, SESSION) is None
    rows = [await running(db, oak) for _ in range(3)]
    foreign = await db.transaction(lambda tx: begin(tx, oak, other))
    newest = await streams.newest(db, SESSION)
    assert newest is not None
    assert newest.key == rows[-1].key
    keys = [row.key for row in reversed(rows)]
    assert [row.key for row in await streams.page(db, SESSION)] == keys
    assert [row.key for row in await streams.page(db, None)] == [foreign.key, *keys]
    assert [row.key for row in await streams.page(db, SESSION, keys[0], 1)] == keys[1:2]


async def test_a_stream_is_deleted_with_its_tree(db: Database, oak: TreeRow) -> None:
    stream = await running(db, oak, 3)
    await db.transaction(lambda tx: tree.remove(tx, oak.key, oak.id))
    with pytest.raises(NotFound):
        await streams.reread(db, stream.key)


async def test_a_stream_never_gets_the_key_of_events_that_are_not_purged_yet(
    db: Database, oak: TreeRow
) -> None:
    deleted = await running(db, oak, 3)
    await db.transaction(lambda tx: tree.remove(tx, oak.key, oak.id))
    elm = await db.transaction(lambda tx: tree.create(tx, "ann", NOW))
    stream = await running(db, elm, 3)
    assert stream.key != deleted.key
    assert [row.seq for row in await streams.events(db, stream.key, 0, 10)] == [0, 1, 2]


# Positions


async def test_a_cursor_is_the_node_of_an_event_of_this_stream(db: Database, oak: TreeRow) -> None:
    stream, other = await running(db, oak, 3), await running(db, oak, 1)
    rows = await streams.events(db, stream.key, 0, 10)
    assert [await streams.seq_of(db, stream, row.node_id) for row in rows] == [0, 1, 2]
    for foreign in (oak.root_id, other.head, ids.uuid7()):
        assert foreign is not None
        with pytest.raises(NotFound, match="is not an event of stream"):
            await streams.seq_of(db, stream, foreign)


async def test_each_consumer_has_a_position_in_each_stream(db: Database, oak: TreeRow) -> None:
    stream, other = await running(db, oak, 3), await running(db, oak, 3)
    await db.transaction(lambda tx: consumers.set_position(tx, stream.key, "b", 2, NOW))
    await db.transaction(lambda tx: consumers.set_position(tx, stream.key, "a", 1, NOW))
    assert await consumers.all_of(db, stream.key) == [("a", 1, NOW), ("b", 2, NOW)]
    assert await consumers.position_of(db, other.key, "a") == 0
    assert await db.transaction(lambda tx: consumers.position(tx, stream.key, "b")) == 2
    assert await db.transaction(lambda tx: consumers.delete(tx, stream.key, "b"))
    assert not await db.transaction(lambda tx: consumers.delete(tx, stream.key, "b"))
    assert await consumers.position_of(db, stream.key, "b") == 0


async def test_a_consumer_advances_and_never_goes_back(db: Database, oak: TreeRow) -> None:
    stream = await running(db, oak, 3)
    for seq, reached in ((2, 2), (1, 2), (3, 3)):
        moved = await db.transaction(
            lambda tx: consumers.advance(tx, stream.key, "c", seq, NOW)  # noqa: B023  awaited here
        )
        assert moved == await consumers.position_of(db, stream.key, "c") == reached


async def test_a_missing_event_has_no_node(db: Database, oak: TreeRow) -> None:
    stream = await running(db, oak, 2)
    rows = await streams.events(db, stream.key, 0, 10)
    nodes = [await streams.node_of(db, stream.key, seq) for seq in range(3)]
    assert nodes == [rows[0].node_id, rows[1].node_id, None]


CONSUMERS = ("a", "b", "c")
steps = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(1, 5)),
        st.tuples(st.just("take"), st.sampled_from(CONSUMERS), st.integers(1, 6)),
        st.tuples(st.just("peek"), st.sampled_from(CONSUMERS), st.integers(1, 6)),
        st.tuples(st.just("reset"), st.sampled_from(CONSUMERS), st.integers(0, 12)),
        st.tuples(st.just("forget"), st.sampled_from(CONSUMERS)),
        st.tuples(st.just("remove")),
    ),
    max_size=40,
)


class Log:
    """The model of a stream: a list of events, and positions in it."""

    def __init__(self) -> None:
        self.events: list[int] = []
        self.first = 0
        self.positions: dict[str, int] = {}

    def read(self, consumer: str, limit: int) -> list[int] | None:
        """None if that is not there any more."""
        start = self.positions.get(consumer, 0)
        return None if start < self.first else self.events[start : start + limit]


@given(steps)
@examples(12)
def test_consumers_read_the_same_events_as_a_model(taken: list[tuple[Any, ...]]) -> None:
    async def example(directory: Path) -> None:
        async with Database(directory / "hub.db") as db:
            oak = await db.transaction(lambda tx: tree.create(tx, "system", NOW))
            stream = await running(db, oak)
            log = Log()
            for step in taken:
                await walk_step(db, stream, log, step)
            found = {entry.name: entry.position for entry in await consumers.all_of(db, stream.key)}
            assert found == log.positions

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(example(Path(directory)))


async def walk_step(db: Database, stream: StreamRow, log: Log, step: tuple[Any, ...]) -> None:
    key = stream.key
    match step:
        case ("push", count):
            # Only streams that have ended lose their events.
            if not log.first:
                more = range(len(log.events), len(log.events) + count)
                await db.transaction(lambda tx: push(tx, stream, *more))
                log.events += more
        case ("take", consumer, limit):
            expected = log.read(consumer, limit)
            start = await consumers.position_of(db, key, consumer)
            page = streams.page_of(await streams.events(db, key, start, limit), start)
            assert [row.seq for row in page.events] == (expected or [])
            assert [row.data for row in page.events] == [f'{{"n":{n}}}' for n in expected or []]
            assert page.next_seq == (expected[-1] + 1 if expected else start)
            await db.transaction(
                lambda tx: consumers.advance(tx, key, consumer, page.next_seq, NOW)
            )
            log.positions[consumer] = page.next_seq
        case ("peek", consumer, limit):
            start = await consumers.position_of(db, key, consumer)
            assert start == log.positions.get(consumer, 0)
            found = await streams.events(db, key, start, limit)
            assert [row.seq for row in found] == (log.read(consumer, limit) or [])
        case ("reset", consumer, seq):
            seq = min(seq, len(log.events))
            await db.transaction(lambda tx: consumers.set_position(tx, key, consumer, seq, NOW))
            log.positions[consumer] = seq
        case ("forget", consumer):
            known = await db.transaction(lambda tx: consumers.delete(tx, key, consumer))
            assert known == (log.positions.pop(consumer, None) is not None)
        case ("remove",):
            await db.transaction(lambda tx: retention.remove_events(tx, key))
            log.first = len(log.events)


# Retention


async def test_only_streams_that_ended_before_have_events_to_remove(
    db: Database, oak: TreeRow
) -> None:
    await running(db, oak, 2)
    old, empty, recent = (
        await ended(db, oak, 2, NOW - 10),
        await ended(db, oak, 0, NOW - 10),
        await ended(db, oak, 2, NOW),
    )
    assert [row.key for row in await retention.ended_before(db, NOW)] == [old.key]
    both = [old.key, recent.key]
    assert [row.key for row in await retention.ended_before(db, NOW + 1)] == both
    assert [row.key for row in await retention.ended_before(db, NOW + 1, old.key)] == both[1:]
    assert empty.key not in both


async def test_positions_in_a_stream_whose_events_were_removed_have_expired(
    db: Database, oak: TreeRow
) -> None:
    stream = await ended(db, oak, 3)
    rows = await streams.events(db, stream.key, 0, 10)
    assert await db.transaction(lambda tx: retention.remove_events(tx, stream.key)) == 3
    assert await db.transaction(lambda tx: retention.remove_events(tx, stream.key)) == 0
    row = await streams.reread(db, stream.key)
    assert (row.status, row.first_seq, row.next_seq) == ("complete", 3, 3)
    assert (row.root, row.head) == (None, None)
    assert await streams.events(db, stream.key, 0, 10) == []
    with pytest.raises(CursorExpired) as expired:
        await streams.seq_of(db, row, rows[1].node_id)
    assert expired.value.suggestion == "Continue with from_seq 3"
    for event in rows:
        assert await events_by_id(db, [event.node_id]) == {}
        with pytest.raises(NotFound):
            await tree.look_up_place(db, oak, event.node_id)
    assert await retention.ended_before(db, NOW + 1) == []


async def test_the_chain_of_events_has_no_gap_after_each_removal(
    db: Database, oak: TreeRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "EVENTS_AT_ONCE", 4)
    stream = await ended(db, oak, 10)
    rows = await streams.events(db, stream.key, 0, 100)
    left = 10
    while await db.transaction(lambda tx: retention.remove_events(tx, stream.key)):
        left = max(left - 4, 0)
        found = await streams.events(db, stream.key, 0, 100)
        assert found == rows[:left]
        if found:
            nodes = await chain(db, oak, found[-1].node_id)
            assert [node.id for node in nodes[2:]] == [row.node_id for row in found]
            # A hub that died in between finds it again.
            assert [row.key for row in await retention.ended_before(db, NOW + 1)] == [stream.key]
        assert (await streams.reread(db, stream.key)).first_seq == 10
    assert left == 0


async def test_a_node_with_children_stays_and_so_do_its_ancestors(
    db: Database, oak: TreeRow
) -> None:
    stream = await ended(db, oak, 5)
    rows = await streams.events(db, stream.key, 0, 10)

    def build(tx: Tx) -> Place:
        return tree.append(tx, tree.place(tx, oak, rows[2].node_id), tree.text("aha"), NOW)

    note = await db.transaction(build)
    assert await db.transaction(lambda tx: retention.remove_events(tx, stream.key)) == 5
    nodes = await chain(db, oak, note.id)
    assert [node.id for node in nodes[2:]] == [*(row.node_id for row in rows[:3]), note.id]
    assert await retention.ended_before(db, NOW + 1) == []


async def test_a_stream_without_events_does_not_adopt_a_later_node(
    db: Database, oak: TreeRow
) -> None:
    stream = await ended(db, oak, 3)
    await db.transaction(lambda tx: retention.remove_events(tx, stream.key))
    later = await running(db, oak, 3)
    row = await streams.reread(db, stream.key)
    assert (row.root, row.head) == (None, None)
    assert later.root is not None


async def test_streams_of_older_versions_keep_their_events(tmp_path: Path) -> None:
    """Stream 1 runs, stream 2 was being removed, and the tree of stream 5 is being purged."""
    path = tmp_path / "hub.db"
    with closing(sqlite3.connect(path)) as old:
        old.execute(f"PRAGMA application_id = {migrations.APPLICATION_ID}")
        for number in range(1, 8):
            migrations.apply(old, migrations.HUB, number, HUB_MIGRATIONS[number - 1])
        old.executescript(_OLD_STREAMS)
    async with Database(path) as db:
        found = await streams.events(db, 1, 1, 10)
        assert [(row.seq, row.node_id) for row in found] == [(1, b"b" * 16), (2, b"c" * 16)]
        assert [row.key for row in await retention.ended_before(db, NOW)] == [2]
        assert await db.transaction(lambda tx: retention.remove_events(tx, 2)) == 1
        assert await retention.ended_before(db, NOW) == []
        oak = await db.transaction(lambda tx: tree.create(tx, "system", NOW))
        assert (await running(db, oak, 3)).key == 6


_OLD_STREAMS = """
    INSERT INTO arbor_trees VALUES (1, x'01', 'system', NULL, 'active', 0, 1, 0);
    INSERT INTO arbor_origins VALUES (1, x'02', 'claudecode', '1.0.0', 'chat_event');
    INSERT INTO arbor_nodes (key, id, tree, segment, depth, lane, parent, origin, created_at) VALUES
        (10, CAST('aaaaaaaaaaaaaaaa' AS BLOB), 1, 10, 2, 1, NULL, 1, 0),
        (20, CAST('dddddddddddddddd' AS BLOB), 1, 20, 2, 1, NULL, 1, 0),
        (21, CAST('bbbbbbbbbbbbbbbb' AS BLOB), 1, 10, 3, 1, NULL, 1, 0),
        (22, CAST('cccccccccccccccc' AS BLOB), 1, 10, 4, 1, NULL, 1, 0),
        (50, CAST('eeeeeeeeeeeeeeee' AS BLOB), 9, 50, 2, 1, NULL, 1, 0);
    INSERT INTO chat_streams (key, id, session_id, tree, status,
        segment, depth, first_seq, next_seq, created_at, ended_at)
    VALUES (1, x'03', x'05', 1, 'running', 10, 4, 0, 3, 0, NULL),
        (2, x'04', x'05', 1, 'complete', NULL, 3, 2, 2, 0, 1);
    INSERT INTO chat_events (key, stream, seq, event_type, event_data) VALUES
        (10, 1, 0, 'x', '{}'), (21, 1, 1, 'x', '{}'), (22, 1, 2, 'x', '{}'),
        (20, 2, 0, 'x', '{}'), (50, 5, 0, 'x', '{}');
"""


async def test_pages_of_a_long_stream_fit_together(db: Database, oak: TreeRow) -> None:
    stream = await running(db, oak, 2500)
    seqs: list[int] = []
    dice = random.Random(5)
    while page := await streams.events(db, stream.key, len(seqs), dice.randint(1, 700)):
        seqs += [row.seq for row in page]
    assert seqs == list(range(2500))


@given(st.lists(st.sampled_from(["right", "none", "too old", "too new", "another stream's"])))
@examples(10)
async def test_a_wrong_guess_of_the_newest_event_leaves_no_gap(
    beliefs: list[str],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with Database(Path(directory) / "hub.db") as db:
            oak = await db.transaction(lambda tx: tree.create(tx, "system", NOW))
            stream = await running(db, oak)
            other = await running(db, oak, events=3)
            places: list[Place] = []

            def write(tx: Tx) -> None:
                origin = tree.origin(tx, HANDLE)
                [elsewhere] = push(tx, other, 99)
                for belief in beliefs:
                    seq = len(places) - 1
                    after = {
                        "right": (places[-1], seq) if places else None,
                        "none": None,
                        "too old": (places[0], 0) if places else None,
                        "too new": (places[-1], seq + 1) if places else None,
                        "another stream's": (elsewhere, seq),
                    }[belief]
                    places.append(streams.push(tx, stream.key, origin, "x", "{}", NOW, after))

            await db.transaction(write)
            found = await streams.events(db, stream.key, 0, 1000)
            assert [row.seq for row in found] == list(range(len(beliefs)))
            assert [row.node_id for row in found] == [place.id for place in places]
            for before, after in pairwise(places):
                parent = await walk.parent(db, after)
                assert parent is not None
                assert parent.id == before.id
