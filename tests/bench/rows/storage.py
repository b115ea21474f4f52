"""Durable chat events in one process: the hub's group commit against SQLite used directly.

The work is the whole push of an event: insert its row and its node, move the stream's head, and
have all of it on disk. Both sides write the same tables with the same indexes.
"""

import asyncio
import json
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final

from hubd.plugins.claudecode.protocol.updates import OtherLine
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.arbor.tree import Place
from hubd.storage.database import Database, Tx
from hubd.storage.streams import streams
from hubd.wire.handle import WireHandle
from tests.bench.clients.hub import PAYLOAD
from tests.bench.measure import Slice, units_per_second
from tests.bench.row import Bench, Row, Samples, Target
from tests.plugins.claudecode.scripted_chat import ScriptedChat, begin_chat, claude_hub

EVENTS: Final = 1280
PRODUCERS: Final = 64
ROUNDS: Final = 15
HANDLE: Final = WireHandle("claudecode", "1.0.0", "chat_event")

# The newest event of every chat, and its seq.
Newest = dict[int, tuple[Place, int]]

NODE: Final = (
    "INSERT INTO arbor_nodes (id, tree, segment, depth, lane, origin, meta, created_at) "
    "VALUES (?, ?, ?, ?, 1, ?, ?, ?)"
)
EVENT: Final = (
    "INSERT INTO chat_events (key, stream, seq, event_type, event_data) VALUES (?, ?, ?, ?, ?)"
)
HEAD: Final = "UPDATE chat_streams SET depth = ?, next_seq = ? WHERE key = ?"


async def prepare(database: Database) -> tuple[Newest, int]:
    """Create a tree with a chat for each producer; return their newest events and their origin."""

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


def _hub_side(database: Database, last: Newest, origin: int, producers: int, events: int) -> Slice:
    """Let producers push, each of which waits until its event is on disk."""

    async def produce(stream: int) -> None:
        def push(tx: Tx) -> Place:
            now = int(time.time())
            return streams.push(tx, stream, origin, "content", PAYLOAD, now, last[stream])

        for _ in range(events // producers):
            # After the commit, because a transaction may run more than once.
            place = await database.transaction(push)
            last[stream] = (place, last[stream][1] + 1)

    async def work() -> int:
        async with asyncio.TaskGroup() as tasks:
            for stream in list(last)[:producers]:
                tasks.create_task(produce(stream))
        return events // producers * producers

    return work


def _chats_side(chats: list[ScriptedChat], events: int) -> Slice:
    """Let chats record, each of which continues when its event is on disk."""
    update = OtherLine("bench", json.loads(PAYLOAD))

    async def talk(chat: ScriptedChat) -> None:
        for _ in range(events // len(chats)):
            await chat.take([update])

    async def work() -> int:
        async with asyncio.TaskGroup() as tasks:
            for chat in chats:
                tasks.create_task(talk(chat))
        return events // len(chats) * len(chats)

    return work


class RawPusher:
    """The least SQL that does the same, in one thread. Every position is known beforehand."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        for setting in ("synchronous = FULL", "wal_autocheckpoint = 4000", "foreign_keys = ON"):
            self.connection.execute(f"PRAGMA {setting}")
        columns = "key, tree, segment, depth, next_seq"
        rows = self.connection.execute(f"SELECT {columns} FROM chat_streams").fetchall()
        self._heads = [list(row) for row in rows]
        [self._origin] = self.connection.execute("SELECT max(key) FROM arbor_origins").fetchone()

    def write(self, events: Iterable[tuple[int, str]]) -> None:
        """Write events, each with the number of its chat, in one transaction."""
        self.connection.execute("BEGIN IMMEDIATE")
        for number, data in events:
            self._push(self._heads[number], data)
        self.connection.execute("COMMIT")

    def _push(self, head: list[int], data: str) -> None:
        stream, tree_key, segment, depth, seq = head
        node_id = ids.uuid7()
        meta = f"{ids.text(node_id)}:content"
        values = (node_id, tree_key, segment, depth + 1, self._origin, meta, int(time.time()))
        key = self.connection.execute(NODE, values).lastrowid
        self.connection.execute(EVENT, (key, stream, seq, "content", data))
        self.connection.execute(HEAD, (depth + 1, seq + 1, stream))
        head[3:] = [depth + 1, seq + 1]

    def side(self, per_commit: int, events: int) -> Slice:
        """Return the work as a side of a comparison."""

        async def work() -> int:
            for _ in range(events // per_commit):
                self.write((number, PAYLOAD) for number in range(per_commit))
            return events // per_commit * per_commit

        return work


async def raw_pusher(path: Path) -> RawPusher:
    """Create a database with a chat for each producer, and open it."""
    async with Database(path) as database:
        await prepare(database)
    return RawPusher(path)


async def durable(bench: Bench) -> Samples:
    """Push the events of 1 and of 64 producers."""
    raw = await raw_pusher(bench.directory / "raw.db")
    events = bench.count(EVENTS, PRODUCERS)
    with closing(raw.connection):
        async with Database(bench.directory / "hub.db") as database:
            last, origin = await prepare(database)
            samples: dict[str, list[float]] = {}
            before = made = 0
            for producers in (1, PRODUCERS):
                before, made = database.commits, 0
                sides = {
                    f"hub {producers}": _hub_side(database, last, origin, producers, events),
                    f"raw {producers}": raw.side(producers, events),
                }
                measured = await units_per_second(sides, bench.rounds_or(ROUNDS))
                made = (len(measured[f"hub {producers}"]) + 1) * events
                samples |= measured
            share = made / (database.commits - before)
    return Samples(samples, notes=[f"{PRODUCERS} producers: {share:.0f} events per commit"])


async def recorded(bench: Bench) -> Samples:
    """Record the events of 1 and of 64 chats, as the plugin claudecode does."""
    raw = await raw_pusher(bench.directory / "raw.db")
    events = bench.count(EVENTS, PRODUCERS)
    samples: dict[str, list[float]] = {}
    with closing(raw.connection):
        async with claude_hub(bench.directory) as (_, plugin):
            chats = [await begin_chat(plugin, f"chat {number}") for number in range(PRODUCERS)]
            for count in (1, PRODUCERS):
                sides: dict[str, Slice] = {
                    f"hub {count}": _chats_side(chats[:count], events),
                    f"raw {count}": raw.side(count, events),
                }
                samples |= await units_per_second(sides, bench.rounds_or(ROUNDS))
    return Samples(samples)


EACH = "sqlite3 in the same thread, one commit each"
TOGETHER = "sqlite3 in the same thread, 64 a commit"
ROWS = [
    Row("durable-1", "durable chat events, whole push in process, 1 producer", EACH,
        Target(">=", 0.8), "events/s", durable, "hub 1", "raw 1"),
    Row("durable-64", "durable chat events, whole push in process, 64 producers", TOGETHER,
        Target(">=", 0.8), "events/s", durable, "hub 64", "raw 64"),
]  # fmt: skip
MORE = [
    Row("recorded-1", "events of a chat, recorded in process, 1 chat", EACH, None, "events/s",
        recorded, "hub 1", "raw 1"),
    Row("recorded-64", "events of a chat, recorded in process, 64 chats", TOGETHER, None,
        "events/s", recorded, "hub 64", "raw 64"),
]  # fmt: skip
