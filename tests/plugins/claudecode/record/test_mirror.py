"""Real transcripts become one tree and one list of events, however they come and wherever they end.

The golden trees of all transcripts are written anew, to be read before they are committed, by

    python -m tests.plugins.claudecode.record.test_mirror --write
"""

import asyncio
import itertools
import json
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from hubd.plexus.hub import Hub
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.chat_events import AnyChatEvent
from hubd.plugins.claudecode.plugin import ClaudeCode
from hubd.plugins.claudecode.protocol.accumulator import Accumulator
from hubd.plugins.claudecode.protocol.messages import Message, ResultLine, read_line
from hubd.plugins.claudecode.protocol.updates import (
    BlockFinished,
    BlockStarted,
    MessageFinished,
    MessageStarted,
    OtherLine,
    SessionStarted,
    ToolResult,
    UnreadableLine,
    Update,
)
from hubd.plugins.claudecode.record.block_events import MAX_OUTPUT
from hubd.plugins.claudecode.record.interruption import sort_left_open
from hubd.plugins.claudecode.record.mirror import SYNTHETIC, Mirror
from hubd.plugins.claudecode.sessions import SESSIONS, Columns, SessionRow
from hubd.process.lines import LineSplitter
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.database import Tx
from hubd.storage.streams import streams
from hubd.wire.handle import parse
from tests.plugins.claudecode.protocol.test_accumulator import (
    EXIT_STATUS,
    LINES,
    MESSAGES,
    NAMES,
    key,
)
from tests.plugins.claudecode.protocol.test_messages import TRANSCRIPTS
from tests.plugins.claudecode.scripted_chat import (
    NOW,
    ScriptedChat,
    begin_chat,
    claude_hub,
    in_a_hub,
)
from tests.support import PATIENCE_SECONDS, call_events, examples, few

UUIDS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
EVENT: TypeAdapter[AnyChatEvent] = TypeAdapter(AnyChatEvent)

Node = dict[str, Any]
Json = dict[str, Any]


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[tuple[Hub, ClaudeCode]]:
    async with claude_hub(tmp_path) as hub_and_plugin:
        yield hub_and_plugin


# The record of a chat


async def nodes_of(hub: Hub, chat: ScriptedChat, *lanes: str) -> list[Node]:
    """The nodes of the conversation's tree, in order of creation."""
    tree_id = ids.text(chat.session.tree_id)
    pages = await call_events(hub, "arbor.tree_get", tree_id=tree_id, lanes=[*lanes])
    return [node for page in pages for node in page["tree"]["nodes"]]


async def records_of(hub: Hub, chat: ScriptedChat) -> list[Json]:
    """All durable events, with their seq and node."""
    collected: list[Json] = []
    while True:
        [page] = await call_events(
            hub, "claudecode.poll", stream_id=chat.stream_id, from_seq=len(collected), limit=1000
        )
        collected += page["events"]
        if not page["has_more"]:
            return collected


async def blob_at(chat: ScriptedChat, node: Node) -> store.Blob:
    """Return the blob behind the handle of a node."""
    blob = await store.blob(chat.plugin.db, UUID(parse(node["data"]["handle"]).meta[0]).bytes)
    assert blob is not None
    return blob


def method_of(node: Node) -> str:
    return parse(node["data"]["handle"]).method if node["data"]["type"] == "external" else "text"


