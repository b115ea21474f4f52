"""The MCP server is loaded by its first client, and not before."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
from mcp import MCPError

from hubd.activation import method
from hubd.errors import Unavailable
from hubd.plugins.echo import Echo, EchoPlugin
from hubd.wire.mcp_bridge import REFUSED
from tests.mcp.loaded_plugin import HEAVY
from tests.mcp.notified_clients import client_of, server_of, until
from tests.mcp.support import ERAS, MODERN, TRANSPORTS, Era, Transport, connected, serving
from tests.support import PATIENCE_SECONDS, Daemon, environment, events_of


@pytest.fixture
def watched(home: Path) -> Iterator[Daemon]:
    """A daemon that reports its imports."""
    with Daemon(home, "--plugin", "tests.mcp.loaded_plugin:Loaded") as daemon:
        yield daemon


def heavy(daemon: Daemon) -> set[str]:
    [event] = events_of(daemon.home, "loaded.heavy")
    return set(event["names"])


def test_importing_the_daemon_imports_nothing_of_mcp() -> None:
    code = (
        f"import hubd.daemon.run, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
async def test_the_first_mcp_client_loads_the_server_and_other_clients_do_not(
    watched: Daemon, transport: Transport, era: Era
) -> None:
    async with watched.client() as other:
        await other.call("echo.once", {"message": "hi"})
    assert await asyncio.to_thread(heavy, watched) == set()
    async with connected(watched, transport, era) as client:
        result = await client.call_tool("loaded.heavy", {})
    assert result.structured_content is not None
    imported = set(result.structured_content["events"][0]["names"])
    assert imported == set(HEAVY)


async def test_a_refused_request_does_not_load_the_server(watched: Daemon) -> None:
    async with httpx2.AsyncClient() as http:
        refused = await http.post(watched.record["mcp_url"], json={})
    assert refused.status_code == 401
    imported = await asyncio.to_thread(heavy, watched)
    assert "uvicorn" in imported
    assert not imported & {"mcp", "mcp_types", "jsonschema"}


async def test_simultaneous_clients_share_one_server(tmp_path: Path) -> None:
    async with serving(tmp_path, EchoPlugin()) as served:
        servers = await asyncio.gather(*(served.lazy.server() for _ in range(10)))
        assert len(set(map(id, servers))) == 1


async def test_a_cancelled_client_does_not_stop_the_build_of_the_server(tmp_path: Path) -> None:
    async with serving(tmp_path, EchoPlugin()) as served:
        first, second = (asyncio.create_task(served.lazy.server()) for _ in range(2))
        await until(lambda: served.lazy._ready is not None)
        first.cancel()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await second is await server_of(served)
        assert first.cancelled()


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_gets_the_error_if_the_server_cannot_be_built_and_the_next_is_served(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    # Where the results of calls belong there is a file.
    blocked = tmp_path / "results"
    blocked.write_text("in the way")
    async with serving(tmp_path, EchoPlugin()) as served:
        for _ in range(2):
            with pytest.raises((MCPError, ExceptionGroup, httpx2.HTTPError)):
                async with client_of(served, tmp_path, transport, era) as client:
                    await client.list_tools()
        blocked.unlink()
        async with client_of(served, tmp_path, transport, era) as client:
            result = await client.call_tool("echo.once", {"message": "hi"})
            assert not result.is_error


async def test_bridge_and_client_get_the_error_if_the_server_cannot_be_built(
    tmp_path: Path,
) -> None:
    (tmp_path / "results").write_text("in the way")
    async with serving(tmp_path, EchoPlugin()), asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "hub.mcp"))
        writer.write(b"{}\n")
        answer, _, reason = (await reader.read()).partition(REFUSED)
        told = "the daemon failed to serve this client; see the log"
        assert json.loads(answer)["error"]["message"].startswith(told)
        assert json.loads(reason)["message"] == told
        writer.close()
        await writer.wait_closed()


async def test_a_server_that_ended_is_made_again_for_the_next_client(tmp_path: Path) -> None:
    async with serving(tmp_path, EchoPlugin()) as served:
        first = await server_of(served)
        assert served.lazy._task is not None
        served.lazy._task.cancel()
        await asyncio.wait([served.lazy._task])
        async with client_of(served, tmp_path, "http", MODERN) as client:
            assert not (await client.call_tool("echo.once", {"message": "hi"})).is_error
        assert await server_of(served) is not first


async def test_a_daemon_that_stops_makes_no_server_any_more(tmp_path: Path) -> None:
    async with serving(tmp_path, EchoPlugin()) as served:
        await served.lazy.__aexit__(None, None, None)
        with pytest.raises(Unavailable, match="the daemon is stopping"):
            await served.lazy.server()
        assert served.lazy._task is None


async def test_results_are_removed_with_their_server(tmp_path: Path) -> None:
    async with serving(tmp_path, EchoPlugin()) as served:
        async with client_of(served, tmp_path, "http", MODERN) as client:
            await client.call_tool("echo.echo", {"message": "x" * 1000, "count": 200})
        assert len(list((tmp_path / "results").iterdir())) == 1
        await served.lazy.__aexit__(None, None, None)
        assert not (tmp_path / "results").exists()


async def test_a_rebuilt_server_does_not_repeat_its_reports(
    tmp_path: Path,
) -> None:
    class Foreign(EchoPlugin, namespace="foreign", version="1.0.0"):
        """Has a method that cannot be a tool."""

        @method(read_only=True)
        async def grow(self, größe: int) -> AsyncIterator[Echo]:
            """Take a parameter with a name that model APIs reject."""
            raise NotImplementedError
            yield

    async with serving(tmp_path, Foreign()) as served:
        for _ in range(2):
            async with client_of(served, tmp_path, "http", MODERN) as client:
                await client.list_tools()
            [(source, _)] = served.hub.broken
            assert source == "foreign.grow as an MCP tool"
            assert served.lazy._task is not None
            served.lazy._task.cancel()
            await asyncio.wait([served.lazy._task])
