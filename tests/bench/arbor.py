"""Trees: the hub against minimal SQL for the same rows, and the growth of cost with size.

`python -m tests.bench.arbor`
"""

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from hubd.plugins.arbor.rendering import Limits
from hubd.plugins.arbor.rendering import render as render_tree
from hubd.storage import ids
from hubd.storage.arbor import tree, walk
from hubd.storage.arbor.tree import Place, TreeRow
from hubd.storage.database import Database, Tx
from hubd.wire.handle import parse
from tests.bench.measure import rates

MAIN = frozenset((tree.MAIN,))
HANDLE = parse("cone@1.0.0::chat:msg-550e8400-e29b-41d4-a716-446655440000:user:bob")
COLUMNS = (
    "n.id, n.depth, n.lane, n.text, o.plugin || '@' || o.version || '::' || o.method || ':' || "
    "n.meta, n.label, n.metadata, n.created_at"
)
RAW = f"SELECT {COLUMNS} FROM arbor_nodes AS n LEFT JOIN arbor_origins AS o ON o.key = n.origin"
ROUNDS = 9
TABLE = (
    "CREATE TABLE node (key INTEGER PRIMARY KEY, id BLOB, depth INTEGER, text TEXT, at INTEGER)",
    "CREATE UNIQUE INDEX node_id ON node (id)",
    "CREATE UNIQUE INDEX node_depth ON node (depth)",
    "CREATE TABLE head (count INTEGER)",
    "INSERT INTO head VALUES (0)",
)


async def chain(database: Database, depth: int) -> tuple[TreeRow, Place]:
    """A tree of one long branch of handles; its last node."""

    def build(tx: Tx) -> tuple[TreeRow, Place]:
        made = tree.create(tx, "bench", 0)
        place = tree.place(tx, made, None)
        content = tree.external(tx, HANDLE)
        for _ in range(depth):
            place = tree.append(tx, place, content, 0)
        return made, place

    return await database.transaction(build)


async def fan(database: Database, children: int) -> tuple[TreeRow, Place]:
    """A tree with many children below its root."""

    def build(tx: Tx) -> tuple[TreeRow, Place]:
        made = tree.create(tx, "bench", 0)
        root = tree.place(tx, made, None)
        for number in range(children):
            tree.append(tx, root, tree.text(f"child {number}"), 0)
        return made, root

    return await database.transaction(build)


async def count(pages: AsyncIterator[list[Any]]) -> int:
    """How many rows come in all pages."""
    return sum([len(page) async for page in pages])


def page_side(database: Database, tip: Place, depth: int) -> Callable[[], Awaitable[int]]:
    """Read pages of ten nodes of a chain, each of which ends at a depth."""

    async def work() -> int:
        nodes = 0
        for _ in range(200):
            stretch = walk.Stretch(tip.segment, depth - 9, depth, tree.MAIN)
            nodes += await count(walk.nodes(database, [stretch], MAIN))
        return nodes

    return work


def directly(connection: sqlite3.Connection, where: str, *params: Any) -> Callable[..., Any]:
    """The least SQL for the same rows."""

    async def work() -> int:
        return len(connection.execute(f"{RAW} WHERE {where}", params).fetchall())

    return work


async def compare(title: str, hub: Callable[..., Any], raw: Callable[..., Any], aim: str) -> None:
    """Rows a second of both, as a ratio of cost."""
    measured = await rates({"hub": hub, "least SQL": raw}, ROUNDS)
    cost = measured["least SQL"] / measured["hub"]
    print(f"  {title:<44} {measured['hub']:>12,.0f} rows/s   cost x{cost:.2f}  {aim}")


async def grow(title: str, work: dict[str, Callable[[], Awaitable[int]]], aim: str) -> None:
    """Cost a row for each size, against the first."""
    measured = await rates(work, ROUNDS)
    first = next(iter(measured.values()))
    for name, rate in measured.items():
        print(f"  {title} {name:<30} {1e6 / rate:>10.2f} us a row   x{first / rate:.2f}  {aim}")


