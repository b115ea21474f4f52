"""A minimal server on the same library: it echoes messages or sends the ones it is asked for."""

import asyncio
import json
import sys

from websockets.asyncio.server import ServerConnection, serve


async def websocket(connection: ServerConnection) -> None:
    """One WebSocket client."""
    async for message in connection:
        assert isinstance(message, str)
        if message.startswith('{"send"'):
            order = json.loads(message)
            for _ in range(order["times"]):
                await connection.send(order["send"])
        else:
            await connection.send(message)


async def unix(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One client of the Unix socket."""
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
