"""Heads: named nodes of trees, and the claims that keep their trees alive."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hubd.conversations.heads import ChatLocks, Heads, position
from hubd.errors import Conflict, InvalidParams, NotFound
from hubd.plugins.cone.store import HEADS, Columns, ConeRow, ConeTable
from hubd.plugins.cone.tables import MIGRATIONS
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.database import Database, Tx

NOW = 1_700_000_000
COLUMNS = Columns("offline")


class BusyTable(ConeTable):
    """A table whose heads all have a chat in the database."""

    def is_busy(self, tx: Tx, row: ConeRow) -> bool:
        return True


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(tmp_path / "hub.db") as opened:
        for statement in filter(str.strip, MIGRATIONS[0].split(";")):
            await opened.execute(statement)
        yield opened


async def create(db: Database, name: str, **where: str) -> ConeRow:
    return await db.transaction(lambda tx: HEADS.create(tx, name, COLUMNS, NOW, **where))


async def add_node(db: Database, head: ConeRow) -> str:
    def add(tx: Tx) -> str:
        row = tree.find(tx, ids.text(head.tree_id))
        return ids.text(tree.append(tx, tree.place(tx, row, None), tree.text("hi"), NOW).id)

    return await db.transaction(add)


async def owners(db: Database, head: ConeRow) -> str:
    return (await tree.look_up(db, ids.text(head.tree_id))).owners


async def test_a_new_head_is_at_the_root_of_a_new_tree(db: Database) -> None:
    head = await create(db, "a")
    row = await tree.look_up(db, ids.text(head.tree_id))
    assert position(head).node_id == ids.text(row.root_id)
    assert HEADS.owner_of(head.id) in row.owners


async def test_a_head_on_an_existing_tree_claims_it(db: Database) -> None:
    first = await create(db, "a")
    node_id = await add_node(db, first)
    second = await create(db, "b", tree_id=ids.text(first.tree_id), node_id=node_id)
    assert position(second).node_id == node_id
    assert HEADS.owner_of(second.id) in await owners(db, first)


async def test_a_node_without_a_tree_is_rejected(db: Database) -> None:
    with pytest.raises(InvalidParams, match="node_id needs tree_id"):
        await create(db, "a", node_id="abcd")


async def test_a_name_is_unique(db: Database) -> None:
    head = await create(db, "a")
    with pytest.raises(Conflict, match="there is a cone named 'a' already"):
        await create(db, "a")
    with pytest.raises(Conflict, match="there is a cone named 'a' already"):
        await db.transaction(lambda tx: HEADS.fork(tx, head, "a", COLUMNS, NOW))
    assert [[row.name for row in page] async for page in HEADS.pages(db)] == [["a"]]


async def test_a_fork_shares_the_tree_and_starts_at_the_source_or_at_a_node(db: Database) -> None:
    source = await create(db, "a")
    node_id = await add_node(db, source)
    fork = await db.transaction(lambda tx: HEADS.fork(tx, source, "b", COLUMNS, NOW))
    other = await db.transaction(lambda tx: HEADS.fork(tx, source, "c", COLUMNS, NOW, at=node_id))
    assert position(fork) == position(source)
    assert (other.tree_id, position(other).node_id) == (source.tree_id, node_id)
    assert HEADS.owner_of(fork.id) in await owners(db, source)


async def test_a_moved_head_is_at_another_node_of_its_tree(db: Database) -> None:
    head = await create(db, "a")
    node_id = await add_node(db, head)
    moved = await db.transaction(lambda tx: HEADS.move(tx, head, node_id[-8:], NOW + 5))
    row = await HEADS.look_up(db, "a")
    assert position(row) == moved
    assert (moved.node_id, row.updated_at) == (node_id, NOW + 5)
    stranger = await add_node(db, await create(db, "b"))
    with pytest.raises(NotFound):
        await db.transaction(lambda tx: HEADS.move(tx, head, stranger, NOW))


async def test_the_last_deleted_head_releases_its_tree(db: Database) -> None:
    head = await create(db, "a")
    fork = await db.transaction(lambda tx: HEADS.fork(tx, head, "b", COLUMNS, NOW))
    await db.transaction(lambda tx: HEADS.delete(tx, head, NOW))
    assert (await tree.look_up(db, ids.text(fork.tree_id))).state == "active"
    await db.transaction(lambda tx: HEADS.delete(tx, fork, NOW))
    assert (await tree.look_up(db, ids.text(fork.tree_id))).state == "scheduled"
    with pytest.raises(NotFound, match="no cone"):
        await db.transaction(lambda tx: HEADS.delete(tx, head, NOW))
    with pytest.raises(NotFound, match="no cone"):
        await db.transaction(lambda tx: HEADS.move(tx, head, "abcd", NOW))


async def test_a_busy_head_cannot_be_moved_or_deleted_but_forked(db: Database) -> None:
    busy = Heads(BusyTable())
    head = await create(db, "a")
    node_id = await add_node(db, head)
    with pytest.raises(Conflict, match="cone 'a' is busy"):
        await db.transaction(lambda tx: busy.move(tx, head, node_id, NOW))
    with pytest.raises(Conflict, match="cone 'a' is busy"):
        await db.transaction(lambda tx: busy.delete(tx, head, NOW))
    assert (await db.transaction(lambda tx: busy.fork(tx, head, "b", COLUMNS, NOW))).name == "b"


async def test_all_heads_are_listed_in_order_of_creation(db: Database) -> None:
    names = ["c", "a", "b"]
    for name in names:
        await create(db, name)
    pages = [[row.name for row in page] async for page in HEADS.pages(db, limit=2)]
    assert pages == [["c", "a"], ["b"]]


async def test_a_head_is_busy_while_a_chat_waits_for_its_lock(db: Database) -> None:
    head = await create(db, "a")
    locks = ChatLocks(HEADS)
    lock = locks.lock(head)
    await lock.acquire()
    waiting = asyncio.create_task(lock.acquire())
    await asyncio.sleep(0)
    lock.release()
    with pytest.raises(Conflict, match="cone 'a' is busy"):
        async with locks.idle(head):
            pass
    await waiting
    lock.release()
    async with locks.idle(head):
        assert lock.locked()


async def test_heads_mark_the_nodes_of_their_tree(db: Database) -> None:
    head = await create(db, "one")
    tree_id = ids.text(head.tree_id)
    await create(db, "two", tree_id=tree_id)
    await create(db, "elsewhere")
    assert await HEADS.marks(db, tree_id) == {ids.text(head.head_id): ["one", "two"]}
    assert await HEADS.marks(db, "not an id") == {}


async def test_the_first_mark_is_that_of_the_oldest_head(db: Database) -> None:
    head = await create(db, "began")
    tree_id = ids.text(head.tree_id)
    node = await add_node(db, head)
    await db.transaction(lambda tx: HEADS.move(tx, head, node, NOW))
    await create(db, "forked", tree_id=tree_id)
    assert next(iter((await HEADS.marks(db, tree_id)).items())) == (node, ["began"])
