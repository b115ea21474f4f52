"""Sessions, chats and messages as lists show them: enough to go on from there."""

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hubd.activation.pages import ROWS_PER_ITEM
from hubd.plugins.claudecode.methods import native_sessions
from hubd.plugins.claudecode.record.conversation_message import unix_seconds
from hubd.storage import ids
from tests.plugins.claudecode.chat_support import Event, World, run, say, world
from tests.plugins.claudecode.scripted_chat import begin_chat, claude_hub, create_session
from tests.plugins.claudecode.test_usage_totals import USAGE_TOTALS
from tests.support import call_events

BASH: dict[str, Any] = {"allowed_tools": ["Bash"]}


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with world(tmp_path, monkeypatch, "offline") as running:
        yield running


# Messages


async def test_each_message_of_a_conversation_has_its_node_and_time(
    here: World,
) -> None:
    await here.chat(run("echo one"), say("two"), **BASH)
    await here.chat(say("three"))
    messages = await here.call("get_conversation", name="s")
    assert messages == await here.call("render_context", name="s")
    assert [message["role"] for message in messages] == [
        *("user", "assistant", "user", "assistant"),
        *("user", "assistant"),
    ]
    for message in messages:
        assert isinstance(message["created_at"], int)
        [resolved] = await here.call("plexus.resolve_handle", handle=message["handle"])
        # The result of a tool belongs to the message with the call.
        gave = message["content"][0]["type"] == "tool_result"
        assert resolved["data"]["role"] == ("assistant" if gave else message["role"])
    await here.one("fork", name="s", new_name="branch", at=messages[3]["node_id"])
    assert await here.call("get_conversation", name="branch") == messages[:4]
    await here.one("set_head", name="s", node_id=messages[1]["node_id"])
    assert await here.call("get_conversation", name="s") == messages[:3]


async def test_text_in_a_conversation_has_a_node_and_no_handle(here: World) -> None:
    tree = (await here.one("arbor.tree_create"))["tree_id"]
    node = await here.one("arbor.node_create_text", tree_id=tree, content="hello")
    await here.one("create", name="s", tree_id=tree, node_id=node["node_id"])
    [message] = await here.call("get_conversation", name="s")
    assert (message["node_id"], message["handle"]) == (node["node_id"], None)


async def test_exported_messages_have_their_nodes(here: World) -> None:
    await here.chat(say("one"))
    messages = await here.call("get_conversation", name="s")
    for message in messages:
        # Not in an export: a later node may end with the same digits.
        del message["short_id"]
    parts = await here.call("export", name="s", format="jsonl")
    assert [{"type": "message", **json.loads(part["text"])} for part in parts] == messages


async def test_messages_of_a_session_file_have_no_node_and_whole_seconds(here: World) -> None:
    await here.chat(say("one"))
    native_id = (await here.session())["claude_session_id"]
    exported = await here.one("sessions_export", name="s")
    [listed] = [
        each
        for page in await here.call("sessions_list")
        for each in page["sessions"]
        if each["session_id"] == exported["claude_session_id"]
    ]
    assert isinstance(listed["modified_at"], int)
    assert native_id != exported["claude_session_id"]
    messages = await here.call("sessions_get", claude_session_id=exported["claude_session_id"])
    sent = await here.call("get_conversation", name="s")
    assert [message["created_at"] for message in messages] == [
        message["created_at"] for message in sent
    ]
    assert {(message["node_id"], message["handle"]) for message in messages} == {(None, None)}


def test_invalid_times_in_files_are_left_out() -> None:
    assert unix_seconds("2026-01-01T00:00:01.999Z") == 1767225601
    assert unix_seconds("2026-01-01T01:00:01+01:00") == 1767225601
    assert unix_seconds("2026-01-01T00:00:01") == 1767225601
    for text in (None, "", "yesterday", "2026-13-01T00:00:00Z"):
        assert unix_seconds(text) is None


# Chats


async def rows(here: World, **params: Any) -> list[Event]:
    pages = await here.call("streams", **params)
    return [row for page in pages for row in page["streams"]]


