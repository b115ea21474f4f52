"""Seed 003 by the official client in both eras over both transports, and by hand over HTTP."""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import pytest
from mcp import Client

from tests.mcp.seed import RENDER, make_tree
from tests.mcp.support import ERAS, MODERN, TRANSPORTS, Era, Transport, connected
from tests.support import PATIENCE_SECONDS, Daemon

META = "io.modelcontextprotocol"


class RawClient:
    """MCP over HTTP by the specification, without an SDK."""

    def __init__(self, daemon: Daemon) -> None:
        self._url = urlsplit(daemon.record["mcp_url"])
        self.headers = {
            "Authorization": f"Bearer {daemon.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }

    def post(self, message: dict[str, Any], **more: str) -> tuple[http.client.HTTPMessage, Any]:
        """Send one message; return the headers and the last message of the answer, if any."""
        assert self._url.hostname is not None
        connection = http.client.HTTPConnection(
            self._url.hostname, self._url.port, timeout=PATIENCE_SECONDS
        )
        try:
            headers = self.headers | {name.replace("_", "-"): text for name, text in more.items()}
            connection.request("POST", self._url.path, json.dumps(message), headers)
            response = connection.getresponse()
            body = response.read().decode()
        finally:
            connection.close()
        assert response.status in (200, 202), (response.status, body)
        if response.headers.get_content_type() == "text/event-stream":
            lines = [line[5:] for line in body.splitlines() if line.startswith("data:")]
            body = next(line for line in reversed(lines) if line.strip())
        return response.headers, json.loads(body) if body else None

    async def event(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool; its only event."""
        answer = self.call(1, name, arguments)
        [event] = answer["result"]["structuredContent"]["events"]
        return dict(event)

    def call(self, request_id: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer to `tools/call`."""
        raise NotImplementedError


class RawLegacy(RawClient):
    """2025-11-25: a handshake, and a session after that."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__(daemon)
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "by hand", "version": "1"},
        }
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        headers, answer = self.post(hello)
        assert answer["result"]["protocolVersion"] == "2025-11-25"
        self.headers |= {
            "Mcp-Session-Id": headers["Mcp-Session-Id"],
            "MCP-Protocol-Version": "2025-11-25",
        }
        _, nothing = self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert nothing is None

    def call(self, request_id: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        params = {"name": name, "arguments": arguments}
        request = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
        return dict(self.post(request)[1])


class RawModern(RawClient):
    """2026-07-28: every request says everything."""

    def call(self, request_id: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        meta = {f"{META}/protocolVersion": MODERN, f"{META}/clientCapabilities": {}}
        params = {"name": name, "arguments": arguments, "_meta": meta}
        request = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
        headers = {"MCP_Protocol_Version": MODERN, "Mcp_Method": "tools/call", "Mcp_Name": name}
        return dict(self.post(request, **headers)[1])


async def event_of(client: Client, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result
    assert result.structured_content is not None
    [event] = result.structured_content["events"]
    return dict(event)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
async def test_the_official_client_gets_the_answer_of_the_seed(
    shared_daemon: Daemon, transport: Transport, era: Era
) -> None:
    async with connected(shared_daemon, transport, era) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert "tree_id" in listed["arbor.tree_render"].input_schema["required"]
        tree_id = await make_tree(lambda name, given: event_of(client, name, given))
        result = await client.call_tool("arbor.tree_render", {"tree_id": tree_id})
    [block] = result.content
    assert block.type == "text"
    assert block.text == RENDER
    assert result.is_error is False


@pytest.mark.parametrize("client_type", [RawLegacy, RawModern])
async def test_the_request_of_the_seed_by_hand_gets_the_answer_of_the_seed(
    shared_daemon: Daemon, client_type: type[RawClient]
) -> None:
    client = client_type(shared_daemon)
    tree_id = await make_tree(client.event)
    answer = client.call(42, "arbor.tree_render", {"tree_id": tree_id})
    assert answer["jsonrpc"] == "2.0"
    assert answer["id"] == 42
    assert answer["result"]["content"] == [{"type": "text", "text": RENDER}]
    assert answer["result"]["isError"] is False


@pytest.mark.parametrize("client_type", [RawLegacy, RawModern])
async def test_an_unknown_tree_is_an_error_in_the_result(
    shared_daemon: Daemon, client_type: type[RawClient]
) -> None:
    missing = "550e8400-e29b-41d4-a716-446655440000"
    answer = client_type(shared_daemon).call(42, "arbor.tree_render", {"tree_id": missing})
    assert answer["result"]["isError"] is True
    [block] = answer["result"]["content"]
    assert block["text"].startswith("not_found: ")
    assert missing in block["text"]


async def test_the_tools_and_their_schemas_are_the_same_by_every_way_in(
    shared_daemon: Daemon,
) -> None:
    lists = []
    for transport in TRANSPORTS:
        for era in ERAS:
            async with connected(shared_daemon, transport, era) as client:
                listed = await client.list_tools()
                assert listed.next_cursor is None
                tools = [tool.model_dump(mode="json", exclude_none=True) for tool in listed.tools]
                lists.append(tools)
    first, *others = lists
    assert len(first) > 50
    assert all(tools == first for tools in others)
