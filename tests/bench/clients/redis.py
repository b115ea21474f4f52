"""Clients of Redis. An event is one MULTI of its entry, its node and the head of its stream."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from tests.bench.clients import lean
from tests.bench.clients.hub import MANY, PAYLOAD
from tests.bench.clients.lean import LeanRedis
from tests.bench.clients.worker import Address, Run
from tests.bench.servers.redis import redis_py

NODE: Final = {
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
LINES_OF_MULTI: Final = 9


def _fill(pipeline: Any, number: int, events: int = 1) -> Any:
    """Add the commands of some events of one producer."""
    for _ in range(events):
        pipeline.xadd(f"stream:{number}", {"type": "content", "data": PAYLOAD})
        pipeline.hset(f"node:{number}", mapping=NODE)
        pipeline.set(f"head:{number}", NODE["meta"])
    return pipeline


def _options(address: Address) -> dict[str, Any]:
    # The library would send an event again after a timeout, and so write it twice.
    return {"port": address["port"], "single_connection_client": True, "socket_timeout": None}


async def with_asyncio(address: Address, producers: range, events: int = 1) -> Run:
    """Use redis-py for asyncio."""
    make = redis_py("redis.asyncio").Redis
    clients = [make(**_options(address)) for _ in producers]

    async def produce(number: int, each: int) -> None:
        client = clients[number - producers.start]
        for _ in range(each):
            await _fill(client.pipeline(transaction=True), number, events).execute()

    async def run(each: int) -> None:
        await asyncio.gather(*(produce(number, each) for number in producers))

    return run


async def with_threads(address: Address, producers: range, events: int = 1) -> Run:
    """Use redis-py with a thread for each producer."""
    make = redis_py().Redis
    clients = [make(**_options(address)) for _ in producers]
    pool = ThreadPoolExecutor(len(producers))

    def produce(number: int, each: int) -> None:
        client = clients[number - producers.start]
        for _ in range(each):
            _fill(client.pipeline(transaction=True), number, events).execute()

    async def run(each: int) -> None:
        loop = asyncio.get_running_loop()
        jobs = [loop.run_in_executor(pool, produce, number, each) for number in producers]
        await asyncio.gather(*jobs)

    return run


async def many_with_asyncio(address: Address, producers: range) -> Run:
    """Send `MANY` events in each MULTI; a unit is a MULTI."""
    return await with_asyncio(address, producers, MANY)


async def many_with_threads(address: Address, producers: range) -> Run:
    """Send `MANY` events in each MULTI; a unit is a MULTI."""
    return await with_threads(address, producers, MANY)


async def bare(address: Address, producers: range) -> Run:
    """Use a lean client, to measure Redis alone."""
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
    return lambda each: lean.produce(connections, requests, lambda answer: True, each)
