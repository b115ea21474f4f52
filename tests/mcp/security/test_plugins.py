"""Hostile and faulty plugins."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.hostile import CATASTROPHE, ELSEWHERE
from tests.mcp.raw_http import RawClient, modern, ports, request
from tests.mcp.support import ERAS, Era, over_stdio
from tests.support import Daemon, McpDaemon, events_of

PLUGINS = (
    "tests.mcp.hostile_abyss:Abyss",
    "tests.mcp.hostile:Remote",
    "tests.mcp.hostile:Deep",
    "tests.mcp.hostile:Slow",
    "tests.mcp.hostile:Low",
    "tests.mcp.hostile:Witness",
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    home = tmp_path_factory.mktemp("hostile") / "home"
    options = [word for plugin in PLUGINS for word in ("--plugin", plugin)]
    with McpDaemon(home, *options) as running:
        yield running


@pytest.fixture(scope="module")
def mcp(daemon: Daemon) -> RawClient:
    return RawClient(ports(daemon)[1], daemon.token)


@pytest.fixture(scope="module")
def tools(mcp: RawClient) -> dict[str, Any]:
    """All tools by name."""
    found: dict[str, Any] = {}
    cursor: str | None = None
    while True:
        params = {"cursor": cursor} if cursor else {}
        answer = mcp.post(request("tools/list", params), modern("tools/list"))
        result = answer.message["result"]
        found |= {tool["name"]: tool for tool in result["tools"]}
        cursor = result.get("nextCursor")
        if cursor is None:
            return found


def left_out(daemon: Daemon) -> dict[str, str]:
    """Return the reports about skipped parts."""
    events = events_of(daemon.home, "plexus.activations")
    return {
        event["source"]: event["reason"] for event in events if event["type"] == "broken_plugin"
    }


def test_a_schema_that_leads_elsewhere_costs_its_method_and_nothing_is_fetched(
    daemon: Daemon, mcp: RawClient, tools: dict[str, Any]
) -> None:
    assert "remote.fetch" not in tools
    assert ELSEWHERE in left_out(daemon)["remote.fetch as an MCP tool"]
    assert mcp.call("remote.fetch", {"text": "x"}).code == -32602
    # Its sibling is listed, and clients without a schema can still call it.
    assert "remote.fine" in tools
    assert not mcp.call("remote.fine", {"text": "x"}).message["result"]["isError"]
    assert events_of(daemon.home, "remote.fetch", text="x")[0]["text"] == "x"


def test_a_schema_that_is_too_deep_costs_its_method_only(
    daemon: Daemon, mcp: RawClient, tools: dict[str, Any]
) -> None:
    assert "deep.down" not in tools
    assert "nested deeper" in left_out(daemon)["deep.down as an MCP tool"]
    assert mcp.call("deep.down").code == -32602
    assert "deep.fine" in tools
    assert not mcp.call("deep.fine").message["result"]["isError"]


def test_a_schema_that_nothing_can_read_costs_its_plugin_only(
    daemon: Daemon, tools: dict[str, Any]
) -> None:
    assert not any(name.startswith("abyss") for name in tools)
    assert "recursion" in left_out(daemon)["tests.mcp.hostile_abyss:Abyss (--plugin)"]
    assert {"witness.note", "echo.once", "arbor.tree_render"} <= tools.keys()


@pytest.mark.parametrize("method", ["slow.match", "slow.claim"])
def test_no_pattern_of_a_schema_is_matched_by_trial_and_error(
    daemon: Daemon, mcp: RawClient, tools: dict[str, Any], method: str
) -> None:
    assert tools[method]["inputSchema"]["properties"]["text"]["pattern"] == CATASTROPHE
    # Trial and error would not come to an end on this in the lifetime of a machine.
    result = mcp.call(method, {"text": "a" * 200 + "!"}).message["result"]
    assert result["isError"] == (method == "slow.match")
    assert not mcp.call(method, {"text": "aaa"}).message["result"]["isError"]


def test_one_of_two_methods_with_the_same_tool_name_is_left_out(
    daemon: Daemon, mcp: RawClient, tools: dict[str, Any]
) -> None:
    assert "low.down_deep" in tools
    assert "low.down.deep" not in tools
    assert "low.down_deep" in left_out(daemon)["low.down.deep as an MCP tool"]
    flat = [name.replace(".", "_") for name in tools]
    assert len(flat) == len(set(flat))
    assert mcp.call("low.down.deep").code == -32602
    for spelling in ("low.down_deep", "low_down_deep"):
        [event] = mcp.call(spelling).message["result"]["structuredContent"]["events"]
        assert event["text"] == "low.down_deep"


@pytest.mark.parametrize("era", ERAS)
async def test_prints_of_plugins_reach_no_client(daemon: Daemon, era: Era) -> None:
    async with over_stdio(daemon.home, era) as client:
        result = await client.call_tool("witness.shout", {})
        assert result.structured_content is not None
        assert result.structured_content["events"][0]["text"] == "printed"
        result = await client.call_tool("witness.hear", {"text": "still there"})
        assert not result.is_error


def test_the_plugins_of_this_file_do_not_bring_the_sdk(home: Path) -> None:
    assert "mcp" in sys.modules
    with Daemon(home, "--plugin", PLUGINS[-1]):
        assert events_of(home, "witness.loaded") == [{"type": "loaded", "modules": []}]
