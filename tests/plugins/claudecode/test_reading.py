"""Polling a chat: by every address and position, by any number of consumers, waiting or not."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from hubd.plugins.claudecode.approvals import store as approvals
from hubd.plugins.claudecode.plugin import ClaudeCode
from hubd.plugins.claudecode.record import consumer_locks
from hubd.storage import ids
from hubd.storage.blobs.rows import RELEASED
from hubd.storage.database import COMMITTED
from hubd.storage.streams import retention, streams
from tests.fakes.agent_process import agent_environment
from tests.plugins.claudecode.scripted_chat import (
    NOW,
    ScriptedChat,
    begin_chat,
    claude_hub,
    create_session,
    in_a_hub,
)
from tests.support import (
    PATIENCE_SECONDS,
    Collector,
    Daemon,
    LineClient,
    call_error,
    call_events,
    examples,
)

Json = dict[str, Any]
# Longer than any test takes: a poll that is not woken before that hangs.
LONG = 60_000


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[tuple[Hub, ClaudeCode]]:
    async with claude_hub(tmp_path) as hub_and_plugin:
        yield hub_and_plugin


@pytest.fixture
async def hub(running: tuple[Hub, ClaudeCode]) -> Hub:
    return running[0]


@pytest.fixture
async def chat(running: tuple[Hub, ClaudeCode]) -> ScriptedChat:
    """A chat with ten events, of which the last eight are numbered as they are."""
    chat_under_test = await begin_chat(running[1])
    await chat_under_test.push(*range(2, 10))
    return chat_under_test


async def poll(hub: Hub, **params: Any) -> Json:
    """One page, by the session's name unless addressed otherwise."""
    if not params.keys() & {"stream_id", "session_id", "name"}:
        params["name"] = "s"
    [page] = await call_events(hub, "claudecode.poll", **params)
    assert page["type"] == "ok"
    return page


def seqs(page: Json) -> list[int]:
    return [record["seq"] for record in page["events"]]


async def consumers(hub: Hub) -> dict[str, tuple[int, int]]:
    """Where each stands, and how far behind."""
    [listed] = await call_events(hub, "claudecode.consumers_list", name="s")
    return {entry["consumer"]: (entry["position"], entry["lag"]) for entry in listed["consumers"]}


# Addresses and positions


async def test_every_address_with_every_position_reads_the_same_events(
    hub: Hub, chat: ScriptedChat
) -> None:
    third = (await poll(hub, from_seq=2, limit=1))["events"][0]
    session_id = ids.text(chat.session.id)
    addresses: list[Json] = [
        {"stream_id": chat.stream_id},
        {"stream_id": chat.stream_id[:8]},
        {"session_id": session_id},
        {"session_id": session_id[:8]},
        {"name": "s"},
    ]
    for number, address in enumerate(addresses):
        await call_events(hub, "claudecode.consumers_reset", consumer="c", seq=3, **address)
        cursors = ({"cursor": third["node_id"]}, {"cursor": third["node_id"][-8:]})
        for position in ({"from_seq": 3}, *cursors, {"consumer": "c"}):
            page = await poll(hub, **address, **position, limit=4)
            assert seqs(page) == [3, 4, 5, 6], (number, position)
            assert page["cursor"] == page["events"][-1]["node_id"]
            assert page["read_position"] == 7
            assert (page["stream_id"], page["session_id"]) == (chat.stream_id, session_id)
            assert (page["total_events"], page["has_more"]) == (10, True)
            assert (page["status"], page["pending_approvals"]) == ("running", [])


async def test_limit_five_returns_five_events_and_the_next_poll_the_sixth(
    hub: Hub, chat: ScriptedChat
) -> None:
    first = await poll(hub, from_seq=0, limit=5)
    assert seqs(first) == [0, 1, 2, 3, 4]
    assert first["read_position"] == 5
    assert first["has_more"]
    behind = await poll(hub, cursor=first["cursor"], limit=5)
    assert seqs(behind) == [5, 6, 7, 8, 9]
    assert not behind["has_more"]


