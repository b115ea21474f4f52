"""System prompts of cones, as MCP clients see them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import MCPError
from mcp_types import TextContent

from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.cone.plugin import Cone
from tests.mcp.notified_clients import listening
from tests.mcp.support import (
    ERAS,
    TOKEN,
    TRANSPORTS,
    Era,
    Transport,
    connected,
    over_http,
    serving,
)
from tests.support import Daemon, call_items, events_of


@pytest.fixture
def daemon(shared_daemon: Daemon) -> Iterator[Daemon]:
    """A daemon without any cones."""
    yield shared_daemon
    for page in events_of(shared_daemon.home, "cone.list"):
        for cone in page["cones"]:
            events_of(shared_daemon.home, "cone.delete", identifier=cone["cone_id"])


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_the_system_prompts_of_cones_are_prompts(
    daemon: Daemon, transport: Transport, era: Era
) -> None:
    async with connected(daemon, transport, era) as client:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == []
        for name, text in (("b. brief", "Be brief."), ("a", "Be { {not} a template}.")):
            await client.call_tool("cone.create", {"name": name, "system_prompt": text})
        await client.call_tool("cone.create", {"name": "silent"})
        listed = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in listed] == ["cone.a", "cone.b. brief"]
        assert listed[0].description == "The system prompt of a cone on offline"
        assert not listed[0].arguments
        filled = await client.get_prompt("cone.b. brief")
        [message] = filled.messages
        assert isinstance(message.content, TextContent)
        assert (message.role, message.content.text) == ("user", "Be brief.")
        for name, arguments in (("cone.silent", {}), ("cone.c", {}), ("cone.a", {"x": "y"})):
            with pytest.raises(MCPError) as caught:
                await client.get_prompt(name, arguments)
            assert caught.value.error.code == -32602


@pytest.mark.parametrize("era", ERAS)
async def test_clients_are_notified_of_new_and_removed_prompts(tmp_path: Path, era: Era) -> None:
    async with serving(tmp_path, Arbor(), Cone()) as served:
        for method, params in (
            ("create", {"name": "c", "system_prompt": "Be brief."}),
            ("fork", {"identifier": "c", "new_name": "d"}),
            ("delete", {"identifier": "c"}),
        ):
            async with listening(served, tmp_path, "http", era) as (client, notified):
                # A cone without a prompt causes no notification.
                await call_items(served.hub, "cone.create", name=f"without {method}")
                await call_items(served.hub, f"cone.{method}", **params)
                await notified.wait_for("prompts")
                # Of the new trees it hears as well.
                assert notified.received.count("prompts") == 1
        async with over_http(served.url, TOKEN, era) as client:
            listed = (await client.list_prompts()).prompts
            assert [prompt.name for prompt in listed] == ["cone.d"]
