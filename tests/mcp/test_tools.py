"""The methods of the hub as MCP tools: listed and skipped methods, and their names."""

import base64
import re
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from mcp import Client, MCPError
from mcp_types import Tool
from mcp_types.methods import serialize_server_result
from pydantic import Field
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from hubd.activation import Activation, Event, method
from hubd.config import Settings
from hubd.daemon.run import _mcp_options
from hubd.mcp import pages as mcp_pages
from hubd.mcp.access import McpOptions
from hubd.mcp.metaschema import problem_of
from hubd.mcp.tools import MAX_NAME, MAX_NESTING, all_methods, for_clients, list_tools
from hubd.plexus.discovery import BUILT_IN, Source
from hubd.plexus.host import PlexusHost
from hubd.plugins.echo import EchoPlugin
from hubd.plugins.solar import Solar
from hubd.wire.schema import MethodSchema
from tests.mcp.notified_clients import client_of
from tests.mcp.support import ERAS, TOKEN, Era, connected, over_http, serving
from tests.support import Daemon, McpDaemon, call_events

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
NAME = re.compile(r"[A-Za-z0-9_.-]{1,50}")


class Said(Event):
    text: str


def built_in() -> list[Activation]:
    """All plugins that every daemon has."""
    return [Source(target, "built in").load() for target in BUILT_IN]


async def all_tools(client: Client) -> list[Tool]:
    """Every page of the list."""
    found = await client.list_tools()
    tools = list(found.tools)
    while found.next_cursor is not None:
        found = await client.list_tools(cursor=found.next_cursor)
        assert found.tools[0] not in tools
        tools += found.tools
    return tools


async def broken(client: Client) -> list[tuple[str, str]]:
    """Return the hub's reports about skipped parts."""
    result = await client.call_tool("plexus.activations", {})
    assert result.structured_content is not None
    events = result.structured_content["events"]
    return [
        (event["source"], event["reason"]) for event in events if event["type"] == "broken_plugin"
    ]


# ---- listed methods


@pytest.mark.parametrize("era", ERAS)
async def test_every_method_of_a_real_hub_is_a_tool(shared_daemon: Daemon, era: Era) -> None:
    async with shared_daemon.client() as other, connected(shared_daemon, "http", era) as client:
        tools = {tool.name: tool for tool in await all_tools(client)}
        items = await other.call("plexus.activations")
        methods: dict[str, MethodSchema] = {}
        for item in items:
            if item["type"] == "data":
                assert item["content"]["type"] == "activation", "nothing is left out"
                path = item["content"]["namespace"]
                [schema] = [
                    answer["content"]
                    for answer in await other.call(f"{path}.schema")
                    if answer["type"] == "data"
                ]
                methods |= {f"{path}.{entry['name']}": entry for entry in schema["methods"]}
        # The demonstration plugin is listed on request only.
        assert tools.keys() == {name for name in methods if not name.startswith("solar.")}
        assert len(tools) > 50
        for name, tool in tools.items():
            check_tool(tool, methods[name])


@pytest.mark.parametrize("era", ERAS)
async def test_a_namespace_on_request_is_listed_if_asked_for(
    shared_daemon: Daemon, era: Era
) -> None:
    url = f"{shared_daemon.record['mcp_url']}?tools=echo,solar.earth"
    async with over_http(url, shared_daemon.token, era) as client:
        names = {tool.name for tool in await all_tools(client)}
    assert names == {
        *("echo.echo", "echo.once", "echo.ping", "solar.earth.info", "solar.earth.luna.info"),
    }


def formats_in(schema: Any) -> set[str]:
    """Every format in a schema."""
    if isinstance(schema, list):
        return {name for part in schema for name in formats_in(part)}
    if not isinstance(schema, dict):
        return set()
    own = {schema["format"]} if isinstance(schema.get("format"), str) else set()
    return own.union(*(formats_in(part) for part in schema.values()))


@pytest.mark.parametrize("era", ERAS)
async def test_schemas_have_only_formats_that_every_client_knows(
    shared_daemon: Daemon, era: Era
) -> None:
    async with connected(shared_daemon, "http", era) as client:
        tools = await all_tools(client)
    assert "'x-" not in str([tool.output_schema for tool in tools])
    formats = {
        name for tool in tools for name in formats_in([tool.input_schema, tool.output_schema])
    }
    assert formats <= {"uuid", "date-time", "uri"}
    handles = [tool for tool in tools if "handle" in tool.input_schema["properties"]]
    assert handles, "handles are plain strings here"


