"""Followers of a chat: early, late and slow ones get all of it once and in order."""

import asyncio
import json
import random
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from hubd.activation import Context
from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from hubd.plugins.claudecode.chat_events import AnyChatEvent
from hubd.plugins.claudecode.plugin import ClaudeCode
from hubd.plugins.claudecode.protocol.updates import (
    BlockDelta,
    BlockFinished,
    BlockKind,
    BlockStarted,
    MessageStarted,
    Update,
)
from hubd.plugins.claudecode.record.live import Live, SentText, block_key
from hubd.storage.streams import retention, streams
from hubd.wire.item import Item
from tests.fakes.agent_process import agent_environment
from tests.plugins.claudecode.protocol.test_accumulator import NAMES, updates_of_transcript
from tests.plugins.claudecode.scripted_chat import (
    Reader,
    ScriptedChat,
    begin_chat,
    claude_hub,
    create_session,
    follow,
    in_a_hub,
)
from tests.support import PATIENCE_SECONDS, Daemon, call_error, call_events, examples

EVENT: TypeAdapter[AnyChatEvent] = TypeAdapter(AnyChatEvent)
Json = dict[str, Any]


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[tuple[Hub, ClaudeCode]]:
    async with claude_hub(tmp_path) as hub_and_plugin:
        yield hub_and_plugin


def block_of(event: Json) -> tuple[str | None, str, int]:
    return event.get("parent_tool_use_id"), event["message_id"], event["block_index"]


def check_followed(reader: Reader, first: int, total: int) -> None:
    """Check that durable events come once and in order, and that deltas add up to their text."""
    assert [item["type"] for item in reader.items if item["type"] == "error"] == []
    assert [event["seq"] for event in reader.durable] == list(range(first, total))
    texts: dict[tuple[str | None, str, int], str] = {}
    ended: set[tuple[str | None, str, int]] = set()
    for entry in reader.events:
        event = entry["event"]
        EVENT.validate_python(event)
        kind, _, step = event["type"].rpartition("_")
        if entry["type"] == "event":
            if event["type"] in ("content", "thinking", "tool_use"):
                check_block(event, texts.pop(block_of(event), None), block_of(event) in ended)
        elif step == "start":
            assert kind in ("content", "thinking", "tool_use")
            assert block_of(event) not in texts
            assert block_of(event) not in ended, "a block was begun twice"
            texts[block_of(event)] = ""
        elif step == "delta":
            assert block_of(event) not in ended
            assert event["offset"] == len(texts[block_of(event)])
            texts[block_of(event)] += event.get("text", "") + event.get("partial_json", "")
        else:
            assert step == "end"
            ended.add(block_of(event))
    # The remaining blocks are incomplete, because the chat was cut off.
    assert not ended & texts.keys()


def check_block(event: Json, text: str | None, ended: bool) -> None:
    """The deltas of a block, if any were seen, are all of it, and it ended before its event."""
    assert ended == (text is not None)
    if text is None:
        return
    if event["type"] != "tool_use":
        assert text == event["text"]
    elif "__unparsedToolInput" in (event["input"] or {}):
        assert text == event["input"]["__unparsedToolInput"]["raw"]
    elif text:
        assert json.loads(text) == event["input"]


# A follower alone


