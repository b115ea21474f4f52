"""References to trees, and the end of trees without references."""

import logging
import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.errors import Conflict, NotFound
from hubd.storage import ids
from hubd.storage.arbor import references, tree, walk
from hubd.storage.arbor.references import DAY, Periods, Step
from hubd.storage.arbor.tree import TreeRow
from hubd.storage.database import Database, Tx
from tests.support import examples

NOW = 1_700_000_000
PERIODS = Periods(scheduled=7 * DAY, archived=30 * DAY)


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(tmp_path / "hub.db") as opened:
        yield opened


@pytest.fixture
async def oak(db: Database) -> TreeRow:
    return await db.transaction(lambda tx: tree.create(tx, "ann", NOW))


async def claim(db: Database, oak: TreeRow, owner: str, count: int = 1) -> tuple[int, int]:
    return await db.transaction(
        lambda tx: references.claim(tx, tree.find(tx, ids.text(oak.id)), owner, count, NOW)
    )


async def release(
    db: Database, oak: TreeRow, owner: str, count: int = 1, now: int = NOW
) -> tuple[int, int]:
    return await db.transaction(
        lambda tx: references.release(tx, tree.find(tx, ids.text(oak.id)), owner, count, now)
    )


async def steps_of(db: Database, oak: TreeRow) -> list[str]:
    return [step.step for step in await references.history(db, oak.id)]


async def state_of(db: Database, oak: TreeRow) -> str:
    return (await tree.look_up(db, ids.text(oak.id))).state


# Holding


async def test_references_are_counted_per_owner(db: Database, oak: TreeRow) -> None:
    assert await claim(db, oak, "bob", 3) == (3, 4)
    assert await claim(db, oak, "ann") == (2, 5)
    assert await release(db, oak, "bob", 2) == (1, 3)
    row = await tree.look_up(db, ids.text(oak.id))
    assert (row.ref_count, row.owners) == (3, '{"ann":2,"bob":1}')


async def test_a_tree_stays_while_one_owner_has_a_reference(db: Database, oak: TreeRow) -> None:
    await claim(db, oak, "bob", 2)
    assert await release(db, oak, "ann") == (0, 2)
    assert await release(db, oak, "bob") == (1, 1)
    assert await state_of(db, oak) == "active"
    assert await release(db, oak, "bob") == (0, 0)
    assert await state_of(db, oak) == "scheduled"


@pytest.mark.parametrize(
    ("owner", "count", "said"),
    [
        ("ann", 2, "ann has 1 reference to tree {}, not 2"),
        ("bob", 1, "bob has 0 references to tree {}, not 1"),
    ],
)
async def test_an_owner_can_not_release_more_references_than_it_has(
    db: Database, oak: TreeRow, owner: str, count: int, said: str
) -> None:
    with pytest.raises(Conflict) as raised:
        await release(db, oak, owner, count)
    assert raised.value.message == said.format(ids.text(oak.id))
    assert await tree.look_up(db, ids.text(oak.id)) == oak
    assert await steps_of(db, oak) == ["created"]


async def test_the_last_release_schedules_a_tree_and_a_claim_revives_it(
    db: Database, oak: TreeRow
) -> None:
    assert await release(db, oak, "ann", now=NOW + 5) == (0, 0)
    row = await tree.look_up(db, ids.text(oak.id))
    assert (row.state, row.state_since, row.owners) == ("scheduled", NOW + 5, "{}")
    assert await claim(db, oak, "bob") == (1, 1)
    assert await state_of(db, oak) == "active"
    history = await references.history(db, oak.id)
    assert [tuple(step) for step in history] == [
        ("created", "ann", 1, NOW),
        ("released", "ann", 1, NOW + 5),
        ("scheduled", None, None, NOW + 5),
        ("claimed", "bob", 1, NOW),
        ("revived", None, None, NOW),
    ]


async def test_an_archived_tree_can_only_be_read(db: Database, oak: TreeRow) -> None:
    await db.transaction(lambda tx: references.archive(tx, oak, "ann", NOW))
    written = ids.text(oak.id)
    with pytest.raises(Conflict, match=f"tree {written} is archived"):
        await claim(db, oak, "bob")
    with pytest.raises(Conflict, match=f"tree {written} is archived"):
        await db.transaction(lambda tx: tree.writable(tx, written))
    with pytest.raises(Conflict, match=f"tree {written} is archived already"):
        await db.transaction(lambda tx: references.archive(tx, tree.find(tx, written), "ann", NOW))
    assert (await tree.look_up(db, written)).state == "archived"


async def test_a_tree_with_other_owners_is_deleted_only_by_force(
    db: Database, oak: TreeRow
) -> None:
    await claim(db, oak, "bob")
    for work in (references.archive, references.delete):
        with pytest.raises(Conflict, match="bob still has references to tree"):
            await db.transaction(lambda tx, work=work: work(tx, oak, "ann", NOW))  # type: ignore[misc]
    assert (await tree.look_up(db, ids.text(oak.id))).ref_count == 2
    await db.transaction(lambda tx: references.delete(tx, oak, "ann", NOW, force=True))
    with pytest.raises(NotFound):
        await tree.look_up(db, ids.text(oak.id))


# Cleaning up


