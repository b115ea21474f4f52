"""Durable chat events: the hub's group commit against SQLite used directly in one thread.

The work is the whole push of an event: insert its row and its node, move the stream's head, and
have all of it on disk. Both sides write the same tables with the same indexes.
`python -m tests.bench.storage`
"""

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.arbor.tree import Place
from hubd.storage.database import Database, Tx
from hubd.storage.streams import streams
from hubd.wire.handle import WireHandle
from tests.bench.measure import Slice, rates, report

EVENTS = 1280
PRODUCERS = 64
PAYLOAD = '{"type":"content","text":"' + "x" * 180 + '"}'
HANDLE = WireHandle("claudecode", "1.0.0", "chat_event")

# The newest event of every chat, and its seq.
Newest = dict[int, tuple[Place, int]]

NODE = (
    "INSERT INTO arbor_nodes (id, tree, segment, depth, lane, origin, meta, created_at) "
    "VALUES (?, ?, ?, ?, 1, ?, ?, ?)"
)
EVENT = "INSERT INTO chat_events (key, stream, seq, event_type, event_data) VALUES (?, ?, ?, ?, ?)"
HEAD = "UPDATE chat_streams SET depth = ?, next_seq = ? WHERE key = ?"


async def prepare(database: Database) -> tuple[Newest, int]:
    """A tree with as many chats as there are producers; their newest events, and their origin."""

    def build(tx: Tx) -> tuple[Newest, int]:
        made = tree.create(tx, "bench", 0)
        root = tree.place(tx, made, None)
        origin = tree.origin(tx, HANDLE)
        last: Newest = {}
        for _ in range(PRODUCERS):
            stream = streams.create(tx, ids.uuid4(), made.key, 0)
            streams.start(tx, stream.key, tree.append(tx, root, tree.text("hi"), 0), 0)
            last[stream.key] = (streams.push(tx, stream.key, origin, "start", "{}", 0), 0)
        return last, origin

    return await database.transaction(build)


def hub_side(database: Database, last: Newest, origin: int, producers: int) -> Slice:
    """Concurrent producers, each waiting until its event is on disk."""

    async def produce(stream: int) -> None:
        newest = last[stream]

        def push(tx: Tx) -> None:
            nonlocal newest
            now = int(time.time())
            place = streams.push(tx, stream, origin, "content", PAYLOAD, now, newest)
            newest = last[stream] = (place, newest[1] + 1)

        for _ in range(EVENTS // producers):
            await database.transaction(push)

    async def work() -> int:
        async with asyncio.TaskGroup() as tasks:
            for stream in list(last)[:producers]:
                tasks.create_task(produce(stream))
        return EVENTS

    return work


def raw_side(path: Path, origin: int) -> Callable[[int], Slice]:
    """The least SQL that does the same, in one thread; every position is known beforehand."""
    connection = sqlite3.connect(path, isolation_level=None)
    for setting in ("synchronous = FULL", "wal_autocheckpoint = 4000", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {setting}")
    found = connection.execute("SELECT key, tree, segment, depth, next_seq FROM chat_streams")
    heads = [list(row) for row in found.fetchall()]

    def push(head: list[int]) -> None:
        stream, tree_key, segment, depth, seq = head
        node_id = ids.uuid7()
        meta = f"{ids.text(node_id)}:content"
        values = (node_id, tree_key, segment, depth + 1, origin, meta, int(time.time()))
        key = connection.execute(NODE, values).lastrowid
        connection.execute(EVENT, (key, stream, seq, "content", PAYLOAD))
        connection.execute(HEAD, (depth + 1, seq + 1, stream))
        head[3:] = [depth + 1, seq + 1]

    def committing(per_commit: int) -> Slice:
        async def work() -> int:
            for _ in range(EVENTS // per_commit):
                connection.execute("BEGIN IMMEDIATE")
                for head in heads[:per_commit]:
                    push(head)
                connection.execute("COMMIT")
            return EVENTS

        return work

    return committing


async def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        async with Database(Path(name) / "raw.db") as other:
            await prepare(other)
        raw = Path(name) / "raw.db"
        async with Database(Path(name) / "hub.db") as database:
            last, origin = await prepare(database)
            directly = raw_side(raw, origin)
            one = {
                "hub, 1 producer": hub_side(database, last, origin, 1),
                "sqlite3 same thread, one commit each": directly(1),
            }
            report(
                "durable chat events, 1 producer",
                await rates(one, 9),
                "events/s",
                "sqlite3 same thread, one commit each",
                ">= 0.5",
            )
            before = database.commits
            many = {
                f"hub, {PRODUCERS} producers": hub_side(database, last, origin, PRODUCERS),
                f"sqlite3 same thread, {PRODUCERS} a commit": directly(PRODUCERS),
                "sqlite3 same thread, one commit each": directly(1),
            }
            measured = await rates(many, 9)
            commits = database.commits - before
            report(
                f"durable chat events, {PRODUCERS} producers",
                measured,
                "events/s",
                f"sqlite3 same thread, {PRODUCERS} a commit",
                ">= 0.7",
            )
            print(f"  commits per event: 1/{EVENTS * 10 / commits:.0f}  (target: <= 1/32)")


if __name__ == "__main__":
    asyncio.run(main())
