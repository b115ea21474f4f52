"""The real `claude` as a client of the hub; its model is a script on the loopback interface."""

import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.fakes.agent_process import AgentProcess, Program, claude_program
from tests.fakes.messages_api import FakeMessagesApi
from tests.mcp.support import TRANSPORTS, Transport, connected
from tests.support import Daemon, McpDaemon, few

PREFIX: Final = "mcp__plexus__"
PERMIT: Final = f"{PREFIX}porter_permit"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon for all tests; each looks only at its own data."""
    home = tmp_path_factory.mktemp("claude") / "home"
    with McpDaemon(home, "--plugin", "tests.fakes.mcp_plugins:Porter") as running:
        yield running


@pytest.fixture
async def api() -> AsyncIterator[FakeMessagesApi]:
    async with FakeMessagesApi() as running:
        yield running


@pytest.fixture
async def claude(tmp_path: Path, api: FakeMessagesApi) -> AsyncIterator[Program]:
    # Otherwise the model is told of tools only when it looks for them.
    program = Program(
        tmp_path / "agent", claude_program(), api_url=api.url, ENABLE_TOOL_SEARCH="false"
    )
    yield program
    assert await program.survivors() == set()


def servers(daemon: Daemon, transport: Transport) -> tuple[str, ...]:
    """The options by which claude knows the hub and nothing else."""
    server: dict[str, Any] = {
        "type": "http",
        "url": daemon.record["mcp_url"],
        "headers": {"Authorization": f"Bearer {daemon.token}"},
    }
    if transport == "stdio":
        arguments = ["-m", "hubd", "--home", str(daemon.home), "mcp"]
        server = {"type": "stdio", "command": sys.executable, "args": arguments}
    config = json.dumps({"mcpServers": {"plexus": server}})
    return ("--strict-mcp-config", "--mcp-config", config)


def results(run: AgentProcess) -> list[dict[str, Any]]:
    """Return the results of tools in order."""
    return [block for block in run.blocks("user") if block["type"] == "tool_result"]


def text_of(result: dict[str, Any]) -> str:
    content = result["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def calling(name: str, **arguments: Any) -> str:
    """The prompt that makes the model call a tool."""
    return f"TOOLS[{json.dumps({'name': name, 'input': arguments})}] SAY[done]"


@pytest.mark.claude
@pytest.mark.parametrize("transport", few(TRANSPORTS[::-1], 1))
async def test_every_tool_reaches_the_model_and_a_call_of_one_goes_through(
    daemon: Daemon, api: FakeMessagesApi, claude: Program, transport: Transport
) -> None:
    tool = f"{PREFIX}arbor_tree_create"
    run = await claude.ask(
        calling(tool, owner_id="claude"), *servers(daemon, transport), "--allowedTools", tool
    )
    [init] = run.of_type("system", "init")
    assert [(each["name"], each["status"]) for each in init["mcp_servers"]] == [
        ("plexus", "connected")
    ]
    async with connected(daemon, transport, "2026-07-28") as client:
        listed = {each.name: each for each in (await client.list_tools()).tools}
        trees = await client.call_tool("arbor.tree_list", {"owner_id": "claude"})
    [asked, *_] = [each.body for each in api.requests if each.endpoint == "/v1/messages"]
    offered = {each["name"]: each for each in asked["tools"] if each["name"].startswith(PREFIX)}
    assert set(offered) == {PREFIX + name.replace(".", "_") for name in listed}
    assert offered[tool]["input_schema"]["properties"].keys() == (
        listed["arbor.tree_create"].input_schema["properties"].keys()
    )
    [result] = results(run)
    assert not result.get("is_error"), result
    [event] = json.loads(text_of(result))["events"]
    assert event["type"] == "tree_created"
    assert trees.structured_content is not None
    assert event["tree_id"] in json.dumps(trees.structured_content)


@pytest.mark.parametrize("transport", few(TRANSPORTS, 0))
async def test_a_failed_call_gives_the_model_its_suggestion(
    daemon: Daemon, claude: Program, transport: Transport
) -> None:
    tool = f"{PREFIX}arbor_tree_render"
    missing = "550e8400-e29b-41d4-a716-446655440000"
    run = await claude.ask(
        calling(tool, tree_id=missing), *servers(daemon, transport), "--allowedTools", tool
    )
    [result] = results(run)
    assert result["is_error"] is True
    assert "not_found" in text_of(result)
    assert missing in text_of(result)


@pytest.mark.parametrize("transport", few(TRANSPORTS, 0))
async def test_a_text_only_method_approves_or_denies_tools(
    daemon: Daemon, api: FakeMessagesApi, claude: Program, transport: Transport
) -> None:
    allowed, denied = claude.cwd / "allowed", claude.cwd / "forbidden"
    run = await claude.ask(
        f"RUN_BASH[touch {allowed}] RUN_BASH[touch {denied}] SAY[done]",
        *servers(daemon, transport),
        "--permission-prompt-tool",
        PERMIT,
    )
    first, second = results(run)
    assert not first.get("is_error"), first
    assert allowed.exists()
    assert second["is_error"] is True
    assert text_of(second) == "Bash: the porter says no"
    assert not denied.exists()
    [result] = run.of_type("result")
    assert [each["tool_name"] for each in result["permission_denials"]] == ["Bash"]
    # The model never sees the tool that decides about it.
    [asked, *_] = [each.body for each in api.requests if each.endpoint == "/v1/messages"]
    names = {each["name"] for each in asked["tools"]}
    assert f"{PREFIX}porter_describe" in names
    assert PERMIT not in names
