"""The main line of MCP, end to end: list, call, read; both eras, both transports."""

import pytest

from tests.mcp.support import ERAS, TRANSPORTS, Era, Transport, connected
from tests.support import Daemon


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_makes_a_tree_and_sees_it_drawn(
    daemon: Daemon, transport: Transport, era: Era
) -> None:
    async with connected(daemon, transport, era) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == sorted(names)
        made = await client.call_tool("arbor.tree_create", {})
        assert made.structured_content is not None
        [event] = made.structured_content["events"]
        drawn = await client.call_tool("arbor.tree_render", {"tree_id": event["tree_id"]})
        assert not drawn.is_error
        [text] = drawn.content
        assert text.type == "text"
        assert text.text == "└──"
        read = await client.read_resource(f"plexus://arbor/{event['tree_id']}")
        assert read.contents[0].text == "└──"  # type: ignore[union-attr]