def test_clients_get_only_formats_and_keywords_of_json_schema() -> None:
    schema = {
        "properties": {
            "format": {"type": "string", "format": "plexus-handle"},
            "other": {"anyOf": [{"format": "plexus-handle"}, {"format": "uuid"}]},
            "data": {"default": {"format": "plexus-handle"}, "enum": [{"format": "x"}]},
            "x-summary": {"type": "string"},
        },
        "items": {"$ref": "#/$defs/Handle"},
        "$defs": {"Handle": {"type": "string", "format": "plexus-handle", "x-summary": "{a}"}},
        "x-summary": "{format}",
    }
    assert for_clients(schema) == {
        "properties": {
            "format": {"type": "string"},
            "other": {"anyOf": [{}, {"format": "uuid"}]},
            "data": {"default": {"format": "plexus-handle"}, "enum": [{"format": "x"}]},
            "x-summary": {"type": "string"},
        },
        "items": {"$ref": "#/$defs/Handle"},
        "$defs": {"Handle": {"type": "string"}},
    }


UNIVERSAL_CALLS: list[tuple[str, dict[str, Any], Callable[[Any], bool]]] = [
    ("cone.schema", {}, lambda event: event["namespace"] == "cone"),
    ("cone.hash", {}, lambda event: len(event["value"]) == 16),
    ("cone_hash", {}, lambda event: len(event["value"]) == 16),
    ("solar.earth.schema", {"method": "info"}, lambda event: event["name"] == "info"),
    (
        "echo.resolve_handle",
        {"handle": "echo@1.0.0::once:hi"},
        lambda event: event["data"]["message"] == "hi",
    ),
]


@pytest.mark.parametrize("era", ERAS)
async def test_methods_of_every_namespace_can_be_called_without_being_listed(
    shared_daemon: Daemon, era: Era
) -> None:
    async with connected(shared_daemon, "http", era) as client:
        for name, arguments, is_right in UNIVERSAL_CALLS:
            result = await client.call_tool(name, arguments)
            assert result.structured_content is not None, name
            [event] = result.structured_content["events"]
            assert is_right(event), name
        with pytest.raises(MCPError, match=r"no tool 'health.resolve_handle'"):
            await client.call_tool("health.resolve_handle", {"handle": "a@1::b"})
    url = f"{shared_daemon.record['mcp_url']}?tools=echo"
    async with over_http(url, shared_daemon.token, era) as client:
        assert not (await client.call_tool("echo.hash", {})).is_error
        with pytest.raises(MCPError, match=r"no tool 'cone.hash'"):
            await client.call_tool("cone.hash", {})


def check_tool(tool: Tool, entry: MethodSchema) -> None:
    """One tool says what its method says."""
    assert tool.description is not None
    assert tool.description.startswith(entry["description"])
    assert entry.get("long_description", "") in tool.description
    hints = entry.get("annotations", {})
    assert tool.annotations is not None
    assert tool.annotations.read_only_hint is bool(hints.get("read_only"))
    assert tool.annotations.destructive_hint is bool(hints.get("destructive"))
    properties = for_clients(entry["params"]).get("properties", {})
    assert tool.input_schema["properties"] == properties
    assert tool.input_schema.get("required") == entry["params"].get("required")


async def test_some_built_in_tools_are_read_only_and_some_destroy(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, *built_in()) as served,
        over_http(served.url, TOKEN, "2026-07-28") as client,
    ):
        tools = {tool.name: tool.annotations for tool in await all_tools(client)}
    hints = {
        name: (found.read_only_hint, found.destructive_hint)
        for name, found in tools.items()
        if found is not None
    }
    assert hints["arbor.tree_render"] == (True, False)
    assert hints["arbor.tree_create"] == (False, False)
    assert hints["arbor.tree_delete"] == (False, True)


@pytest.mark.parametrize("era", ERAS)
async def test_the_list_is_in_the_order_of_names_and_the_same_twice(
    tmp_path: Path, era: Era
) -> None:
    async with (
        serving(tmp_path, *built_in()) as served,
        over_http(served.url, TOKEN, era) as one,
        over_http(served.url, TOKEN, era) as two,
    ):
        lists = [await all_tools(one), await all_tools(one), await all_tools(two)]
    assert lists[0] == lists[1] == lists[2]
    names = [tool.name for tool in lists[0]]
    assert names == sorted(names)