async def test_two_consumers_read_at_their_own_pace(hub: Hub, chat: ScriptedChat) -> None:
    # Consumer A reads the first five events, and its cursor is the node of the fifth.
    a = await poll(hub, from_seq=0, limit=5)
    assert seqs(a) == [0, 1, 2, 3, 4]
    assert a["cursor"] == a["events"][4]["node_id"]
    # Consumer B reads all events independently; its cursor is the head.
    b = await poll(hub, from_seq=0)
    assert seqs(b) == list(range(10))
    [listed] = await call_events(hub, "claudecode.streams", name="s")
    assert b["cursor"] == listed["streams"][0]["head_node"]
    # Consumer A continues from its cursor.
    more = await poll(hub, cursor=a["cursor"])
    assert seqs(more) == [5, 6, 7, 8, 9]
    # And the same with names that the hub remembers.
    assert seqs(await poll(hub, consumer="a", limit=5)) == [0, 1, 2, 3, 4]
    assert seqs(await poll(hub, consumer="b")) == list(range(10))
    assert seqs(await poll(hub, consumer="a")) == [5, 6, 7, 8, 9]


async def test_a_poll_without_new_events_returns_the_given_position(
    hub: Hub, chat: ScriptedChat
) -> None:
    last = (await poll(hub, from_seq=9))["cursor"]
    for _ in range(2):
        page = await poll(hub, cursor=last)
        assert (page["events"], page["cursor"], page["read_position"]) == ([], last, 10)
        assert not page["has_more"]
    page = await poll(hub, from_seq=10)
    assert (page["cursor"], page["read_position"]) == (None, 10)


async def test_a_poll_of_a_session_reads_its_newest_chat_and_older_ones_stay_readable(
    hub: Hub, chat: ScriptedChat, running: tuple[Hub, ClaudeCode]
) -> None:
    await poll(hub, limit=3)
    await chat.end()
    newer = await begin_chat(running[1], "s")
    page = await poll(hub)
    assert (page["stream_id"], seqs(page)) == (newer.stream_id, [0, 1])
    page = await poll(hub, stream_id=chat.stream_id)
    # A consumer belongs to its stream.
    assert seqs(page) == list(range(3, 11))
    assert page["status"] == "complete"


async def test_events_have_a_node_a_time_and_a_handle(hub: Hub, chat: ScriptedChat) -> None:
    for record in (await poll(hub, from_seq=0))["events"]:
        event_type, node_id = record["event"]["type"], record["node_id"]
        assert record["event"]["handle"] == f"claudecode@1.0.0::chat_event:{node_id}:{event_type}"
        assert record["timestamp"] == NOW


@given(st.integers(1, 60), st.integers(0, 59), st.integers(1, 70))
@examples(4)
def test_a_page_equals_the_path_between_two_nodes(count: int, start: int, limit: int) -> None:
    async def example(hub: Hub, plugin: ClaudeCode) -> None:
        chat = await begin_chat(plugin)
        await chat.push(*range(2, count + 2))
        [listed] = await call_events(hub, "claudecode.streams", name="s")
        stream = listed["streams"][0]
        every = await poll(hub, from_seq=0, limit=1000)
        cursor = every["events"][min(start, count)]["node_id"]
        pages = await call_events(
            hub,
            "arbor.node_get_path_between",
            tree_id=stream["tree_id"],
            start=cursor,
            end=stream["head_node"],
            lanes=["events"],
        )
        # The cursor itself is not wanted: it was read.
        _, *nodes = [node for page in pages for node in page["path"]]
        page = await poll(hub, cursor=cursor, limit=limit)
        assert [record["node_id"] for record in page["events"]] == [
            node["id"] for node in nodes[:limit]
        ]
        for record, node in zip(page["events"], nodes, strict=False):
            [data] = await call_events(hub, "plexus.resolve_handle", handle=node["data"]["handle"])
            resolved = data["data"]
            event = {k: v for k, v in record["event"].items() if k != "handle"}
            assert (resolved["seq"], resolved["event"]) == (record["seq"], event)
            assert resolved["timestamp"] == record["timestamp"]
            assert record["event"]["handle"] == node["data"]["handle"]

    with tempfile.TemporaryDirectory() as directory:
        in_a_hub(Path(directory), example)


# Invalid calls