@given(age=st.integers(-DAY, 60 * DAY), days=st.sampled_from([0.0, 0.5, 7.0, 30.0, math.inf]))
@examples(8)
async def test_a_step_is_due_once_its_period_is_over_and_not_before(
    tmp_path_factory: pytest.TempPathFactory, age: int, days: float
) -> None:
    async with Database(tmp_path_factory.mktemp("due") / "hub.db") as db:
        oak = await db.transaction(lambda tx: tree.create(tx, "ann", NOW))
        await release(db, oak, "ann")
        periods = Periods(scheduled=days * DAY, archived=math.inf)
        expected = [Step(oak.key, oak.id, "archived", NOW)] if age >= days * DAY else []
        assert await references.due(db, periods, NOW + age) == expected
        done = await db.transaction(lambda tx: references.clean_up(tx, periods, NOW + age))
        assert done == expected
        assert await state_of(db, oak) == ("archived" if expected else "scheduled")


async def test_a_dry_run_lists_all_steps_and_a_real_run_takes_a_bounded_number(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hubd.storage")
    number = references.STEPS_AT_ONCE + 5

    def work(tx: Tx) -> list[str]:
        trees = [tree.create(tx, "ann", NOW) for _ in range(number)]
        for oak_or_elm in trees:
            references.release(tx, oak_or_elm, "ann", 1, NOW)
        return [ids.text(oak_or_elm.id) for oak_or_elm in trees]

    trees = await db.transaction(work)
    later = NOW + 8 * DAY
    due = await references.due(db, PERIODS, later)
    assert sorted(ids.text(step.tree_id) for step in due) == sorted(trees)
    taken = []
    while steps := await db.transaction(lambda tx: references.clean_up(tx, PERIODS, later)):
        taken.append(len(steps))
    assert taken == [references.STEPS_AT_ONCE, 5]
    assert await references.due(db, PERIODS, later) == []
    # Every step is in the log.
    assert {name for name in trees if f"tree {name}: archived" in caplog.text} == set(trees)


async def test_a_released_tree_is_archived_and_purged_and_its_history_stays(
    db: Database, oak: TreeRow
) -> None:
    await release(db, oak, "ann")
    for days in (6, 7, 36, 37):
        await db.transaction(
            lambda tx, days=days: references.clean_up(tx, PERIODS, NOW + days * DAY)  # type: ignore[misc]
        )
    assert [step[0] for step in await references.history(db, oak.id)] == [
        *("created", "released", "scheduled", "archived", "purged")
    ]
    assert [step.at - NOW for step in (await references.history(db, oak.id))[3:]] == [
        *(7 * DAY, 37 * DAY)
    ]
    with pytest.raises(NotFound):
        await tree.look_up(db, ids.text(oak.id))


async def test_purging_takes_a_bounded_number_of_nodes_each_time_and_only_of_that_tree(
    db: Database, oak: TreeRow
) -> None:
    def work(tx: Tx) -> TreeRow:
        elm = tree.create(tx, "ann", NOW)
        for each in (oak, elm):
            above = tree.place(tx, each, None)
            for number in range(references.NODES_AT_ONCE):
                below = tree.append(tx, above, tree.text("x"), NOW, side=number % 3 == 0)
                above = below if number % 7 else above
                tree.append(tx, below, tree.text("y"), NOW, lane=tree.EVENTS)
        return elm

    elm = await db.transaction(work)
    both = frozenset({tree.MAIN, tree.EVENTS})
    whole = await walk.count(db, elm, both)
    await db.transaction(lambda tx: references.delete(tx, oak, "ann", NOW))
    left = [await walk.count(db, oak, both)]
    assert left == [2 * references.NODES_AT_ONCE + 1]
    while await db.transaction(references.purge):
        left.append(await walk.count(db, oak, both))
        with pytest.raises(NotFound):
            await tree.look_up(db, ids.text(oak.id))
    assert left == [2001, 1001, 1, 0]
    assert await walk.count(db, elm, both) == whole
    # The same tree can be made again.
    again = await db.transaction(
        lambda tx: tree.create(tx, "ann", NOW, tree_id=oak.id, root_id=oak.root_id)
    )
    assert again.root_id == oak.root_id


async def test_only_a_completed_import_has_a_history(
    db: Database,
) -> None:
    half = await db.transaction(lambda tx: tree.create(tx, "ann", NOW, state="importing"))
    await db.transaction(lambda tx: tree.give_up(tx, half))
    whole = await db.transaction(lambda tx: tree.create(tx, "bob", NOW, state="importing"))
    assert await references.history(db, whole.id) == []
    await db.transaction(lambda tx: tree.reveal(tx, whole))
    await db.transaction(tree.give_up)
    assert await references.history(db, half.id) == []
    [step] = await references.history(db, whole.id)
    assert tuple(step) == ("imported", "bob", 1, NOW)
    assert [row.id for row in await walk.page_of_trees(db, "active", 0)] == [whole.id]


async def test_a_new_tree_is_independent_of_a_tree_that_is_being_purged(
    db: Database, oak: TreeRow
) -> None:
    """The newest tree is deleted: its key must not be the next one's."""
    await db.transaction(lambda tx: references.delete(tx, oak, "ann", NOW))
    elm = await db.transaction(lambda tx: tree.create(tx, "ann", NOW))
    both = frozenset({tree.MAIN, tree.EVENTS})
    assert await walk.count(db, elm, both) == 1
    while await db.transaction(references.purge):
        pass
    assert await tree.look_up(db, ids.text(elm.id)) == elm
    assert await walk.count(db, oak, both) == 0
