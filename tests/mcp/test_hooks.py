"""Plugins that fail outside of calls: in prompts, changes and extensions of MCP."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import CallToolResult, EmptyResult, Request

from hubd.activation import Activation, Event, method
from hubd.mcp import prompts as mcp_prompts
from hubd.mcp.extensions import ask_plugin
from hubd.plexus.host import PlexusHost
from hubd.plugins.echo import EchoPlugin
from tests.mcp.desk import Desk, attached, both_eras, every_way, text_in
from tests.mcp.hooks_plugin import Hooks
from tests.mcp.notified_clients import deprecated, listening
from tests.mcp.support import (
    ERAS,
    LEGACY,
    MODERN,
    TOKEN,
    Era,
    Transport,
    connected,
    over_http,
    serving,
)
from tests.mcp.weather import Weather
from tests.support import PATIENCE_SECONDS, McpDaemon

Use = Callable[[Client], Awaitable[Any]]


async def _call(client: Client) -> CallToolResult:
    return await client.call_tool("hook", {})


async def _read(client: Client) -> Any:
    return await client.read_resource("hook://one")


async def _look(client: Client) -> Any:
    return await client.read_resource("plexus://hooks/x")


async def _get(client: Client) -> Any:
    return await client.get_prompt("hook")


async def _fill(client: Client) -> Any:
    return await client.get_prompt("hooks.write")


async def _request(client: Client) -> Any:
    return await client.session.send_request(Request(method="hooks/go", params=None), EmptyResult)


async def _watch(client: Client) -> Any:
    """Begin to watch, in the way of the client's era; that never fails."""
    if client.protocol_version == MODERN:
        async with client.listen(resource_subscriptions=["plexus://hooks/x"]):
            return
    with deprecated():
        await client.subscribe_resource("plexus://hooks/x")


USES: list[Use] = [_call, _read, _get, _fill, _request]
every_use = pytest.mark.parametrize("use", USES)


async def _lives(client: Client) -> bool:
    return not (await client.call_tool("echo.once", {"message": "x"})).is_error


