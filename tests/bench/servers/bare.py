"""A minimal server on the same library: it echoes messages or sends the ones it is asked for.

`python -m tests.bench.servers.bare websocket|unix PATH`
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from tests.support import environment


@contextmanager
def bare_server(kind: str, directory: Path) -> Iterator[dict[str, Any]]:
    """Run the server in another process and yield its address."""
    path = str(directory / "bare.sock")
    command = [sys.executable, "-m", "tests.bench.servers.bare", kind, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as process:
        try:
            assert process.stdout is not None
            place = process.stdout.readline().decode().strip()
            yield {"url": place, "unix": place, "token": ""}
        finally:
            process.kill()


async def websocket(connection: ServerConnection) -> None:
    """Serve one WebSocket client."""
    # Lean clients hang up without a word.
    with suppress(ConnectionClosed):
        async for message in connection:
            assert isinstance(message, str)
            if message.startswith('{"send"'):
                order = json.loads(message)
                for _ in range(order["times"]):
                    await connection.send(order["send"])
            else:
                await connection.send(message)


async def unix(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one client of the Unix socket."""
    while line := await reader.readline():
        if line.startswith(b'{"send"'):
            order = json.loads(line)
            answer = order["send"].encode() + b"\n"
            for _ in range(order["times"]):
                writer.write(answer)
                await writer.drain()
        else:
            writer.write(line)
            await writer.drain()


async def main(kind: str, path: str) -> None:
    """Serve until killed."""
    if kind == "websocket":
        async with serve(websocket, "127.0.0.1", 0, compression=None) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            print(f"ws://127.0.0.1:{port}", flush=True)
            await asyncio.Event().wait()
    else:
        async with await asyncio.start_unix_server(unix, path):
            print(path, flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