async def test_two_positions_at_once_are_refused(hub: Hub, chat: ScriptedChat) -> None:
    cursor = (await poll(hub, from_seq=0))["cursor"]
    given: Json = {"from_seq": 1, "cursor": cursor, "consumer": "c"}
    for left_out in given:
        two = {name: value for name, value in given.items() if name != left_out}
        error = await call_error(hub, "claudecode.poll", name="s", **two)
        assert error["code"] == "invalid_params"


@pytest.mark.parametrize(
    "address", [{}, {"name": "s", "stream_id": "00000000"}, {"name": "s", "session_id": "x"}]
)
async def test_exactly_one_address_of_a_stream_is_required(
    hub: Hub, chat: ScriptedChat, address: Json
) -> None:
    for method in ("poll", "follow", "cancel", "consumers_list"):
        error = await call_error(hub, f"claudecode.{method}", **address)
        assert error["code"] == "invalid_params"


async def test_a_cursor_outside_the_stream_is_refused(
    hub: Hub, chat: ScriptedChat, running: tuple[Hub, ClaudeCode]
) -> None:
    other = await begin_chat(running[1], "other")
    foreign = (await poll(hub, stream_id=other.stream_id, from_seq=0))["cursor"]
    for cursor in (foreign, str(uuid4()), ids.text(chat.session.head_id)):
        error = await call_error(hub, "claudecode.poll", name="s", cursor=cursor)
        assert error["code"] == "not_found"
    error = await call_error(hub, "claudecode.poll", name="s", cursor="not an id")
    assert error["code"] == "invalid_params"


async def test_missing_streams_and_sessions_are_not_found(
    hub: Hub, running: tuple[Hub, ClaudeCode]
) -> None:
    for address in ({"name": "nobody"}, {"stream_id": str(uuid4())}, {"session_id": str(uuid4())}):
        assert (await call_error(hub, "claudecode.poll", **address))["code"] == "not_found"
    await create_session(running[1], "quiet")
    error = await call_error(hub, "claudecode.poll", name="quiet")
    assert error["code"] == "not_found"
    assert error["guidance"]["suggestion"] == "Start one with `synapse claudecode chat`"


@pytest.mark.parametrize(
    "wrong", [{"limit": 0}, {"limit": 1001}, {"from_seq": -1}, {"wait_ms": 60_001}]
)
async def test_numbers_out_of_bounds_are_refused(hub: Hub, chat: ScriptedChat, wrong: Json) -> None:
    error = await call_error(hub, "claudecode.poll", name="s", **wrong)
    assert error["code"] == "invalid_params"


# Consumers


async def test_a_poll_without_a_position_uses_the_default_consumer(
    hub: Hub, chat: ScriptedChat
) -> None:
    # The first poll returns events 0 to 2, the second one starts at seq 3.
    first = await poll(hub, stream_id=chat.stream_id, limit=3)
    assert (seqs(first), first["read_position"]) == ([0, 1, 2], 3)
    assert seqs(await poll(hub, limit=1)) == [3]
    assert await consumers(hub) == {"default": (4, 6)}
    # Replaying changes nothing.
    assert seqs(await poll(hub, from_seq=0, limit=2)) == [0, 1]
    assert seqs(await poll(hub, consumer="default", limit=1)) == [4]


async def test_without_auto_ack_only_acknowledgements_move_a_consumer(
    hub: Hub, chat: ScriptedChat
) -> None:
    for _ in range(2):
        page = await poll(hub, consumer="c", limit=3, auto_ack=False)
        assert seqs(page) == [0, 1, 2]
    ack = {"name": "s", "consumer": "c"}
    [moved] = await call_events(hub, "claudecode.consumers_ack", **ack, seq=1)
    assert (moved["type"], moved["position"]) == ("ok", 2)
    assert seqs(await poll(hub, consumer="c", limit=2, auto_ack=False)) == [2, 3]
    # An earlier acknowledgement changes nothing.
    [moved] = await call_events(hub, "claudecode.consumers_ack", **ack, seq=0)
    assert moved["position"] == 2
    assert await consumers(hub) == {"c": (2, 8)}
    error = await call_error(hub, "claudecode.consumers_ack", **ack, seq=10)
    assert error["code"] == "invalid_params"