async def test_chats_are_listed_with_their_session_and_prompt(here: World) -> None:
    await here.chat(say("one"), name="a")
    running = await here.begin(prompt="hang:", name="b")
    long = "say: " + "word\n" * 1000
    waiting = await here.begin(prompt=long, name="b")
    withdrawn = await here.begin(prompt="say: never", name="b")
    await here.one("cancel", stream_id=withdrawn)
    listed = await rows(here)
    assert [(row["name"], row["status"]) for row in listed] == [
        ("b", "cancelled"),
        ("b", "queued"),
        ("b", "running"),
        ("a", "complete"),
    ]
    prompts = [row["prompt"] for row in listed]
    assert prompts[::2] == ["say: never", "hang:"]
    assert prompts[3] == "say: one"
    assert prompts[1].startswith("say: word word")
    assert (len(prompts[1]), prompts[1][-1]) == (200, "…")
    # Of a status, of a session, and no more than so many.
    assert [row["stream_id"] for row in await rows(here, status="queued")] == [waiting]
    assert await rows(here, status="failed") == []
    assert await rows(here, name="b", status="cancelled") == listed[:1]
    assert await rows(here, limit=2) == listed[:2]
    assert await rows(here, limit=1, status="running") == [listed[2]]
    for stream in (waiting, running):
        await here.one("cancel", stream_id=stream)
    await here.one("delete", name="b")
    # The chats of a session that is gone keep their prompt.
    assert [(row["name"], row["prompt"]) for row in await rows(here, limit=3)] == [
        (None, prompt) for prompt in prompts[:3]
    ]


def make_older(database: Path, version: int) -> None:
    """Give a database the tables that an earlier version of claudecode had."""
    later = ["claudecode_approvals", "claudecode_requests", "claudecode_prompts"]
    with closing(sqlite3.connect(database)) as connection, connection:
        for what in USAGE_TOTALS:
            connection.execute(f"DROP {what}")
        connection.execute("DROP TABLE claudecode_usage")
        connection.execute("ALTER TABLE claudecode_turns DROP COLUMN num_turns")
        for table in later[: {1: 3, 2: 2}.get(version, 0)]:
            connection.execute(f"DROP TABLE {table}")
        for column in ("turns", "cost_usd", *(["parent"] if version < 3 else [])):
            connection.execute(f"ALTER TABLE claudecode_sessions DROP COLUMN {column}")
        connection.execute("ALTER TABLE claudecode_blobs DROP COLUMN session_id")
        connection.execute(
            "DELETE FROM hub_migrations WHERE owner = 'claudecode' AND number > ?", (version,)
        )


@pytest.mark.parametrize("version", [1, 2])
async def test_chats_of_an_older_version_are_listed_with_their_prompt(
    tmp_path: Path, version: int
) -> None:
    async with claude_hub(tmp_path) as (_, plugin):
        await begin_chat(plugin, prompt="from\nbefore")
        # As the queue stores it.
        await plugin.db.execute(
            "INSERT INTO claudecode_prompts (stream, prompt) SELECT key, 'from before' "
            "FROM chat_streams"
        )
    make_older(tmp_path / "hub.db", version)
    async with claude_hub(tmp_path) as (hub, _):
        [page] = await call_events(hub, "claudecode.streams")
        # Without approvals, a chat that was running can't continue.
        [row] = page["streams"]
        assert (row["prompt"], row["status"]) == ("from before", "interrupted")


async def test_a_session_lists_its_newest_prompt_its_turns_and_their_cost(here: World) -> None:
    await here.chat(say("one"))
    await here.chat(say("two"))
    await here.one("fork", name="s", new_name="branch")
    [page] = await here.call("list")
    rows = [(row["name"], row["prompt"], row["turns"], row["status"]) for row in page["sessions"]]
    assert rows == [("s", "say: two", 2, "complete"), ("branch", None, 0, None)]
    [usage] = await here.call("usage", name="s")
    assert page["sessions"][0]["cost_usd"] == usage["cost_usd"]


