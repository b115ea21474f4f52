"""A client of PostgreSQL. An event is one statement that writes its row, its node and the head."""

import asyncio
import uuid
from typing import Any, Final

from tests.bench.clients.hub import PAYLOAD
from tests.bench.clients.worker import Address, Run
from tests.bench.servers.postgres import TABLES, asyncpg

PUSH: Final = """
WITH moved AS (UPDATE head SET depth = $3 WHERE stream = $2),
made AS (
    INSERT INTO node (id, tree, segment, depth, lane, origin, meta, created_at)
    VALUES ($1, 1, $2, $3, 1, 1, $4, 1700000000) RETURNING key
)
INSERT INTO event (key, stream, seq, type, data) SELECT key, $2, $3, 'content', $5 FROM made
"""


async def create_tables(port: int, producers: int) -> None:
    """Create the tables, and a head for each producer."""
    connection = await _connect(port)
    for statement in TABLES:
        await connection.execute(statement)
    await connection.executemany(
        "INSERT INTO head VALUES ($1, 0)", [(number,) for number in range(producers)]
    )
    await connection.close()


async def with_asyncio(address: Address, producers: range) -> Run:
    """Use asyncpg; every producer has a connection."""
    statements = []
    depths = {}
    for number in producers:
        connection = await _connect(address["port"])
        row = await connection.fetchval("SELECT depth FROM head WHERE stream = $1", number)
        depths[number] = int(row)
        statements.append((number, await connection.prepare(PUSH)))

    async def produce(number: int, statement: Any, each: int) -> None:
        for _ in range(each):
            depths[number] += 1
            node_id = uuid.uuid4()
            await statement.fetch(node_id, number, depths[number], f"{node_id}:content", PAYLOAD)

    async def run(each: int) -> None:
        await asyncio.gather(*(produce(*each_one, each) for each_one in statements))

    return run


async def _connect(port: int) -> Any:
    return await asyncpg().connect(host="127.0.0.1", port=port, user="bench", database="postgres")