async def view(hub: Hub, chat: ScriptedChat, lines: Sequence[Any] = ()) -> str:
    """All that a chat left behind, as text in which ids are numbers and whole lines have names."""
    named = {json.dumps(line, sort_keys=True): f"line {n}" for n, line in enumerate(lines, 1)}
    written: list[Json] = []
    for node in await nodes_of(hub, chat, "main"):
        entry = {"node": node["id"], "parent": node["parent"], "is": method_of(node)}
        if entry["is"] != "text":
            blob = await blob_at(chat, node)
            meta = parse(node["data"]["handle"]).meta
            data = dict(blob.data)
            if "results" in data:
                data["results"] = [
                    named.get(json.dumps(line, sort_keys=True), line) for line in data["results"]
                ]
            entry |= {"meta": meta, "complete": blob.complete, "data": data}
        written.append(entry)
    session = await SESSIONS.look_up(chat.plugin.db, chat.session.name)
    stream = await streams.reread(chat.plugin.db, chat.stream.key)
    written.append({"head": ids.text(session.head_id), "status": stream.status})
    for record in await records_of(hub, chat):
        event = record["event"]
        whole = json.dumps(event.get("data"), sort_keys=True)
        if whole in named:
            event["data"] = named[whole]
        if "result" in event:
            event["result"] = sorted(event["result"])
        written.append({"seq": record["seq"], "node": record["node_id"], "event": event})
    # The transcript's own ids are left as they are, ours come new each time.
    own = {ids.text(chat.session.id): "session", ids.text(chat.session.tree_id): "tree"}
    theirs = set(UUIDS.findall("".join(map(json.dumps, lines))))

    def number(found: re.Match[str]) -> str:
        if found[0] in theirs:
            return found[0]
        return own.setdefault(found[0], f"id {len(own) - 1}")

    text = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in written)
    return f"[\n{UUIDS.sub(number, text)}\n]\n"


async def finish(chat: ScriptedChat, exit_status: int) -> None:
    """The program has ended, and so does the chat, as chat.py would have it."""
    await chat.take(chat.accumulator.end(exit_status))
    result = chat.recording.mirror.result
    failed = result is None or result.is_error
    await chat.end("failed" if failed else "complete")


async def replay(plugin: ClaudeCode, name: str) -> ScriptedChat:
    """A transcript line by line."""
    chat = await begin_chat(plugin, name)
    await chat.feed(MESSAGES[name])
    await finish(chat, EXIT_STATUS.get(name, 0))
    return chat


async def golden(hub: Hub, chat: ScriptedChat, name: str) -> str:
    return await view(hub, chat, [json.loads(line) for line in LINES[name]])


# Whole transcripts


@pytest.mark.parametrize("name", NAMES)
async def test_a_transcript_is_recorded_as_its_golden_tree_and_events(
    running: tuple[Hub, ClaudeCode], name: str
) -> None:
    hub, plugin = running
    chat = await replay(plugin, name)
    assert await golden(hub, chat, name) == (TRANSCRIPTS / name / "tree.json").read_text()
    records = await records_of(hub, chat)
    for record in records:
        event = EVENT.validate_python(record["event"])
        assert event.type == record["event"]["type"]
    assert [record["seq"] for record in records] == list(range(len(records)))
    chain = await nodes_of(hub, chat, "events")
    assert [node["id"] for node in chain] == [record["node_id"] for record in records]
    assert [node["parent"] for node in chain[1:]] == [node["id"] for node in chain[:-1]]
    # Signatures and all else of a block are kept as they came.
    kept = [
        (await blob_at(chat, node)).data["block"]
        for node in await nodes_of(hub, chat, "main")
        if method_of(node) in ("thinking", "content", "tool_use", "tool_result")
    ]
    written = [json.dumps(block, sort_keys=True) for block in kept]
    for block in [block for line in LINES[name] for block in blocks_of(json.loads(line))]:
        assert json.dumps(block, sort_keys=True) in written


@given(st.data())
@examples(10)
def test_the_record_does_not_depend_on_chunks(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    whole = b"\n".join(LINES[name])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=30)))

    async def example(hub: Hub, plugin: ClaudeCode) -> None:
        chat = await begin_chat(plugin, name)
        splitter = LineSplitter(2**26, lambda size: None)
        chunks = [whole[a:b] for a, b in itertools.pairwise([0, *cuts, len(whole)])]
        for chunk in chunks:
            lines = splitter.feed(chunk)
            # All that came at once is taken at once.
            updates = [f for line in lines for f in chat.accumulator.feed(read_line(line))]
            await chat.take(updates)
        for line in splitter.finish():
            await chat.take(chat.accumulator.feed(read_line(line)))
        await finish(chat, EXIT_STATUS.get(name, 0))
        assert await golden(hub, chat, name) == (TRANSCRIPTS / name / "tree.json").read_text()

    with tempfile.TemporaryDirectory() as directory:
        in_a_hub(Path(directory), example)


def blocks_of(line: Json) -> list[Json]:
    """Return the complete blocks of a line of an agent or a tool."""
    if line["type"] not in ("assistant", "user") or isinstance(line["message"]["content"], str):
        return []
    kinds = ("thinking", "redacted_thinking", "text", "tool_use", "tool_result")
    wanted = kinds if line["type"] == "assistant" else ("tool_result",)
    return [block for block in line["message"]["content"] if block["type"] in wanted]


