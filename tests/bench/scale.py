"""What grows with the database: calls, short lists and the start, large against small.

`python -m tests.bench.scale [EVENTS]`, by default 1,000,000 events of 1,000 sessions, and 11,000
trees. The large database is built first, which takes a minute. `rows/waits.py` measures the waits
of other clients beside the longest lists.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.chat_events import Passthrough
from hubd.plugins.claudecode.plugin import ClaudeCode
from hubd.plugins.claudecode.protocol.messages import ResultLine
from hubd.plugins.claudecode.protocol.updates import SessionStarted
from hubd.plugins.claudecode.record.mirror import Mirror
from hubd.plugins.claudecode.sessions import SESSIONS, Columns
from hubd.storage.arbor import tree
from hubd.storage.database import Tx
from hubd.storage.streams import streams
from tests.bench.rows.handles import Counter
from tests.plugins.claudecode.scripted_chat import NOW, claude_hub
from tests.support import Daemon, call_events

EVENTS = 1_000_000
# The events of a session are those of this many chats.
CHATS = 10
EVENTS_OF_CHAT = 100
OTHER_TREES = 10_000
# Sessions, and other trees, of the small database: as many as a page of a list has.
FEW = 100
ROUNDS = 15
STARTS = 7
RESULT = ResultLine(
    "success", False, "x", None, {"input_tokens": 5, "output_tokens": 7}, 0.25, 2, None, None, {}
)
STARTED = SessionStarted("native", "a model", "/", (), {})
EVENT = Passthrough.fields(event_type="bench", data={"text": "some words of an event " * 4})


def add_session(tx: Tx, number: int, chats: int) -> None:
    """Add a session with its chats."""
    session = SESSIONS.create(tx, f"session-{number}", Columns("/"), NOW)
    for _ in range(chats):
        stream = streams.create(tx, session.id, session.tree, NOW)
        mirror = Mirror(session, stream.key, "offline", ephemeral=False)
        mirror.begin(tx, store.place_of(tx, session.head), f"prompt {number}", 0, NOW)
        for _ in range(EVENTS_OF_CHAT - 3):
            mirror.push(tx, EVENT, NOW)
        mirror.apply(tx, STARTED, NOW)
        mirror.apply(tx, RESULT, NOW)
        mirror.end(tx, "complete", NOW)


def add_trees(tx: Tx, count: int) -> None:
    """Add trees without chats."""
    for _ in range(count):
        tree.create(tx, "bench", NOW)


async def fill(plugin: ClaudeCode, sessions: int, trees: int, chats: int = CHATS) -> None:
    """Add sessions and trees. The session in the middle has as many chats in each database."""
    for number in range(sessions):
        count = CHATS if number == sessions // 2 else chats
        await plugin.db.transaction(partial(add_session, number=number, chats=count))
    for _ in range(0, trees, 100):
        await plugin.db.transaction(partial(add_trees, count=100))


async def places(hub: Hub) -> dict[str, Any]:
    """Return a stream, its tree, a node and a handle of the session in the middle."""
    pages = await call_events(hub, "claudecode.list")
    names = [row["name"] for page in pages for row in page["sessions"]]
    session = names[len(names) // 2]
    [polled] = await call_events(hub, "claudecode.poll", name=session, from_seq=0, limit=100)
    event = polled["events"][-1]
    found = await call_events(hub, "claudecode.get_tree", name=session)
    return {
        "name": session,
        "seq": polled["total_events"] - 50,
        "tree_id": found[0]["head"]["tree_id"],
        "node_id": found[0]["head"]["node_id"],
        "handle": event["event"]["handle"],
    }


def calls(at: dict[str, Any]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the calls that must not grow, by their titles."""
    name = {"name": at["name"]}
    node = {"tree_id": at["tree_id"], "node_id": at["node_id"]}
    return {
        "get": ("claudecode.get", name),
        "poll at the end": ("claudecode.poll", {**name, "from_seq": max(at["seq"], 0)}),
        "resolve_handle": ("plexus.resolve_handle", {"handle": at["handle"]}),
        "node_get": ("arbor.node_get", node),
        "tree_render": ("arbor.tree_render", {"tree_id": at["tree_id"]}),
        "list, limit 20": ("claudecode.list", {"limit": 20}),
        "streams, limit 20": ("claudecode.streams", {"limit": 20}),
        "tree_list, limit 20": ("arbor.tree_list", {"limit": 20}),
        "usage by model": ("claudecode.usage", {"by": "model"}),
        "usage by day": ("claudecode.usage", {"by": "day"}),
        "usage of a session": ("claudecode.usage", name),
        "usage by branch": ("claudecode.usage", {**name, "by": "branch"}),
    }


def calling(hub: Hub, method: str, params: dict[str, Any]) -> Callable[[], Awaitable[float]]:
    """Return a function that makes a call, and returns its duration."""

    async def work() -> float:
        began = time.perf_counter()
        caller = Counter()
        await Call(hub, method, params, caller).run()
        assert caller.events, method
        return time.perf_counter() - began

    return work


def forking(hub: Hub, at: dict[str, Any]) -> Callable[[], Awaitable[float]]:
    """Return a function that forks a session under a new name."""
    number = 0

    async def work() -> float:
        nonlocal number
        number += 1
        params = {"name": at["name"], "new_name": f"fork-{number}-{time.monotonic_ns()}"}
        return await calling(hub, "claudecode.fork", params)()

    return work


async def grow(small: tuple[Hub, dict[str, Any]], large: tuple[Hub, dict[str, Any]]) -> None:
    """Print the duration of each call at both sizes, taking turns."""
    print("\ncalls, large against small  (target: <= 1.2)")
    sides = [
        {**{title: calling(hub, *call) for title, call in calls(at).items()}}
        | {"fork": forking(hub, at)}
        for hub, at in (small, large)
    ]
    for title in sides[0]:
        samples: list[list[float]] = [[], []]
        for number in range(ROUNDS + 1):
            for side, kept in zip(sides, samples, strict=True):
                took = [await side[title]() for _ in range(5)]
                if number:
                    kept.append(min(took))
        few, many = (statistics.median(kept) * 1e6 for kept in samples)
        print(f"  {title:<24} {few:>10,.0f} µs {many:>10,.0f} µs   x{many / few:.2f}")


def starts(small: Path, large: Path) -> None:
    """Print the time until a daemon answers at both sizes, taking turns."""
    samples: list[list[float]] = [[], []]
    for number in range(STARTS + 1):
        for home, kept in zip((small, large), samples, strict=True):
            began = time.perf_counter()
            with Daemon(home):
                took = time.perf_counter() - began
            if number:
                kept.append(took)
    few, many = (statistics.median(kept) * 1000 for kept in samples)
    print(f"\nstart                      {few:>10,.0f} ms {many:>10,.0f} ms   x{many / few:.2f}")


async def main(events: int) -> None:
    """Build, measure and print."""
    sessions = events // (CHATS * EVENTS_OF_CHAT)
    with tempfile.TemporaryDirectory() as name:
        small, large = Path(name) / "small", Path(name) / "large"
        for home in (small, large):
            home.mkdir(mode=0o700)
        async with claude_hub(small) as (few, plugin), claude_hub(large) as (many, other):
            await fill(plugin, FEW, FEW, chats=1)
            began = time.perf_counter()
            await fill(other, sessions, OTHER_TREES)
            size = (large / "hub.db").stat().st_size / 1e6
            print(f"{events:,} events, {size:,.0f} MB, {time.perf_counter() - began:.0f} s")
            await grow((few, await places(few)), (many, await places(many)))
        starts(small, large)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS))
