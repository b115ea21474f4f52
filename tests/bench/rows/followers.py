"""From a push to the last of a hundred followers: the hub over WebSocket against Redis.

The time from the moment a push is sent until the last follower has the event, which is on disk by
then. In the hub each follows by `claudecode.follow` on its WebSocket; in Redis each waits
in XREAD on its connection, and the next push waits until all of them wait again.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Final

from tests.bench.clients import lean
from tests.bench.clients.hub import PAYLOAD
from tests.bench.clients.lean import LeanRedis, LeanSocket
from tests.bench.row import BEFORE, Bench, Missing, Row, Samples, Target
from tests.bench.servers.daemon import BenchDaemon, daemon
from tests.bench.servers.redis import redis_py, redis_server

FOLLOWERS: Final = 100
PUSHES: Final = 15
ROUNDS: Final = 11
# Bounds one push.
PUSH_SECONDS: Final = 30.0

FOLLOWED: Final = b'"content_type":"claudecode.follow"'
# The lines of an answer to XREAD with one event of two fields.
LINES_OF_XREAD: Final = 17

# One push; returns the seconds until the last follower has it.
Push = Callable[[], Awaitable[float]]
Side = Callable[[], AbstractAsyncContextManager[Push]]


class Arrivals:
    """Counts followers as they get an event."""

    def __init__(self) -> None:
        self._missing = 0
        self._all = asyncio.get_running_loop().create_future()

    def expect(self) -> None:
        """Begin to count: an event is about to be pushed."""
        self._missing = FOLLOWERS
        self._all = asyncio.get_running_loop().create_future()

    def one(self) -> None:
        """Count a follower that has it."""
        self._missing -= 1
        if not self._missing:
            self._all.set_result(None)

    async def all(self) -> None:
        """Wait for the last."""
        await self._all


@asynccontextmanager
async def hub_side(hub: BenchDaemon) -> AsyncIterator[Push]:
    """Let lean clients follow a stream of the hub."""
    arrivals = Arrivals()
    [begun] = await hub.events("pusher.begin", count=1)
    following = lean.call(1, "claudecode.follow", stream_id=begun["stream_id"])
    request = lean.call(1, "pusher.push", stream=begun["stream"], data=PAYLOAD)

    def follower_takes(message: bytes) -> None:
        assert lean.FAILED not in message, message
        if FOLLOWED in message:
            arrivals.one()

    async with AsyncExitStack() as stack:
        url, token = hub.address["url"], hub.address["token"]
        pusher = await LeanSocket.connect(url, token)
        stack.callback(pusher.close)
        arrivals.expect()
        for _ in range(FOLLOWERS):
            follower = await LeanSocket.connect(url, token)
            stack.callback(follower.close)
            follower.take = follower_takes
            follower.send(following)

        async def push() -> float:
            answered = asyncio.get_running_loop().create_future()

            def take(message: bytes) -> None:
                if lean.DONE in message:
                    answered.set_result(None)

            pusher.take = take
            arrivals.expect()
            began = time.perf_counter()
            pusher.send(request)
            await arrivals.all()
            elapsed = time.perf_counter() - began
            await answered
            return elapsed

        # The first event also reaches followers that start later.
        await push()
        yield push


@asynccontextmanager
async def all_blocked(port: int) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Yield a function that waits until all followers wait in Redis."""
    client = redis_py("redis.asyncio").Redis(port=port)

    async def wait() -> None:
        while (await client.info("clients"))["blocked_clients"] < FOLLOWERS:
            pass

    yield wait
    await client.aclose()


@asynccontextmanager
async def redis_py_side(port: int) -> AsyncIterator[Push]:
    """Let redis-py for asyncio follow."""
    arrivals = Arrivals()
    make = redis_py("redis.asyncio").Redis

    async def follow(client: Any) -> None:
        last: Any = "$"
        while True:
            [(_, events)] = await client.xread({"followed": last}, block=0)
            last = events[-1][0]
            arrivals.one()

    options = {"port": port, "single_connection_client": True, "socket_timeout": None}
    clients = [make(**options) for _ in range(FOLLOWERS + 1)]
    async with all_blocked(port) as blocked, asyncio.TaskGroup() as tasks:
        followers = [tasks.create_task(follow(client)) for client in clients[1:]]

        async def push() -> float:
            await blocked()
            arrivals.expect()
            began = time.perf_counter()
            adding = asyncio.ensure_future(
                clients[0].xadd("followed", {"type": "content", "data": PAYLOAD})
            )
            await arrivals.all()
            elapsed = time.perf_counter() - began
            await adding
            return elapsed

        yield push
        for task in followers:
            task.cancel()
    for client in clients:
        await client.aclose()


@asynccontextmanager
async def redis_lean_side(port: int) -> AsyncIterator[Push]:
    """Let lean clients follow, to measure Redis alone."""
    arrivals = Arrivals()
    latest = b"$"
    async with AsyncExitStack() as stack:
        blocked = await stack.enter_async_context(all_blocked(port))
        pusher = await LeanRedis.connect(port, lines=2)
        followers = [await LeanRedis.connect(port, LINES_OF_XREAD) for _ in range(FOLLOWERS)]
        for each in (pusher, *followers):
            stack.callback(each.close)
        for follower in followers:
            follower.take = lambda answer: arrivals.one()
        adding = lean.command("XADD", "lean", "*", "type", "content", "data", PAYLOAD)

        async def push() -> float:
            nonlocal latest
            reading = lean.command("XREAD", "BLOCK", 0, "STREAMS", "lean", latest)
            for follower in followers:
                follower.send(reading)
            await blocked()
            answered = asyncio.get_running_loop().create_future()
            pusher.take = answered.set_result
            arrivals.expect()
            began = time.perf_counter()
            pusher.send(adding)
            await arrivals.all()
            elapsed = time.perf_counter() - began
            latest = (await answered).split(b"\r\n")[1]
            return elapsed

        yield push


async def followers(bench: Bench) -> Samples:
    """Push to a hundred followers of each side, in milliseconds."""
    missing: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        sides: dict[str, Side] = {}
        for version, end in zip(bench.versions, ("", BEFORE), strict=False):
            home = bench.directory / f"home{end}"
            hub = stack.enter_context(daemon(version, home, "pusher:Pusher"))
            sides[f"hub{end}"] = _of(hub_side, hub)
        try:
            port = stack.enter_context(redis_server(bench.directory))
            sides["redis-py"] = _of(redis_py_side, port)
            sides["redis"] = _of(redis_lean_side, port)
        except Missing as problem:
            missing = dict.fromkeys(("redis-py", "redis"), str(problem))
        samples: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(bench.rounds_or(ROUNDS) + 1):
            # One after the other: XREADs of one side that wait would be counted for the other.
            for name, side in sides.items():
                async with side() as push, asyncio.timeout(PUSH_SECONDS):
                    seconds = [await push() for _ in range(bench.count(PUSHES))]
                if number:  # the first round warms up
                    samples[name].append(statistics.median(seconds) * 1000)
    return Samples(samples, missing)


def _of(side: Callable[..., AbstractAsyncContextManager[Push]], server: object) -> Side:
    return lambda: side(server)


WHAT = "push to the last of 100 followers"
ROWS = [
    Row("followers", WHAT, "Redis XREAD, redis-py asyncio", Target("<=", 0.25), "ms", followers,
        "hub", "redis-py"),
    Row("followers-lean", WHAT, "Redis XREAD, lean clients", None, "ms", followers, "hub",
        "redis"),
]  # fmt: skip
MORE: list[Row] = []
