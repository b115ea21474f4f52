"""A page over the command line, the WebSocket and MCP: the same handle, the same data."""

import asyncio
import json
from pathlib import Path
from typing import Any

from mcp_types import TextResourceContents

from hubd.client import Hub
from tests.fakes.hostile_web import HostileWeb, response
from tests.mcp.support import over_http
from tests.support import McpDaemon
from tests.synapse.support import synapse_process as synapse


async def test_a_page_is_fetched_and_resolved_over_every_transport(
    home: Path, server: HostileWeb
) -> None:
    page = b"<title>Everywhere</title><p>The same text for every client."
    server.answers["/"] = response(page, "Content-Type: text/html")
    daemon = McpDaemon(home, "--mcp-port", "0")
    daemon.variables["HUBD_WEB_ALLOW_PRIVATE"] = "true"

    async def run(*words: str) -> Any:
        result = await asyncio.to_thread(synapse, *words, home=home)
        assert result.returncode == 0, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]

    with daemon:
        [fetched] = await run("web", "fetch", "--url", server.url, "--headers.x-key", "value")
        assert "x-key: value" in server.requests[0]
        [resolved] = await run("plexus", "resolve-handle", "--handle", fetched["handle"])
        assert (resolved["kind"], resolved["data"]["title"]) == ("document", "Everywhere")
        assert resolved["data"]["text"] == "The same text for every client."
        async with Hub.connect(url=daemon.record["ws_url"], token=daemon.token) as client:
            again = await client.call_one("web.fetch", url=server.url)
            assert again["digest"] == fetched["digest"]
            assert (await client.resolve(fetched["handle"]))["data"] == resolved["data"]
        async with over_http(daemon.record["mcp_url"], daemon.token, "2026-07-28") as mcp:
            result = await mcp.call_tool("web.list", {"limit": 1})
            assert result.structured_content is not None
            [listed] = result.structured_content["events"]
            assert [row["fetch_id"] for row in listed["fetches"]] == [again["fetch_id"]]
            read = await mcp.read_resource(f"plexus://handle/{fetched['handle']}")
            [content] = read.contents
            assert isinstance(content, TextResourceContents)
            assert json.loads(content.text)["data"] == resolved["data"]
        [table] = [await asyncio.to_thread(synapse, "web", "list", "-o", "table", home=home)]
        assert "Everywhere" in table.stdout
        assert len(server.requests) == 2