# Ends at any line


def last_finished(updates: Sequence[Update]) -> str | None:
    """The message at which a session stands after these updates."""
    done = [
        update.message_id
        for update in updates
        if isinstance(update, MessageFinished)
        and update.complete
        and update.parent_tool_use_id is None
        and update.model != SYNTHETIC
    ]
    return done[-1] if done else None


Ending = Callable[[Tx, Mirror, Accumulator, int], list[Update]]


def hub_was_stopped(tx: Tx, mirror: Mirror, accumulator: Accumulator, stream: int) -> list[Update]:
    """End the chat: open blocks are finished as they are."""
    rest = accumulator.end(None)
    for update in rest:
        mirror.apply(tx, update, NOW)
    mirror.end(tx, "interrupted", NOW, "the hub was stopped")
    return rest


def chat_was_given_up(
    tx: Tx, mirror: Mirror, accumulator: Accumulator, stream: int
) -> list[Update]:
    mirror.end(tx, "interrupted", NOW, "something went wrong")
    return []


def hub_has_died(tx: Tx, mirror: Mirror, accumulator: Accumulator, stream: int) -> list[Update]:
    sort_left_open(tx, NOW)
    return []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("endings_per_line", few([1, 3], 1))
async def test_after_an_end_at_any_line_every_block_is_finished_or_cut_off(
    running: tuple[Hub, ClaudeCode], name: str, endings_per_line: int
) -> None:
    _, plugin = running
    endings = itertools.cycle((hub_was_stopped, chat_was_given_up, hub_has_died))
    counts = range(len(MESSAGES[name]) + 1)
    cases = [(count, next(endings)) for count in counts for _ in range(endings_per_line)]

    def crash(tx: Tx) -> list[tuple[SessionRow, int, list[Update]]]:
        return [broken_off(tx, MESSAGES[name][:count], ending) for count, ending in cases]

    for session, stream, seen in await plugin.db.transaction(crash):
        await check_what_is_left(plugin, session, stream, seen)


def broken_off(
    tx: Tx, messages: Sequence[Message], ending: Ending
) -> tuple[SessionRow, int, list[Update]]:
    """Record a chat that ends after some lines: its session, its stream and its updates."""
    session = SESSIONS.create(tx, ids.text(ids.uuid4()), Columns("/"), NOW)
    root = store.place_of(tx, session.head)
    stream = streams.create(tx, session.id, session.tree, NOW)
    mirror = Mirror(session, stream.key, "claude", ephemeral=False)
    mirror.begin(tx, root, "hello", 0, NOW)
    accumulator = Accumulator()
    seen = [update for message in messages for update in accumulator.feed(message)]
    for update in seen:
        mirror.apply(tx, update, NOW)
    return session, stream.key, seen + ending(tx, mirror, accumulator, stream.key)


async def check_what_is_left(
    plugin: ClaudeCode, session: SessionRow, stream: int, updates: Sequence[Update]
) -> None:
    assert (await streams.reread(plugin.db, stream)).status == "interrupted"
    rows = await plugin.db.fetch_all(
        "SELECT blob_type, complete, data FROM claudecode_blobs WHERE tree = ? ORDER BY key",
        session.tree,
    )
    blobs = [(row["blob_type"], bool(row["complete"]), json.loads(row["data"])) for row in rows]
    [turn] = [data for kind, _, data in blobs if kind == "turn"]
    assert turn["status"] == "interrupted"
    finished = {key(update): update for update in updates if isinstance(update, BlockFinished)}
    expected = [
        key(update) in finished and finished[key(update)].complete
        for update in updates
        if isinstance(update, BlockStarted)
    ]
    kinds = ("thinking", "content", "tool_use", "other")
    assert expected == [data["finished"] for kind, _, data in blobs if kind in kinds]
    whole = {
        update.message_id: update.complete
        for update in updates
        if isinstance(update, MessageFinished)
    }
    messages = [d for kind, _, d in blobs if kind == "message" and d["role"] == "assistant"]
    for data in messages:
        assert data["finished"] == whole.get(data["message_id"], False)
    # All blocks of a message are known to it, also of one that broke off.
    assert sum(len(data["blocks"]) for data in messages) == len(expected)
    # Nothing will grow any more.
    assert all(complete for _, complete, _ in blobs)
    stored = await SESSIONS.look_up(plugin.db, session.name)
    last = last_finished(updates)
    if last is None:
        assert stored.head == session.head
    else:
        tree_row = await tree.look_up(plugin.db, ids.text(session.tree_id))
        place = await tree.look_up_place(plugin.db, tree_row, stored.head_id)
        context = plugin.queue.context
        blob = await context.blob(context.own((await context.nodes(place))[-1]))
        assert blob is not None
        assert blob.data["message_id"] == last


