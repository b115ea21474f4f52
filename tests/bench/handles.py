"""Handles: a batch of them resolved by the hub, against reading the same rows by hand.

`python -m tests.bench.handles`
"""

import asyncio
import sqlite3
import tempfile
import uuid
from pathlib import Path

from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.handles import ContentRef
from hubd.plugins.claudecode.plugin import ClaudeCode
from hubd.storage.database import Tx
from hubd.wire.item import Data, Item
from tests.bench.measure import Slice, rates, report
from tests.plugins.claudecode.scripted_chat import ScriptedChat, begin_chat, claude_hub
from tests.support import Collector, call_events

HANDLES = 100
BATCHES = 10
LONG = 10_000

ROW = (
    "SELECT e.seq, n.created_at, e.event_type, e.event_data FROM arbor_nodes AS n "
    "JOIN chat_events AS e ON e.key = n.key WHERE n.id = ?"
)


class Counter(Collector):
    """A caller that encodes every item, as for a client, and keeps none."""

    def __init__(self) -> None:
        super().__init__()
        self.events = 0

    def post(self, item: Item) -> None:
        item.encode()
        self.events += isinstance(item, Data)


def hub_side(hub: Hub, handles: list[str]) -> Slice:
    """One call for all of them."""

    async def work() -> int:
        for _ in range(BATCHES):
            caller = Counter()
            await Call(hub, "plexus.resolve_handle", {"handle": handles}, caller).run()
            assert caller.events == HANDLES
        return BATCHES

    return work


def single_side(hub: Hub, handles: list[str]) -> Slice:
    """A call for each."""

    async def work() -> int:
        caller = Counter()
        for handle in handles:
            await Call(hub, "plexus.resolve_handle", {"handle": handle}, caller).run()
        assert caller.events == HANDLES
        return 1

    return work


async def blocks(plugin: ClaudeCode, chat: ScriptedChat) -> list[str]:
    """Store blocks of text, and return their handles."""

    def write(tx: Tx) -> list[bytes]:
        return [
            store.add_blob(
                tx,
                chat.session.tree,
                chat.session.id,
                "content",
                {"block": {"type": "text", "text": f"block {number}"}, "block_index": number},
                0,
            )
            for number in range(HANDLES)
        ]

    stored = await plugin.db.transaction(write)
    return [
        str(ContentRef(blob_id=uuid.UUID(bytes=blob), block_index=number))
        for number, blob in enumerate(stored)
    ]


def raw_side(connection: sqlite3.Connection, keys: list[bytes]) -> Slice:
    """A point read for each."""

    async def work() -> int:
        for _ in range(BATCHES):
            for key in keys:
                assert connection.execute(ROW, (key,)).fetchone()
        return BATCHES

    return work


async def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        async with claude_hub(Path(name)) as (hub, plugin):
            chat = await begin_chat(plugin)
            await chat.push(*range(LONG))
            # Spread over the whole chat.
            records = []
            for seq in range(0, LONG, LONG // HANDLES):
                [page] = await call_events(
                    hub, "claudecode.poll", stream_id=chat.stream_id, from_seq=seq, limit=1
                )
                records += page["events"]
            handles = [record["event"]["handle"] for record in records]
            keys = [uuid.UUID(record["node_id"]).bytes for record in records]
            connection = sqlite3.connect(f"{plugin.db.path.as_uri()}?mode=ro", uri=True)
            texts = await blocks(plugin, chat)
            sides = {
                "hub": hub_side(hub, handles),
                "blocks of text": hub_side(hub, texts),
                "one call for each": single_side(hub, handles),
                "point reads": raw_side(connection, keys),
            }
            measured = await rates(sides)
            connection.close()
        report(f"resolve_handle, {HANDLES} at once", measured, "batches/s", "hub", "see cost")
        for name in list(sides)[:3]:
            cost = measured["point reads"] / measured[name]
            target = "  (target: <= 5)" if name == "hub" else ""
            print(f"  {name}: cost against {HANDLES} point reads x{cost:.1f}{target}")


if __name__ == "__main__":
    asyncio.run(main())
