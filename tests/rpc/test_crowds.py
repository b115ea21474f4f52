"""Full transports and unfinished messages, by raw clients of a hub in this process."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from hubd.activation import Activation, Event, method
from hubd.plexus.questions import Questions
from hubd.plugins.echo import EchoPlugin
from hubd.rpc import calls as running
from hubd.rpc import clients as module
from hubd.rpc import websocket
from hubd.rpc.clients import Clients
from hubd.rpc.gate import Gate
from hubd.rpc.unix import serve_unix
from hubd.rpc.websocket import serve_websocket
from hubd.wire import jsonrpc
from tests.sample_plugins.trouble import Trouble
from tests.support import PATIENCE_SECONDS, hub_with

CROWD = 4
PING = jsonrpc.request(1, "echo.ping", {})
# A call that runs until its client is gone.
SILENT = jsonrpc.request(1, "trouble.silent", {})


class Noted(Event):
    """A word was noted."""


class Recorder(Activation, namespace="recorder", version="1.0.0"):
    """Keeps the order of calls."""

    def __init__(self) -> None:
        self.words: list[str] = []

    @method(streaming=False)
    async def note(self, word: str) -> AsyncIterator[Noted]:
        """Note a word."""
        self.words.append(word)
        yield Noted()


class Line:
    """A client of the Unix socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, message: bytes) -> None:
        """Send a message and wait for the reply, so that the hub has acted upon it."""
        self._writer.write(message + b"\n")
        await self.receive()

    async def begin(self) -> None:
        """Send half a message."""
        self.write(PING[:10])

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._writer.write(data)

    async def receive(self) -> dict[str, Any]:
        """Return the next message."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            message: dict[str, Any] = json.loads(await self._reader.readline())
            return message

    async def reason(self) -> str:
        """Return why the hub closes the connection, which it must."""
        while "error" not in (message := await self.receive()):
            pass
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await self._reader.read() == b""
        return str(message["error"]["message"])


class WebSocket:
    """A client of the WebSocket."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, message: bytes) -> None:
        """Send a message and wait for the reply, so that the hub has acted upon it."""
        await self._connection.send(message.decode())
        await self.receive()

    async def begin(self) -> None:
        """Send half a message."""
        frame = Frame(Opcode.TEXT, PING).serialize(mask=True)
        self.write(frame[:10])

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._connection.transport.write(data)

    async def receive(self) -> dict[str, Any]:
        """Return the next message."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            message: dict[str, Any] = json.loads(await self._connection.recv())
            return message

    async def reason(self) -> str:
        """Return why the hub closes the connection, which it must."""
        try:
            while True:
                await self.receive()
        except ConnectionClosed as error:
            return error.rcvd.reason if error.rcvd is not None else ""


class Hub:
    """A hub on both transports."""

    def __init__(
        self,
        clients: Clients,
        recorder: Recorder,
        stack: AsyncExitStack,
        path: Path,
        port: int,
    ) -> None:
        self.clients = clients
        self.recorder = recorder
        self._stack = stack
        self._path = path
        self._port = port

    async def connect(self, transport: str) -> Line | WebSocket:
        """Return a new client; the hub knows it already."""
        if transport == "unix":
            reader, writer = await asyncio.open_unix_connection(self._path)
            self._stack.callback(writer.close)
            # In the second turn the hub has accepted it.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return Line(reader, writer)
        opened = connect(f"ws://127.0.0.1:{self._port}", compression=None)
        return WebSocket(await self._stack.enter_async_context(opened))


@pytest.fixture
async def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hub]:
    monkeypatch.setattr(module, "MAX_CLIENTS", CROWD)
    # Calls that a test leaves running end at once.
    monkeypatch.setattr(running, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(websocket, "CLOSE_SECONDS", 0.1)
    async with AsyncExitStack() as stack:
        plugins = (EchoPlugin(), Trouble(), recorder := Recorder())
        built = await stack.enter_async_context(hub_with(tmp_path, *plugins))
        clients = await stack.enter_async_context(Clients(built, Questions()))
        path = tmp_path / "hub.sock"
        await stack.enter_async_context(serve_unix(clients, path))
        bound = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        await stack.enter_async_context(serve_websocket(clients, Gate(None), bound))
        async with AsyncExitStack() as opened:
            yield Hub(clients, recorder, opened, path, bound.getsockname()[1])


@pytest.fixture(params=["unix", "websocket"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_the_longest_idle_connection_without_a_call_makes_room(
    hub: Hub, transport: str
) -> None:
    busy, first, second, third = [await hub.connect(transport) for _ in range(CROWD)]
    await busy.send(SILENT)
    await first.send(PING)
    newest = await hub.connect(transport)
    await newest.send(PING)
    assert "idle for longest" in await second.reason()
    await (await hub.connect(transport)).send(PING)
    assert "idle for longest" in await third.reason()
    await first.send(PING)
    await busy.send(PING)


async def test_if_every_connection_has_a_call_the_new_one_is_refused_with_the_reason(
    hub: Hub, transport: str
) -> None:
    crowd = [await hub.connect(transport) for _ in range(CROWD)]
    for client in crowd:
        await client.send(SILENT)
    refused = await hub.connect(transport)
    assert f"all {CROWD} connections of this kind have a running call" in await refused.reason()
    for client in crowd:
        await client.send(PING)


async def test_one_full_transport_leaves_room_on_the_other(hub: Hub) -> None:
    crowd = [await hub.connect("unix") for _ in range(CROWD)]
    for client in crowd:
        await client.send(SILENT)
    await (await hub.connect("websocket")).send(PING)


async def test_a_message_that_is_not_complete_in_time_closes_the_connection(
    hub: Hub, transport: str
) -> None:
    hub.clients.message_seconds = 0.05
    client = await hub.connect(transport)
    await client.begin()
    assert "was not complete after 0.05 s" in await client.reason()


async def test_silence_between_messages_has_no_deadline(hub: Hub, transport: str) -> None:
    hub.clients.message_seconds = 0.05
    client, late = await hub.connect(transport), await hub.connect(transport)
    await client.send(PING)
    await late.begin()
    # The first was silent for as long as the second was late.
    assert "was not complete" in await late.reason()
    await client.send(PING)


async def test_many_calls_of_one_client_do_not_delay_others(hub: Hub, transport: str) -> None:
    many, other = await hub.connect(transport), await hub.connect(transport)
    # The answer shows that the hub has identified the process behind the connection. It does so in
    # a thread, before the first call, and that is not a matter of turns.
    await other.send(PING)
    many.write(framed(transport, note("many")) * 1000)
    other.write(framed(transport, note("other")))
    done = 0
    while done < 1000:
        done += (await many.receive()).get("params", {}).get("result", {}).get("type") == "done"
    assert hub.recorder.words.index("other") < 900


def note(word: str) -> bytes:
    return jsonrpc.request(1, "recorder.note", {"word": word})


def framed(transport: str, message: bytes) -> bytes:
    if transport == "unix":
        return message + b"\n"
    return Frame(Opcode.TEXT, message).serialize(mask=True)
