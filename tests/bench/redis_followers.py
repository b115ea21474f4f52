"""From a push to the last of a hundred followers: the hub over WebSocket against Redis.

The time from the moment a push is sent until the last follower has the event, which is on disk by
then. In the hub each follows by `claudecode.follow` on its WebSocket; in Redis each waits
in XREAD on its connection, and the next push waits until all of them wait again.
`python -m tests.bench.redis_followers`
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.bench import lean
from tests.bench.lean import LeanRedis, LeanSocket
from tests.bench.redis_server import redis_py, redis_server
from tests.bench.storage import PAYLOAD
from tests.support import Daemon

FOLLOWERS = 100
PUSHES = 20
ROUNDS = 15
TARGET = "<= 0.3"

FOLLOWED = b'"content_type":"claudecode.follow"'
# The lines of an answer to XREAD with one event of two fields.
LINES_OF_XREAD = 17

# One push; returns the seconds until the last follower has it.
Push = Callable[[], Awaitable[float]]


class Arrivals:
    """Counts followers as they get an event."""

    def __init__(self) -> None:
        self._missing = 0
        self._all = asyncio.get_running_loop().create_future()

    def expect(self) -> None:
        """An event is about to be pushed."""
        self._missing = FOLLOWERS
        self._all = asyncio.get_running_loop().create_future()

    def one(self) -> None:
        """A follower has it."""
        self._missing -= 1
        if not self._missing:
            self._all.set_result(None)

    async def all(self) -> None:
        """Wait for the last."""
        await self._all


@asynccontextmanager
async def hub_side(daemon: Daemon) -> AsyncIterator[Push]:
    """Followers of a stream of the hub."""
    arrivals = Arrivals()
    async with daemon.client() as client:
        items = await client.call("pusher.begin", {"count": 1})
    begun = items[0]["content"]
    following = lean.call(1, "claudecode.follow", stream_id=begun["stream_id"])
    request = lean.call(1, "pusher.push", stream=begun["stream"], data=PAYLOAD)

    def follower_takes(message: bytes) -> None:
        assert lean.FAILED not in message, message
        if FOLLOWED in message:
            arrivals.one()

    async with AsyncExitStack() as stack:
        url, token = daemon.record["ws_url"], daemon.token
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
            pusher.take = lambda said: answered.set_result(None) if lean.DONE in said else None
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
    """A way to wait until Redis holds all followers."""
    client = redis_py("redis.asyncio").Redis(port=port)

    async def wait() -> None:
        while (await client.info("clients"))["blocked_clients"] < FOLLOWERS:
            pass

    yield wait
    await client.aclose()


@asynccontextmanager
async def redis_py_side(port: int) -> AsyncIterator[Push]:
    """Followers by redis-py for asyncio."""
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
    """Followers that cost nothing, to measure Redis alone."""
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


async def main() -> None:
    """Measure everything and print the ratios."""
    names = ("hub, lean clients", "redis-py, asyncio", "redis, lean clients")
    with (
        tempfile.TemporaryDirectory() as name,
        redis_server(Path(name)) as port,
        Daemon(Path(name) / "home", "--plugin", "tests.bench.pusher:Pusher") as daemon,
    ):
        taken: dict[str, list[float]] = {each: [] for each in names}
        for number in range(ROUNDS + 1):
            # One after the other: XREADs of one side that wait would be counted for the other.
            sides = (hub_side(daemon), redis_py_side(port), redis_lean_side(port))
            for side_name, starting in zip(names, sides, strict=True):
                async with starting as push:
                    seconds = [await push() for _ in range(PUSHES)]
                if number:  # the first round warms up
                    taken[side_name] += seconds
    against = statistics.median(taken["redis-py, asyncio"])
    print(f"\npush to the last of {FOLLOWERS} followers  (target: {TARGET} of redis-py)")
    for side_name, seconds in taken.items():
        low, median, high = statistics.quantiles(seconds, n=4)
        shown = f"{median * 1000:>8.2f} ms  (half of them {low * 1000:.2f}-{high * 1000:.2f})"
        print(f"  {side_name:<44} {shown}   x{median / against:.2f}")


if __name__ == "__main__":
    asyncio.run(main())
