"""Extensions of MCP by plugins: refused entries, and access to the others."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    METHOD_NOT_FOUND,
    CallToolRequestParams,
    CallToolResult,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceResult,
    Request,
    RequestParams,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
)

from hubd.activation import Activation, Actor, McpRegistry
from hubd.errors import Conflict, HubError
from hubd.mcp.access import Access
from hubd.mcp.changes import Changes, ChangeStream
from hubd.mcp.registry import Ctx, Registry
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import Hub
from hubd.plugins.echo import EchoPlugin
from hubd.plugins.solar import Solar
from tests.mcp.notified_clients import listening
from tests.mcp.support import ERAS, MODERN, TOKEN, TRANSPORTS, Era, Transport, over_http, serving
from tests.support import call_events

Add = Callable[[McpRegistry], None]


async def _call(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=f"added {params.name}")])


async def _read(ctx: Ctx, uri: str, variables: dict[str, str]) -> ReadResourceResult:
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, text=str(variables))])


async def _get(ctx: Ctx, params: GetPromptRequestParams) -> GetPromptResult:
    return GetPromptResult(
        messages=[PromptMessage(role="user", content=TextContent(text=params.name))]
    )


async def _handle(ctx: Ctx, params: RequestParams) -> EmptyResult:
    return EmptyResult()


def tool(name: str = "hammer", schema: Any = None, returns: Any = None) -> Add:
    made = Tool(name=name, input_schema=schema or {"type": "object"}, output_schema=returns)
    return lambda registry: registry.add_tool(made, _call)


def resource(uri: str = "shed://door") -> Add:
    return lambda registry: registry.add_resource(Resource(uri=uri, name="door"), _read)


def template(pattern: str = "shed://shelf/{number}") -> Add:
    made = ResourceTemplate(uri_template=pattern, name="shelf")
    return lambda registry: registry.add_template(made, _read)


def prompt(name: str = "build") -> Add:
    return lambda registry: registry.add_prompt(Prompt(name=name), _get)


def request(method: str = "shed/open") -> Add:
    return lambda registry: registry.add_request(method, RequestParams, _handle)


def in_turn(*steps: Add) -> Add:
    def add(registry: McpRegistry) -> None:
        for step in steps:
            step(registry)

    return add


def fail(registry: McpRegistry) -> None:
    raise RuntimeError("the shed burned down")


def leave(registry: McpRegistry) -> None:
    raise SystemExit(3)


EVERYTHING = in_turn(tool(), resource(), template(), prompt(), request())
# The entries that a client sees.
ALL = {"hammer", "shed://door", "shed://shelf/{number}", "build", "shed/open"}


class Shed(Activation, version="1.0.0"):
    """A plugin that adds the entries of its constructor."""

    def __init__(self, namespace: str, add: Add) -> None:
        self.namespace = namespace
        self._add = add

    def extend_mcp(self, registry: McpRegistry) -> None:
        self._add(registry)


async def _reported(hub: Hub) -> dict[str, str]:
    """The plugins that the hub tells of as broken, with the reasons."""
    events = await call_events(hub, "plexus.activations")
    return {
        event["source"]: event["reason"] for event in events if event["type"] == "broken_plugin"
    }


async def _tools(client: Client) -> list[str]:
    return [entry.name for entry in (await client.list_tools()).tools]


async def _found(client: Client) -> set[str]:
    """All that a client is offered and can use, of what `EVERYTHING` adds."""
    found = set(await _tools(client))
    found |= {entry.uri for entry in (await client.list_resources()).resources}
    templates = (await client.list_resource_templates()).resource_templates
    found |= {entry.uri_template for entry in templates}
    found |= {entry.name for entry in (await client.list_prompts()).prompts}
    used = (
        ("hammer", client.call_tool("hammer", {})),
        ("shed://door", client.read_resource("shed://door")),
        ("shed://shelf/{number}", client.read_resource("shed://shelf/7")),
        ("build", client.get_prompt("build")),
    )
    for name, use in used:
        if name in found:
            await use
        else:
            with pytest.raises(MCPError):
                await use
    try:
        await client.session.send_request(Request(method="shed/open", params=None), EmptyResult)
        found.add("shed/open")
    except MCPError as error:
        if error.code != METHOD_NOT_FOUND:
            raise
    return found & ALL


class Nowhere:
    """Where no changes come from."""

    async def watch(self, uri: str) -> ChangeStream:
        return
        yield

    def may_read(self, uri: str, access: Access) -> bool:
        return False


def new_registry() -> Registry:
    return Registry(Changes(Nowhere()))


# As a plugin makes them that is in a hurry.
UNCHECKED_PROMPT = Prompt(name="build", arguments=[PromptArgument.model_construct(name=None)])
UNCHECKED_RESOURCE = Resource.model_construct(uri="shed://door", name=None)
UNCHECKED_TEMPLATE = ResourceTemplate.model_construct(uri_template="shed://{x}", name=None)


def _only(names: Sequence[str], *wanted: str) -> list[str]:
    return [name for name in names if name in wanted]


@pytest.mark.parametrize(
    "add",
    [
        pytest.param(tool(), id="tool"),
        pytest.param(resource(), id="resource"),
        pytest.param(template(), id="template"),
        pytest.param(prompt(), id="prompt"),
        pytest.param(request(), id="request"),
    ],
)
def test_a_name_that_is_taken_is_refused(add: Add) -> None:
    registry = new_registry()
    add(registry)
    with pytest.raises(Conflict, match="already exists"):
        add(registry)


@pytest.mark.parametrize(
    ("add", "reason"),
    [
        pytest.param(tool("ham mer"), "not a valid tool name", id="space"),
        pytest.param(tool("hämmer"), "not a valid tool name", id="umlaut"),
        pytest.param(tool(""), "not a valid tool name", id="empty"),
        pytest.param(tool("x" * 51), "not a valid tool name", id="long"),
        pytest.param(tool(schema={"properties": {}}), "inputSchema", id="no-type"),
        pytest.param(tool(schema={"type": "array"}), "inputSchema", id="array"),
        pytest.param(
            tool(schema={"type": "object", "required": "x"}), "inputSchema", id="required"
        ),
        pytest.param(
            tool(schema={"type": "object", "properties": {"x": {"type": "nonsense"}}}),
            "not a valid JSON Schema",
            id="nonsense",
        ),
        pytest.param(tool(returns={"type": "array"}), "outputSchema", id="returns-array"),
        pytest.param(
            tool(returns={"type": "object", "minProperties": "x"}),
            "not a valid JSON Schema",
            id="returns-nonsense",
        ),
        pytest.param(resource("door"), "scheme", id="no-scheme"),
        pytest.param(template("{+anything}"), "scheme", id="matches-everything"),
        pytest.param(template("shed:{+anything}"), "scheme", id="variable-first"),
        pytest.param(template("shed://{unclosed"), "is not a URI template", id="unclosed"),
        pytest.param(resource("plexus://schema/echo"), "belong to the hub", id="hub-resource"),
        pytest.param(template("PLEXUS:/{+all}"), "belong to the hub", id="hub-template"),
        pytest.param(prompt("echo.build"), "contains a dot", id="dotted-prompt"),
        pytest.param(
            lambda registry: registry.add_prompt(UNCHECKED_PROMPT, _get),
            "name",
            id="prompt-without-validation",
        ),
        pytest.param(
            lambda registry: registry.add_resource(UNCHECKED_RESOURCE, _read),
            "name",
            id="resource-without-validation",
        ),
        pytest.param(
            lambda registry: registry.add_template(UNCHECKED_TEMPLATE, _read),
            "name",
            id="template-without-validation",
        ),
    ],
)
def test_entries_that_clients_reject_or_the_hub_owns_are_refused(add: Add, reason: str) -> None:
    registry = new_registry()
    with pytest.raises(HubError, match=reason):
        add(registry)
    assert not any((registry.tools, registry.resources, registry.templates, registry.prompts))


async def test_no_request_that_the_hub_answers_itself_can_be_taken_over(tmp_path: Path) -> None:
    async with serving(tmp_path, EchoPlugin()) as served:
        answered = (await served.lazy.server()).server._request_handlers
        assert "tools/call" in answered
        for method in (*answered, "initialize"):
            with pytest.raises(Conflict, match="itself"):
                request(method)(new_registry())


def test_the_one_request_of_the_protocol_that_the_hub_leaves_alone_can_be_answered() -> None:
    registry = new_registry()
    request("logging/setLevel")(registry)
    assert list(registry.requests) == ["logging/setLevel"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_plugin_that_fails_to_extend_mcp_is_reported_and_leaves_nothing_behind(
    tmp_path: Path, era: Era
) -> None:
    broken = in_turn(EVERYTHING, fail)
    sheds = (Shed("broken", broken), Shed("gone", in_turn(tool("saw"), leave)))
    after = Shed("whole", in_turn(EVERYTHING, tool("nail")))
    async with serving(tmp_path, EchoPlugin(), *sheds, after) as served:
        async with over_http(served.url, TOKEN, era) as client:
            assert _only(await _tools(client), "hammer", "nail", "saw") == ["hammer", "nail"]
            result = await client.call_tool("hammer", {})
            assert result.content == [TextContent(text="added hammer")]
            assert not (await client.call_tool("echo.once", {"message": "x"})).is_error
        assert await _reported(served.hub) == {
            "broken as an extension of MCP": "RuntimeError: the shed burned down",
            "gone as an extension of MCP": "SystemExit: 3",
        }


async def test_the_second_of_two_equal_extensions_is_left_out(
    tmp_path: Path,
) -> None:
    first, second = Shed("first", tool()), Shed("second", in_turn(tool("nail"), tool()))
    async with serving(tmp_path, first, second) as served:
        async with over_http(served.url, TOKEN, MODERN) as client:
            assert _only(await _tools(client), "hammer", "nail") == ["hammer"]
        [(source, reason)] = (await _reported(served.hub)).items()
        assert source == "second as an extension of MCP"
        assert reason == "'hammer' already exists"


@pytest.mark.parametrize("name", ["echo.once", "echo_once"])
async def test_a_tool_with_the_name_of_a_method_never_takes_its_place(
    tmp_path: Path, name: str
) -> None:
    async with serving(tmp_path, EchoPlugin(), Shed("shed", tool(name))) as served:
        async with over_http(served.url, TOKEN, MODERN) as client:
            # The first request, before any list was requested.
            result = await client.call_tool(name, {"message": "hello"})
            assert result.structured_content is not None
            assert result.structured_content["events"][0]["message"] == "hello"
            assert _only(await _tools(client), "echo.once", "echo_once") == ["echo.once"]
        assert await _reported(served.hub) == {
            f"the MCP tool {name}": "a method of the hub has this name"
        }


@asynccontextmanager
async def _with_profile(directory: Path, namespace: str) -> AsyncIterator[Client]:
    """A client that is offered one namespace, of a hub with `echo` and `shed`."""
    async with (
        serving(directory, EchoPlugin(), Shed("shed", EVERYTHING)) as served,
        over_http(f"{served.url}?tools={namespace}", TOKEN, MODERN) as client,
    ):
        yield client


async def test_a_profile_offers_the_extensions_of_its_namespaces(tmp_path: Path) -> None:
    async with _with_profile(tmp_path, "shed") as client:
        assert await _tools(client) == ["hammer"]
        assert not (await client.call_tool("hammer", {})).is_error
        assert [entry.name for entry in (await client.list_prompts()).prompts] == ["build"]
        assert (await client.get_prompt("build")).messages
        door = await client.read_resource("shed://door")
        shelf = await client.read_resource("shed://shelf/7")
        texts = [getattr(read.contents[0], "text", None) for read in (door, shelf)]
        assert texts == ["{}", "{'number': '7'}"]


async def test_a_profile_without_a_plugin_hides_all_that_the_plugin_added(tmp_path: Path) -> None:
    async with _with_profile(tmp_path, "echo") as client:
        assert _only(await _tools(client), "hammer", "echo.once") == ["echo.once"]
        assert (await client.list_prompts()).prompts == []
        listed = (await client.list_resources()).resources
        assert _only([entry.uri for entry in listed], "shed://door") == []
        templates = (await client.list_resource_templates()).resource_templates
        patterns = [entry.uri_template for entry in templates]
        assert _only(patterns, "shed://shelf/{number}") == []
        with pytest.raises(MCPError, match="no tool 'hammer'"):
            await client.call_tool("hammer", {})
        with pytest.raises(MCPError, match="no prompt 'build'"):
            await client.get_prompt("build")
        for uri in ("shed://door", "shed://shelf/7"):
            with pytest.raises(MCPError, match="has no resource"):
                await client.read_resource(uri)


@pytest.mark.parametrize("namespace", ["shed", "echo"])
@pytest.mark.parametrize("era", ERAS)
async def test_all_that_a_plugin_added_is_used_under_its_namespace(
    tmp_path: Path, era: Era, namespace: str
) -> None:
    async with (
        serving(tmp_path, EchoPlugin(), Shed("shed", EVERYTHING)) as served,
        over_http(f"{served.url}?tools={namespace}", TOKEN, era) as client,
    ):
        assert await _found(client) == (ALL if namespace == "shed" else set())


@pytest.mark.parametrize("era", ERAS)
async def test_an_agent_reaches_exactly_what_it_was_granted(tmp_path: Path, era: Era) -> None:
    async with serving(tmp_path, EchoPlugin(), Solar(), Shed("shed", EVERYTHING)) as served:
        actor = Actor("session", "one", ("echo.once",))
        served.hub.actors.register_token("of-the-agent", actor)
        headers = {"X-Plexus-Session": "of-the-agent"}
        async with over_http(served.url, TOKEN, era, headers=headers) as client:
            assert await _tools(client) == ["echo.once"]
            assert await _found(client) == set()
            resources = (await client.list_resources()).resources
            assert [resource.name for resource in resources] == ["echo"]
            assert not (await client.call_tool("echo.once", {"message": "x"})).is_error
            wrapped = {"method": "echo.echo", "params": {"message": "x"}}
            for name, arguments in (("echo.echo", {"message": "x"}), ("plexus.call", wrapped)):
                result = await client.call_tool(name, arguments)
                assert result.meta is not None
                assert result.meta["plexus/error"]["code"] == "permission_denied"
            with pytest.raises(MCPError, match=r"no tool 'hammer'\. Available: echo\.once"):
                await client.call_tool("hammer", {})
            schema = await client.read_resource("plexus://schema/echo")
            assert '"name":"echo"' not in schema.model_dump_json()
            for uri in ("plexus://schema/solar", "plexus://handle/echo@1.0.0::once:hi"):
                with pytest.raises(MCPError):
                    await client.read_resource(uri)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
async def test_a_plugin_extends_mcp_while_it_is_attached(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with (
        serving(tmp_path, EchoPlugin()) as served,
        listening(served, tmp_path, transport, era) as (client, notified),
    ):
        assert await _found(client) == set()
        # Once more, and it is another plugin of the same name.
        for _ in range(2):
            node = served.hub.attach(Shed("shed", EVERYTHING), PlexusHost(served.hub))
            await notified.wait_for("tools", "resources", "prompts")
            assert await _found(client) == ALL
            notified.received.clear()
            served.hub.detach(node)
            await notified.wait_for("tools", "resources", "prompts")
            assert await _found(client) == set()
            notified.received.clear()


async def test_a_refused_extension_adds_nothing(tmp_path: Path) -> None:
    class Twins(Shed, version="1.0.0"):
        """The second of its children cannot be attached."""

        def children(self) -> Sequence[Activation]:
            return Shed("twin", EVERYTHING), Shed("twin", EVERYTHING)

    async with (
        serving(tmp_path, EchoPlugin()) as served,
        over_http(served.url, TOKEN, MODERN) as client,
    ):
        with pytest.raises(Conflict):
            served.hub.attach(Twins("twins", tool("saw")), PlexusHost(served.hub))
        assert await _found(client) == set()
        assert _only(await _tools(client), "saw") == []


async def test_a_plugin_that_comes_later_and_fails_is_reported_for_as_long_as_it_is_there(
    tmp_path: Path,
) -> None:
    async with (
        serving(tmp_path, EchoPlugin(), Shed("older", fail)) as served,
        over_http(served.url, TOKEN, MODERN) as client,
    ):
        assert await _found(client) == set()
        older = "older as an extension of MCP"
        assert list(await _reported(served.hub)) == [older]
        broken = Shed("broken", in_turn(EVERYTHING, fail))
        node = served.hub.attach(broken, PlexusHost(served.hub))
        assert await _found(client) == set()
        assert list(await _reported(served.hub)) == [older, "broken as an extension of MCP"]
        served.hub.detach(node)
        assert list(await _reported(served.hub)) == [older]


async def test_a_detached_plugin_adds_nothing_more(tmp_path: Path) -> None:
    hands: list[McpRegistry] = []
    async with (
        serving(tmp_path, EchoPlugin()) as served,
        over_http(served.url, TOKEN, MODERN) as client,
    ):
        assert _only(await _tools(client), "hammer") == []
        node = served.hub.attach(Shed("shed", hands.append), PlexusHost(served.hub))
        [registry] = hands
        tool()(registry)
        assert _only(await _tools(client), "hammer") == ["hammer"]
        served.hub.detach(node)
        with pytest.raises(Conflict, match="the plugin shed was detached"):
            tool()(registry)
        assert _only(await _tools(client), "hammer") == []


async def test_a_tool_that_is_added_later_does_not_take_the_place_of_a_method_either(
    tmp_path: Path,
) -> None:
    hands: list[McpRegistry] = []
    async with (
        serving(tmp_path, EchoPlugin(), Shed("shed", hands.append)) as served,
        over_http(served.url, TOKEN, MODERN) as client,
    ):
        assert "echo.once" in await _tools(client)
        tool("echo.once")(hands[0])
        result = await client.call_tool("echo.once", {"message": "hello"})
        assert result.structured_content is not None
        assert result.structured_content["events"][0]["message"] == "hello"
        # The name is free after the plugin of the method was detached.
        served.hub.detach(served.hub.find(["echo"]))
        assert _only(await _tools(client), "echo.once") == ["echo.once"]
        result = await client.call_tool("echo.once", {})
        assert result.content == [TextContent(text="added echo.once")]
