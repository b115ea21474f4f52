"""Clients that read too slowly, send too much or talk nonsense, against a real daemon."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect

from hubd.wire import jsonrpc
from tests.support import PATIENCE_SECONDS, Daemon, LineClient

MIB = 1024 * 1024
PROC = Path("/proc")
needs_proc = pytest.mark.skipif(not PROC.joinpath("self/status").exists(), reason="reads /proc")
Send = Callable[[bytes], Awaitable[None]]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    home = tmp_path_factory.mktemp("hub") / "home"
    with Daemon(home, "--plugin", "tests.sample_plugins.trouble:Trouble") as running:
        yield running


def websocket(daemon: Daemon) -> connect:
    headers = {"Authorization": f"Bearer {daemon.token}"}
    return connect(daemon.record["ws_url"], additional_headers=headers, max_size=None)


def tcp(daemon: Daemon) -> socket.socket:
    port = int(daemon.record["ws_url"].rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)


@asynccontextmanager
async def deaf_client(daemon: Daemon, transport: str) -> AsyncIterator[Send]:
    """A client that sends and never reads. At the end its connection is aborted."""
    if transport == "unix":
        _, writer = await asyncio.open_unix_connection(daemon.paths.socket)

        async def send(data: bytes) -> None:
            writer.write(data + b"\n")
            await writer.drain()

        try:
            yield send
        finally:
            writer.transport.abort()
    else:
        opened: ClientConnection = await websocket(daemon)
        try:
            yield lambda data: opened.send(data.decode())
        finally:
            opened.transport.abort()
            await opened.wait_closed()


def memory(daemon: Daemon) -> int:
    """Return the memory of the daemon in bytes."""
    status = (PROC / str(daemon.record["pid"]) / "status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def descriptors(daemon: Daemon) -> int:
    return len(list((PROC / str(daemon.record["pid"]) / "fd").iterdir()))


async def say(client: LineClient, word: str) -> None:
    """Make a call that must succeed."""
    data, done = await client.call("echo.once", {"message": word})
    assert (data["content"]["message"], done["type"]) == (word, "done")


async def eventually(client: LineClient, condition: Callable[[], bool]) -> None:
    """Make calls until it is so; each is a turn of the daemon's loop."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await say(client, "and now?")


def all_of(connection: socket.socket) -> bytes:
    """Return the messages until the daemon closes the connection."""
    received = b""
    with suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            received += chunk
    return received


@needs_proc
@pytest.mark.parametrize("transport", ["unix", "websocket"])
async def test_a_client_that_stops_reading_delays_only_its_own_call(
    daemon: Daemon, tmp_path: Path, transport: str
) -> None:
    marker = tmp_path / "marker"
    async with daemon.client() as other:
        await say(other, "warm")
        before = memory(daemon)
        async with deaf_client(daemon, transport) as send:
            await send(jsonrpc.request(1, "trouble.hang", {"marker": str(marker)}))
            await send(jsonrpc.request(2, "trouble.count", {"pad": 10_000, "to": 1_000_000}))
            for number in range(200):
                await say(other, f"call {number}")
            assert memory(daemon) - before < 64 * MIB
            assert not marker.exists()
        await eventually(other, marker.exists)


@needs_proc
@pytest.mark.parametrize("transport", ["unix", "websocket"])
async def test_the_buffer_for_a_client_that_never_reads_is_bounded(
    daemon: Daemon, transport: str
) -> None:
    # Every answer repeats the id, so these are 192 MiB to say.
    asked = jsonrpc.request("x" * MIB, "plexus.cancel", {"subscription": 0})

    async def flood(send: Send) -> None:
        for _ in range(192):
            await send(asked)

    async with daemon.client() as other:
        # The search index opens its files soon after the start.
        await other.call("plexus.search", {"query": "warm"})
        before, opened = memory(daemon), descriptors(daemon)
        async with deaf_client(daemon, transport) as send:
            flooding = asyncio.create_task(flood(send))
            for number in range(400):
                if flooding.done():
                    break
                await say(other, f"call {number}")
            grown = memory(daemon) - before
            flooding.cancel()
            await asyncio.wait([flooding])
        assert grown < 64 * MIB
        await eventually(other, lambda: descriptors(daemon) <= opened)


async def test_a_message_at_the_limit_is_accepted(daemon: Daemon) -> None:
    text = "ü" * 3 * MIB
    async with daemon.client() as client:
        await say(client, text)
    async with websocket(daemon) as connection:
        await connection.send(jsonrpc.request(1, "echo.once", {"message": text}).decode())
        await connection.recv()
        item = json.loads(await connection.recv())["params"]["result"]
        assert item["content"]["message"] == text


@needs_proc
@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
    ],
    ids=len,
)
async def test_a_hundred_connections_dropped_in_the_handshake_leave_nothing(
    daemon: Daemon, said: bytes
) -> None:
    async with daemon.client() as other:
        await say(other, "warm")
        before = descriptors(daemon)
        connections = [tcp(daemon) for _ in range(100)]
        for connection in connections:
            connection.sendall(said)
        await eventually(other, lambda: descriptors(daemon) >= before + 100)
        for connection in connections:
            connection.close()
        await eventually(other, lambda: descriptors(daemon) <= before)


PLAIN = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        pytest.param(PLAIN + b"\r\n", b"HTTP/1.1 401 ", id="plain GET"),
        pytest.param(PLAIN + b"Authorization: Bearer TOKEN\r\n\r\n", b"HTTP/1.1 426 ", id="token"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n{}", b"", id="POST"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n", b"", id="TLS"),
        pytest.param(b"\x00" * 100_000, b"", id="zeros"),
        pytest.param(b"\r\n" * 10_000, b"", id="newlines"),
        pytest.param(b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\n\r\n", b"", id="endless path"),
        pytest.param(PLAIN + b"A: b\r\n" * 100_000 + b"\r\n", b"", id="endless headers"),
        pytest.param(PLAIN + b"no header\r\n\r\n", b"", id="no header"),
        pytest.param(PLAIN + b"Origin: \xff\xfe\r\n\r\n", b"HTTP/1.1 403 ", id="no ASCII"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"_info"}\n', b"", id="JSON-RPC"),
    ],
)
async def test_invalid_data_on_the_port_is_refused_without_an_error_in_the_log(
    daemon: Daemon, said: bytes, answered: bytes
) -> None:
    errors = Path(daemon.paths.log).read_text().count('"level": "error"')
    with tcp(daemon) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(said.replace(b"TOKEN", daemon.token.encode()))
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        answer = all_of(connection)
    assert answer.startswith(answered)
    assert b" 101 " not in answer
    assert b"result" not in answer
    async with websocket(daemon) as other:
        await other.send('{"jsonrpc":"2.0","id":1,"method":"_info"}')
        assert json.loads(await other.recv())["result"] == 1
    assert Path(daemon.paths.log).read_text().count('"level": "error"') == errors