# Cases without a transcript


def call(
    tool_use_id: str, index: int, message: str = "m", within: str | None = None
) -> list[Update]:
    block = {"type": "tool_use", "id": tool_use_id, "name": "Bash", "input": {}}
    return [
        BlockStarted(message, within, index, "tool_use", tool_use_id, "Bash"),
        BlockFinished(message, within, index, "tool_use", block, True, None),
    ]


def result(tool_use_id: str, output: str = "done", within: str | None = None) -> ToolResult:
    block = {"type": "tool_result", "tool_use_id": tool_use_id, "content": output}
    return ToolResult(tool_use_id, within, output, False, block, None, {})


@given(st.permutations(range(6)), st.integers(0, 6))
@examples(5)
def test_results_are_children_of_the_calling_message_in_any_order(
    order: list[int], early: int
) -> None:
    async def example(hub: Hub, plugin: ClaudeCode) -> None:
        chat = await begin_chat(plugin)
        # Three calls in each of two messages.
        for message in "ab":
            await chat.take([MessageStarted(message, None, "x")])
            for number in range(3):
                await chat.take(call(f"{message}{number}", number, message))
        names = [f"{'ab'[number // 3]}{number % 3}" for number in order]
        await chat.take([result(name) for name in names[:early]])
        await chat.take([MessageFinished(m, None, "x", (), {}, "tool_use", True) for m in "ab"])
        await chat.take([result(name) for name in names[early:]])
        nodes = await nodes_of(hub, chat, "main")
        where = {node["id"]: node for node in nodes}
        calls = {
            parse(node["data"]["handle"]).meta[1]: node["parent"]
            for node in nodes
            if method_of(node) == "tool_use"
        }
        results = [node for node in nodes if method_of(node) == "tool_result"]
        assert len(results) == 6
        for node in results:
            assert node["parent"] == calls[parse(node["data"]["handle"]).meta[1]]
            assert method_of(where[node["parent"]]) == "message"
        events = [r["event"] for r in await records_of(hub, chat)]
        assert [e["tool_use_id"] for e in events if e["type"] == "tool_result"] == names

    with tempfile.TemporaryDirectory() as directory:
        in_a_hub(Path(directory), example)


@pytest.mark.parametrize("name", ["subagents", "subagents_no_partial", "subagent_background"])
async def test_messages_of_a_subagent_are_below_its_tool_call(
    running: tuple[Hub, ClaudeCode], name: str
) -> None:
    hub, plugin = running
    chat = await replay(plugin, name)
    where = {node["id"]: node for node in await nodes_of(hub, chat, "main")}
    count = 0
    for record in await records_of(hub, chat):
        event = record["event"]
        parent = event.get("parent_tool_use_id")
        if parent is None or "position" not in event:
            continue
        count += 1
        above = where[event["position"]["node_id"]]
        while method_of(above) != "tool_use" or parse(above["data"]["handle"]).meta[1] != parent:
            assert method_of(above) in ("message", "content", "thinking", "tool_use", "tool_result")
            above = where[above["parent"]]
    assert count


