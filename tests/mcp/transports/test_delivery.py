"""Whether a tool's result was sent: known to the method only after the response."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.mcp.bridge_support import INITIALIZE, INITIALIZED, lines, tool_call
from tests.mcp.raw_http import RawClient, connection, modern, read_answer, request
from tests.mcp.support import ERAS, TOKEN, Era, Served, over_http, serving
from tests.sample_plugins.parcels import Parcels
from tests.support import PATIENCE_SECONDS


@pytest.fixture
async def parcels() -> Parcels:
    return Parcels()


@pytest.fixture
async def served(tmp_path: Path, parcels: Parcels) -> AsyncIterator[Served]:
    async with serving(tmp_path, parcels) as found:
        yield found


@pytest.mark.parametrize("era", ERAS)
async def test_a_result_over_http_is_delivered_with_its_response(
    served: Served, parcels: Parcels, era: Era
) -> None:
    async with over_http(served.url, TOKEN, era) as client:
        for _ in range(2):
            result = await client.call_tool("parcels.send", {})
            assert not result.is_error
            assert await parcels.receipt()


def raw_client(served: Served) -> RawClient:
    port = urlsplit(served.url).port
    assert port is not None
    return RawClient(port, TOKEN)


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_over_http_that_leaves_before_the_response_gets_nothing(
    served: Served, parcels: Parcels, era: Era
) -> None:
    parcels.may_send.clear()
    client = raw_client(served)
    call = request("tools/call", {"name": "parcels.send", "arguments": {}})
    headers = modern("tools/call", "parcels.send")
    if era == "legacy":
        opened = await asyncio.to_thread(client.initialize)
        headers = client.in_session(opened.headers["mcp-session-id"])
        del call["params"]["_meta"]
        done = json.dumps(INITIALIZED)
        assert (await asyncio.to_thread(client.post, done, headers)).status == 202

    def call_and_leave() -> None:
        with connection(client.port) as opened:
            opened.sendall(client.written(call, headers))
            asyncio.run_coroutine_threadsafe(parcels.started.wait(), loop).result(PATIENCE_SECONDS)

    loop = asyncio.get_running_loop()
    await asyncio.to_thread(call_and_leave)
    if era == "legacy":
        # The call itself goes on, as its session does.
        parcels.may_send.set()
    assert not await parcels.receipt()


async def test_a_response_that_ends_its_connection_is_delivered(
    served: Served, parcels: Parcels
) -> None:
    client = raw_client(served)
    call = request("tools/call", {"name": "parcels.send", "arguments": {"size": 1}})
    written = client.written(call, [*modern("tools/call", "parcels.send"), ("Connection", "close")])

    def call_and_read() -> int:
        with connection(client.port) as opened:
            opened.sendall(written)
            return read_answer(opened, "POST").status

    assert await asyncio.to_thread(call_and_read) == 200
    assert await parcels.receipt()


async def test_a_result_over_stdio_is_delivered_when_its_line_was_written(
    served: Served, parcels: Parcels, tmp_path: Path
) -> None:
    reader, writer = await asyncio.open_unix_connection(str(tmp_path / "hub.mcp"), limit=2**26)
    writer.write(b"{}\n" + lines(INITIALIZE, INITIALIZED, tool_call(1, "parcels.send")))
    async with asyncio.timeout(PATIENCE_SECONDS):
        answers = [json.loads(await reader.readline()) for _ in range(2)]
    assert [answer["id"] for answer in answers] == [0, 1]
    assert await parcels.receipt()
    # The client disconnects during this call.
    parcels.may_send.clear()
    parcels.started.clear()
    writer.write(lines(tool_call(2, "parcels.send")))
    await parcels.started.wait()
    writer.close()
    await writer.wait_closed()
    assert not await parcels.receipt()
    assert parcels.receipts.empty()


async def test_results_over_stdio_that_the_kernel_does_not_take_are_not_delivered(
    served: Served, parcels: Parcels, tmp_path: Path
) -> None:
    reader, writer = await asyncio.open_unix_connection(str(tmp_path / "hub.mcp"), limit=1000)
    writer.write(b"{}\n" + lines(INITIALIZE, INITIALIZED))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while b"\n" not in await reader.read(100):
            pass
    # Together they are several times the buffer of a socket.
    calls = [tool_call(number, "parcels.send", size=50_000) for number in range(1, 31)]
    writer.write(lines(*calls))
    # Of the first that is sent only the beginning is read.
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await reader.readexactly(100)
    writer.close()
    await writer.wait_closed()
    # Those that fit are delivered, and then comes one that is not.
    while await parcels.receipt():
        pass