async def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "hub.db"
        async with Database(file) as database:
            connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
            deep = {depth: await chain(database, depth) for depth in (10, 1_000, 100_000)}
            wide = {size: await fan(database, size) for size in (100, 10_000, 50_000)}
            million, tip = await chain(database, 1_000_000)

            async def path(place: Place) -> int:
                return await count(walk.nodes(database, await walk.path(database, place), MAIN))

            print("whole paths, against the least SQL  (target: <= 2)")
            for depth, (_, place) in deep.items():
                repeat = max(1, 1000 // depth)

                async def paths(place: Place = place, repeat: int = repeat) -> int:
                    return sum([await path(place) for _ in range(repeat)])

                raw = directly(connection, "n.segment = ? ORDER BY n.depth", place.segment)

                async def raws(raw: Any = raw, repeat: int = repeat) -> int:
                    return sum([await raw() for _ in range(repeat)])

                await compare(f"path of depth {depth:,}", paths, raws, "")

            print("children, against the least SQL")
            for size, (_, root) in wide.items():

                async def children(root: Place = root) -> int:
                    found = after = 0
                    while page := await walk.children(database, root, MAIN, after):
                        found, after = found + len(page), page[-1].key
                    return found

                raw = directly(connection, "n.parent = ? ORDER BY n.key", root.key)
                await compare(f"{size:,} children", children, raw, "")

            print("growth: cost of one row")

            pages = {
                "of 1,000 nodes": page_side(database, deep[1_000][1], 500),
                "of 100,000": page_side(database, deep[100_000][1], 50_000),
                "of 1,000,000": page_side(database, tip, 500_000),
            }
            await grow("page of a path in a tree", pages, "(target: <= 1.2)")
            await grow(
                "path",
                {
                    "of depth 1,000": lambda: path(deep[1_000][1]),
                    "of depth 100,000": lambda: path(deep[100_000][1]),
                },
                "",
            )

            def append_to(made: TreeRow, start: Place) -> Callable[[], Awaitable[int]]:
                place = start

                async def work() -> int:
                    nonlocal place

                    def many(tx: Tx) -> Place:
                        inner = place
                        for _ in range(500):
                            inner = tree.append(tx, inner, tree.text("hello"), int(time.time()))
                        return inner

                    place = await database.transaction(many)
                    return 500

                return work

            other = sqlite3.connect(Path(name) / "raw.db", isolation_level=None)
            for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", *TABLE):
                other.execute(statement)

            async def raw_appends() -> int:
                other.execute("BEGIN IMMEDIATE")
                for _ in range(500):
                    [depth] = other.execute("SELECT count FROM head").fetchone()
                    values = (ids.uuid7(), depth, "hello", int(time.time()))
                    other.execute(
                        "INSERT INTO node (id, depth, text, at) VALUES (?, ?, ?, ?)", values
                    )
                    other.execute("UPDATE head SET count = count + 1")
                other.execute("COMMIT")
                return 500

            print("appends, 500 a transaction, against a table of id, depth, text and time")
            await compare("append", append_to(*deep[10]), raw_appends, "")
            appends = {
                "to 1,000 nodes": append_to(*deep[1_000]),
                "to 1,000,000": append_to(million, tip),
            }
            await grow("append", appends, "")

            def fork_at(made: TreeRow, place: Place) -> Callable[[], Awaitable[int]]:
                async def work() -> int:
                    def many(tx: Tx) -> None:
                        for _ in range(200):
                            tree.append(tx, place, tree.text("fork"), 0)

                    await database.transaction(many)
                    return 200

                return work

            middle_small = await tree_place(database, deep[1_000][0], deep[1_000][1], 500)
            middle_large = await tree_place(database, million, tip, 500_000)
            forks = {
                "in 1,000 nodes": fork_at(deep[1_000][0], middle_small),
                "in 1,000,000": fork_at(million, middle_large),
            }
            await grow("fork", forks, "(target: <= 1.2)")

            print("whole trees")
            limits = Limits(depth=200, nodes=10_000, width=60)

            async def render() -> int:
                drawn = await render_tree(database, None, wide[10_000][0], MAIN, limits)
                return len(drawn.nodes)

            mine = "n.segment IN (SELECT key FROM arbor_nodes WHERE tree = ? AND segment = key)"
            raw = directly(connection, f"{mine} ORDER BY n.key", wide[10_000][0].key)
            await compare("render of 10,000 nodes", render, raw, "")

            def trees(tx: Tx) -> None:
                for _ in range(10_000):
                    tree.create(tx, "bench", 0)

            await database.transaction(trees)

            async def tree_list() -> int:
                found = after = 0
                while page := await walk.page_of_trees(database, "active", after):
                    found, after = found + len(page), page[-1].key
                return found

            async def raw_trees() -> int:
                sql = (
                    "SELECT t.id, t.owner, t.metadata, t.state, o.owner, o.count "
                    "FROM arbor_trees AS t JOIN arbor_owners AS o ON o.tree = t.key ORDER BY t.key"
                )
                return len(connection.execute(sql).fetchall())

            await compare("list of 10,000 trees", tree_list, raw_trees, "")
            connection.close()
            other.close()


async def tree_place(database: Database, made: TreeRow, tip: Place, depth: int) -> Place:
    """The place at a depth of a chain."""
    node_id = await walk.id_at(database, await walk.path(database, tip), depth)
    return await tree.look_up_place(database, made, node_id)


if __name__ == "__main__":
    asyncio.run(main())
