"""Handles: a batch of them resolved by the hub, against reading the same rows by hand."""

import sqlite3
import uuid
from contextlib import closing
from typing import Final

from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from hubd.wire.item import Data, Item
from tests.bench.measure import Slice, scaled, seconds_per_unit
from tests.bench.row import Bench, Row, Samples, Target
from tests.plugins.claudecode.scripted_chat import begin_chat, claude_hub
from tests.support import Collector, call_events

HANDLES: Final = 100
BATCHES: Final = 10
LONG: Final = 10_000
ROUNDS: Final = 15

SELECT: Final = (
    "SELECT e.seq, n.created_at, e.event_type, e.event_data FROM arbor_nodes AS n "
    "JOIN chat_events AS e ON e.key = n.key WHERE n.id = ?"
)


class Counter(Collector):
    """A caller that encodes every item, as for a client, and keeps none."""

    def __init__(self) -> None:
        super().__init__()
        self.events = 0

    def post(self, *items: Item) -> None:
        for item in items:
            item.encode()
            self.events += isinstance(item, Data)


def _hub_side(hub: Hub, handles: list[str]) -> Slice:
    """Resolve all of them with one call."""

    async def work() -> int:
        for _ in range(BATCHES):
            caller = Counter()
            await Call(hub, "plexus.resolve_handle", {"handle": handles}, caller).run()
            assert caller.events == HANDLES
        return BATCHES

    return work


def _raw_side(connection: sqlite3.Connection, keys: list[bytes]) -> Slice:
    """Make a point read for each."""

    async def work() -> int:
        for _ in range(BATCHES):
            for key in keys:
                assert connection.execute(SELECT, (key,)).fetchone()
        return BATCHES

    return work


async def resolve(bench: Bench) -> Samples:
    """Resolve handles that are spread over a whole chat, in microseconds for a batch."""
    async with claude_hub(bench.directory) as (hub, plugin):
        chat = await begin_chat(plugin)
        await chat.push(*range(LONG))
        records = []
        for seq in range(0, LONG, LONG // HANDLES):
            [page] = await call_events(
                hub, "claudecode.poll", stream_id=chat.stream_id, from_seq=seq, limit=1
            )
            records += page["events"]
        handles = [record["event"]["handle"] for record in records]
        keys = [uuid.UUID(record["node_id"]).bytes for record in records]
        path = f"{plugin.db.path.as_uri()}?mode=ro"
        with closing(sqlite3.connect(path, uri=True)) as connection:
            sides = {"hub": _hub_side(hub, handles), "raw": _raw_side(connection, keys)}
            samples = await seconds_per_unit(sides, bench.rounds_or(ROUNDS))
    return Samples(scaled(samples, 1e6))


ROWS = [
    Row("resolve", "`resolve_handle`, a batch of 100", "100 point reads", Target("<=", 5), "µs",
        resolve, "hub", "raw"),
]  # fmt: skip
MORE: list[Row] = []
