"""Durable chat events over the wire: the hub over WebSocket against Redis, as durably.

An event is its row, its node and the moved head of its stream: for the hub one call of
`tests.bench.pusher`, for Redis one MULTI of XADD, HSET and SET with `appendfsync always`. Every
producer waits until its event is on disk. Both are reached over TCP. The clients run in other
processes. Their CPU use is shown, because a client at 100 % would be the limit.
`python -m tests.bench.redis_producers`
"""

import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from hubd.wire import jsonrpc
from tests.bench import lean
from tests.bench.lean import LeanRedis, LeanSocket
from tests.bench.measure import Slice, rates, report
from tests.bench.redis_server import redis_py, redis_server
from tests.bench.storage import PAYLOAD, PRODUCERS
from tests.support import Daemon, environment

EVENTS = 2560
EVENTS_OF_ONE = 320
ROUNDS = 9

NODE = {
    "tree": 1,
    "segment": 2,
    "depth": 3,
    "lane": 1,
    "origin": 1,
    "meta": "0190e1f0-0000-7000-8000-000000000000:content",
    "created_at": 1_700_000_000,
}
# The lines of the answer to MULTI, three commands and EXEC: five acknowledgements, then the
# length and the text of the id, the number of fields, and OK.
LINES_OF_MULTI = 9

# Makes a number of events for each producer.
Run = Callable[[int], Awaitable[None]]
Address = dict[str, Any]


# The clients, one process each


async def hub_lean(address: Address, producers: range) -> Run:
    """Every producer has a WebSocket."""
    connections = [await LeanSocket.connect(address["url"], address["token"]) for _ in producers]
    requests = [push_frame(address, number, 1) for number in producers]
    return lambda each: lean.produce(connections, requests, lambda said: lean.DONE in said, each)


async def hub_shared(address: Address, producers: range) -> Run:
    """All producers share one WebSocket. Waiting messages are sent together."""
    connection = await LeanSocket.connect(address["url"], address["token"])
    requests = {number: push_frame(address, number, number) for number in producers}
    waiting: list[bytes] = []
    loop = asyncio.get_running_loop()

    def flush() -> None:
        connection.send(b"".join(waiting))
        waiting.clear()

    async def run(each: int) -> None:
        left = dict.fromkeys(producers, each)
        owners: dict[int, int] = {}
        finished = loop.create_future()

        def take(message: bytes) -> None:
            # The reply `{"jsonrpc":"2.0","id":7,"result":12}` maps a request to its subscription.
            if message.startswith(b'{"jsonrpc":"2.0","id":'):
                number, subscription = message[22:-1].split(b',"result":')
                owners[int(subscription)] = int(number)
            elif lean.DONE in message:
                _, _, rest = message.partition(b'"subscription":')
                producer = owners.pop(int(rest[: rest.index(b",")]))
                left[producer] -= 1
                if left[producer]:
                    if not waiting:
                        loop.call_soon(flush)
                    waiting.append(requests[producer])
                elif not any(left.values()):
                    finished.set_result(None)

        connection.take = take
        connection.send(b"".join(requests.values()))
        await finished

    return run


async def hub_library(address: Address, producers: range) -> Run:
    """Every producer has a connection of the `websockets` library and writes its requests."""
    header = {"Authorization": f"Bearer {address['token']}"}
    connections = [
        await connect(address["url"], additional_headers=header, compression=None)
        for _ in producers
    ]

    async def produce(number: int, each: int) -> None:
        connection = connections[number - producers.start]
        params = {"stream": address["streams"][number], "data": PAYLOAD}
        for _ in range(each):
            sent = {"method": "pusher.push", "params": params}
            await connection.send(jsonrpc.request(1, "plexus.call", sent), text=True)
            while lean.DONE not in await connection.recv(decode=False):
                pass

    async def run(each: int) -> None:
        await asyncio.gather(*(produce(number, each) for number in producers))

    return run


def push_frame(address: Address, producer: int, number: int) -> bytes:
    stream = address["streams"][producer]
    return lean.call(number, "pusher.push", stream=stream, data=PAYLOAD)


def fill(pipeline: Any, number: int) -> Any:
    """The commands of one event."""
    pipeline.xadd(f"stream:{number}", {"type": "content", "data": PAYLOAD})
    pipeline.hset(f"node:{number}", mapping=NODE)
    pipeline.set(f"head:{number}", NODE["meta"])
    return pipeline


async def redis_asyncio(address: Address, producers: range) -> Run:
    """Redis-py for asyncio."""
    make = redis_py("redis.asyncio").Redis
    clients = [make(port=address["port"], single_connection_client=True) for _ in producers]

    async def produce(number: int, each: int) -> None:
        client = clients[number - producers.start]
        for _ in range(each):
            await fill(client.pipeline(transaction=True), number).execute()

    async def run(each: int) -> None:
        await asyncio.gather(*(produce(number, each) for number in producers))

    return run


async def redis_threads(address: Address, producers: range) -> Run:
    """Redis-py with a thread for each producer."""
    make = redis_py().Redis
    clients = [make(port=address["port"], single_connection_client=True) for _ in producers]
    pool = ThreadPoolExecutor(len(producers))

    def produce(number: int, each: int) -> None:
        client = clients[number - producers.start]
        for _ in range(each):
            fill(client.pipeline(transaction=True), number).execute()

    async def run(each: int) -> None:
        loop = asyncio.get_running_loop()
        jobs = [loop.run_in_executor(pool, produce, number, each) for number in producers]
        await asyncio.gather(*jobs)

    return run


