"""Completing what goes into the URIs of resources."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp import Client, MCPError
from mcp_types import (
    Completion,
    PromptReference,
    ReadResourceResult,
    ResourceTemplate,
    ResourceTemplateReference,
)

from hubd.activation import Activation, Event, McpRegistry, method
from hubd.mcp.access import McpOptions
from hubd.mcp.registry import Ctx
from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.echo import EchoPlugin
from hubd.plugins.solar import Solar
from hubd.wire.values import listed_values
from tests.mcp.support import ERAS, TOKEN, Era, Served, over_http, serving
from tests.support import call_events

TREE = "plexus://arbor/{tree}"
HANDLE = "plexus://handle/{+handle}"
SCHEMA = "plexus://schema/{namespace}"
RESULT = "plexus://result/{id}{?from}"


class Said(Event):
    text: str


class Crowd(Activation, version="1.0.0"):
    """One of very many."""

    def __init__(self, name: str) -> None:
        self.namespace = name

    @method
    async def say(self) -> AsyncIterator[Said]:
        """Say something."""
        yield Said(text="something")


async def complete(client: Client, template: str, variable: str, value: str) -> Completion:
    """Return the completions of a variable."""
    answer = await client.complete(
        ResourceTemplateReference(uri=template), {"name": variable, "value": value}
    )
    return answer.completion


async def trees(served: Served, count: int) -> list[str]:
    """New trees."""
    made = [(await call_events(served.hub, "arbor.tree_create"))[0] for _ in range(count)]
    return [str(event["tree_id"]) for event in made]


@pytest.mark.parametrize("era", ERAS)
async def test_trees_are_completed_by_the_beginning_of_their_ids(tmp_path: Path, era: Era) -> None:
    async with serving(tmp_path, Arbor()) as served, over_http(served.url, TOKEN, era) as client:
        none = await complete(client, TREE, "tree", "")
        assert (none.values, none.total, none.has_more) == ([], 0, False)
        made = await trees(served, 5)
        every = await complete(client, TREE, "tree", "")
        assert sorted(every.values) == sorted(made)
        assert (every.total, every.has_more) == (5, False)
        one = await complete(client, TREE, "tree", made[0][:12])
        assert one.values == [made[0]]
        assert (await complete(client, TREE, "tree", "none")).values == []


@pytest.mark.parametrize("era", ERAS)
async def test_of_more_than_a_hundred_trees_a_hundred_are_offered_and_more_announced(
    tmp_path: Path, era: Era
) -> None:
    async with serving(tmp_path, Arbor()) as served, over_http(served.url, TOKEN, era) as client:
        made = await trees(served, 100)
        full = await complete(client, TREE, "tree", "")
        assert (len(full.values), full.total, full.has_more) == (100, 100, False)
        made += await trees(served, 1)
        cut = await complete(client, TREE, "tree", "")
        assert (len(set(cut.values)), cut.total, cut.has_more) == (100, None, True)
        assert set(cut.values) < set(made)


@pytest.mark.parametrize("era", ERAS)
async def test_namespaces_are_completed_nested_ones_too(tmp_path: Path, era: Era) -> None:
    async with (
        serving(tmp_path, Solar(), EchoPlugin()) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        found = await complete(client, SCHEMA, "namespace", "solar.ea")
        assert found.values == ["solar.earth", "solar.earth.luna"]
        assert (found.total, found.has_more) == (2, False)
        assert (await complete(client, SCHEMA, "namespace", "e")).values == ["echo"]


@pytest.mark.parametrize("era", ERAS)
async def test_completion_counts_more_than_a_hundred_namespaces(tmp_path: Path, era: Era) -> None:
    crowd = [Crowd(f"n{n:03}") for n in range(120)]
    async with serving(tmp_path, *crowd) as served, over_http(served.url, TOKEN, era) as client:
        found = await complete(client, SCHEMA, "namespace", "n")
        assert found.values == [f"n{n:03}" for n in range(100)]
        assert (found.total, found.has_more) == (120, True)


@pytest.mark.parametrize("era", ERAS)
async def test_handles_are_completed_up_to_their_type(tmp_path: Path, era: Era) -> None:
    async with (
        serving(tmp_path, Solar(), EchoPlugin()) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        assert (await complete(client, HANDLE, "handle", "ec")).values == ["echo@1.0.0::once"]
        found = await complete(client, HANDLE, "handle", "solar.earth")
        assert found.values == ["solar.earth.luna@1.0.0::info", "solar.earth@1.0.0::info"]


@pytest.mark.parametrize("era", ERAS)
async def test_results_are_not_completed(tmp_path: Path, era: Era) -> None:
    async with (
        serving(tmp_path, EchoPlugin()) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        big = await client.call_tool("echo.echo", {"message": "x" * 1000, "count": 200})
        assert big.structured_content is not None
        assert big.structured_content["truncated"]
        assert (await complete(client, RESULT, "id", "")).values == []


UNKNOWN_VARIABLES = [
    ("plexus://nobody/{x}", "x"),
    (TREE, "node"),
    (SCHEMA, "tree"),
    (HANDLE, "+handle"),
    ("plexus://arbor/x", "tree"),
    ("", ""),
]


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_template_or_variable_is_an_error(tmp_path: Path, era: Era) -> None:
    async with serving(tmp_path, Arbor()) as served, over_http(served.url, TOKEN, era) as client:
        for template, variable in UNKNOWN_VARIABLES:
            with pytest.raises(MCPError, match="no resource template") as caught:
                await complete(client, template, variable, "")
            assert caught.value.error.code == -32602, template


@pytest.mark.parametrize("era", ERAS)
async def test_the_blanks_of_prompts_are_left_to_people(tmp_path: Path, era: Era) -> None:
    async with serving(tmp_path) as served, over_http(served.url, TOKEN, era) as client:
        answer = await client.complete(
            PromptReference(name="notes.weekly"), {"name": "week", "value": ""}
        )
        assert answer.completion.values == []


class Shelf(Activation, namespace="shelf", version="1.0.0"):
    """Has resources that no method describes."""

    def extend_mcp(self, registry: McpRegistry) -> None:
        async def read(ctx: Ctx, uri: str, variables: dict[str, str]) -> ReadResourceResult:
            return ReadResourceResult(contents=[])

        registry.add_template(ResourceTemplate(uri_template="shelf://{number}", name="x"), read)


@pytest.mark.parametrize("era", ERAS)
async def test_an_added_template_has_no_completions(tmp_path: Path, era: Era) -> None:
    async with serving(tmp_path, Shelf(), EchoPlugin()) as served:
        async with over_http(served.url, TOKEN, era) as client:
            found = await complete(client, "shelf://{number}", "number", "1")
            assert (found.values, found.total, found.has_more) == ([], 0, False)
        async with over_http(f"{served.url}?tools=echo", TOKEN, era) as client:
            with pytest.raises(MCPError, match="no resource template"):
                await complete(client, "shelf://{number}", "number", "1")


@pytest.mark.parametrize("era", ERAS)
async def test_completion_is_limited_to_the_profile(tmp_path: Path, era: Era) -> None:
    options = McpOptions(profile=frozenset({"echo"}))
    async with (
        serving(tmp_path, Solar(), EchoPlugin(), Arbor(), options=options) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        assert (await complete(client, SCHEMA, "namespace", "")).values == ["echo"]
        assert (await complete(client, HANDLE, "handle", "")).values == ["echo@1.0.0::once"]
        with pytest.raises(MCPError, match="no resource template"):
            await complete(client, TREE, "tree", "")


@pytest.mark.parametrize(
    ("event", "values"),
    [
        ("text", ["text"]),
        ({"tree_id": "a", "name": "b", "id": "c"}, ["a"]),
        ({"name": "b", "id": "c"}, ["b"]),
        ({"id": "c"}, ["c"]),
        ({"type": "list", "trees": [{"tree_id": "a"}, {"tree_id": "b"}]}, ["a", "b"]),
        ({"type": "list", "names": ["a", "b"]}, ["a", "b"]),
        ({"tree_id": 3, "rows": [[{"tree_id": "x"}], None, 4]}, []),
        ({"deep": [{"deeper": [{"tree_id": "a"}]}]}, ["a"]),
        (None, []),
        ([{"tree_id": "a"}], []),
    ],
)
def test_values_are_extracted_from_listed_events(event: object, values: list[str]) -> None:
    assert listed_values("tree_id", event) == values