async def test_a_poll_with_ack_acknowledges_and_returns_the_next_events(
    hub: Hub, chat: ScriptedChat
) -> None:
    page = await poll(hub, consumer="c", limit=3, auto_ack=False)
    for _ in range(2):
        # With `ack`, auto_ack has no effect.
        page = await poll(hub, consumer="c", limit=3, ack=2, auto_ack=True)
        assert (seqs(page), page["read_position"]) == ([3, 4, 5], 6)
        assert await consumers(hub) == {"c": (3, 7)}
    assert seqs(await poll(hub, consumer="c", ack=5)) == [6, 7, 8, 9]
    # Acknowledged events stay acknowledged.
    assert seqs(await poll(hub, consumer="c", ack=0, limit=1)) == [6]
    page = await poll(hub, consumer="c", ack=9)
    assert (seqs(page), page["has_more"]) == ([], False)
    # Without a consumer's name it is that of the default one.
    assert seqs(await poll(hub, ack=7)) == [8, 9]
    assert await consumers(hub) == {"c": (10, 0), "default": (8, 2)}


async def test_an_invalid_ack_is_refused(hub: Hub, chat: ScriptedChat) -> None:
    cursor = (await poll(hub, from_seq=0))["cursor"]
    for wrong in (
        {"ack": 10},
        {"ack": -1},
        {"from_seq": 0, "ack": 1},
        {"cursor": cursor, "ack": 1},
    ):
        error = await call_error(hub, "claudecode.poll", name="s", **wrong)
        assert error["code"] == "invalid_params", wrong
    assert await consumers(hub) == {}


async def test_an_empty_page_of_a_consumer_has_the_cursor_it_has_reached(
    hub: Hub, chat: ScriptedChat
) -> None:
    last = (await poll(hub, consumer="c"))["cursor"]
    assert last
    for options in ({}, {"auto_ack": False}, {"ack": 9}, {"wait_ms": 1}):
        page = await poll(hub, consumer="c", **options)
        assert (page["events"], page["cursor"], page["read_position"]) == ([], last, 10)
    await call_events(hub, "claudecode.consumers_reset", name="s", consumer="c", seq=99)
    assert (await poll(hub, consumer="c"))["cursor"] == last