async def redis_lean(address: Address, producers: range) -> Run:
    """A client that costs nothing, to measure Redis alone."""
    connections = [await LeanRedis.connect(address["port"], LINES_OF_MULTI) for _ in producers]
    fields = [word for pair in NODE.items() for word in pair]
    requests = [
        lean.command("MULTI")
        + lean.command("XADD", f"stream:{number}", "*", "type", "content", "data", PAYLOAD)
        + lean.command("HSET", f"node:{number}", *fields)
        + lean.command("SET", f"head:{number}", NODE["meta"])
        + lean.command("EXEC")
        for number in producers
    ]
    return lambda each: lean.produce(connections, requests, lambda said: True, each)


CLIENTS = {
    "hub_lean": hub_lean,
    "hub_shared": hub_shared,
    "hub_library": hub_library,
    "redis_asyncio": redis_asyncio,
    "redis_threads": redis_threads,
    "redis_lean": redis_lean,
}


async def client_process(name: str, address: Address, producers: range) -> None:
    """Make as many events as every line of standard input says; answer with processor time."""
    run = await CLIENTS[name](address, producers)
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        began = time.process_time()
        await run(int(line))
        print(time.process_time() - began, flush=True)


# The measurement


class Side:
    """One way to produce events: its client processes and their counts."""

    def __init__(self, processes: list[asyncio.subprocess.Process], producers: int) -> None:
        self._processes = processes
        self._producers = producers
        self.made = 0
        # Processor time of the clients over elapsed time, of each slice.
        self.busy: list[float] = []

    async def make(self, events: int) -> int:
        """So many events, by all producers together."""
        each = events // self._producers
        began = time.perf_counter()
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(b"%d\n" % each)
        spent = 0.0
        for process in self._processes:
            assert process.stdout is not None
            spent += float(await process.stdout.readline())
        self.busy.append(spent / (time.perf_counter() - began) / len(self._processes))
        self.made += each * self._producers
        return each * self._producers

    def slice(self, events: int) -> Slice:
        """As a side of a comparison."""
        return lambda: self.make(events)


@asynccontextmanager
async def side(
    client: str, address: Address, producers: int, processes: int = 1
) -> AsyncIterator[Side]:
    """Start the clients."""
    share = producers // processes
    started: list[asyncio.subprocess.Process] = []
    try:
        for number in range(processes):
            arguments = (client, json.dumps(address), str(number * share), str(share))
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.bench.redis_producers", *arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=environment(),
            )
            started.append(process)
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n", f"{client} did not start"
        yield Side(started, producers)
    finally:
        for process in started:
            process.kill()
            await process.wait()


async def compare(hub: Address, redis: Address, producers: int, target: str) -> tuple[int, int]:
    """Measure and print; returns how many events the hub and Redis were given."""
    choices = {
        "hub, a lean client": ("hub_lean", 1),
        "hub, a client of `websockets`": ("hub_library", 1),
        "redis-py, asyncio": ("redis_asyncio", 1),
        "redis-py, a thread each": ("redis_threads", 1),
        "redis, a lean client": ("redis_lean", 1),
    }
    if producers > 1:
        choices["hub, lean, one WebSocket for all"] = ("hub_shared", 1)
        choices["redis-py, asyncio, 2 processes"] = ("redis_asyncio", 2)
    async with AsyncExitStack() as stack:
        sides: dict[str, Side] = {}
        for name, (client, processes) in choices.items():
            address = hub if client.startswith("hub") else redis
            starting = side(client, address, producers, processes)
            sides[name] = await stack.enter_async_context(starting)
        events = EVENTS if producers > 1 else EVENTS_OF_ONE
        measured = await rates({name: each.slice(events) for name, each in sides.items()}, ROUNDS)
    fastest = max((name for name in sides if "redis-py" in name), key=lambda name: measured[name])
    report(f"durable events over the wire, {producers} producers", measured, "events/s", fastest,
           f"hub {target} of redis-py")  # fmt: skip
    for name, each in sides.items():
        print(f"  {name:<44} clients {sum(each.busy) / len(each.busy):>4.0%} busy")
    made = [sum(each.made for name, each in sides.items() if name.startswith(kind))
            for kind in ("hub", "redis")]  # fmt: skip
    return made[0], made[1]


async def main() -> None:
    """Measure everything and print the ratios."""
    with tempfile.TemporaryDirectory() as name, redis_server(Path(name)) as port:
        redis = {"port": port}
        to_hub = to_redis = 0
        with Daemon(Path(name) / "home", "--plugin", "tests.bench.pusher:Pusher") as daemon:
            async with daemon.client() as client:
                items = await client.call("pusher.begin", {"count": PRODUCERS})
            begun = [item["content"]["stream"] for item in items if item["type"] == "data"]
            hub = {"url": daemon.record["ws_url"], "token": daemon.token, "streams": begun}
            for producers, target in ((PRODUCERS, ">= 3"), (8, "(none set)"), (1, ">= 1.1")):
                made = await compare(hub, redis, producers, target)
                to_hub, to_redis = to_hub + made[0], to_redis + made[1]
            database = daemon.paths.database
        connection = sqlite3.connect(database)
        [(kept,)] = connection.execute("SELECT count(*) FROM chat_events")
        connection.close()
        assert kept == to_hub, f"the hub has {kept} events of {to_hub}"
        client = redis_py().Redis(port=port)
        kept = sum(client.xlen(f"stream:{number}") for number in range(PRODUCERS))
        client.close()
        assert kept == to_redis, f"Redis has {kept} events of {to_redis}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _, kind, place, first, count = sys.argv
        numbers = range(int(first), int(first) + int(count))
        asyncio.run(client_process(kind, json.loads(place), numbers))
    else:
        asyncio.run(main())
