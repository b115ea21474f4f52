"""The least that brings a child's lines to a WebSocket, with or without a commit for each line.

`python -m tests.bench.servers.relay PIPE [DATABASE]`
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from websockets.asyncio.server import ServerConnection, serve

from tests.bench.clients.hub import PAYLOAD
from tests.bench.clients.lean import LeanSocket
from tests.bench.rows.storage import RawPusher
from tests.support import environment


@asynccontextmanager
async def relayed(pipe: Path, database: Path | None = None) -> AsyncIterator[LeanSocket]:
    """Run a relay in a separate process, and yield its client."""
    words = (str(pipe),) if database is None else (str(pipe), str(database))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.servers.relay", *words),
        stdout=asyncio.subprocess.PIPE,
        env=environment(),
    )
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        client = await LeanSocket.connect(url, "")
        yield client
        client.close()
    finally:
        process.kill()
        await process.wait()


async def main(pipe: str, database: str | None = None) -> None:
    """Serve until killed."""
    pusher = None if database is None else RawPusher(Path(database))

    async def forward(connection: ServerConnection) -> None:
        child = await asyncio.create_subprocess_exec("cat", pipe, stdout=asyncio.subprocess.PIPE)
        assert child.stdout is not None
        while line := await child.stdout.readline():
            if pusher is not None:
                pusher.write([(0, PAYLOAD)])
            await connection.send(line, text=True)
        await child.wait()

    async with serve(forward, "127.0.0.1", 0, compression=None) as server:
        print(f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