async def test_a_follower_from_the_start_gets_every_delta(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    reader = Reader()
    following = follow(hub, reader, name="s")
    await reader.until(lambda: len(reader.durable) == 2)
    await chat.begin_block()
    await reader.until(lambda: len(reader.live) == 1)
    for number, piece in enumerate(("Hel", "lo, ", "you")):
        await chat.grow_block(piece)
        await reader.until(lambda number=number: len(reader.live) == 2 + number)  # type: ignore[misc]
    await chat.end_block("Hello, you")
    await chat.end()
    await following
    name = {"block_index": 0, "message_id": "m"}
    assert reader.live[:-1] == [
        {"type": "content_start", **name},
        {"type": "content_delta", **name, "offset": 0, "text": "Hel"},
        {"type": "content_delta", **name, "offset": 3, "text": "lo, "},
        {"type": "content_delta", **name, "offset": 7, "text": "you"},
    ]
    assert reader.live[-1]["type"] == "content_end"
    assert reader.live[-1]["position"] == reader.durable[2]["event"]["position"]
    check_followed(reader, 0, 4)


async def test_a_late_follower_gets_the_text_so_far_and_then_the_rest(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    await chat.say("the first block")
    await chat.begin_block()
    await chat.grow_block("so far ")
    await chat.grow_block("so good")
    reader = Reader()
    following = follow(hub, reader, stream_id=chat.stream_id)
    await reader.until(lambda: len(reader.live) == 2)
    assert reader.live[1]["text"] == "so far so good"
    await chat.grow_block(", and")
    await reader.until(lambda: len(reader.live) == 3)
    assert (reader.live[2]["offset"], reader.live[2]["text"]) == (14, ", and")
    await chat.end_block("so far so good, and on")
    await chat.end()
    await following
    assert (reader.live[3]["offset"], reader.live[3]["text"]) == (19, " on")
    check_followed(reader, 0, 5)


async def test_a_follower_of_an_ended_chat_gets_its_durable_events(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    await chat.say("one ", "two")
    await chat.end()
    reader = Reader()
    await follow(hub, reader, name="s", from_seq=1)
    assert reader.live == []
    assert [event["event"]["type"] for event in reader.durable] == [
        "user_message",
        "content",
        "complete",
    ]
    check_followed(reader, 1, 4)


async def test_a_follower_gets_the_same_records_as_a_poll(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    await chat.say("hello")
    await chat.end()
    reader = Reader()
    await follow(hub, reader, name="s")
    [page] = await call_events(hub, "claudecode.poll", name="s", from_seq=0)
    assert [{**record, "type": "event"} for record in page["events"]] == reader.durable


async def test_a_follower_of_a_queued_chat_gets_its_events_when_it_runs(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    session = await create_session(plugin, "s")
    stream = await plugin.db.transaction(lambda tx: streams.create(tx, session.id, session.tree, 0))
    reader = Reader()
    following = follow(hub, reader, name="s")
    with plugin.db.waiters.waiting_for(stream.topic) as changed:
        await plugin.db.transaction(
            lambda tx: streams.set_status(tx, stream.key, "cancelled", 0, "not today")
        )
        await changed.wait()
    await following
    assert [item["type"] for item in reader.items if item["type"] != "progress"] == ["done"]


async def test_a_follower_of_removed_events_gets_an_error(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    await chat.push(*range(250))
    await chat.end()

    class Remover(Reader):
        async def send(self, item: Item) -> None:
            self.post(item)
            if len(self.items) == 10:
                await plugin.db.transaction(lambda tx: retention.remove_events(tx, chat.stream.key))

    reader = Remover()
    await follow(hub, reader, name="s")
    assert [event["seq"] for event in reader.durable] == list(range(100))
    assert [item.get("code") for item in reader.items][-2:] == ["cursor_expired", None]
    error = await call_error(hub, "claudecode.follow", name="s")
    assert error["code"] == "cursor_expired"


async def test_a_follower_that_does_not_read_delays_no_other_one(
    running: tuple[Hub, ClaudeCode],
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)

    class Deaf(Reader):
        async def send(self, item: Item) -> None:
            self.post(item)
            await asyncio.Event().wait()

    deaf, reader = Deaf(), Reader()
    stuck, following = follow(hub, deaf, name="s"), follow(hub, reader, name="s")
    await deaf.until(lambda: len(deaf.items) == 1)
    for number in range(50):
        await chat.say(f"block {number}, ", "and more")
    await chat.end()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await following
    check_followed(reader, 0, 53)
    assert len(deaf.events) == 1
    stuck.cancel()
    await stuck


# Unfinished blocks, and the parts that were sent


def started(kind: BlockKind, index: int = 0) -> BlockStarted:
    tool = ("toolu_1", "Bash") if kind == "tool_use" else (None, None)
    return BlockStarted("m", None, index, kind, *tool)


def grown(kind: BlockKind, text: str, index: int = 0) -> BlockDelta:
    is_call = kind == "tool_use"
    return BlockDelta(
        "m", None, index, kind, 0, None if is_call else text, text if is_call else None
    )


def test_a_block_is_not_sent_before_earlier_events() -> None:
    live, sent = Live(), SentText()
    live.start(started("content"), 5)
    assert sent.new_events(live, 4) == []
    assert [event["type"] for event in sent.new_events(live, 5)] == ["content_start"]


def test_blocks_of_kind_other_have_no_live_events() -> None:
    live, sent = Live(), SentText()
    live.start(started("other"), 0)
    assert sent.new_events(live, 0) == []
    kept = {"type": "passthrough", "message_id": "m", "block_index": 0, "data": {}}
    assert sent.finish(kept) == []


def test_a_follower_far_behind_gets_the_rest_of_a_tools_input_after_the_chat() -> None:
    live, sent = Live(), SentText()
    live.start(started("tool_use"), 0)
    live.grow(grown("tool_use", '{"a":'))
    first = sent.new_events(live, 0)
    live.grow(grown("tool_use", "1}"))
    live.finish(block_key(started("tool_use")))
    # Many later calls do not affect this one.
    for index in range(1, 200):
        live.start(started("tool_use", index), 0)
        live.finish(block_key(started("tool_use", index)))
    event = {"type": "tool_use", "message_id": "m", "block_index": 0, "position": {}}
    *rest, end = sent.finish({**event, "input": {"a": 1}})
    pieces = [entry["partial_json"] for entry in [*first, *rest] if "partial_json" in entry]
    assert "".join(pieces) == '{"a":1}'
    assert (end["type"], end["input"]) == ("tool_use_end", {"a": 1})


def test_equal_blocks_of_two_subagents_are_distinct() -> None:
    live, sent = Live(), SentText()
    for parent in ("toolu_1", "toolu_2"):
        live.start(BlockStarted("m", parent, 0, "content", None, None), 0)
        live.grow(BlockDelta("m", parent, 0, "content", 0, f"of {parent}", None))
    deltas = [event for event in sent.new_events(live, 0) if "text" in event]
    assert {event["parent_tool_use_id"]: event["text"] for event in deltas} == {
        "toolu_1": "of toolu_1",
        "toolu_2": "of toolu_2",
    }


async def test_a_block_that_became_an_event_is_not_taken_for_a_new_one(
    running: tuple[Hub, ClaudeCode],
) -> None:
    """On disk, and so visible, an event is a moment before its writer hears of that."""
    _, plugin = running
    chat = await begin_chat(plugin)
    await chat.begin_block()
    await chat.grow_block("hello")
    sent = SentText()
    assert len(sent.new_events(chat.recording.live, 2)) == 2
    ending = asyncio.create_task(chat.end_block("hello"))
    # It begins, and its transaction is on its way.
    for _ in range(2):
        await asyncio.sleep(0)
    # These reads never give way to another task, so the writer cannot hear.
    while not (rows := await streams.events(plugin.db, chat.stream.key, 2, 1)):
        pass
    assert sent.finish(json.loads(rows[0].data))[-1]["type"] == "content_end"
    assert sent.new_events(chat.recording.live, 3) == []
    await ending


# With a program that really runs


async def test_all_followers_of_a_real_chat_get_all_events(daemon: Daemon, tmp_path: Path) -> None:
    prompt = "think: let me see\nslow: 1\nrepeat: 60 more and \nrun: echo hello\nsay: Done."
    params = {"name": "s", "prompt": prompt, "model": "offline", "allowed_tools": ["Bash"]}
    context = {"cwd": str(tmp_path), "env": agent_environment(tmp_path)}
    async with daemon.client() as client:
        sent = {"method": "claudecode.chat_async", "params": params, "context": context}
        await client.send("plexus.call", sent)
        while (await client.receive()).get("params", {}).get("result", {}).get("type") != "done":
            pass
    readers = [await follow_to_the_end(daemon, seq) for seq in (0, 0, 3)]
    total = readers[0].durable[-1]["seq"] + 1
    for reader, first in zip(readers, (0, 0, 3), strict=True):
        check_followed(reader, first, total)
    # The first one came while it was being said, the others when all was over.
    assert readers[1].live == readers[2].live == []


async def follow_to_the_end(daemon: Daemon, seq: int) -> Reader:
    reader = Reader()
    async with daemon.client() as client:
        reader.items = await client.call("claudecode.follow", {"name": "s", "from_seq": seq})
    return reader


async def test_text_of_a_chat_that_a_stop_interrupted_is_stored_as_incomplete(
    tmp_path: Path,
) -> None:
    caller = Reader()
    caller.context = Context(cwd=str(tmp_path), env=agent_environment(tmp_path))
    prompt = "say: first\nslow: 60\nrepeat: 1000 word "
    params = {"name": "s", "prompt": prompt, "model": "offline"}
    async with claude_hub(tmp_path) as (hub, _):
        await Call(hub, "claudecode.chat_async", params, caller).run()
        reader = Reader()
        following = follow(hub, reader, name="s")
        await reader.until(lambda: any(e.get("text", "").startswith("word") for e in reader.live))
    # It ends with the hub, whether it saw the end or not.
    async with asyncio.timeout(PATIENCE_SECONDS):
        await following
    async with claude_hub(tmp_path) as (hub, _):
        [page] = await call_events(hub, "claudecode.poll", name="s", from_seq=0)
        assert page["status"] == "interrupted"
        events = [record["event"] for record in page["events"]]
        whole, cut = [event for event in events if event["type"] == "content"]
        assert (whole["text"], "complete" in whole) == ("first", False)
        assert cut["text"].startswith("word")
        assert cut["complete"] is False
        assert [event["type"] for event in events[-2:]] == ["assistant_message", "error"]
        assert events[-1]["code"] == "interrupted"
        [info] = await call_events(hub, "claudecode.get", name="s")
        assert info["session"]["status"] == "interrupted"


# Any number of followers, joining at any time


# Updates of real chats, each of them with deltas.
STREAMED = [
    name for name in NAMES if any(isinstance(f, BlockDelta) for f in updates_of_transcript(name))
]
pauses = st.lists(st.integers(0, 4), max_size=30)


@given(
    st.sampled_from(STREAMED),
    st.lists(st.tuples(st.integers(0, 80), pauses), min_size=1, max_size=4),
    pauses,
)
@examples(10)
def test_deltas_add_up_to_the_text_for_late_and_slow_followers(
    name: str, joining: list[tuple[int, list[int]]], rests: list[int]
) -> None:
    updates = updates_of_transcript(name)

    async def example(hub: Hub, plugin: ClaudeCode) -> None:
        chat = await begin_chat(plugin)
        followers: list[tuple[Reader, asyncio.Task[None]]] = []
        for number, update in enumerate(updates):
            for moment, slowness in joining:
                if min(moment, len(updates) - 1) == number:
                    reader = Reader(slowness)
                    followers.append((reader, follow(hub, reader, name="s")))
            await chat.take([update])
            for _ in range(rests[number % len(rests)] if rests else 0):
                await asyncio.sleep(0)
        await chat.end()
        total = (await streams.reread(plugin.db, chat.stream.key)).next_seq
        for reader, following in followers:
            await following
            check_followed(reader, 0, total)

    with tempfile.TemporaryDirectory() as directory:
        in_a_hub(Path(directory), example)


async def talk(chat: ScriptedChat, dice: random.Random, blocks: int) -> None:
    """A chat of many blocks, each of several pieces."""
    await chat.take([MessageStarted("m", None, None)])
    for index in range(blocks):
        kind: BlockKind = dice.choice(("content", "thinking", "tool_use"))
        await chat.take([started(kind, index)])
        text = json.dumps({"number": index, "text": "x" * dice.randint(0, 40)})
        for at in range(0, len(text), 7):
            await chat.take([grown(kind, text[at : at + 7], index)])
            if dice.random() < 0.3:
                await asyncio.sleep(0)
        await chat.take(finished(kind, index, text))
    await chat.end()


def finished(kind: BlockKind, index: int, text: str) -> Sequence[Update]:
    blocks: dict[BlockKind, Json] = {
        "content": {"type": "text", "text": text},
        "thinking": {"type": "thinking", "thinking": text, "signature": "s"},
        "tool_use": {"type": "tool_use", "id": "t", "name": "Bash"},
    }
    block = blocks[kind] | ({"input": json.loads(text)} if kind == "tool_use" else {})
    return [BlockFinished("m", None, index, kind, block, True, None)]


class Life:
    """A reader that is killed at random and started again; `seqs` is all it ever got."""

    def __init__(self, hub: Hub, seed: int) -> None:
        self.hub = hub
        self.dice = random.Random(seed)
        self.seqs: list[int] = []

    async def call(self, method: str, *, mortal: bool = True, **params: Any) -> Reader:
        """One call; it is killed in the middle of it, perhaps."""
        reader = Reader(self.dice.choices(range(4), k=20))
        calling = asyncio.create_task(Call(self.hub, method, params, reader).run())
        if mortal and self.dice.random() < 0.5:
            for _ in range(self.dice.randint(0, 60)):
                await asyncio.sleep(0)
            calling.cancel()
        # It may have died before it began.
        done, _ = await asyncio.wait([calling], timeout=PATIENCE_SECONDS)
        assert done
        return reader

    async def poll(self, *, mortal: bool = True, **position: Any) -> Json | None:
        """A page, unless it was killed before it had one."""
        wait = self.dice.choice((0, 20_000))
        limit = self.dice.randint(1, 9)
        reader = await self.call(
            "claudecode.poll", mortal=mortal, name="s", limit=limit, wait_ms=wait, **position
        )
        return reader.events[0] if reader.events else None

    def keep(self, page: Json) -> bool:
        """Read a page; return whether it was the last one."""
        self.seqs += [record["seq"] for record in page["events"]]
        return page["status"] == "complete" and not page["has_more"]


async def live_by_consumer(life: Life) -> None:
    """A reader with a stored position. It dies between polls."""
    while True:
        page = await life.poll(mortal=False, consumer="between polls")
        assert page is not None
        if life.keep(page):
            return


async def live_by_acks(life: Life) -> None:
    """A reader that acknowledges events. It dies at any time, and gets the others again."""
    while True:
        page = await life.poll(consumer="any time", auto_ack=False)
        if page is None:
            continue
        fresh = [entry for entry in page["events"] if entry["seq"] >= len(life.seqs)]
        over = life.keep({**page, "events": fresh})
        if page["events"]:
            seq = page["events"][-1]["seq"]
            await life.call("claudecode.consumers_ack", name="s", consumer="any time", seq=seq)
        if over:
            return


async def live_by_cursor(life: Life) -> None:
    """It remembers a node by itself. It dies at any time."""
    cursor: str | None = None
    while True:
        position = {"from_seq": 0} if cursor is None else {"cursor": cursor}
        page = await life.poll(**position)
        if page is not None:
            cursor = page["cursor"]
            if life.keep(page):
                return


async def live_by_following(life: Life) -> None:
    """It follows, and goes on behind the last event that it got. It dies at any time."""
    while True:
        reader = await life.call("claudecode.follow", name="s", from_seq=len(life.seqs))
        life.seqs += [record["seq"] for record in reader.durable]
        if reader.durable and reader.durable[-1]["event"]["type"] == "complete":
            return


SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(4, 60))]


@pytest.mark.parametrize("seed", SEEDS)
async def test_killed_and_restarted_readers_get_every_event_once_in_order(
    running: tuple[Hub, ClaudeCode], seed: int
) -> None:
    hub, plugin = running
    chat = await begin_chat(plugin)
    dice = random.Random(seed)
    lives = [Life(hub, dice.randrange(1000)) for _ in range(5)]
    living = [live_by_consumer, live_by_acks, live_by_cursor, live_by_following, live_by_following]

    async def later(number: int, pauses: int) -> None:
        for _ in range(pauses):
            await asyncio.sleep(0)
        await living[number](lives[number])

    async with asyncio.timeout(3 * PATIENCE_SECONDS), asyncio.TaskGroup() as tasks:
        tasks.create_task(talk(chat, dice, 40))
        for number in range(len(lives)):
            tasks.create_task(later(number, dice.randint(0, 300)))
    total = (await streams.reread(plugin.db, chat.stream.key)).next_seq
    assert total == 43
    for life in lives:
        assert life.seqs == list(range(total))
