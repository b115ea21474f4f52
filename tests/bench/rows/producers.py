"""Durable chat events over the wire: the hub over WebSocket against other servers, as durably.

An event is its row, its node and the moved head of its stream: for the hub one call of
`tests.bench.pusher`, for Redis one MULTI of XADD, HSET and SET with `appendfsync always`, for
PostgreSQL one statement, for NATS one message that holds all three. Every producer waits until its
event is on disk. All servers are reached over TCP, and all clients run in separate processes.
Their processor time is noted, because a client at 100 % would be the limit.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import AbstractContextManager, AsyncExitStack, closing
from dataclasses import dataclass
from typing import Final

from tests.bench.clients import nats, postgres
from tests.bench.clients.hub import MANY
from tests.bench.clients.process import Side, clients
from tests.bench.clients.worker import Address
from tests.bench.measure import scaled, units_per_second
from tests.bench.row import BEFORE, Bench, Missing, Row, Samples, Target
from tests.bench.servers.daemon import BenchDaemon, daemon, settle
from tests.bench.servers.least import least_server
from tests.bench.servers.nats import nats_server
from tests.bench.servers.postgres import postgres_server
from tests.bench.servers.redis import parser, redis_py, redis_server

PRODUCERS: Final = 64
EVENTS: Final = 2560
EVENTS_OF_ONE: Final = 240
# Calls of `push_many` in a slice.
CALLS: Final = 30
ROUNDS: Final = 9

HUB: Final = "tests.bench.clients.hub"
REDIS: Final = "tests.bench.clients.redis"
FASTEST_REDIS_PY: Final = "redis-py*"


@dataclass(frozen=True)
class Contender:
    """One way to produce events.

    Attributes:
        server: Which server it uses.
        kind: Its kind of client, as `module:function`.
        processes: The processes over which its producers are spread.
    """

    server: str
    kind: str
    processes: int = 1


ONE: Final = {
    "hub": Contender("hub", f"{HUB}:push"),
    "redis-py, asyncio": Contender("redis", f"{REDIS}:with_asyncio"),
    "redis-py, a thread each": Contender("redis", f"{REDIS}:with_threads"),
    "redis, lean": Contender("redis", f"{REDIS}:bare"),
    "asyncpg": Contender("postgres", "tests.bench.clients.postgres:with_asyncio"),
    "nats-py": Contender("nats", "tests.bench.clients.nats:with_asyncio"),
    "least": Contender("least", f"{HUB}:push"),
}
MANY_PRODUCERS: Final = {
    **ONE,
    "hub, one WebSocket": Contender("hub", f"{HUB}:push_shared"),
    "least, one WebSocket": Contender("least", f"{HUB}:push_shared"),
    "redis-py, asyncio, 2 processes": Contender("redis", f"{REDIS}:with_asyncio", 2),
    "redis-py, threads, 2 processes": Contender("redis", f"{REDIS}:with_threads", 2),
}
BATCHES: Final = {
    "hub, push_many": Contender("hub", f"{HUB}:push_many"),
    "redis-py, asyncio": Contender("redis", f"{REDIS}:many_with_asyncio"),
    "redis-py, a thread each": Contender("redis", f"{REDIS}:many_with_threads"),
}


async def producers_64(bench: Bench) -> Samples:
    """Let 64 producers push."""
    return await _measure(bench, MANY_PRODUCERS, PRODUCERS, bench.count(EVENTS, PRODUCERS))


async def producer_1(bench: Bench) -> Samples:
    """Let one producer push."""
    return await _measure(bench, ONE, 1, bench.count(EVENTS_OF_ONE))


async def batches(bench: Bench) -> Samples:
    """Let one producer push 64 events with each call."""
    return await _measure(bench, BATCHES, 1, bench.count(CALLS), MANY)


async def _measure(
    bench: Bench,
    contenders: Mapping[str, Contender],
    producers: int,
    units: int,
    events_of_unit: int = 1,
) -> Samples:
    async with AsyncExitStack() as stack:
        wanted = {each.server for each in contenders.values()}
        servers = Servers(bench, stack, producers)
        await servers.start(wanted)
        sides: dict[str, Side] = {}
        missing: dict[str, str] = {}
        for name, contender in contenders.items():
            for end in ("", BEFORE) if contender.server == "hub" else ("",):
                try:
                    address = servers.address(contender, end)
                except Missing as problem:
                    missing[name + end] = str(problem)
                    continue
                starting = clients(contender.kind, address, producers, contender.processes)
                sides[name + end] = await stack.enter_async_context(starting)
        await settle()
        slices = {name: side.slice(units) for name, side in sides.items()}
        measured = await units_per_second(slices, bench.rounds_or(ROUNDS))
        servers.check(contenders, sides, producers, events_of_unit)
    busy = ", ".join(f"{name} {side.busy_share:.0%}" for name, side in sides.items())
    notes = [f"clients busy: {busy}"]
    if "redis" in servers.ports:
        notes.append(f"redis-py {parser()}")
    return Samples(scaled(measured, events_of_unit), missing, notes)


class Servers:
    """The servers of one comparison, and the reasons why some could not run."""

    def __init__(self, bench: Bench, stack: AsyncExitStack, producers: int) -> None:
        self._bench = bench
        self._stack = stack
        self._producers = producers
        # The daemons by the end of the names of their sides, and their addresses.
        self._hubs: dict[str, BenchDaemon] = {}
        self._addresses: dict[str, Address] = {}
        self.ports: dict[str, int] = {}
        # The address of the least server.
        self._least: Address = {}
        self._missing: dict[str, str] = {}

    async def start(self, wanted: set[str]) -> None:
        """Run a daemon of each version, and the other servers that are installed."""
        for version, end in zip(self._bench.versions, ("", BEFORE), strict=False):
            home = self._bench.directory / f"home{end}"
            running = self._stack.enter_context(daemon(version, home, "pusher:Pusher"))
            begun = await running.events("pusher.begin", count=self._producers)
            self._hubs[end] = running
            keys = [event["stream"] for event in begun]
            self._addresses[end] = {**running.address, "streams": keys}
        if "least" in wanted:
            directory = self._bench.directory / "least"
            directory.mkdir()
            self._least = self._stack.enter_context(least_server(directory))
        for name in wanted - {"hub", "least"}:
            try:
                self.ports[name] = self._stack.enter_context(self._peer(name))
            except Missing as problem:
                self._missing[name] = str(problem)
        if "postgres" in self.ports:
            await postgres.create_tables(self.ports["postgres"], self._producers)
        if "nats" in self.ports:
            await nats.create_stream(self.ports["nats"])

    def _peer(self, name: str) -> AbstractContextManager[int]:
        if name == "redis":
            return redis_server(self._bench.directory)
        return postgres_server() if name == "postgres" else nats_server(self._bench.directory)

    def address(self, contender: Contender, end: str) -> Address:
        """Return the address for a contender's clients.

        Raises:
            Missing: Its server is not installed, or this version lacks the method.
        """
        if contender.server == "least":
            return self._least
        if contender.server != "hub":
            if contender.server in self._missing:
                raise Missing(self._missing[contender.server])
            return {"port": self.ports[contender.server]}
        if end not in self._hubs:
            raise Missing("no commit to compare with was named")
        method = contender.kind.partition(":")[2].removesuffix("_shared")
        version = self._hubs[end].version
        if not version.has("tests/bench/pusher.py", f"async def {method}("):
            raise Missing(f"tests/bench/pusher.py of {version.name} has no method {method}")
        return self._addresses[end]

    def check(
        self,
        contenders: Mapping[str, Contender],
        sides: Mapping[str, Side],
        producers: int,
        events_of_unit: int,
    ) -> None:
        """Check that the hub and Redis have kept all events that were acknowledged."""
        for end, hub in self._hubs.items():
            with closing(sqlite3.connect(f"{hub.database.as_uri()}?mode=ro", uri=True)) as database:
                [(kept,)] = database.execute("SELECT count(*) FROM chat_events")
            names = [name + end for name, each in contenders.items() if each.server == "hub"]
            made = sum(sides[name].done for name in names if name in sides) * events_of_unit
            assert kept == made, f"the hub has {kept} events of {made}"
        if "redis" in self.ports:
            with closing(redis_py().Redis(port=self.ports["redis"])) as client:
                kept = sum(client.xlen(f"stream:{number}") for number in range(producers))
            names = [name for name, each in contenders.items() if each.server == "redis"]
            made = sum(sides[name].done for name in names) * events_of_unit
            assert kept == made, f"Redis has {kept} events of {made}"


WHAT = "durable chat events over WebSocket"
LEAST = "the same events with the least server in Python"
FASTEST = "the fastest redis-py"
ROWS = [
    Row("producers-64-asyncio", f"{WHAT}, 64 producers", "redis-py asyncio", Target(">=", 1.8),
        "events/s", producers_64, "hub", "redis-py, asyncio"),
    Row("producers-64", f"{WHAT}, 64 producers", FASTEST, Target(">=", 1.3), "events/s",
        producers_64, "hub", FASTEST_REDIS_PY),
    Row("shared-64", f"{WHAT}, 64 producers on one WebSocket", FASTEST, Target(">=", 2.2),
        "events/s", producers_64, "hub, one WebSocket", FASTEST_REDIS_PY),
    Row("producer-1-asyncio", f"{WHAT}, 1 producer", "redis-py asyncio", Target(">=", 1.1),
        "events/s", producer_1, "hub", "redis-py, asyncio"),
    Row("producer-1", f"{WHAT}, 1 producer", FASTEST, Target(">=", 0.9), "events/s", producer_1,
        "hub", FASTEST_REDIS_PY),
    Row("push-many", "`push_many` of 64 events", "one MULTI of 64, the fastest redis-py",
        Target(">=", 2), "events/s", batches, "hub, push_many", FASTEST_REDIS_PY),
    Row("least-64", f"{LEAST}, 64 producers", FASTEST, None, "events/s", producers_64, "least",
        FASTEST_REDIS_PY),
    Row("least-shared-64", f"{LEAST}, 64 producers on one WebSocket", FASTEST, None, "events/s",
        producers_64, "least, one WebSocket", FASTEST_REDIS_PY),
    Row("least-1", f"{LEAST}, 1 producer", FASTEST, None, "events/s", producer_1, "least",
        FASTEST_REDIS_PY),
    Row("producers-64-postgres", f"{WHAT}, 64 producers", "PostgreSQL, asyncpg", None, "events/s",
        producers_64, "hub", "asyncpg"),
    Row("producers-64-nats", f"{WHAT}, 64 producers", "NATS JetStream, nats-py", None, "events/s",
        producers_64, "hub", "nats-py"),
    Row("producer-1-postgres", f"{WHAT}, 1 producer", "PostgreSQL, asyncpg", None, "events/s",
        producer_1, "hub", "asyncpg"),
    Row("producer-1-nats", f"{WHAT}, 1 producer", "NATS JetStream, nats-py", None, "events/s",
        producer_1, "hub", "nats-py"),
]  # fmt: skip
MORE = [
    Row("producers-64-lean", f"{WHAT}, 64 producers", "Redis with a lean client", None,
        "events/s", producers_64, "hub", "redis, lean"),
    Row("producer-1-lean", f"{WHAT}, 1 producer", "Redis with a lean client", None, "events/s",
        producer_1, "hub", "redis, lean"),
]  # fmt: skip
