"""Round trips and streamed events: the hub against a bare server on the same library.

`python -m tests.bench.transport`
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from websockets.asyncio.client import ClientConnection, connect

from hubd.wire import jsonrpc
from tests.bench.measure import rates, report
from tests.support import Daemon

TRIPS = 300
EVENTS = 3000
IN_FLIGHT = 16

CALL = jsonrpc.request(1, "plexus.call", {"method": "echo.once", "params": {"message": "hi"}})


class Wire(Protocol):
    """A connection that sends and receives whole messages."""

    async def send(self, message: bytes) -> None: ...
    async def receive(self) -> bytes: ...


class OverWebSocket:
    """Messages as text frames."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, message: bytes) -> None:
        await self._connection.send(message, text=True)

    async def receive(self) -> bytes:
        return await self._connection.recv(decode=False)


class OverUnix:
    """Messages as lines."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, message: bytes) -> None:
        self._writer.write(message + b"\n")
        await self._writer.drain()

    async def receive(self) -> bytes:
        return await self._reader.readline()


def hub_trips(wire: Wire, in_flight: int) -> Callable[[], Any]:
    """Calls of echo.once, each read to its `done`."""

    async def work() -> int:
        for _ in range(TRIPS // in_flight):
            for _ in range(in_flight):
                await wire.send(CALL)
            open_calls = in_flight
            while open_calls:
                open_calls -= b'"result":{"type":"done"' in await wire.receive()
        return TRIPS // in_flight * in_flight

    return work


def bare_trips(wire: Wire, in_flight: int) -> Callable[[], Any]:
    """The same requests, sent back as they are."""

    async def work() -> int:
        for _ in range(TRIPS // in_flight):
            for _ in range(in_flight):
                await wire.send(CALL)
            for _ in range(in_flight):
                await wire.receive()
        return TRIPS // in_flight * in_flight

    return work


def hub_events(wire: Wire) -> Callable[[], Any]:
    """One call that yields many events."""
    params = {"method": "echo.echo", "params": {"message": "hi", "count": EVENTS}}
    request = jsonrpc.request(1, "plexus.call", params)

    async def work() -> int:
        await wire.send(request)
        while b'"result":{"type":"done"' not in await wire.receive():
            pass
        return EVENTS

    return work


def bare_events(wire: Wire, item: bytes) -> Callable[[], Any]:
    """A bare server sends the same bytes as often."""
    request = json.dumps({"send": item.decode(), "times": EVENTS}).encode()

    async def work() -> int:
        await wire.send(request)
        for _ in range(EVENTS):
            await wire.receive()
        return EVENTS

    return work


@contextmanager
def bare_server(kind: str, directory: Path) -> Iterator[str]:
    """Run the bare server in another process and yield its address."""
    command = [sys.executable, "-m", "tests.bench.bare_server", kind, str(directory / "bare.sock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().decode().strip()
        finally:
            process.kill()


async def main() -> None:
    """Measure everything and print the ratios."""
    with (
        tempfile.TemporaryDirectory() as name,
        Daemon(Path(name) / "home") as daemon,
        bare_server("websocket", Path(name)) as url,
        bare_server("unix", Path(name)) as path,
    ):
        header = {"Authorization": f"Bearer {daemon.token}"}
        async with (
            connect(daemon.record["ws_url"], additional_headers=header, compression=None) as hub_ws,
            connect(url, compression=None) as bare_ws,
        ):
            hub_unix = OverUnix(*await asyncio.open_unix_connection(daemon.paths.socket))
            bare_unix = OverUnix(*await asyncio.open_unix_connection(path))
            target = ">= 0.5 of bare"
            await compare("WebSocket", OverWebSocket(hub_ws), OverWebSocket(bare_ws), target)
            await compare("Unix socket", hub_unix, bare_unix, "none set")


async def compare(kind: str, hub: Wire, bare: Wire, target: str) -> None:
    """One transport."""
    for in_flight in (1, IN_FLIGHT):
        sides = {"hub": hub_trips(hub, in_flight), "bare": bare_trips(bare, in_flight)}
        title = f"{kind}: round trips, {in_flight} in flight"
        report(title, await rates(sides), "calls/s", "bare", target)
    await hub.send(CALL)
    await hub.receive()
    item = await hub.receive()
    await hub.receive()
    streams = {"hub": hub_events(hub), "bare": bare_events(bare, item)}
    report(f"{kind}: streamed events", await rates(streams), "events/s", "bare", target)


if __name__ == "__main__":
    asyncio.run(main())