class Unread(Collector):
    """A client that does not read, until it is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    def report_delivery(self, handed_over: asyncio.Future[bool]) -> None:
        self.handed_over = handed_over
        self.asked.set()


async def test_a_page_under_way_makes_other_polls_of_its_consumer_wait(
    hub: Hub, chat: ScriptedChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Unread()
    params = {"name": "s", "consumer": "c", "limit": 3}
    unread = asyncio.create_task(Call(hub, "claudecode.poll", params, client).run())
    await client.asked.wait()
    assert seqs(client.items[0]["content"]) == [0, 1, 2]
    second = asyncio.create_task(poll(hub, consumer="c", limit=3))
    reset = asyncio.create_task(
        call_events(hub, "claudecode.consumers_reset", name="s", consumer="d", seq=1)
    )
    # Other consumers do not wait.
    assert seqs(await poll(hub, consumer="e", limit=1)) == [0]
    await reset
    assert not second.done()
    client.handed_over.set_result(True)
    await unread
    assert seqs(await second) == [3, 4, 5]
    assert not chat.plugin.pages.locks._entries

    # A client that never reads blocks nothing for ever.
    client = Unread()
    unread = asyncio.create_task(Call(hub, "claudecode.poll", params, client).run())
    await client.asked.wait()
    monkeypatch.setattr(consumer_locks, "LOCK_SECONDS", 0.001)
    for method in ("poll", "consumers_reset", "consumers_delete"):
        error = await call_error(hub, f"claudecode.{method}", name="s", consumer="c")
        assert error["code"] == "conflict", method
        assert "has not read its page" in error["message"]
    monkeypatch.undo()
    client.handed_over.set_result(False)
    await unread
    assert seqs(await poll(hub, consumer="c")) == [6, 7, 8, 9]
    assert not chat.plugin.pages.locks._entries


async def test_an_acknowledgement_during_a_delivery_is_kept(hub: Hub, chat: ScriptedChat) -> None:
    client = Unread()
    params = {"name": "s", "consumer": "c", "limit": 3}
    unread = asyncio.create_task(Call(hub, "claudecode.poll", params, client).run())
    await client.asked.wait()
    await call_events(hub, "claudecode.consumers_ack", name="s", consumer="c", seq=7)
    client.handed_over.set_result(True)
    await unread
    assert await consumers(hub) == {"c": (8, 2)}


async def test_consumers_are_reset_and_deleted(hub: Hub, chat: ScriptedChat) -> None:
    await poll(hub, consumer="a")
    await poll(hub, consumer="b", limit=4)
    assert await consumers(hub) == {"a": (10, 0), "b": (4, 6)}
    await call_events(hub, "claudecode.consumers_reset", name="s", consumer="a", seq=8)
    assert seqs(await poll(hub, consumer="a")) == [8, 9]
    await call_events(hub, "claudecode.consumers_reset", name="s", consumer="a")
    assert seqs(await poll(hub, consumer="a", limit=1)) == [0]
    # Not beyond the end, because the next events would be missed.
    await call_events(hub, "claudecode.consumers_reset", name="s", consumer="a", seq=99)
    assert await consumers(hub) == {"a": (10, 0), "b": (4, 6)}
    await call_events(hub, "claudecode.consumers_delete", name="s", consumer="a")
    assert await consumers(hub) == {"b": (4, 6)}
    error = await call_error(hub, "claudecode.consumers_delete", name="s", consumer="a")
    assert (error["code"], error["guidance"]["available"]) == ("not_found", ["b"])
    assert seqs(await poll(hub, consumer="a", limit=1)) == [0]


async def test_a_consumer_survives_a_restart(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as (hub, plugin):
        await begin_chat(plugin)
        await poll(hub, consumer="c", limit=1)
    async with claude_hub(tmp_path) as (hub, _):
        page = await poll(hub, consumer="c", limit=1)
        assert (seqs(page), page["status"]) == ([1], "interrupted")


async def test_a_poll_without_events_writes_nothing(
    hub: Hub, chat: ScriptedChat, running: tuple[Hub, ClaudeCode]
) -> None:
    await poll(hub, consumer="c")
    before = running[1].db.commits
    for _ in range(5):
        assert seqs(await poll(hub, consumer="c")) == []
    assert running[1].db.commits == before


async def test_polls_of_one_consumer_at_the_same_time_share_the_events(
    hub: Hub, chat: ScriptedChat
) -> None:
    pages = await asyncio.gather(*(poll(hub, consumer="c", limit=2) for _ in range(8)))
    assert sorted(seq for page in pages for seq in seqs(page)) == list(range(10))


# Waiting


async def waiting(hub: Hub, **params: Any) -> asyncio.Task[Json]:
    """A poll that has found nothing, and waits."""
    task = asyncio.create_task(poll(hub, wait_ms=LONG, **params))
    # It reads in this thread, so that it waits before it is this task's turn again.
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()
    return task


@pytest.mark.parametrize("position", [{"from_seq": 10}, {"consumer": "c"}, {}])
async def test_a_long_poll_returns_when_an_event_comes(
    hub: Hub, chat: ScriptedChat, position: Json
) -> None:
    if "from_seq" not in position:
        await poll(hub, **position)
    task = await waiting(hub, **position)
    await chat.push(10)
    async with asyncio.timeout(PATIENCE_SECONDS):
        page = await task
    assert (seqs(page), page["status"]) == ([10], "running")


async def test_a_long_poll_returns_at_once_if_there_are_events(
    hub: Hub, chat: ScriptedChat
) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert seqs(await poll(hub, consumer="c", wait_ms=LONG)) == list(range(10))


@pytest.mark.parametrize("status", ["complete", "failed", "cancelled", "interrupted"])
async def test_a_long_poll_returns_when_the_chat_ends(
    hub: Hub, chat: ScriptedChat, status: streams.Status
) -> None:
    task = await waiting(hub, from_seq=11)
    await chat.end(status)
    async with asyncio.timeout(PATIENCE_SECONDS):
        page = await task
    assert (page["events"], page["status"], page["total_events"]) == ([], status, 11)
    # After the end, a long poll returns at once.
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert (await poll(hub, from_seq=11, wait_ms=LONG))["events"] == []


async def test_a_long_poll_returns_an_empty_page_after_its_time(
    hub: Hub, chat: ScriptedChat
) -> None:
    page = await poll(hub, from_seq=10, wait_ms=1)
    assert (page["events"], page["status"], page["read_position"]) == ([], "running", 10)
    await poll(hub, consumer="c")
    page = await poll(hub, consumer="c", wait_ms=1)
    assert (page["events"], page["read_position"]) == ([], 10)


async def test_a_long_poll_from_a_later_event_waits_for_it(hub: Hub, chat: ScriptedChat) -> None:
    task = await waiting(hub, from_seq=11)
    await chat.push(10)
    await chat.push(11)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert seqs(await task) == [11]


async def test_a_long_poll_does_not_delay_another_poll(hub: Hub, chat: ScriptedChat) -> None:
    await poll(hub, consumer="c")
    task = await waiting(hub, consumer="c")
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert seqs(await poll(hub, consumer="c")) == []
    assert not task.done()
    await chat.push(10)
    assert seqs(await task) == [10]


async def test_a_cancelled_long_poll_does_not_move_its_consumer(
    hub: Hub, chat: ScriptedChat
) -> None:
    await poll(hub, consumer="c")
    task = await waiting(hub, consumer="c")
    task.cancel()
    await asyncio.wait([task])
    # Only the watcher of parked chats and the cleanup of stored contents wait.
    assert set(chat.plugin.db.waiters._events) == {approvals.ALL, COMMITTED, RELEASED}
    await chat.push(10)
    assert seqs(await poll(hub, consumer="c")) == [10]


# Retention


async def old_chat(plugin: ClaudeCode, name: str = "s") -> ScriptedChat:
    """A chat that ended long ago, with twelve events."""
    chat = await begin_chat(plugin, name)
    await chat.push(*range(2, 11))
    await chat.end()
    await plugin.db.transaction(lambda tx: streams.set_status(tx, chat.stream.key, "complete", NOW))
    return chat


async def test_a_dry_run_lists_events_and_removes_none(
    hub: Hub, running: tuple[Hub, ClaudeCode]
) -> None:
    chat = await old_chat(running[1])
    *steps, done = await call_events(hub, "claudecode.retention", dry_run=True, days=1)
    [step] = steps
    assert (step["stream_id"], step["events"], step["dry_run"]) == (chat.stream_id, 12, True)
    assert (done["streams"], done["events"], done["dry_run"]) == (1, 12, True)
    assert len((await poll(hub, from_seq=0))["events"]) == 12


async def test_every_kind_of_removed_position_is_expired(
    hub: Hub, running: tuple[Hub, ClaudeCode]
) -> None:
    await old_chat(running[1])
    cursor = (await poll(hub, from_seq=0, limit=3))["cursor"]
    await poll(hub, consumer="begun", limit=3)
    await poll(hub, consumer="done")
    *_, done = await call_events(hub, "claudecode.retention", days=1)
    assert (done["streams"], done["events"]) == (1, 12)
    for position in (
        {"from_seq": 0},
        {"from_seq": 11},
        {"cursor": cursor},
        {"consumer": "begun"},
        {"consumer": "begun", "auto_ack": False},
        {"consumer": "new"},
        {},
    ):
        error = await call_error(hub, "claudecode.poll", name="s", **position)
        assert error["code"] == "cursor_expired", position
        assert error["guidance"]["suggestion"] == "Continue with from_seq 12"
    for position in ({"from_seq": 12}, {"consumer": "done"}):
        page = await poll(hub, **position)
        assert (page["events"], page["status"], page["total_events"]) == ([], "complete", 12)
    [done] = await call_events(hub, "claudecode.retention", days=1)
    assert (done["streams"], done["events"]) == (0, 0)


async def test_the_conversation_stays_when_its_events_are_removed(
    hub: Hub, running: tuple[Hub, ClaudeCode]
) -> None:
    chat = await begin_chat(running[1])
    await chat.say("remember me")
    await chat.end()
    await call_events(hub, "claudecode.retention", days=0)
    pages = await call_events(hub, "arbor.tree_get", tree_id=ids.text(chat.session.tree_id))
    handles = [n["data"].get("handle", "") for page in pages for n in page["tree"]["nodes"]]
    [content] = [handle for handle in handles if "::content:" in handle]
    [resolved] = await call_events(hub, "plexus.resolve_handle", handle=content)
    assert resolved["data"]["text"] == "remember me"


async def test_running_and_recent_chats_keep_their_events(
    hub: Hub, running: tuple[Hub, ClaudeCode]
) -> None:
    await begin_chat(running[1], "runs")
    lately = await begin_chat(running[1], "lately")
    await lately.end()
    [done] = await call_events(hub, "claudecode.retention", days=1)
    assert done["streams"] == 0
    step, done = await call_events(hub, "claudecode.retention", days=0)
    assert step["stream_id"] == lately.stream_id
    assert done["streams"] == 1


async def test_without_a_setting_retention_needs_days(hub: Hub, chat: ScriptedChat) -> None:
    error = await call_error(hub, "claudecode.retention")
    assert error["code"] == "invalid_params"
    assert "retention_days" in error["guidance"]["suggestion"]


async def test_with_a_setting_old_events_are_removed_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with claude_hub(tmp_path) as (_, plugin):
        old = await old_chat(plugin)
    monkeypatch.setenv("HUBD_CLAUDECODE_RETENTION_DAYS", "30")
    async with claude_hub(tmp_path) as (hub, plugin), asyncio.timeout(PATIENCE_SECONDS):
        with plugin.db.waiters.waiting_for(old.stream.topic) as changed:
            while await retention.count_events(plugin.db, old.stream.key):
                await changed.wait()
                changed.clear()
        [done] = await call_events(hub, "claudecode.retention")
        assert done["streams"] == 0


# The whole way


class Caller:
    """Call a daemon as a program with its own environment."""

    def __init__(self, client: LineClient, context: Json) -> None:
        self._client = client
        self._context = context

    async def __call__(self, method: str, **params: Any) -> Json:
        """The only event of a call."""
        sent = {"method": method, "params": params, "context": self._context}
        await self._client.send("plexus.call", sent)
        await self._client.receive()
        items: list[Json] = []
        while not items or items[-1]["type"] != "done":
            items.append((await self._client.receive())["params"]["result"])
        [event] = [item["content"] for item in items if item["type"] == "data"]
        return dict(event)


async def test_chat_async_and_poll_work_over_the_socket_of_a_daemon(
    daemon: Daemon, tmp_path: Path
) -> None:
    context = {"cwd": str(tmp_path), "env": agent_environment(tmp_path)}
    async with daemon.client() as client:
        call = Caller(client, context)
        prompt = "say: I'll run it.\nrun: echo hello\nsay: Done."
        started = await call(
            "claudecode.chat_async",
            name="my-session",
            prompt=prompt,
            model="offline",
            allowed_tools=["Bash"],
        )
        assert started["type"] == "started"
        assert (started["status"], started["engine"]) == ("running", "offline")
        stream_id = started["stream_id"]
        events: list[Json] = []
        while True:
            page = await call("claudecode.poll", stream_id=stream_id, wait_ms=10_000, limit=3)
            assert page["type"] == "ok"
            assert page["session_id"] == started["session_id"]
            assert [record["seq"] for record in page["events"]] == list(
                range(len(events), page["read_position"])
            )
            events += [record["event"] for record in page["events"]]
            if page["status"] != "running" and not page["has_more"]:
                break
        assert page["status"] == "complete"
        assert page["total_events"] == page["read_position"] == len(events)
        kinds = [event["type"] for event in events if event["type"] != "passthrough"]
        assert kinds[:2] == ["start", "user_message"]
        assert kinds[-2:] == ["assistant_message", "complete"]
        texts = [event["text"] for event in events if event["type"] == "content"]
        assert texts == ["I'll run it.", "Done."]
        [use] = [event for event in events if event["type"] == "tool_use"]
        [given] = [event for event in events if event["type"] == "tool_result"]
        assert use["tool_name"] == "Bash"
        assert use["tool_use_id"] == given["tool_use_id"]
        assert (given["output"].strip(), given["is_error"]) == ("hello", False)
        # Replayed from the beginning it is the same.
        again = await call("claudecode.poll", stream_id=stream_id, from_seq=0, limit=1000)
        assert [record["event"] for record in again["events"]] == events
        listed = await call("claudecode.streams", session_id=started["session_id"])
        assert [row["stream_id"] for row in listed["streams"]] == [stream_id]
