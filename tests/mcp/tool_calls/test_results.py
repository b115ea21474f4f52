"""Results: their text, structured content that fits its schema, large ones in pages."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from mcp import Client, MCPError
from mcp_types import CallToolResult, TextResourceContents, Tool

from hubd.mcp import results as mcp_results
from hubd.mcp import spool as mcp_spool
from hubd.mcp.results import INLINE_BYTES, Collected, tool_result
from hubd.plugins.arbor.plugin import Arbor
from hubd.wire.item import Error, Guidance
from tests.mcp.desk import Desk, attached, both_eras, events_in, every_way, text_in
from tests.mcp.support import ERAS, LEGACY, Era, Transport, connected, serving
from tests.mcp.weather import grow, new_tree
from tests.support import Daemon, few

TEXTS: list[tuple[str, list[str], str]] = [
    ("a lone render", ['{"type":"drawn","render":"└── a\\n    └── b"}'], "└── a\n    └── b"),
    ("a lone string", ['"just text"'], "just text"),
    ("a lone empty string", ['""'], ""),
    ("a lone object", ['{"type":"sum","value":3}'], '{"type":"sum","value":3}'),
    ("a render that is no text", ['{"render":5}'], '{"render":5}'),
    ("a number", ["5"], "5"),
    ("several strings", ['"one"', '"two"'], "one\ntwo"),
    ("several events", ['{"n":1}', '{"n":2}'], '[{"n":1},{"n":2}]'),
    ("several renders", ['{"render":"a"}', '{"render":"b"}'], '[{"render":"a"},{"render":"b"}]'),
    ("strings and others", ['"one"', "2"], '["one",2]'),
    ("nothing", [], "[]"),
]


@pytest.mark.parametrize(
    ("events", "text"),
    [(events, text) for _, events, text in TEXTS],
    ids=[name for name, _, _ in TEXTS],
)
def test_the_text_of_a_result_is_a_lone_drawing_or_string_or_json(
    events: list[str], text: str
) -> None:
    collected = Collected(None)
    for event in events:
        collected.add(event.encode())
    result = tool_result(collected)
    assert text_in(result) == text
    assert result.structured_content == {
        "events": [json.loads(event) for event in events],
        "count": len(events),
        "truncated": False,
        # A drawing is there twice, because some clients show only the structured content.
        **({"text": text} if len(events) == 1 and '"render":"' in events[0] else {}),
    }


@every_way
async def test_the_text_arrives_as_it_was_made(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, era) as client,
    ):
        drawing = "└── a\n    └── ü 𝄞 \u2028 \x00"
        assert text_in(await client.call_tool("desk.draw", {"render": drawing})) == drawing
        said = await client.call_tool("desk.say", {"texts": ["one"]})
        assert text_in(said) == '{"type":"said","text":"one"}'
        said = await client.call_tool("desk.say", {"texts": ["one", "two"]})
        assert json.loads(text_in(said)) == events_in(said)
        assert [event["text"] for event in events_in(said)] == ["one", "two"]
        assert text_in(await client.call_tool("desk.say", {"texts": []})) == "[]"


@every_way
async def test_a_lone_surrogate_in_stored_json_is_replaced(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, era) as client,
    ):
        result = await client.call_tool("desk.raw", {"events": ['{"text":"cut \\ud83d"}']})
        assert events_in(result) == [{"text": "cut ?"}]
        assert text_in(result) == '{"text":"cut \\ud83d"}'


@both_eras
async def test_advice_of_a_method_that_succeeds_is_a_note_beside_the_text(
    tmp_path: Path, era: Era
) -> None:
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, "http", era) as client,
    ):
        result = await client.call_tool("desk.note", {"advice": "Take an umbrella"})
        assert [block.text for block in result.content if block.type == "text"] == [
            '{"type":"said","text":"done"}',
            "Note: Take an umbrella",
        ]


def test_a_failure_offers_only_as_many_names_as_help() -> None:
    collected = Collected(None)
    names = [f"name{n}" for n in range(1000)]
    collected.advice.append(Guidance(b"", "not_found", "Look", names))
    collected.error = Error(b"", "no such thing", "not_found")
    told = text_in(tool_result(collected)).split("\n")
    assert told[2] == f"Available: {', '.join(names[:50])}…"


def test_of_a_failure_that_has_very_much_to_say_the_beginning_is_shown() -> None:
    collected = Collected(None)
    for _ in range(100):
        collected.advice.append(Guidance(b"", "weather", "rain " * 1000, []))
    collected.advice.append(Guidance(b"", "internal", "look " * 1000, []))
    collected.error = Error(b"", "broken " * 1_000_000, "internal")
    result = tool_result(collected)
    told = text_in(result).split("\n")
    assert told[0].startswith("internal: broken broken ")
    assert told[1].startswith("look look ")
    assert told[2].startswith("Note: rain rain ")
    assert all(line.endswith("…") for line in told)
    assert len(result.model_dump_json()) < 2 * INLINE_BYTES


def test_a_failure_after_very_much_shows_only_the_beginning_of_it() -> None:
    collected = Collected(None, mcp_spool.MAX_RESULT_BYTES)
    for _ in range(1000):
        collected.add(b'"' + b"x" * 1000 + b'"')
    collected.error = Error(b"", "it broke", "internal")
    assert INLINE_BYTES / 2 < len(text_in(tool_result(collected))) < INLINE_BYTES + 1000


def test_an_error_after_a_large_result_links_to_its_events(tmp_path: Path) -> None:
    spool = mcp_spool.Spool(tmp_path / "results")
    collected = Collected(spool, 1000)
    for n in range(50):
        collected.add(json.dumps({"n": n, "text": "x" * 90}).encode())
    collected.error = Error(b"", "it broke", "internal")
    told = text_in(tool_result(collected)).split("\n")
    [name] = [path.name for path in (tmp_path / "results").iterdir()]
    shown = len(collected.inline)
    assert 0 < shown < 50
    assert told[-1].startswith(f"Only {shown} of 50 events are shown. All events (")
    assert told[-1].endswith(f" bytes): plexus://result/{name}")
    spool.close()


# Values for parameters of this name, as they come out of the first calls of the list below.
Known = dict[str, Any]

# What changes something, in an order that works; values of the form `$name` are known by then.
SCRIPT: list[tuple[str, Known]] = [
    ("arbor.tree_create", {"metadata": {"colour": "red"}}),
    ("arbor.node_create_text", {"tree_id": "$tree_id", "content": "hello"}),
    ("arbor.node_create_external", {"tree_id": "$tree_id", "handle": "$handle"}),
    ("arbor.node_label", {"tree_id": "$tree_id", "node_id": "$node_id", "label": "first"}),
    ("arbor.tree_claim", {"tree_id": "$tree_id", "owner_id": "somebody"}),
    ("arbor.tree_update_metadata", {"tree_id": "$tree_id", "metadata": {"colour": "blue"}}),
    ("claudecode.create", {"name": "s", "model": "offline"}),
    ("claudecode.chat", {"name": "s", "prompt": "think: well. Hello", "model": "offline"}),
    ("claudecode.chat_async", {"name": "t", "prompt": "Hello", "model": "offline"}),
    ("claudecode.follow", {"name": "t"}),
    ("claudecode.poll", {"name": "t", "consumer": "c", "auto_ack": False}),
    ("claudecode.consumers_ack", {"name": "t", "consumer": "c", "seq": 1}),
    ("claudecode.consumers_reset", {"name": "t", "consumer": "c"}),
    ("claudecode.fork", {"name": "s", "new_name": "u"}),
    ("loopback.configure", {"session": "outside"}),
    ("loopback.wait_for_approval", {"timeout_secs": 0}),
    ("loopback.rules_test", {"tool": "Bash", "value": "git log"}),
    ("claudecode.retention", {"dry_run": True, "days": 1}),
    ("cone.create", {"name": "c", "system_prompt": "Be brief."}),
    ("cone.chat", {"identifier": "c", "prompt": "Hello"}),
    ("cone.fork", {"identifier": "c", "new_name": "d"}),
    ("bash.execute", {"command": "echo hi"}),
    ("file.snapshot", {"path": __file__}),
    ("file.restore", {"snapshot_id": "$snapshot_id", "to": "$to"}),
    ("mustache.register_template", {"name": "s", "template": "Hello {{#who}}{{.}}{{/who}}"}),
    ("plexus.call", {"method": "echo.once", "params": {"message": "hi"}}),
]
# What takes something away; after everything that reads.
ENDING: list[tuple[str, Known]] = [
    ("claudecode.consumers_delete", {"name": "t", "consumer": "c"}),
    ("claudecode.delete", {"name": "u"}),
    ("cone.delete", {"identifier": "d"}),
    ("bash.delete", {"execution_id": "$execution_id"}),
    ("file.delete", {"snapshot_id": "$snapshot_id"}),
    ("mustache.delete_template", {"name": "s"}),
    ("arbor.tree_release", {"tree_id": "$tree_id", "owner_id": "somebody"}),
    ("arbor.node_delete", {"tree_id": "$tree_id", "node_id": "$node_id"}),
    ("arbor.tree_import", {"data": "$data", "new_ids": True}),
    ("arbor.tree_delete", {"tree_id": "$tree_id"}),
    ("arbor.cleanup", {"dry_run": True}),
]
# These need what only a real `claude` leaves behind, write into the user's own files, are not
# for agents, or wait for people.
LEFT_OUT = {
    "arbor.tree_archive",
    "claudecode.cancel",
    "claudecode.get_block",
    "claudecode.sessions_export",
    "claudecode.sessions_get",
    "claudecode.sessions_import",
    "claudecode.set_head",
    "cone.set_head",
    "loopback.permit",
    "loopback.respond",
    "loopback.rules_add",
    "loopback.rules_remove",
    "loopback.watch",
}
PLUGINS = {
    "arbor", "bash", "claudecode", "cone", "echo", "file", "health", "loopback", "mustache",
    "plexus", "solar",
}  # fmt: skip


class Visitor:
    """Calls one tool after the other and looks at every result."""

    def __init__(self, client: Client, tools: list[Tool]) -> None:
        self._client = client
        self.tools = {tool.name: tool for tool in tools}
        self.known: Known = {
            "message": "hi",
            "query": "tree",
            "metadata": {},
            "name": "s",
            "identifier": "c",
        }
        self.called: set[str] = set()

    async def call(self, name: str, arguments: Known) -> list[Any]:
        given = {
            key: self.known[value[1:]] if str(value).startswith("$") else value
            for key, value in arguments.items()
        }
        # Raises if the result does not fit the tool's schema.
        result = await self._client.call_tool(name, given)
        assert not result.is_error, (name, given, result)
        schema = self.tools[name].output_schema
        assert schema is not None
        assert result.structured_content is not None
        Draft202012Validator(schema).validate(result.structured_content)
        self.called.add(name)
        events: list[Any] = result.structured_content["events"]
        return events

    async def read_everything(self) -> None:
        for name, tool in self.tools.items():
            required = tool.input_schema.get("required", [])
            reads = tool.annotations is not None and tool.annotations.read_only_hint
            if reads and name not in self.called | LEFT_OUT and set(required) <= set(self.known):
                named = "name" in tool.input_schema["properties"]
                arguments = {key: f"${key}" for key in (*required, *(["name"] if named else []))}
                await self.call(name, arguments)


@pytest.mark.parametrize("era", few(ERAS[::-1], 1))
async def test_every_result_fits_the_output_schema_of_its_tool(
    daemon: Daemon, era: Era, tmp_path: Path
) -> None:
    async with connected(daemon, "http", era) as client:
        visitor = Visitor(client, (await client.list_tools()).tools)
        known = visitor.known
        [echoed] = await visitor.call("echo.once", {"message": "hi"})
        known["handle"] = echoed["handle"]
        known["to"] = str(tmp_path / "restored")
        for name, arguments in SCRIPT:
            events = await visitor.call(name, arguments)
            if name == "arbor.tree_create":
                known["tree_id"] = events[0]["tree_id"]
            elif name == "bash.execute":
                known["execution_id"] = events[-1]["handle"].split(":")[3]
            elif name == "file.snapshot":
                known["snapshot_id"] = known["from"] = events[0]["snapshot_id"]
            elif name == "arbor.node_create_text":
                known["node_id"] = known["start"] = known["end"] = known["other"] = events[0][
                    "node_id"
                ]
        exported = await visitor.call("arbor.tree_export", {"tree_id": "$tree_id"})
        known["data"] = "\n".join(map(json.dumps, exported))
        await visitor.read_everything()
        for name, arguments in ENDING:
            await visitor.call(name, arguments)
        ours = {name for name in visitor.tools if name.split(".")[0] in PLUGINS}
        assert ours - visitor.called == LEFT_OUT


async def read_all(client: Client, uri: str) -> tuple[str, int]:
    """All pages of a resource, and how many there were."""
    text, pages, next_uri = "", 0, uri
    while next_uri:
        [contents] = (await client.read_resource(next_uri)).contents
        assert isinstance(contents, TextResourceContents)
        assert contents.mime_type == "application/x-ndjson"
        text += contents.text
        pages += 1
        assert pages < 100, "it goes round in circles"
        next_uri = (contents.meta or {}).get("plexus/next", "")
    return text, pages


def link_in(result: CallToolResult) -> str:
    [link] = [block for block in result.content if block.type == "resource_link"]
    assert result.structured_content is not None
    assert result.structured_content["resource"] == link.uri
    return link.uri


@every_way
async def test_a_large_result_shows_its_start_and_is_read_in_pages(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, era) as client,
    ):
        result = await client.call_tool("desk.fill", {"count": 1000, "size": 1000})
        assert not result.is_error
        assert result.structured_content is not None
        shown = result.structured_content["events"]
        assert result.structured_content["count"] == 1000
        assert result.structured_content["truncated"] is True
        assert 60 <= len(shown) <= 65
        text, remainder, link = result.content
        assert text.type == "text"
        assert json.loads(text.text) == shown
        assert len(text.text.encode()) <= INLINE_BYTES + 1000
        assert remainder.type == "text"
        assert remainder.text.startswith(f"Only {len(shown)} of 1000 events are shown. ")
        assert link.type == "resource_link"
        whole, pages = await read_all(client, link_in(result))
        assert pages > 1
        assert link.size == len(whole.encode())
        events = [json.loads(line) for line in whole.splitlines()]
        assert events == [{"type": "said", "text": f"{n}:" + "ü" * 500} for n in range(1000)]
        assert events[: len(shown)] == shown


@both_eras
async def test_one_event_that_is_too_large_is_only_in_the_resource(
    tmp_path: Path, era: Era
) -> None:
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, "http", era) as client,
    ):
        drawing = "└── ü\n" * 50_000
        result = await client.call_tool("desk.draw", {"render": drawing})
        assert result.structured_content is not None
        assert result.structured_content["events"] == []
        assert result.structured_content["count"] == 1
        assert [block.type for block in result.content] == ["text", "resource_link"]
        whole, _ = await read_all(client, link_in(result))
        assert json.loads(whole) == {"type": "drawn", "render": drawing}


@both_eras
async def test_a_drawing_is_shown_even_if_its_event_is_too_large(tmp_path: Path, era: Era) -> None:
    async with (
        serving(tmp_path, Arbor()) as served,
        attached(served, tmp_path, "http", era) as client,
    ):
        tree = await new_tree(served)
        await asyncio.gather(*(grow(served, tree, f"leaf {n}") for n in range(2000)))
        result = await client.call_tool("arbor.tree_render", {"tree_id": tree})
        drawing, _, link = result.content
        assert drawing.type == "text"
        assert drawing.text.startswith("└──\n    ├── leaf ")
        assert drawing.text.count("\n") == 2000
        assert result.structured_content is not None
        assert result.structured_content["text"] == drawing.text
        assert link.type == "resource_link"
        [event] = (await read_all(client, link_in(result)))[0].splitlines()
        assert len(event) > mcp_spool.PAGE_BYTES
        assert json.loads(event)["render"] == drawing.text
        [contents] = (await client.read_resource(f"plexus://arbor/{tree}")).contents
        assert isinstance(contents, TextResourceContents)
        assert (contents.mime_type, contents.text) == ("text/plain", drawing.text)


@every_way
async def test_an_event_that_is_nested_deeper_than_clients_read_is_only_in_the_resource(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, era) as client,
    ):
        for levels in (197, 240, 700):
            deep = '{"a":' * levels + "1" + "}" * levels
            result = await client.call_tool("desk.raw", {"events": ['{"n":1}', deep, '{"n":2}']})
            assert not result.is_error
            assert result.structured_content is not None
            assert result.structured_content["events"] == [{"n": 1}]
            whole, _ = await read_all(client, link_in(result))
            assert whole.splitlines() == ['{"n":1}', deep, '{"n":2}']


@given(st.recursive(st.text('[]{}"\\'), lambda below: st.lists(below) | st.tuples(below)))
def test_only_brackets_that_are_no_text_count_as_levels(event: Any) -> None:
    def levels(part: Any) -> int:
        return 0 if isinstance(part, str) else 1 + max(map(levels, part), default=0)

    encoded = json.dumps(event).encode()
    with pytest.MonkeyPatch.context() as patch:
        for limit in range(5):
            patch.setattr(mcp_results, "INLINE_LEVELS", limit)
            assert mcp_results._is_deep(encoded) == (levels(event) > limit)


@given(
    st.lists(st.text(max_size=300), min_size=1, max_size=20),
    st.integers(1, 2000),
    st.integers(4, 300),
)
async def test_shown_or_read_in_pages_the_events_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], room: int, page_bytes: int
) -> None:
    spool = mcp_spool.Spool(tmp_path_factory.mktemp("spool") / "results")
    encoded = [json.dumps(text, ensure_ascii=False).encode() for text in texts]
    collected = Collected(spool, room)
    for event in encoded:
        collected.add(event)
    result = tool_result(collected)
    assert result.structured_content is not None
    shown = result.structured_content["events"]
    assert shown == texts[: len(shown)]
    assert sum(map(len, encoded[: len(shown)])) <= room
    assert result.structured_content["count"] == len(texts)
    assert result.structured_content["truncated"] == (sum(map(len, encoded)) > room)
    if collected.spooled is not None:
        read, start = "", 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mcp_spool, "PAGE_BYTES", page_bytes)
            after: int | None = 0
            while after is not None:
                page, after = await spool.read(collected.spooled.id, start)
                read, start = read + page, after or 0
        assert read.encode() == b"".join(event + b"\n" for event in encoded)
    else:
        assert shown == texts
    spool.close()


@every_way
async def test_a_result_larger_than_any_may_be_fails_and_leaves_no_file(
    tmp_path: Path, transport: Transport, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_spool, "MAX_RESULT_BYTES", 1_000_000)
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, era) as client,
    ):
        result = await client.call_tool("desk.fill", {"count": 2000, "size": 1000})
        assert result.is_error
        told = text_in(result).split("\n")
        assert told[0] == "overloaded: the result is larger than 1000000 bytes"
        assert (
            told[1] == "Narrow the request, or call the method with synapse or over the WebSocket"
        )
        assert "plexus://" not in text_in(result)
        assert list((tmp_path / "results").iterdir()) == []


async def test_a_method_without_end_is_stopped_at_sixty_four_megabytes(tmp_path: Path) -> None:
    desk = Desk()
    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, "stdio", "legacy") as client,
    ):
        result = await client.call_tool("desk.fill", {"count": 10_000, "size": 100_000})
        assert text_in(result).startswith("overloaded: the result is larger than 67108864 bytes\n")
        assert list((tmp_path / "results").iterdir()) == []


@both_eras
async def test_a_cancelled_call_leaves_no_file(tmp_path: Path, era: Era) -> None:
    desk, results = Desk(), tmp_path / "results"
    async with (
        serving(tmp_path, desk) as served,
        attached(served, tmp_path, "stdio", era) as client,
    ):
        call = asyncio.create_task(client.call_tool("desk.fill_and_wait", {"size": 100_000}))
        await desk.begun.wait()
        assert len(list(results.iterdir())) == 1
        call.cancel()
        await desk.ended.wait()
        assert list(results.iterdir()) == []


@every_way
async def test_results_are_removed_when_the_hub_ends(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with serving(tmp_path, Desk()) as served:
        async with attached(served, tmp_path, transport, era) as client:
            await client.call_tool("desk.fill", {"count": 100, "size": 1000})
        assert len(list((tmp_path / "results").iterdir())) == 1
    assert not (tmp_path / "results").exists()


@both_eras
async def test_a_result_that_is_not_there_cannot_be_read(tmp_path: Path, era: Era) -> None:
    ends = ("-1", "99999999999", "1e3", "0x1", "9" * 400, "1&from=-1", "%31%00", "%C2%B2")
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, "http", era) as client,
    ):
        result = await client.call_tool("desk.fill", {"count": 100, "size": 1000})
        there = link_in(result)
        assert (await client.read_resource(there)).contents
        for uri in (
            *(f"{there}?from={end}" for end in ends),
            f"{there}/..",
            f"{there}/../../hub.db",
            "plexus://result/" + "x" * 22,
            "plexus://result/..%2fhub.db",
            "plexus://result/",
        ):
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
            assert caught.value.code == (-32002 if era == LEGACY else -32602), uri


@every_way
async def test_a_tool_of_text_only_answers_one_block_and_nothing_else(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, transport, era) as client,
    ):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["desk.permit"].output_schema is None
        assert tools["desk.add"].output_schema is not None
        for size in (0, 1_000_000):
            result = await client.call_tool("desk.permit", {"size": size})
            assert json.loads(text_in(result)) == {"behavior": "allow", "padding": "x" * size}
            assert result.structured_content is None
        assert list((tmp_path / "results").iterdir()) == []


@both_eras
async def test_a_tool_of_text_only_fails_when_its_answer_is_larger_than_any_may_be(
    tmp_path: Path, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubd.mcp.calls.MAX_RESULT_BYTES", 1_000_000)
    assert mcp_results.INLINE_BYTES < 1_000_000
    async with (
        serving(tmp_path, Desk()) as served,
        attached(served, tmp_path, "stdio", era) as client,
    ):
        result = await client.call_tool("desk.permit", {"size": 1_000_000})
        assert result.is_error
        assert text_in(result).startswith("overloaded: ")
        assert len(text_in(result)) < 1000
