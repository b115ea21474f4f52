"""How calls end before their time: the client cancels, goes away, or the daemon stops."""

import asyncio
import json
from pathlib import Path

import httpx2
import pytest
from mcp import Client, MCPError
from mcp_types import ElicitRequestFormParams, ElicitResult

from hubd.mcp.transports import lines as mcp_lines
from tests.mcp.desk import Desk, Person, attached, both_eras, events_in, every_way, lines, saying
from tests.mcp.notified_clients import until
from tests.mcp.support import LEGACY, MODERN, TOKEN, TRANSPORTS, Era, Served, Transport, serving
from tests.support import PATIENCE_SECONDS


async def is_well(served: Served, directory: Path) -> None:
    """A new client is served as if nothing had happened."""
    async with attached(served, directory, "http", MODERN) as client:
        assert events_in(await client.call_tool("desk.add", {"left": 1}))


@every_way
async def test_a_client_that_cancels_ends_the_method(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    desk = Desk()
    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, transport, era) as client,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        call = asyncio.create_task(client.call_tool("desk.block", {}))
        await desk.begun.wait()
        call.cancel()
        await desk.ended.wait()
        assert desk.inside == 0
        # The connection itself goes on.
        assert events_in(await client.call_tool("desk.add", {"left": 1}))


def reporting() -> list[str]:
    """The tasks that tell clients how their calls go on."""
    coroutines = [task.get_coro() for task in asyncio.all_tasks()]
    names = [getattr(coroutine, "__qualname__", "") for coroutine in coroutines]
    return [name for name in names if name.startswith("Reporter.")]


@every_way
async def test_of_a_call_that_was_cancelled_nothing_more_is_reported(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    desk = Desk()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        """A call without a listener reports nothing."""

    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, transport, era) as client,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        call = asyncio.create_task(client.call_tool("desk.block", {}, progress_callback=hear))
        await desk.begun.wait()
        await until(lambda: len(reporting()) == 1)
        call.cancel()
        await desk.ended.wait()
        await until(lambda: reporting() == [])


@every_way
async def test_a_client_that_cancels_after_it_has_answered_ends_the_method(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    desk, asked = Desk(), asyncio.Event()
    person = saying("a", "b")

    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, transport, era, elicitation_callback=person) as client,
        asyncio.timeout(PATIENCE_SECONDS),
    ):

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            asked.set()

        call = asyncio.create_task(
            client.call_tool("desk.ask_and_block", {}, progress_callback=hear)
        )
        await asked.wait()
        assert len(person.asked) == 1
        call.cancel()
        await desk.ended.wait()
        assert served.lazy.clients.questions._waiting == {}


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_client_that_cancels_while_it_is_asked_ends_the_method_and_the_question(
    tmp_path: Path, transport: Transport
) -> None:
    """In the older protocol; in the newer one no call waits for its client meanwhile."""
    desk, asked = Desk(), asyncio.Event()

    async def think(form: ElicitRequestFormParams) -> ElicitResult:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, transport, LEGACY, elicitation_callback=Person(think)) as client,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        call = asyncio.create_task(client.call_tool("desk.confirm", {}))
        await asked.wait()
        call.cancel()
        await desk.ended.wait()
        server = await served.lazy.server()
        while server._calls._asking:
            await asyncio.wait(server._calls._asking)
        assert served.lazy.clients.questions._waiting == {}
        assert events_in(await client.call_tool("desk.add", {"left": 1}))


def post(url: str, era: Era, session: str | None, message: object) -> httpx2.Request:
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }
    if era == MODERN:
        headers |= {
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": "tools/call",
            "Mcp-Name": "desk.block",
        }
    elif session:
        headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    return httpx2.Request("POST", url, headers=headers, content=json.dumps(message))


async def legacy_session(http: httpx2.AsyncClient, url: str) -> str:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    response = await http.send(post(url, LEGACY, None, hello))
    session = response.headers["mcp-session-id"]
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    await http.send(post(url, LEGACY, session, ready))
    return str(session)


@both_eras
async def test_an_http_client_that_goes_away_ends_the_method_only_in_the_newer_protocol(
    tmp_path: Path, era: Era
) -> None:
    desk = Desk()
    async with serving(tmp_path, desk) as served, asyncio.timeout(PATIENCE_SECONDS):
        meta = {"progressToken": "t"}
        if era == MODERN:
            meta |= {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},  # type: ignore[dict-item]
            }
        params = {"name": "desk.block", "arguments": {}, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        async with httpx2.AsyncClient(timeout=PATIENCE_SECONDS) as http:
            session = await legacy_session(http, served.url) if era == LEGACY else None
            request = post(served.url, era, session, message)
            call = asyncio.create_task(http.send(request))
            await desk.begun.wait()
            call.cancel()
            await asyncio.wait([call])
        # All its connections are closed now.
        if era == MODERN:
            await desk.ended.wait()
        else:
            # A client of the older protocol may come back for its answer, so the method goes on.
            await is_well(served, tmp_path)
            assert not desk.ended.is_set()
            desk.open.set()
            await desk.ended.wait()
        await is_well(served, tmp_path)
        assert desk.inside == 0


@both_eras
async def test_a_bridge_that_goes_away_ends_the_method(
    tmp_path: Path, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_lines, "DRAIN_SECONDS", 0.1)
    desk = Desk()
    async with serving(tmp_path, desk) as served, asyncio.timeout(PATIENCE_SECONDS):
        async with Client(lines(tmp_path / "hub.mcp", {}), mode=era) as client:
            call = asyncio.create_task(client.call_tool("desk.block", {}))
            await desk.begun.wait()
        with pytest.raises(MCPError):
            await call
        await desk.ended.wait()
        await is_well(served, tmp_path)


@every_way
async def test_stopping_ends_every_call_and_notifies_its_client(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    desk = Desk()
    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, transport, era) as client,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        call = asyncio.create_task(client.call_tool("desk.block", {}))
        await desk.begun.wait()
        # As the daemon does, once its doors are closed.
        await served.lazy.clients.__aexit__(None, None, None)
        assert desk.ended.is_set()
        result = await call
        assert result.is_error
        assert result.content[0].type == "text"
        assert result.content[0].text == "cancelled: the daemon is stopping"
        refused = await client.call_tool("desk.add", {"left": 1})
        assert refused.content[0].type == "text"
        assert refused.content[0].text.startswith("unavailable: the daemon is stopping\n")
        assert desk.ran == 0


@every_way
async def test_stopping_the_server_ends_every_call(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    desk = Desk()

    async def call(served: Served) -> None:
        async with attached(served, tmp_path, transport, era) as client:
            await client.call_tool("desk.block", {})

    async with asyncio.timeout(PATIENCE_SECONDS):
        async with serving(tmp_path, desk) as served:
            calling = asyncio.create_task(call(served))
            await desk.begun.wait()
        assert desk.ended.is_set()
        # The client may ignore it.
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
