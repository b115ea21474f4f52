"""Durable appends: the hub's group commit against SQLite used directly in one thread.

The work is what pushing an event will be: insert the event, insert its node, move the head.
`python -m tests.bench.storage`
"""

import asyncio
import sqlite3
import tempfile
from pathlib import Path

from hubd.storage.database import Database, Tx
from tests.bench.measure import Slice, rates, report

EVENTS = 1280
SCHEMA = (
    "CREATE TABLE bench_node (id INTEGER PRIMARY KEY, parent INTEGER, data TEXT) STRICT",
    "CREATE TABLE bench_event (id INTEGER PRIMARY KEY, node INTEGER, data TEXT) STRICT",
    "CREATE TABLE bench_head (stream INTEGER PRIMARY KEY, node INTEGER) STRICT",
)
NODE = "INSERT INTO bench_node (parent, data) VALUES (?, ?)"
EVENT = "INSERT INTO bench_event (node, data) VALUES (?, ?)"
HEAD = (
    "INSERT INTO bench_head (stream, node) VALUES (?, ?) "
    "ON CONFLICT (stream) DO UPDATE SET node = excluded.node"
)
PAYLOAD = "x" * 200


def push(connection: sqlite3.Connection, stream: int) -> None:
    """One event."""
    node = connection.execute(NODE, (stream, "handle")).lastrowid
    connection.execute(EVENT, (node, PAYLOAD))
    connection.execute(HEAD, (stream, node))


def hub_side(database: Database, producers: int) -> Slice:
    """Concurrent producers, each waiting until its event is on disk."""

    async def produce(stream: int) -> None:
        def transaction(tx: Tx) -> None:
            push(tx.raw, stream)

        for _ in range(EVENTS // producers):
            await database.transaction(transaction)

    async def work() -> int:
        async with asyncio.TaskGroup() as tasks:
            for stream in range(producers):
                tasks.create_task(produce(stream))
        return EVENTS

    return work


def raw_side(connection: sqlite3.Connection, per_commit: int) -> Slice:
    """The same thread, so many events a commit."""

    async def work() -> int:
        for _ in range(EVENTS // per_commit):
            connection.execute("BEGIN IMMEDIATE")
            for stream in range(per_commit):
                push(connection, stream)
            connection.execute("COMMIT")
        return EVENTS

    return work


def open_raw(path: Path) -> sqlite3.Connection:
    """A connection with the same promises."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA wal_autocheckpoint = 4000")
    for statement in SCHEMA:
        connection.execute(statement)
    return connection


async def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        raw = open_raw(Path(name) / "raw.db")
        async with Database(Path(name) / "hub.db") as database:
            await database.migrate("bench", SCHEMA)
            one = {
                "hub, 1 producer": hub_side(database, 1),
                "sqlite3 same thread, one commit each": raw_side(raw, 1),
            }
            report(
                "durable appends, 1 producer",
                await rates(one, 9),
                "events/s",
                "sqlite3 same thread, one commit each",
                ">= 0.5",
            )
            before = database.commits
            many = {
                "hub, 64 producers": hub_side(database, 64),
                "sqlite3 same thread, 64 a commit": raw_side(raw, 64),
                "sqlite3 same thread, one commit each": raw_side(raw, 1),
            }
            measured = await rates(many, 9)
            commits = database.commits - before
            report(
                "durable appends, 64 producers",
                measured,
                "events/s",
                "sqlite3 same thread, 64 a commit",
                ">= 0.7",
            )
            print(f"  commits per event: 1/{EVENTS * 10 / commits:.0f}  (target: <= 1/32)")
        raw.close()


if __name__ == "__main__":
    asyncio.run(main())
