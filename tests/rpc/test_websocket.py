"""The WebSocket, by clients that send bytes as they please, to a hub in this process."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.frames import Close, CloseCode, Frame, Opcode
from websockets.protocol import CLIENT, OPEN, Protocol

from hubd.activation import Activation, Event, method
from hubd.plexus.questions import Questions
from hubd.rpc.clients import Clients
from hubd.rpc.gate import Gate
from hubd.rpc.websocket import serve_websocket
from hubd.wire import jsonrpc
from tests.support import PATIENCE_SECONDS, hub_with

REQUEST = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
CALL = jsonrpc.request(1, "plexus.call", {"method": "listener.hear", "params": {"message": "hi"}})


class Said(Event):
    """Something was heard."""

    message: str


class Listener(Activation, namespace="listener", version="1.0.0"):
    """Stores the messages that it received."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    @method
    async def hear(self, message: str) -> AsyncIterator[Said]:
        """Say it back."""
        self.heard.append(message)
        yield Said(message=message)


class RawClient:
    """Sends bytes; reads frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._protocol = Protocol(CLIENT, state=OPEN)
        self._read: list[Frame] = []

    async def send(self, *data: bytes) -> None:
        """Send each piece in a separate packet, if possible."""
        for piece in data:
            self._writer.write(piece)
            await self._writer.drain()
            # The server runs in this loop too: in the second turn it has read.
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def open(self, *request: bytes) -> None:
        """Send a request and read the answer to it."""
        await self.send(*request)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 101 ")

    async def frame(self) -> Frame:
        """The next frame."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self._read:
                data = await self._reader.read(65536)
                assert data, "the server hung up"
                self._protocol.receive_data(data)
                events = self._protocol.events_received()
                self._read += [event for event in events if isinstance(event, Frame)]
        return self._read.pop(0)

    async def said(self) -> str:
        """Return the reply of one call of listener.hear."""
        contents: list[Any] = []
        while True:
            message = json.loads(bytes((await self.frame()).data))
            item = message.get("params", {}).get("result", {"type": "reply"})
            if item["type"] == "done":
                [content] = contents
                return str(content["message"])
            if item["type"] == "data":
                contents.append(item["content"])


@pytest.fixture
def listener() -> Listener:
    """The plugin that it calls."""
    return Listener()


@pytest.fixture
async def client(tmp_path: Path, listener: Listener) -> AsyncIterator[RawClient]:
    """A client that has connected and said nothing yet."""
    async with serving(tmp_path, listener) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        yield RawClient(reader, writer)
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def serving(directory: Path, plugin: Listener) -> AsyncIterator[int]:
    """A hub with one plugin, on a port."""
    async with hub_with(directory, plugin) as hub, Clients(hub, Questions()) as clients:
        with socket.create_server(("127.0.0.1", 0)) as bound:
            async with serve_websocket(clients, Gate(None), bound):
                yield bound.getsockname()[1]


def masked(opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
    """A frame as a client sends it."""
    return Frame(opcode, data, fin).serialize(mask=True)


async def test_a_call_that_comes_together_with_the_request_is_answered(client: RawClient) -> None:
    await client.open(REQUEST + masked(Opcode.TEXT, CALL))
    assert await client.said() == "hi"


@pytest.mark.parametrize("cut", range(len(REQUEST) - 5, len(REQUEST) + 8))
async def test_a_request_and_a_call_may_be_split_anywhere(client: RawClient, cut: int) -> None:
    whole = REQUEST + masked(Opcode.TEXT, CALL)
    await client.open(whole[:cut], whole[cut:-1], whole[-1:])
    assert await client.said() == "hi"


async def test_several_calls_in_one_packet_are_all_answered(client: RawClient) -> None:
    await client.open(REQUEST)
    await client.send(masked(Opcode.TEXT, CALL) * 3)
    replies = [await client.frame() for _ in range(9)]
    assert sum(b'"result":{"type":"done"' in bytes(frame.data) for frame in replies) == 3


async def test_a_call_in_fragments_with_a_ping_between_them_is_answered(client: RawClient) -> None:
    await client.open(REQUEST)
    await client.send(
        masked(Opcode.TEXT, CALL[:10], fin=False),
        masked(Opcode.PING, b"there?"),
        masked(Opcode.CONT, CALL[10:]),
        masked(Opcode.TEXT, CALL),
    )
    pong = await client.frame()
    assert (pong.opcode, bytes(pong.data)) == (Opcode.PONG, b"there?")
    assert await client.said() == "hi"
    assert await client.said() == "hi"


@pytest.mark.parametrize("between", [b"", masked(Opcode.PONG, b"")], ids=["at once", "a pong"])
async def test_a_message_that_starts_inside_another_is_a_protocol_error(
    client: RawClient, between: bytes
) -> None:
    await client.open(REQUEST)
    await client.send(masked(Opcode.TEXT, CALL[:10], fin=False) + between)
    await client.send(masked(Opcode.TEXT, CALL))
    frame = await client.frame()
    assert frame.opcode is Opcode.CLOSE
    assert Close.parse(bytes(frame.data)).code == CloseCode.PROTOCOL_ERROR


async def test_a_frame_that_is_not_masked_is_a_protocol_error(client: RawClient) -> None:
    await client.open(REQUEST)
    await client.send(Frame(Opcode.TEXT, CALL).serialize(mask=False))
    frame = await client.frame()
    assert frame.opcode is Opcode.CLOSE
    assert Close.parse(bytes(frame.data)).code == CloseCode.PROTOCOL_ERROR


async def test_frames_after_a_closing_frame_are_ignored(
    client: RawClient, listener: Listener
) -> None:
    await client.open(REQUEST)
    await client.send(masked(Opcode.TEXT, CALL))
    assert await client.said() == "hi"
    closing = masked(Opcode.CLOSE, Close(CloseCode.NORMAL_CLOSURE, "").serialize())
    await client.send(closing + masked(Opcode.TEXT, CALL))
    frame = await client.frame()
    assert frame.opcode is Opcode.CLOSE
    assert Close.parse(bytes(frame.data)).code == CloseCode.NORMAL_CLOSURE
    assert listener.heard == ["hi"]
