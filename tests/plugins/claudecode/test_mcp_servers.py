"""Real MCP servers behind the real `claude`: those of a session, beside those of the user."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import phone_book
from tests.plugins.claudecode.chat_support import World, is_sound, say, world


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with world(tmp_path, monkeypatch, "claude") as running:
        yield running


def tool_of(server: str) -> str:
    """The name by which an agent calls the tool of a server."""
    return f"mcp__{server}__{phone_book.TOOL}"


def calling(*calls: tuple[str, str]) -> str:
    """The prompt that makes claude ask these servers for these names."""
    listed = [{"name": tool_of(server), "input": {"name": name}} for server, name in calls]
    return f"TOOLS[{', '.join(json.dumps(call) for call in listed)}] SAY[found]"


async def create(here: World, **options: Any) -> None:
    servers = {"office": phone_book.config(ann="030 1234"), "home": phone_book.config(bob="0170 9")}
    await here.one("create", name="s", mcp_config={"mcpServers": servers}, **options)


@pytest.mark.soak
async def test_a_tool_of_a_session_server_is_called_and_its_result_is_stored(
    here: World,
) -> None:
    await create(here, allowed_tools=[tool_of("office"), tool_of("home")])
    asked = (("office", "ann"), ("home", "bob"), ("home", "ann"))
    ended = await here.chat(prompt=calling(*asked))
    assert (ended.status, ended.error) == ("complete", None)
    calls = {event["tool_use_id"]: event for event in ended.of("tool_use")}
    assert [(each["tool_name"], each["input"]["name"]) for each in calls.values()] == [
        (tool_of(server), name) for server, name in asked
    ]
    given = {event["tool_use_id"]: event for event in ended.of("tool_result")}
    # Only the servers know the numbers; each knows its own. To an error `claude` adds advice.
    lines = [given[each]["output"].splitlines()[0] for each in calls]
    assert list(zip(lines, [given[each]["is_error"] for each in calls], strict=True)) == [
        ("030 1234", False),
        ("0170 9", False),
        ("there is no such entry", True),
    ]
    # In the tree each lies below the message that made the call, and its handle gives it back.
    caller = ended.of("assistant_message")[0]["position"]["node_id"]
    for result in given.values():
        node = (await here.one("arbor.node_get", **result["position"]))["node"]
        assert node["parent"] == caller
        back = await here.one("plexus.resolve_handle", handle=node["data"]["handle"])
        assert (back["data"]["output"], back["data"]["is_error"]) == (
            result["output"],
            result["is_error"],
        )
    # The context has the results of the servers, and so has the one from the tree.
    assert "030 1234" in str(here.api.conversations[-1])
    before = await here.context()
    assert (await here.chat(say("on"))).status == "complete"
    messages = await here.model_messages()
    assert messages[:-1] == before
    assert is_sound(messages)


@pytest.mark.soak
async def test_session_servers_are_added_to_those_of_the_user(here: World) -> None:
    settings = Path(here.environment["CLAUDE_CONFIG_DIR"], ".claude.json")
    settings.write_text(json.dumps({"mcpServers": {"own": phone_book.config(me="110")}}))
    await create(here, allowed_tools=[tool_of("office"), tool_of("own")])
    ended = await here.chat(prompt=calling(("office", "ann"), ("own", "me")))
    assert ended.status == "complete"
    given = {event["tool_use_id"]: event["output"] for event in ended.of("tool_result")}
    assert [given[event["tool_use_id"]] for event in ended.of("tool_use")] == ["030 1234", "110"]


@pytest.mark.soak
async def test_a_tool_of_a_server_needs_an_approval(here: World) -> None:
    await create(here, allowed_tools=[tool_of("office")])
    ended = await here.chat(prompt=calling(("office", "ann"), ("home", "bob")))
    assert ended.status == "complete"
    given = {event["tool_use_id"]: event for event in ended.of("tool_result")}
    allowed, refused = (given[event["tool_use_id"]] for event in ended.of("tool_use"))
    assert (allowed["output"], allowed["is_error"]) == ("030 1234", False)
    assert refused["is_error"] is True
    assert "0170 9" not in str(here.api.conversations)


@pytest.mark.soak
async def test_a_server_that_does_not_start_fails_its_tool_and_not_the_chat(here: World) -> None:
    servers = {"office": phone_book.config(ann="030 1234"), "gone": {"command": "/nowhere/to/be"}}
    tools = [tool_of("office"), tool_of("gone")]
    await here.one("create", name="s", mcp_config=servers, allowed_tools=tools)
    ended = await here.chat(prompt=calling(("office", "ann"), ("gone", "x")))
    assert ended.status == "complete"
    given = {event["tool_use_id"]: event for event in ended.of("tool_result")}
    actual, missing = (given[event["tool_use_id"]] for event in ended.of("tool_use"))
    assert (actual["output"], actual["is_error"]) == ("030 1234", False)
    assert missing["is_error"] is True