async def test_every_schema_of_the_built_in_tools_is_one_that_every_client_takes(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, *built_in()) as served:
        found = list_tools(all_methods(served.hub))
    assert found.refused == {}
    for entry in found.tools.values():
        check_schemas(entry.tool)


def check_schemas(tool: Tool) -> None:
    """Check the properties that clients rely on."""
    assert NAME.fullmatch(tool.name)
    for schema in (tool.input_schema, tool.output_schema):
        if schema is None:
            continue
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert not schema.keys() & {"oneOf", "anyOf", "allOf", "$id", "$schema"}
        assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) for name in schema["properties"])
        assert "$schema" not in schema["properties"].get("events", {}).get("items", {})
        resolver = Registry().resolver_with_root(DRAFT202012.create_resource(schema))
        for reference in references(schema):
            resolver.lookup(reference)
    for version in VERSIONS:
        dumped = tool.model_dump(by_alias=True, mode="json", exclude_none=True)
        result = {"tools": [dumped], "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
        serialize_server_result("tools/list", version, result)


def references(part: Any) -> Iterable[str]:
    if isinstance(part, dict):
        for name, below in part.items():
            if name in ("$ref", "$dynamicRef") and isinstance(below, str):
                yield below
            yield from references(below)
    elif isinstance(part, list):
        for below in part:
            yield from references(below)


async def test_alternatives_are_described_in_words(tmp_path: Path) -> None:
    async with serving(tmp_path, *built_in()) as served:
        tools = list_tools(all_methods(served.hub)).tools
    tool = tools["arbor.tree_import"].tool
    assert tool.description is not None
    assert tool.description.endswith("Give exactly one of data, file.")
    assert "oneOf" not in tool.input_schema
    assert "exactly one" not in str(tools["arbor.tree_export"].tool.description)


@pytest.mark.parametrize("era", ERAS)
async def test_only_the_namespaces_of_a_profile_are_listed_and_called(
    tmp_path: Path, era: Era
) -> None:
    options = McpOptions(profile=frozenset({"solar.earth", "echo"}))
    async with (
        serving(tmp_path, EchoPlugin(), Solar(), options=options) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        names = {tool.name for tool in await all_tools(client)}
        assert names == {
            "echo.echo",
            "echo.once",
            "echo.ping",
            "solar.earth.info",
            "solar.earth.luna.info",
        }
        for hidden in ("solar.info", "solar_info", "plexus.call", "solar.mars.info"):
            with pytest.raises(MCPError, match="no tool"):
                await client.call_tool(hidden, {})


# ---- skipped methods


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


class Odd(Event):
    """Has schemas that clients reject."""

    text: Annotated[str, Field(json_schema_extra={"$ref": "https://example.com/event.json"})]


class Unfit(Activation, namespace="unfit", version="1.0.0"):
    """Methods that some client would choke on, and one that is fine."""

    @method(read_only=True)
    async def fine(self, text: str) -> AsyncIterator[Said]:
        """Say it."""
        yield Said(text=text)

    @method
    async def remote(
        self, x: Annotated[str, Field(json_schema_extra={"$ref": "https://example.com/x.json"})]
    ) -> AsyncIterator[Said]:
        """Refers to another machine."""
        yield Said(text="ran")

    @method
    async def dangling(
        self, x: Annotated[str, Field(json_schema_extra={"$dynamicRef": "#nowhere"})]
    ) -> AsyncIterator[Said]:
        """Refers to nothing."""
        yield Said(text="ran")

    @method
    async def addressed(
        self, x: Annotated[str, Field(json_schema_extra={"$id": "https://example.com/"})]
    ) -> AsyncIterator[Said]:
        """Has an $id."""
        yield Said(text="ran")

    @method
    async def abyss(
        self, x: Annotated[str, Field(json_schema_extra=deep(MAX_NESTING + 1))]
    ) -> AsyncIterator[Said]:
        """Has no ground."""
        yield Said(text="ran")

    @method
    async def huge(
        self, x: Annotated[str, Field(json_schema_extra={"examples": ["x" * 300_000]})]
    ) -> AsyncIterator[Said]:
        """Fills a context by itself."""
        yield Said(text="ran")

    @method
    async def nonsense(
        self, x: Annotated[str, Field(json_schema_extra={"type": "nonsense"})]
    ) -> AsyncIterator[Said]:
        """Is no schema."""
        yield Said(text="ran")

    @method
    async def irregular(
        self, x: Annotated[str, Field(json_schema_extra={"pattern": "("})]
    ) -> AsyncIterator[Said]:
        """Is no regular expression."""
        yield Said(text="ran")

    @method
    async def foreign(self, größe: int) -> AsyncIterator[Said]:
        """Takes a parameter with a name that model APIs reject."""
        yield Said(text="ran")

    @method
    async def a_name_that_is_longer_than_any_client_takes_it(self) -> AsyncIterator[Said]:
        """Is called so."""
        yield Said(text="ran")

    @method
    async def odd(self) -> AsyncIterator[Odd]:
        """Returns an event with an invalid schema."""
        yield Odd(text="ran")


REASONS = {
    "remote": "refers to 'https://example.com/x.json'",
    "dangling": "refers to '#nowhere'",
    "addressed": "an $id: 'https://example.com/'",
    "abyss": f"nested deeper than {MAX_NESTING}",
    "huge": "larger than 262144 bytes",
    "nonsense": "is not a valid JSON Schema: 'nonsense'",
    "irregular": "is not a valid JSON Schema: '('",
    "foreign": "the parameter name 'größe'",
    "a_name_that_is_longer_than_any_client_takes_it": f"longer than {MAX_NAME} characters",
    "odd": "refers to 'https://example.com/event.json'",
}


@pytest.mark.parametrize("era", ERAS)
async def test_unfit_methods_are_left_out_one_by_one_and_reported_once(
    tmp_path: Path, era: Era
) -> None:
    async with (
        serving(tmp_path, Unfit(), EchoPlugin()) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        for _ in range(3):
            names = [tool.name for tool in await all_tools(client)]
            assert [name for name in names if name.startswith("unfit.")] == ["unfit.fine"]
            assert "echo.once" in names
        reported = await broken(client)
        assert [source for source, _ in reported] == [
            f"unfit.{name} as an MCP tool" for name in sorted(REASONS)
        ]
        for source, reason in reported:
            assert REASONS[source.split()[0].removeprefix("unfit.")] in reason
        for name in REASONS:
            with pytest.raises(MCPError, match="no tool"):
                await client.call_tool(f"unfit.{name}", {})
        # They are methods all the same.
        [said] = await call_events(served.hub, "unfit.foreign", größe=1)
        assert said["text"] == "ran"


async def test_the_log_warns_once_about_each_skipped_method(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serving(tmp_path, Unfit()) as served,
        over_http(served.url, TOKEN, "2026-07-28") as client,
    ):
        await client.list_tools()
        served.hub.attach(EchoPlugin(), PlexusHost(served.hub))
        assert "echo.once" in {tool.name for tool in await all_tools(client)}
        assert len(await broken(client)) == len(REASONS)
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert sorted(line.split()[0].removeprefix("unfit.") for line in told) == sorted(REASONS)


async def test_reports_are_withdrawn_when_the_plugin_is_detached(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, over_http(served.url, TOKEN, "2026-07-28") as client:
        assert await broken(client) == []
        node = served.hub.attach(Unfit(), PlexusHost(served.hub))
        await client.list_tools()
        assert len(await broken(client)) == len(REASONS)
        served.hub.detach(node)
        await client.list_tools()
        assert await broken(client) == []


class Named(Activation, version="1.0.0"):
    """Two names that differ in a dot."""

    def __init__(self, name: str) -> None:
        self.namespace = name

    @method
    async def b_c(self) -> AsyncIterator[Said]:
        """Return the own name."""
        yield Said(text=f"{self.path}.b_c")

    @method
    async def c(self) -> AsyncIterator[Said]:
        """Return the own name."""
        yield Said(text=f"{self.path}.c")


@pytest.mark.parametrize("separator", [".", "_"])
async def test_a_method_with_the_flat_name_of_another_is_refused(
    tmp_path: Path, separator: str
) -> None:
    options = McpOptions(separator)
    async with (
        serving(tmp_path, Named("a_b"), Named("a"), options=options) as served,
        over_http(served.url, TOKEN, "2026-07-28") as client,
    ):
        names = [tool.name for tool in await all_tools(client) if tool.name.startswith("a")]
        fine = ("a.b_c", "a.c", "a_b.b_c")
        assert names == sorted(name.replace(".", separator) for name in fine)
        assert await broken(client) == [
            ("a_b.c as an MCP tool", "without dots its name equals that of a.b_c")
        ]
        with pytest.raises(MCPError, match=r"no tool 'a_b\.c'"):
            await client.call_tool("a_b.c", {})
        said = await client.call_tool("a_b_c", {})
        assert said.structured_content is not None
        assert said.structured_content["events"][0]["text"] == "a.b_c"


class Titled(Activation, namespace="a", version="1.0.0"):
    """Its methods are called otherwise over MCP."""

    @method(mcp={"name": "Bare_name-1"})
    async def fine(self) -> AsyncIterator[Said]:
        """Return the own name."""
        yield Said(text=f"{self.path}.fine")

    @method(mcp={"name": "echo_once"})
    async def greedy(self) -> AsyncIterator[Said]:
        """Return the own name."""
        yield Said(text=f"{self.path}.greedy")

    @method(mcp={"name": "echo.echo"})
    async def dotted(self) -> AsyncIterator[Said]:
        """Return the own name."""
        yield Said(text=f"{self.path}.dotted")


@pytest.mark.parametrize("separator", [".", "_"])
async def test_a_method_may_have_another_name_for_mcp_but_not_that_of_another(
    tmp_path: Path, separator: str
) -> None:
    async with (
        serving(tmp_path, Titled(), EchoPlugin(), options=McpOptions(separator)) as served,
        over_http(served.url, TOKEN, "2026-07-28") as client,
    ):
        names = {tool.name for tool in await all_tools(client)}
        assert "Bare_name-1" in names
        assert not {name for name in names if name.startswith("a")}
        said = await client.call_tool("Bare_name-1", {})
        assert said.structured_content is not None
        assert said.structured_content["events"][0]["text"] == "a.fine"
        echoed = await client.call_tool("echo_once", {"message": "hi"})
        assert echoed.structured_content is not None
        assert echoed.structured_content["events"][0]["message"] == "hi"
        assert await broken(client) == [
            (
                "a.dotted as an MCP tool",
                "its name for MCP must be 1 to 50 letters, digits, '_' or '-'",
            ),
            ("a.greedy as an MCP tool", "without dots its name equals that of echo.once"),
        ]
        with pytest.raises(MCPError, match=r"no tool 'a\.fine'"):
            await client.call_tool("a.fine", {})


JSON_SCHEMA_WORDS = [
    *("$ref", "$dynamicRef", "$id", "$schema", "$anchor", "$dynamicAnchor", "$defs", "$comment"),
    *("type", "properties", "required", "items", "prefixItems", "contains", "enum", "const"),
    *("oneOf", "anyOf", "allOf", "not", "if", "then", "else", "dependentSchemas", "pattern"),
    *("additionalProperties", "propertyNames", "patternProperties", "minimum", "multipleOf"),
    *("minLength", "uniqueItems", "format", "default", "examples", "title", "description", "A"),
]
JSON_SCHEMA_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        [
            *("object", "array", "string", "integer", "null", "", "#", "#/$defs/A", "#/$defs/B"),
            *("#/properties/A", "#A", "A", "https://example.com/", "(", "#/$defs/A/not", "x~1y"),
            *("#/$defs/x~1y", "#/$defs/x%2Fy", "https://json-schema.org/draft/2020-12/schema"),
        ]
    ),
)
WORDS = st.one_of(st.sampled_from([*JSON_SCHEMA_WORDS, "B", "x/y"]), st.text(max_size=3))
SCHEMAS = st.dictionaries(
    WORDS,
    st.recursive(
        JSON_SCHEMA_VALUES,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
        max_leaves=15,
    ),
    max_size=5,
)


DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}


def described(params: dict[str, Any], returns: dict[str, Any], name: str = "it") -> MethodSchema:
    return {
        "name": name,
        "description": "Do it.",
        "hash": "0" * 16,
        "params": params,
        "returns": returns,
        "streaming": True,
        "bidirectional": False,
    }


PUBLISHED = Draft202012Validator(
    Draft202012Validator.META_SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER
)


@settings(max_examples=30)
@given(SCHEMAS)
@example(DIALECT)
@example({"$defs": {"A": 3}})
@example({"prefixItems": []})
@example({"unevaluatedItems": 3})
@example({"contentSchema": {"type": "nothing"}})
@example({"minimum": "3"})
@example({"title": 3})
@example({"format": 3})
@example({"pattern": "("})
def test_our_metaschema_and_the_published_one_agree(schema: dict[str, Any]) -> None:
    published = next(PUBLISHED.iter_errors(schema), None)
    assert (problem_of(schema) is None) == (published is None)


@settings(max_examples=30)
@given(params=SCHEMAS, returns=SCHEMAS)
@example(params=DIALECT, returns=DIALECT)
def test_the_list_of_tools_holds_only_valid_schemas(
    params: dict[str, Any], returns: dict[str, Any]
) -> None:
    fine: dict[str, Any] = {"type": "object", "properties": {}}
    found = list_tools(
        [
            ("x", described(params, fine, "takes")),
            ("x", described(fine, returns, "gives")),
            ("x", described(fine, fine, "fine")),
        ]
    )
    assert "x.fine" in found.tools
    assert found.tools.keys() | found.refused.keys() == {"x.takes", "x.gives", "x.fine"}
    for entry in found.tools.values():
        check_schemas(entry.tool)


@pytest.mark.parametrize("levels", [MAX_NESTING // 2, MAX_NESTING, 10_000])
@pytest.mark.parametrize("word", ["not", "allOf", "items"])
def test_however_deep_a_schema_is_the_list_is_made(word: str, levels: int) -> None:
    schema: Any = {"type": "object"}
    for _ in range(levels):
        schema = {word: [schema] if word == "allOf" else schema}
    params = {"type": "object", "properties": {"x": schema}}
    fine: dict[str, Any] = {"type": "object"}
    found = list_tools(
        [("x", described(params, fine, "deep")), ("x", described(fine, fine, "fine"))]
    )
    assert "x.fine" in found.tools
    if levels > MAX_NESTING:
        assert found.refused == {"x.deep": f"its schema is nested deeper than {MAX_NESTING}"}


def test_schemas_at_the_limits_are_accepted() -> None:
    fine: dict[str, Any] = {"type": "object"}
    # Three levels are around it.
    params = [{"properties": {"x": deep(MAX_NESTING - more)}} for more in (3, 2)]
    found = list_tools(
        [
            ("x", described(params[0], fine, "deep")),
            ("x", described(params[1], fine, "deeper")),
            ("x", described(fine, fine, "n" * (MAX_NAME - 2))),
            ("x", described(fine, fine, "m" * (MAX_NAME - 1))),
        ]
    )
    assert list(found.tools) == ["x.deep", "x." + "n" * (MAX_NAME - 2)]
    assert list(found.refused) == ["x.deeper", "x." + "m" * (MAX_NAME - 1)]


@pytest.mark.parametrize(
    "reference",
    ["", "#", "#/", "#/$defs/Nowhere", "#/$defs/A/properties/x", "#/properties/x", "#/$defs", "A"],
)
def test_a_reference_that_leads_to_no_definition_is_refused(reference: str) -> None:
    params = {
        "$defs": {"A": {"properties": {"x": {}}}, "A/properties/x": {}},
        "properties": {"x": {"not": {"$ref": reference}}},
    }
    fine: dict[str, Any] = {"type": "object"}
    for taken, given_back in ((params, fine), (fine, params)):
        found = list_tools([("x", described(taken, given_back))])
        assert found.refused == {
            "x.it": f"its schema refers to {reference!r}, which is not in its $defs"
        }


def test_a_definition_may_have_any_name() -> None:
    params = {
        "$defs": {"x/y": {"type": "integer"}, "a b~": {"type": "string"}},
        "properties": {"n": {"$ref": "#/$defs/x~1y"}, "s": {"$ref": "#/$defs/a%20b~0"}},
    }
    found = list_tools([("x", described(params, {"type": "object"}))])
    assert found.refused == {}
    check_schemas(found.tools["x.it"].tool)


# ---- names


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("separator", [".", "_"])
async def test_calls_accept_both_spellings_of_a_name(
    tmp_path: Path, era: Era, separator: str
) -> None:
    async with (
        serving(tmp_path, Solar(), options=McpOptions(separator, frozenset({"solar"}))) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        names = {tool.name for tool in await all_tools(client)}
        assert "solar.earth.luna.info".replace(".", separator) in names
        assert all(separator in name for name in names)
        for name in ("solar.earth.luna.info", "solar_earth_luna_info"):
            result = await client.call_tool(name, {})
            assert result.structured_content is not None
            assert result.structured_content["events"][0]["name"] == "Luna"
        with pytest.raises(MCPError, match=r"Did you mean solar.earth.luna.info"):
            await client.call_tool("solar.earth.lunar.info", {})


async def test_the_configuration_sets_the_separator_of_tool_names(home: Path) -> None:
    daemon = McpDaemon(home)
    config = Path(daemon.paths.config)
    config.parent.mkdir(parents=True)
    config.write_text('[mcp]\ntool_name_separator = "_"\n')
    with daemon:
        async with connected(daemon, "http", "2026-07-28") as client:
            assert "echo_once" in {tool.name for tool in await all_tools(client)}


def test_the_environment_has_a_say_in_how_tools_are_called(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(paths=Daemon(home).paths)
    assert _mcp_options(settings, {}).separator == "."
    assert _mcp_options(settings, {"mcp": {"tool_name_separator": "_"}}).separator == "_"
    monkeypatch.setenv("HUBD_MCP_TOOL_NAME_SEPARATOR", "_")
    assert _mcp_options(settings, {}).separator == "_"


# ---- pages


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("size", [1, 7])
async def test_page_by_page_every_entry_comes_once(
    tmp_path: Path, era: Era, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        serving(tmp_path, EchoPlugin(), Solar()) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        whole = [tool.name for tool in (await client.list_tools()).tools]
        uris = [entry.uri for entry in (await client.list_resources()).resources]
        patterns = [
            entry.uri_template
            for entry in (await client.list_resource_templates()).resource_templates
        ]
        monkeypatch.setattr(mcp_pages, "PAGE", size)
        assert [tool.name for tool in await all_tools(client)] == whole
        found: list[str] = []
        cursor: str | None = None
        while True:
            resources = await client.list_resources(cursor=cursor)
            found += [entry.uri for entry in resources.resources]
            assert len(resources.resources) <= size
            assert len(found) <= len(uris)
            if (cursor := resources.next_cursor) is None:
                break
        assert found == uris
        found = []
        while True:
            templates = await client.list_resource_templates(cursor=cursor)
            found += [entry.uri_template for entry in templates.resource_templates]
            assert len(found) <= len(patterns)
            if (cursor := templates.next_cursor) is None:
                break
        assert found == patterns


@pytest.mark.parametrize("era", ERAS)
async def test_a_cursor_that_the_hub_has_not_issued_is_an_error(tmp_path: Path, era: Era) -> None:
    a_name = base64.b64encode(b"plexus.call").decode()
    async with serving(tmp_path) as served, over_http(served.url, TOKEN, era) as client:
        for ask in (
            client.list_tools,
            client.list_resources,
            client.list_resource_templates,
            client.list_prompts,
        ):
            for cursor in ("", "nonsense", "%%%%", a_name, "YWZ0ZXIg_w==", "é" * 4):
                with pytest.raises(MCPError, match="invalid cursor") as caught:
                    await ask(cursor=cursor)
                assert caught.value.error.code == -32602, cursor


@pytest.mark.parametrize("era", ERAS)
async def test_a_cursor_survives_the_removal_of_its_entry(
    tmp_path: Path, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_pages, "PAGE", 2)
    async with (
        serving(tmp_path, EchoPlugin(), Solar()) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        first = await client.list_tools()
        assert [tool.name for tool in first.tools] == ["echo.echo", "echo.once"]
        served.hub.detach(served.hub.find(["echo"]))
        second = await client.list_tools(cursor=first.next_cursor)
        assert [tool.name for tool in second.tools] == ["plexus.activations", "plexus.call"]


async def test_the_list_is_the_same_over_stdio(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, EchoPlugin(), Solar()) as served,
        client_of(served, tmp_path, "http", "2026-07-28") as one,
        client_of(served, tmp_path, "stdio", "2026-07-28") as two,
    ):
        assert await all_tools(one) == await all_tools(two)