async def _failure(client: Client, use: Use) -> str:
    """Return the error text: a tool's failure is a result, all others are errors."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        if use is _call:
            result = await _call(client)
            assert result.is_error
            return text_in(result)
        with pytest.raises(MCPError) as caught:
            await use(client)
        return caught.value.message


async def test_no_hook_ends_the_daemon(home: Path) -> None:
    with McpDaemon(home, "--plugin", "tests.mcp.hooks_plugin:Hooks") as daemon:
        for era in ERAS:
            async with connected(daemon, "http", era) as client:
                for use in USES:
                    assert "SystemExit: 3" in await _failure(client, use)
                await _watch(client)
                assert await _lives(client)


@every_use
@every_way
async def test_a_failing_hook_is_an_error_of_its_request_only(
    tmp_path: Path, transport: Transport, era: Era, use: Use
) -> None:
    hooks = Hooks()
    async with (
        serving(tmp_path, hooks, EchoPlugin()) as served,
        attached(served, tmp_path, transport, era) as client,
    ):
        for hooks.way, told in (
            ("raises", "ZeroDivisionError: a mistake"),
            ("refuses", "there is no caf?"),
            ("is cancelled", "cancelled itself"),
        ):
            assert told in await _failure(client, use)
        assert await _lives(client)


@every_use
async def test_a_hook_may_answer_with_an_error_of_the_protocol(tmp_path: Path, use: Use) -> None:
    async with (
        serving(tmp_path, Hooks("speaks the protocol")) as served,
        over_http(served.url, TOKEN, MODERN) as client,
    ):
        with pytest.raises(MCPError) as caught:
            await use(client)
        assert (caught.value.code, caught.value.message) == (-31999, "in its own words")


async def test_cancelling_a_hook_is_not_a_failure() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    asking = asyncio.create_task(ask_plugin("a hook", wait()))
    await begun.wait()
    asking.cancel()
    await asyncio.wait([asking])
    assert ended.is_set()
    assert asking.cancelled()


@every_use
@every_way
async def test_a_lone_surrogate_does_not_end_the_connection(
    tmp_path: Path, transport: Transport, era: Era, use: Use
) -> None:
    async with (
        serving(tmp_path, Hooks("does nothing"), EchoPlugin()) as served,
        attached(served, tmp_path, transport, era) as client,
    ):
        answer = await use(client)
        assert use is _request or "caf?" in str(answer)
        [_, offered] = (await client.list_prompts()).prompts
        assert offered.description == "as in caf?"
        assert offered.arguments is not None
        assert [entry.description for entry in offered.arguments] == ["near the caf?"]
        with pytest.raises(MCPError, match=r"there is no caf\?"):
            await _look(client)
        assert await _lives(client)


async def test_a_prompt_that_is_never_filled_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_prompts, "FILL_SECONDS", 0.05)
    async with (
        serving(tmp_path, Hooks("waits")) as served,
        over_http(served.url, TOKEN, LEGACY) as client,
    ):
        assert "took longer than" in await _failure(client, _fill)


class Unreadable(Activation, namespace="unreadable", version="1.0.0"):
    """A plugin without a valid schema."""

    def __init__(self) -> None:
        # As it came from a file.
        self.description = b"no text"  # type: ignore[assignment]


@both_eras
async def test_a_plugin_that_cannot_be_described_can_be_taken_out_again(
    tmp_path: Path, era: Era
) -> None:
    weather, uri = Weather(), "plexus://weather/home"
    async with (
        serving(tmp_path, weather, EchoPlugin()) as served,
        listening(served, tmp_path, "http", era, uris=(uri,)) as (client, notified),
    ):
        node = served.hub.attach(Unreadable(), PlexusHost(served.hub))
        # Others are not disturbed meanwhile.
        weather.changed.set()
        await notified.wait_for(uri)
        served.hub.detach(node)
        assert await _lives(client)
        assert (await client.list_resources()).resources


class Name(Event):
    name: str


class Lister(Activation, version="1.0.0"):
    """Lists its values after another plugin has begun to."""

    def __init__(self, name: str, begin: asyncio.Event, wait: asyncio.Event) -> None:
        self.namespace = name
        self._begin, self._wait = begin, wait

    @method(read_only=True)
    async def names(self) -> AsyncIterator[Name]:
        """List them."""
        self._begin.set()
        await self._wait.wait()
        yield Name(name="x")


class First(Lister, namespace="first", version="1.0.0"):
    """The first."""

    @method(read_only=True, mcp={"resource": {"name": "name"}}, completes={"name": "first.names"})
    async def look(self, name: str) -> AsyncIterator[Name]:
        """Look at one."""
        yield Name(name=name)


class Second(Lister, namespace="second", version="1.0.0"):
    """The second."""

    @method(read_only=True, mcp={"resource": {"name": "name"}}, completes={"name": "second.names"})
    async def look(self, name: str) -> AsyncIterator[Name]:
        """Look at one."""
        yield Name(name=name)


async def test_lists_are_made_at_once_so_that_slow_ones_do_not_add_up(tmp_path: Path) -> None:
    one, two = asyncio.Event(), asyncio.Event()
    plugins = First("first", one, two), Second("second", two, one)
    async with (
        serving(tmp_path, *plugins) as served,
        over_http(served.url, TOKEN, MODERN) as client,
    ):
        uris = {entry.uri for entry in (await client.list_resources()).resources}
        assert {"plexus://first/x", "plexus://second/x"} <= uris


class Adviser(Activation, namespace="adviser", version="1.0.0"):
    """Returns very many suggestions."""

    @method(streaming=False)
    async def advise(self, times: int) -> AsyncIterator[Name]:
        """Give advice."""
        for n in range(times):
            await self.host.advise("weather", f"advice {n}")
        yield Name(name="done")


async def test_of_very_much_advice_the_latest_is_kept(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, Adviser(), Desk()) as served,
        over_http(served.url, TOKEN, MODERN) as client,
    ):
        result = await client.call_tool("adviser.advise", {"times": 1000})
        notes = [block.text for block in result.content[1:] if block.type == "text"]
        assert notes == [f"Note: advice {n}" for n in range(950, 1000)]
