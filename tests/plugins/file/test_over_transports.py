"""A snapshot over MCP, as a resource, and over the WebSocket."""

from pathlib import Path

from mcp.types import TextResourceContents

from hubd.client import Hub
from tests.mcp.support import MODERN, connected
from tests.support import McpDaemon


async def test_a_snapshot_taken_over_mcp_is_a_resource_and_resolves_over_the_websocket(
    home: Path, tmp_path: Path
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("hello")
    with McpDaemon(home) as daemon:
        async with connected(daemon, "http", MODERN) as client:
            result = await client.call_tool("file.snapshot", {"path": str(file)})
            assert result.structured_content is not None
            handle = result.structured_content["events"][0]["handle"]
            file.unlink()
            [contents] = (await client.read_resource(f"plexus://handle/{handle}")).contents
            assert isinstance(contents, TextResourceContents)
            assert "hello" in contents.text
        token = Path(daemon.paths.token).read_text().strip()
        async with Hub.connect(url=daemon.record["ws_url"], token=token) as hub:
            [resolved] = [event async for event in hub.call("plexus.resolve_handle", handle=handle)]
        assert (resolved["kind"], resolved["data"]["text"]) == ("document", "hello")
