"""Cost against size: a poll, a page of a path and a fork cost the same however much there is."""

import itertools
from collections.abc import Iterator
from typing import Final

from hubd.plexus.hub import Hub
from hubd.plugins.claudecode.plugin import ClaudeCode
from hubd.storage.database import Database
from tests.bench.arbor import chain, page_side
from tests.bench.measure import Slice, scaled, seconds_per_unit
from tests.bench.row import Bench, Row, Samples, Target
from tests.plugins.claudecode.scripted_chat import ScriptedChat, begin_chat, claude_hub
from tests.support import call_events

POLLS: Final = 25
FORKS: Final = 25
ROUNDS: Final = 15
# Events of a chat, and nodes of a tree.
TINY, SHORT, LONG, MILLION = 10, 100, 100_000, 1_000_000
BATCH: Final = 5000


async def polls_and_forks(bench: Bench) -> Samples:
    """Poll the last hundred events of chats, and fork their sessions."""
    async with claude_hub(bench.directory) as (hub, plugin):
        long = bench.count(LONG, 1000)
        polls = {
            name: _poll_side(hub, await _chat(plugin, f"polled {name}", total), total)
            for name, total in (("poll small", SHORT), ("poll large", long))
        }
        numbers = itertools.count()
        forks: dict[str, Slice] = {}
        for name, total in (("fork small", TINY), ("fork large", long)):
            chat = await _chat(plugin, f"forked {name}", total)
            await chat.end()
            forks[name] = _fork_side(hub, chat.session.name, numbers)
        rounds = bench.rounds_or(ROUNDS)
        samples = await seconds_per_unit(polls, rounds) | await seconds_per_unit(forks, rounds)
    return Samples(scaled(samples, 1e6))


async def pages(bench: Bench) -> Samples:
    """Read a page of ten nodes in the middle of a path."""
    async with Database(bench.directory / "hub.db") as database:
        sides = {}
        for name, total in (("small", 1000), ("large", bench.count(MILLION, 2000))):
            _, tip = await chain(database, total)
            sides[name] = page_side(database, tip, total // 2)
        samples = await seconds_per_unit(sides, bench.rounds_or(ROUNDS))
    # A unit is a node.
    return Samples(scaled(samples, 10e6))


async def _chat(plugin: ClaudeCode, name: str, total: int) -> ScriptedChat:
    """Return a chat with so many events."""
    chat = await begin_chat(plugin, name)
    for start in range(2, total, BATCH):
        await chat.push(*range(start, min(start + BATCH, total)))
    return chat


def _poll_side(hub: Hub, chat: ScriptedChat, total: int) -> Slice:
    async def work() -> int:
        for _ in range(POLLS):
            [page] = await call_events(
                hub, "claudecode.poll", stream_id=chat.stream_id, from_seq=total - 100
            )
            assert len(page["events"]) == 100
        return POLLS

    return work


def _fork_side(hub: Hub, name: str, forks: Iterator[int]) -> Slice:
    async def work() -> int:
        for _ in range(FORKS):
            await call_events(hub, "claudecode.fork", name=name, new_name=f"fork {next(forks)}")
        return FORKS

    return work


LIMIT = Target("<=", 1.2)
ROWS = [
    Row("poll-growth", "poll of 100 at the end of 100,000 events", "of 100 events", LIMIT, "µs",
        polls_and_forks, "poll large", "poll small"),
    Row("page-growth", "page of a path in 1,000,000 nodes", "in 1,000 nodes", LIMIT, "µs",
        pages, "large", "small"),
    Row("fork-growth", "fork of 100,000 events", "of 10 events", LIMIT, "µs", polls_and_forks,
        "fork large", "fork small"),
]  # fmt: skip
MORE: list[Row] = []
