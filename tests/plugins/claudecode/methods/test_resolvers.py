"""The handles of claudecode resolve through the hub, by name and by id."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from hubd.plexus.hub import Hub
from hubd.plugins.claudecode.events import ResolvedEvent
from hubd.plugins.claudecode.handles import (
    ContentRef,
    EventRef,
    MessageRef,
    SessionRef,
    ThinkingRef,
    ToolResultRef,
    ToolUseRef,
    TurnRef,
)
from hubd.plugins.claudecode.plugin import ClaudeCode
from hubd.plugins.claudecode.protocol.updates import (
    BlockFinished,
    BlockStarted,
    MessageStarted,
    ToolResult,
)
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.wire.handle import plugin_id
from tests.plugins.claudecode.protocol.test_accumulator import LINES
from tests.plugins.claudecode.record.test_mirror import method_of, nodes_of, records_of, replay
from tests.plugins.claudecode.scripted_chat import ScriptedChat, begin_chat, claude_hub
from tests.support import call_error, call_events

Json = dict[str, Any]


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[tuple[Hub, ClaudeCode]]:
    async with claude_hub(tmp_path) as hub_and_plugin:
        yield hub_and_plugin


async def resolve(hub: Hub, handle: str) -> Json:
    """Resolve a handle by the plugin's name and by its id; both give the same data."""
    [resolved] = await call_events(hub, "plexus.resolve_handle", handle=handle)
    name, _, rest = handle.partition("@")
    by_id = f"{plugin_id(name, 1)}@{rest}"
    [again] = await call_events(hub, "plexus.resolve_handle", handle=by_id)
    assert again == resolved
    assert resolved["handle"] == handle
    assert resolved["origin"]["plugin"] == "claudecode"
    return dict(resolved)


async def handles_of(hub: Hub, chat: ScriptedChat, method: str) -> list[str]:
    nodes = await nodes_of(hub, chat, "main")
    return [node["data"]["handle"] for node in nodes if method_of(node) == method]


# Every type


async def test_a_turn_resolves_to_its_prompt_and_status(running: tuple[Hub, ClaudeCode]) -> None:
    hub, plugin = running
    chat = await replay(plugin, "plain")
    [handle] = await handles_of(hub, chat, "turn")
    resolved = await resolve(hub, handle)
    assert (resolved["kind"], resolved["summary"]) == ("turn", "turn 0: hello")
    assert (resolved["data"]["prompt"], resolved["data"]["status"]) == ("hello", "complete")
    init = json.loads(LINES["plain"][0])
    assert resolved["data"]["data"]["model"] == init["model"]
    assert resolved["data"]["data"]["native_id"] == init["session_id"]


async def test_messages_resolve_with_their_blocks(running: tuple[Hub, ClaudeCode]) -> None:
    hub, plugin = running
    chat = await replay(plugin, "thinking")
    by_role = {}
    for handle in await handles_of(hub, chat, "message"):
        resolved = await resolve(hub, handle)
        by_role[resolved["data"]["role"]] = resolved
    user, assistant = by_role["user"], by_role["assistant"]
    assert user["data"]["content"] == [{"type": "text", "text": "hello"}]
    assert user["summary"] == "user: hello"
    assert [block["type"] for block in assistant["data"]["content"]] == ["thinking", "text"]
    assert assistant["data"]["content"] == whole_blocks("thinking")
    assert assistant["data"]["model"]
    assert assistant["data"]["data"]["usage"]


def whole_blocks(name: str) -> list[Json]:
    """The blocks of a transcript as the program gave them."""
    lines = [json.loads(line) for line in LINES[name]]
    texts = [line["message"]["content"] for line in lines if line["type"] == "assistant"]
    return [block for content in texts for block in content]