async def test_a_result_without_a_call_is_a_child_of_the_turn(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    await chat.take([result("toolu_unknown")])
    nodes = await nodes_of(hub, chat, "main")
    [turn] = [node for node in nodes if method_of(node) == "turn"]
    [lost] = [node for node in nodes if method_of(node) == "tool_result"]
    assert lost["parent"] == turn["id"]


async def test_the_event_of_a_long_output_is_truncated_and_the_blob_is_not(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    output = "ä" * (MAX_OUTPUT + 1)
    await chat.take([MessageStarted("m", None, "x"), *call("t", 0), result("t", output)])
    [*_, record] = await records_of(hub, chat)
    assert record["event"]["output"] == output[:-1]
    assert record["event"]["truncated"] == len(output)
    [resolved] = await call_events(hub, "plexus.resolve_handle", handle=record["event"]["block"])
    assert resolved["data"]["output"] == output


async def test_unknown_and_unreadable_lines_are_events(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    await chat.take(
        [OtherLine("system/news", {"type": "system", "a": [1]}), UnreadableLine("not JSON")]
    )
    events = [record["event"] for record in await records_of(hub, chat)][2:]
    assert [(event["event_type"], event["data"]) for event in events] == [
        ("system/news", {"type": "system", "a": [1]}),
        ("unreadable", {"reason": "not JSON"}),
    ]


async def test_a_turn_without_an_answer_reports_the_unchanged_head(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    await chat.take([ResultLine("success", False, "", "native", {}, 0.0, 1, None, None, {})])
    await chat.end()
    [*_, record] = await records_of(hub, chat)
    assert record["event"]["type"] == "complete"
    session = await SESSIONS.look_up(plugin.db, "s")
    assert record["event"]["new_head"]["node_id"] == ids.text(session.head_id)
    assert session.head == chat.session.head


async def test_the_text_of_an_unfinished_block_resolves_as_incomplete(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    await chat.begin_block()
    await chat.grow_block("so far")
    await chat.recording.flush()
    [node] = [n for n in await nodes_of(hub, chat, "main") if method_of(n) == "content"]
    handle = node["data"]["handle"]
    [resolved] = await call_events(hub, "plexus.resolve_handle", handle=handle)
    assert (resolved["data"]["text"], resolved["data"]["complete"]) == ("so far", False)
    await chat.end_block("so far, so good")
    [resolved] = await call_events(hub, "plexus.resolve_handle", handle=handle)
    assert (resolved["data"]["text"], resolved["data"]["complete"]) == ("so far, so good", True)


async def test_the_text_of_an_unfinished_block_is_flushed_by_itself(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    flushing = asyncio.create_task(chat.recording.flush_repeatedly())
    await chat.begin_block()
    [node] = [n for n in await nodes_of(hub, chat, "main") if method_of(n) == "content"]
    async with asyncio.timeout(PATIENCE_SECONDS):
        for text in ("so far", "so far, so good"):
            words = (await blob_at(chat, node)).data["block"]["text"]
            await chat.grow_block(text.removeprefix(words))
            while (await blob_at(chat, node)).data["block"]["text"] != text:  # noqa: ASYNC110 -- a flush wakes no waiter
                await asyncio.sleep(0)
    flushing.cancel()
    await asyncio.wait([flushing])


async def test_a_late_flush_does_not_change_a_complete_block(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    await chat.begin_block()
    await chat.grow_block("so far")
    texts = {block: growing.text() for block, growing in chat.recording.live.blocks.items()}
    await chat.end_block("so far, so good")
    await plugin.db.transaction(lambda tx: chat.recording.mirror.flush(tx, texts))
    [node] = [n for n in await nodes_of(hub, chat, "main") if method_of(n) == "content"]
    [resolved] = await call_events(hub, "plexus.resolve_handle", handle=node["data"]["handle"])
    assert (resolved["data"]["text"], resolved["data"]["complete"]) == ("so far, so good", True)


async def test_fields_of_the_init_line_are_stored_with_the_turn(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    await chat.take([SessionStarted("native", "opus", "/there", ("Bash", "Read"), {})])
    [turn] = [n for n in await nodes_of(hub, chat, "main") if method_of(n) == "turn"]
    data = (await blob_at(chat, turn)).data
    assert (data["native_id"], data["model"], data["cwd"]) == ("native", "opus", "/there")
    assert data["tools"] == ["Bash", "Read"]


async def write_all() -> None:
    """Write the golden trees anew."""
    for name in NAMES:
        with tempfile.TemporaryDirectory() as directory:
            async with claude_hub(Path(directory)) as (hub, plugin):
                text = await golden(hub, await replay(plugin, name), name)
                (TRANSCRIPTS / name / "tree.json").write_text(text)


if __name__ == "__main__" and "--write" in sys.argv:
    asyncio.run(write_all())
