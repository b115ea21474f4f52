"""A client of NATS JetStream. An event, its node and the head are one message.

JetStream has no transaction of several records, so the message stands for all three.
"""

import asyncio
import json
from typing import Any

from tests.bench.clients.hub import PAYLOAD
from tests.bench.clients.redis import NODE
from tests.bench.clients.worker import Address, Run
from tests.bench.servers.nats import nats_py


async def create_stream(port: int) -> None:
    """Create the stream for the messages of all producers."""
    client = await _connect(port)
    await client.jetstream().add_stream(name="events", subjects=["stream.*"], storage="file")
    await client.close()


async def with_asyncio(address: Address, producers: range) -> Run:
    """Use nats-py; every producer has a connection."""
    connections = {number: (await _connect(address["port"])).jetstream() for number in producers}
    message = json.dumps({"event": PAYLOAD, "node": NODE, "head": NODE["meta"]}).encode()

    async def produce(number: int, each: int) -> None:
        for _ in range(each):
            await connections[number].publish(f"stream.{number}", message)

    async def run(each: int) -> None:
        await asyncio.gather(*(produce(number, each) for number in producers))

    return run


async def _connect(port: int) -> Any:
    return await nats_py().connect(f"nats://127.0.0.1:{port}")