async def test_text_and_thinking_resolve_unchanged(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await replay(plugin, "thinking")
    thinking, text = whole_blocks("thinking")
    [handle] = await handles_of(hub, chat, "thinking")
    resolved = await resolve(hub, handle)
    assert resolved["data"]["block"] == thinking
    assert resolved["data"]["block"]["signature"] == thinking["signature"] != ""
    assert (resolved["data"]["text"], resolved["data"]["complete"]) == (thinking["thinking"], True)
    [handle] = await handles_of(hub, chat, "content")
    resolved = await resolve(hub, handle)
    assert (resolved["data"]["block"], resolved["data"]["text"]) == (text, text["text"])


async def test_a_signature_resolves_unchanged(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    signature = 'Eq\\"/+=\u0000\u2028\U0001f600 %:' * 500
    block = {"type": "thinking", "thinking": "", "signature": signature, "new": [1.5, None]}
    await chat.take(
        [
            MessageStarted("m", None, None),
            BlockStarted("m", None, 0, "thinking", None, None),
            BlockFinished("m", None, 0, "thinking", block, True, None),
        ]
    )
    [handle] = await handles_of(hub, chat, "thinking")
    assert (await resolve(hub, handle))["data"]["block"] == block


async def test_tool_calls_and_results_resolve(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await replay(plugin, "bash_autoallow")
    [use] = [block for block in whole_blocks("bash_autoallow") if block["type"] == "tool_use"]
    [handle] = await handles_of(hub, chat, "tool_use")
    resolved = await resolve(hub, handle)
    assert resolved["data"]["tool_name"] == use["name"]
    assert (resolved["data"]["input"], resolved["data"]["block"]) == (use["input"], use)
    [handle] = await handles_of(hub, chat, "tool_result")
    resolved = await resolve(hub, handle)
    assert resolved["kind"] == "output"
    assert resolved["data"]["block"]["tool_use_id"] == use["id"]
    assert not resolved["data"]["is_error"]
    events = [record["event"] for record in await records_of(hub, chat)]
    [given] = [event for event in events if event["type"] == "tool_result"]
    assert given["output"] == resolved["data"]["output"]


async def test_a_large_tool_result_is_stored_once_until_its_tree_is_removed(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    text = "0123456789abcdef" * 100_000
    results: list[Json] = [
        {"type": "tool_result", "tool_use_id": f"call{number}", "content": text, "is_error": False}
        for number in range(2)
    ]
    await chat.take([ToolResult(r["tool_use_id"], None, text, False, r, None, {}) for r in results])
    handles = await handles_of(hub, chat, "tool_result")
    blocks = [(await resolve(hub, handle))["data"]["block"] for handle in handles]
    assert blocks == results
    # The blocks differ only in the id of the call, so each is a content.
    kept = "SELECT sum(size), sum(refs) FROM hub_blobs"
    [(size, refs)] = await plugin.db.fetch_rows(kept)
    assert (size > 2 * len(text), refs) == (True, 2)
    again = results[0]
    await chat.take([ToolResult("call0", None, text, False, again, None, {})])
    [(size_now, refs_now)] = await plugin.db.fetch_rows(kept)
    assert (size_now, refs_now) == (size, 3)
    key, tree_id = (await plugin.db.fetch_rows("SELECT key, id FROM arbor_trees"))[0]
    await plugin.db.transaction(lambda tx: tree.remove(tx, key, tree_id))
    assert await plugin.db.fetch_rows("SELECT digest FROM hub_blobs") == []


async def test_a_tool_call_with_any_name_and_id_has_a_handle(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    name, tool_id = "mcp__ä:b%/c::d@1", "id:with%25 all ☃"
    block = {"type": "tool_use", "id": tool_id, "name": name, "input": {"a": 1}}
    result = {"type": "tool_result", "tool_use_id": tool_id, "content": "x", "is_error": True}
    await chat.take(
        [
            MessageStarted("m", None, None),
            BlockStarted("m", None, 0, "tool_use", tool_id, name),
            BlockFinished("m", None, 0, "tool_use", block, True, None),
            ToolResult(tool_id, None, "x", True, result, None, {}),
        ]
    )
    [handle] = await handles_of(hub, chat, "tool_use")
    assert (await resolve(hub, handle))["data"]["tool_name"] == name
    [handle] = await handles_of(hub, chat, "tool_result")
    resolved = await resolve(hub, handle)
    assert (resolved["data"]["block"], resolved["data"]["is_error"]) == (result, True)


async def test_every_event_resolves(running: tuple[Hub, ClaudeCode]) -> None:
    hub, plugin = running
    chat = await replay(plugin, "plain")
    for record in await records_of(hub, chat):
        event = record["event"]
        resolved = await resolve(hub, event.pop("handle"))
        assert (resolved["kind"], resolved["summary"]) == ("event", event["type"])
        assert resolved["data"]["event"] == event
        assert (resolved["data"]["seq"], resolved["data"]["event_type"]) == (
            record["seq"],
            event["type"],
        )


async def test_a_session_resolves(running: tuple[Hub, ClaudeCode]) -> None:
    hub, _ = running
    [created] = await call_events(hub, "claudecode.create", name="s", model="offline")
    resolved = await resolve(hub, created["handle"])
    assert (resolved["kind"], resolved["summary"]) == ("session", "session s")
    assert resolved["data"]["session"]["id"] == created["id"]
    await call_events(hub, "claudecode.delete", name="s")
    error = await call_error(hub, "plexus.resolve_handle", handle=created["handle"])
    assert error["code"] == "handle_target_missing"


async def test_a_session_whose_tree_was_archived_can_be_deleted(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, _ = running
    [created] = await call_events(hub, "claudecode.create", name="s", model="offline")
    await call_events(hub, "arbor.tree_archive", tree_id=created["head"]["tree_id"], force=True)
    await call_events(hub, "claudecode.delete", name="s")
    error = await call_error(hub, "plexus.resolve_handle", handle=created["handle"])
    assert error["code"] == "handle_target_missing"


async def test_an_id_wins_over_an_equal_name(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, _ = running
    [created] = await call_events(hub, "claudecode.create", name="s")
    await call_events(hub, "claudecode.create", name=created["id"])
    assert (await resolve(hub, created["handle"]))["data"]["name"] == "s"


# While it grows, and when it broke off


async def test_an_unfinished_message_has_its_blocks_so_far(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    await chat.say("first")
    await chat.begin_block()
    handles = await handles_of(hub, chat, "message")
    [handle] = [entry for entry in handles if entry.endswith(":assistant")]
    resolved = await resolve(hub, handle)
    assert [block["text"] for block in resolved["data"]["content"]] == ["first", ""]


async def test_a_block_that_was_cut_off_is_not_complete(running: tuple[Hub, ClaudeCode]) -> None:
    hub, plugin = running
    for name in ("sigint_in_text", "sigint_in_thinking", "sigint_in_tool_input"):
        chat = await replay(plugin, name)
        events = [record["event"] for record in await records_of(hub, chat)]
        [cut] = [event for event in events if event.get("complete") is False]
        [handle] = [
            node["data"]["handle"]
            for node in await nodes_of(hub, chat, "main")
            if node["id"] == cut["position"]["node_id"]
        ]
        assert (await resolve(hub, handle))["data"]["complete"] is False, name


# Missing targets


MISSING = (
    TurnRef(turn_id=uuid4(), turn_index=0),
    MessageRef(blob_id=uuid4(), role="user"),
    ContentRef(blob_id=uuid4(), block_index=0),
    ThinkingRef(blob_id=uuid4(), block_index=0),
    ToolUseRef(blob_id=uuid4(), tool_use_id="t", tool_name="Bash"),
    ToolResultRef(blob_id=uuid4(), tool_use_id="t", is_error=False),
    EventRef(event_id=uuid4(), event_type="start"),
    SessionRef(session_id=uuid4()),
)


@pytest.mark.parametrize("ref", MISSING, ids=lambda ref: type(ref).__name__)
async def test_a_missing_target_is_reported(running: tuple[Hub, ClaudeCode], ref: TurnRef) -> None:
    error = await call_error(running[0], "plexus.resolve_handle", handle=str(ref))
    assert error["code"] == "handle_target_missing"


async def test_a_handle_does_not_resolve_a_blob_of_another_kind(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await replay(plugin, "bash_autoallow")
    existing = {
        method: (await handles_of(hub, chat, method))[0].split(":")[3]
        for method in ("turn", "message", "content", "tool_use", "tool_result")
    }
    rest = {
        "turn": ":0",
        "message": ":user",
        "content": ":0",
        "thinking": ":0",
        "tool_use": ":t:Bash",
        "tool_result": ":t:false",
    }
    for method, ending in rest.items():
        for kind, blob_id in existing.items():
            if kind != method:
                handle = f"claudecode@1.0.0::{method}:{blob_id}{ending}"
                error = await call_error(hub, "plexus.resolve_handle", handle=handle)
                assert error["code"] == "handle_target_missing", (method, kind)


async def test_blobs_are_deleted_with_their_tree(running: tuple[Hub, ClaudeCode]) -> None:
    hub, plugin = running
    chat = await replay(plugin, "plain")
    [handle] = await handles_of(hub, chat, "content")
    tree_id = ids.text(chat.session.tree_id)
    await call_events(hub, "arbor.tree_delete", tree_id=tree_id, force=True)
    error = await call_error(hub, "plexus.resolve_handle", handle=handle)
    assert error["code"] == "handle_target_missing"


# Handles in the schema


async def test_the_schema_lists_every_handle_type(running: tuple[Hub, ClaudeCode]) -> None:
    hub, _ = running
    [schema] = await call_events(hub, "claudecode.schema")
    fields = {entry["method"]: list(entry["meta_fields"]) for entry in schema["handles"]}
    names = {
        method: [field["name"] if isinstance(field, dict) else field for field in values]
        for method, values in fields.items()
    }
    assert names == {
        "turn": ["turn_id", "turn_index"],
        "message": ["blob_id", "role"],
        "content": ["blob_id", "block_index"],
        "thinking": ["blob_id", "block_index"],
        "tool_use": ["blob_id", "tool_use_id", "tool_name"],
        "tool_result": ["blob_id", "tool_use_id", "is_error"],
        "chat_event": ["event_id", "event_type"],
        "session": ["session_id"],
        "approval": ["approval_id"],
    }
    assert all(entry["resolve_schema"] for entry in schema["handles"])


async def test_methods_list_the_handles_they_produce(running: tuple[Hub, ClaudeCode]) -> None:
    hub, _ = running
    [schema] = await call_events(hub, "claudecode.schema")
    methods = {entry["name"]: entry for entry in schema["methods"]}
    for name, method in (("create", "session"), ("fork", "session"), ("chat", "chat_event")):
        assert methods[name]["handle_schema"]["method"] == method
        assert f"claudecode@1.0.0::{method}" in methods[name]["produces"]


async def test_stored_json_is_spliced_into_a_resolved_event(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    await chat.push(*range(3))
    records = await records_of(hub, chat)
    handles = [record["event"]["handle"] for record in records]
    resolved = await call_events(hub, "plexus.resolve_handle", handle=handles)
    for record, event in zip(records, resolved, strict=True):
        # The handle of an event is not part of its stored data.
        stored = {name: value for name, value in record["event"].items() if name != "handle"}
        expected = ResolvedEvent(
            handle=EventRef.parse(record["event"]["handle"]),
            event_type=stored["type"],
            seq=record["seq"],
            timestamp=record["timestamp"],
            event=stored,
        )
        assert event["data"] == expected.model_dump(mode="json")
        assert list(event["data"]) == list(ResolvedEvent.model_fields)


async def test_blocks_of_one_message_are_read_in_order_and_missing_ones_are_reported(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    for text in ("one", "two", "three"):
        await chat.say(text)
    handles = await handles_of(hub, chat, "content")
    handles.insert(1, str(ContentRef(blob_id=uuid4(), block_index=0)))
    events = await call_events(hub, "plexus.resolve_handle", handle=handles)
    assert [event.get("summary", event.get("code")) for event in events] == [
        "one",
        "handle_target_missing",
        "two",
        "three",
    ]