async def test_the_sums_of_an_older_version_are_those_of_its_turns(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as (_, plugin):
        await begin_chat(plugin)
        await plugin.db.execute("UPDATE claudecode_turns SET cost_usd = 0.25")
    make_older(tmp_path / "hub.db", 3)
    async with claude_hub(tmp_path) as (hub, _):
        [page] = await call_events(hub, "claudecode.list")
        assert [(row["turns"], row["cost_usd"]) for row in page["sessions"]] == [(1, 0.25)]


# Branches


async def test_a_branch_names_the_sessions_whose_head_is_in_it(here: World) -> None:
    await here.chat(say("one"))
    start = (await here.one("get_tree", name="s"))["head"]
    await here.one("fork", name="s", new_name="other")
    await here.one("fork", name="s", new_name="stays")
    await here.chat(say("two"))
    await here.chat(say("three"))
    await here.chat(say("else"), name="other")
    tip = (await here.one("get_tree", name="s"))["head"]
    await here.one("fork", name="s", new_name="tip", at=tip["node_id"])
    await here.chat(say("elsewhere"), name="unrelated")
    listed = await here.one("list_branches", name="s", node_id=start["node_id"])
    assert start["tree_id"] == tip["tree_id"] == listed["tree_id"]
    branches = {branch["summary"]: branch["sessions"] for branch in listed["branches"]}
    assert branches == {"say: two": ["s", "tip"], "say: else": ["other"]}
    # And above all of them.
    first, *_ = await here.call("get_conversation", name="s")
    place = {"tree_id": tip["tree_id"], "node_id": first["node_id"]}
    for _ in range(2):
        place["node_id"] = (await here.one("arbor.node_get", **place))["node"]["parent"]
    listed = await here.one("list_branches", name="s", node_id=place["node_id"])
    assert [branch["sessions"] for branch in listed["branches"]] == [["s", "other", "stays", "tip"]]


# Handles


async def test_methods_declare_the_handles_in_their_events(here: World) -> None:
    schema = await here.one("claudecode.schema")
    produces = {method["name"]: method.get("produces", []) for method in schema["methods"]}
    for name, *kinds in (
        ("poll", "chat_event"),
        ("follow", "chat_event"),
        ("get_conversation", "message"),
        ("render_context", "message"),
        ("list_branches", "turn", "message"),
    ):
        assert produces[name] == [f"claudecode@1.0.0::{kind}" for kind in kinds], name


# Long lists


async def test_lists_come_in_pages_of_a_hundred_and_end_at_a_limit(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as (hub, plugin):
        for number in range(230):
            await create_session(plugin, f"s{number}")
        pages = await call_events(hub, "claudecode.list")
        assert [len(page["sessions"]) for page in pages] == [100, 100, 30]
        names = [row["name"] for page in pages for row in page["sessions"]]
        assert names == [f"s{number}" for number in range(230)]
        pages = await call_events(hub, "claudecode.list", limit=150)
        assert [len(page["sessions"]) for page in pages] == [100, 50]
        pages = await call_events(hub, "claudecode.list", limit=100)
        assert [len(page["sessions"]) for page in pages] == [100]


async def test_the_sessions_of_claude_come_in_pages_and_end_at_a_limit(here: World) -> None:
    await here.chat(say("one"))
    written = await here.one("sessions_export", name="s")
    path = Path(written["path"])
    for _ in range(130):
        path.with_name(f"{ids.text(ids.uuid4())}.jsonl").write_bytes(path.read_bytes())
    pages = await here.call("sessions_list")
    sizes = [len(page["sessions"]) for page in pages]
    assert sizes[0] == ROWS_PER_ITEM
    assert sum(sizes) >= 131
    assert [len(page["sessions"]) for page in await here.call("sessions_list", limit=7)] == [7]


async def test_a_long_import_reports_progress(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await here.chat(say("one"))
    exported = await here.one("sessions_export", name="s")
    monkeypatch.setattr(native_sessions, "REPORT_SECONDS", 0.0)
    params = {"claude_session_id": exported["claude_session_id"], "name": "back"}
    items = await here.items("claudecode.sessions_import", **params)
    reports = [item for item in items if item["type"] == "progress"]
    assert reports[0]["message"] == "reading the session file"
    assert [item["type"] for item in items if item["type"] != "progress"] == ["data", "done"]
