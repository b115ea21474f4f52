"""Chats of the offline agent: the choice of the agent, the queue, and large loads."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hubd.plugins.claudecode import places
from hubd.plugins.claudecode.plugin import ClaudeCode
from tests.fakes.agent_process import claude_program
from tests.fakes.gate import Gate
from tests.plugins.claudecode.chat_support import (
    HANG,
    Failure,
    World,
    run,
    say,
    text_of,
    think,
    without_claude,
    world,
)

BASH: dict[str, Any] = {"allowed_tools": ["Bash"]}


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with world(tmp_path, monkeypatch, "offline") as running:
        yield running


async def test_a_turn_has_its_events_in_order(here: World) -> None:
    ended = await here.chat(think("hm"), say("I look"), run("echo seen"), say("done"), **BASH)
    assert ended.status == "complete"
    assert ended.types == [
        "start",
        "user_message",
        "thinking",
        "content",
        "tool_use",
        "assistant_message",
        "tool_result",
        "content",
        "assistant_message",
        "complete",
    ]
    assert ended.of("tool_result")[0]["output"] == "seen"
    assert ended.events[0]["engine"] == "offline"


async def test_a_line_that_is_not_json_is_an_event_and_the_chat_continues(here: World) -> None:
    ended = await here.chat(prompt="broken:\nsay: still here")
    assert (ended.status, ended.text) == ("complete", "still here")
    odd = [event["event_type"] for event in ended.of("passthrough")]
    assert "unreadable" in odd
    assert "offline_unknown/broken" in odd


async def test_a_crash_of_the_agent_fails_the_chat_with_the_reason(here: World) -> None:
    ended = await here.chat(prompt="say: first\nrun: true\ncrash: 3", **BASH)
    assert ended.status == "failed"
    assert ended.error == "the agent ended with status 3"
    first = ended.of("assistant_message")[0]
    assert await here.head() == first["position"]["node_id"]
    assert ended.of("content")[-1]["complete"] is False
    assert (await here.chat(say("on"))).status == "complete"


# The choice of the agent


async def test_the_model_offline_chooses_the_offline_agent_without_advice(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUBD_CLAUDECODE_ENGINE", "auto")
    await here.stop()
    await here.start()
    items = await here.items("claudecode.chat_async", name="s", prompt="hi", model="offline")
    assert [item["type"] for item in items] == ["data", "done"]
    assert items[0]["content"]["engine"] == "offline"
    assert (await here.end_of(items[0]["content"]["stream_id"])).events[0]["engine"] == "offline"


async def test_without_claude_the_offline_agent_answers_with_a_guidance_item(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_claude(monkeypatch)
    await here.stop()
    await here.start()
    here.environment["PATH"] = ""
    for method in ("chat_async", "chat"):
        items = await here.items(f"claudecode.{method}", name="s", prompt="say: hi")
        assert items[0]["type"] == "guidance"
        assert "Install Claude Code" in items[0]["suggestion"]
        first = next(item for item in items if item["type"] == "data")
        assert first["content"]["engine"] == "offline"


@pytest.mark.soak
async def test_a_session_of_claude_is_unavailable_without_claude(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUBD_CLAUDECODE_ENGINE", "claude")
    await here.stop()
    await here.start()
    # Not even an answer is needed: it was asked.
    failed = await here.chat(prompt="STATUS[400]")
    assert (failed.status, failed.events[0]["engine"]) == ("failed", "claude")
    without_claude(monkeypatch)
    await here.stop()
    await here.start()
    for name in ("s", "fork"):
        if name == "fork":
            await here.one("fork", name="s", new_name="fork")
        with pytest.raises(Failure, match="no claude program was found") as caught:
            await here.chat(say("hi"), name=name)
        assert caught.value.code == "unavailable"
        assert "Install Claude Code" in caught.value.guidance["suggestion"]
    # Nothing was promised: no stream is left behind.
    assert [row["status"] for row in await here.streams()] == ["failed"]
    # An explicit setting is followed.
    monkeypatch.setenv("HUBD_CLAUDECODE_ENGINE", "offline")
    await here.stop()
    await here.start()
    assert (await here.chat(say("hi"))).status == "complete"
    monkeypatch.setenv("HUBD_CLAUDECODE_ENGINE", "auto")
    await here.stop()
    await here.start()
    with pytest.raises(Failure, match="unavailable"):
        await here.chat(say("hi"))


async def test_a_missing_configured_program_is_not_replaced(
    here: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HUBD_CLAUDECODE_ENGINE", "auto")
    monkeypatch.setenv("HUBD_CLAUDECODE_PROGRAM", str(tmp_path / "nowhere"))
    await here.stop()
    await here.start()
    with pytest.raises(Failure, match="unavailable: the configured claude program does not exist"):
        await here.chat(say("hi"))


@pytest.mark.claude
async def test_a_conversation_continues_on_the_other_agent_with_its_context(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await here.chat(think("hm"), say("one"), run("echo two"), **BASH)
    monkeypatch.setenv("HUBD_CLAUDECODE_ENGINE", "claude")
    monkeypatch.setenv("HUBD_CLAUDECODE_PROGRAM", claude_program())
    await here.stop()
    await here.start()
    before = await here.context()
    assert (await here.chat(prompt="SAY[three]")).events[0]["engine"] == "claude"
    here.engine = "claude"
    messages = await here.model_messages()
    # `claude` leaves out thinking of other models.
    spoken = [[block for block in message[1] if block["type"] != "thinking"] for message in before]
    assert [message[1] for message in messages[:-1]] == spoken


# The queue


async def test_a_second_chat_is_listed_as_queued_and_runs_after_the_first(
    here: World, tmp_path: Path
) -> None:
    with Gate(tmp_path / "gate") as gate:
        first = await here.begin(run(f"read line < {tmp_path / 'gate'}"), **BASH)
        second = await here.begin(say("second"))
        third = await here.begin(say("third"))
        rows = {row["stream_id"]: row for row in await here.streams()}
        assert [rows[each]["status"] for each in (first, second, third)] == [
            "running",
            "queued",
            "queued",
        ]
        assert rows[second]["total_events"] == 0
        gate.open()
        ended = [await here.end_of(each) for each in (first, second, third)]
    assert [each.status for each in ended] == ["complete"] * 3
    words = [text for role, text in text_of(await here.context()) if role == "assistant"]
    assert words[-2:] == ["second", "third"]


async def test_a_waiting_chat_can_be_cancelled_and_the_next_one_runs(here: World) -> None:
    first = await here.begin(HANG)
    second = await here.begin(say("second"))
    third = await here.begin(say("third"))
    waiting = asyncio.ensure_future(here.items("claudecode.chat", name="s", prompt="say: last"))
    cancelled = await here.one("cancel", stream_id=second)
    assert cancelled["status"] == "cancelled"
    ended = await here.end_of(second)
    assert (ended.status, ended.events) == ("cancelled", [])
    # Cancelling an ended chat changes nothing.
    assert (await here.one("cancel", stream_id=second))["status"] == "cancelled"
    await here.one("cancel", stream_id=first)
    assert (await here.end_of(third)).text == "third"
    items = await waiting
    assert items[-2]["content"]["type"] == "complete"


async def test_the_caller_of_a_chat_that_is_cancelled_in_the_queue_gets_an_error(
    here: World,
) -> None:
    first = await here.begin(HANG)
    waiting = asyncio.ensure_future(here.items("claudecode.chat", name="s", prompt="say: last"))
    new = await here.until_listed(lambda row: row["status"] == "queued")
    await here.one("cancel", stream_id=new["stream_id"])
    items = await waiting
    assert (items[-2]["type"], items[-2]["code"]) == ("error", "execution_error")
    assert "cancelled" in items[-2]["message"]
    await here.one("cancel", stream_id=first)


async def test_if_busy_refuse_is_a_conflict_in_a_busy_session(here: World) -> None:
    first = await here.begin(HANG)
    with pytest.raises(Failure, match="busy with another chat") as caught:
        await here.begin(say("no"), if_busy="refuse")
    assert caught.value.code == "conflict"
    assert [row["stream_id"] for row in await here.streams()] == [first]
    await here.one("cancel", stream_id=first)
    assert (await here.chat(say("yes"), if_busy="refuse")).status == "complete"


async def test_of_many_chats_with_if_busy_refuse_one_runs(
    here: World,
) -> None:
    calls = [here.begin(HANG, if_busy="refuse") for _ in range(10)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    started = [each for each in outcomes if isinstance(each, str)]
    refused = [each for each in outcomes if isinstance(each, Failure)]
    assert (len(started), len(refused)) == (1, 9), outcomes
    assert {each.code for each in refused} == {"conflict"}
    await here.one("cancel", stream_id=started[0])


async def test_many_first_chats_at_once_create_one_session_and_all_run(
    here: World,
) -> None:
    started = await asyncio.gather(*(here.begin(say(f"n{n}")) for n in range(5)))
    ended = [await here.end_of(each) for each in started]
    assert sorted(each.text for each in ended) == [f"n{n}" for n in range(5)]
    assert len((await here.one("list"))["sessions"]) == 1
    words = [text for role, text in text_of(await here.context()) if role == "assistant"]
    assert sorted(words) == [f"n{n}" for n in range(5)]


async def test_a_queue_survives_a_restart_and_the_interrupted_chat_does_not_run_again(
    here: World,
) -> None:
    first = await here.begin(HANG)
    second = await here.begin(say("second"))
    third = await here.begin(say("third"))
    await here.until_said(first)
    await here.stop()
    await here.start()
    assert (await here.end_of(second)).text == "second"
    assert (await here.end_of(third)).text == "third"
    ended = await here.end_of(first)
    assert (ended.status, ended.events[-1]["type"]) == ("interrupted", "error")
    words = [text for role, text in text_of(await here.context()) if role == "assistant"]
    assert words == ["second", "third"]


async def test_a_chat_queued_before_a_restart_reports_the_environment_of_the_daemon(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHOSE", "the daemon's")
    here.environment["WHOSE"] = "the caller's"
    ask = run("echo $WHOSE")
    ordinary = await here.chat(ask, **BASH)
    assert ordinary.of("tool_result")[0]["output"] == "the caller's"
    assert "environment" not in ordinary.events[0]
    before = await here.begin(HANG)
    # A queued chat of a running hub keeps the environment of its caller.
    behind = await here.begin(ask)
    await here.one("cancel", stream_id=before)
    waited = await here.end_of(behind)
    assert waited.of("tool_result")[0]["output"] == "the caller's"
    assert "environment" not in waited.events[0]
    first = await here.begin(HANG)
    second = await here.begin(ask)
    await here.until_said(first)
    await here.stop()
    await here.start()
    ended = await here.end_of(second)
    assert ended.of("tool_result")[0]["output"] == "the daemon's"
    page = await here.one("poll", stream_id=second, from_seq=0, limit=1)
    [start] = [record["event"] for record in page["events"]]
    assert (start["type"], start["environment"]) == ("start", "daemon")
    again = await here.chat(ask)
    assert again.of("tool_result")[0]["output"] == "the caller's"
    assert "environment" not in again.events[0]


async def test_a_chat_queued_before_a_restart_does_not_get_the_environment_of_another_caller(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await here.begin(HANG, **BASH)
    second = await here.begin(run("echo whose: $WHOSE"))
    await here.until_said(first)
    await here.stop()
    monkeypatch.setattr(places, "MAX_RUNNING", 0)
    await here.start()
    plugin = here.hub.find(["claudecode"]).activation
    assert isinstance(plugin, ClaudeCode)
    # The hub has tried to go on with it, and found no room.
    await asyncio.gather(*plugin.queue._tasks)
    monkeypatch.setattr(places, "MAX_RUNNING", 64)
    # A call of another client on the same session starts the queue.
    here.environment["WHOSE"] = "somebody else's"
    third = await here.begin(say("third"))
    ended = await here.end_of(second)
    assert ended.of("tool_result")[0]["output"] == "whose:"
    assert ended.events[0]["environment"] == "daemon"
    assert (await here.end_of(third)).text == "third"


async def test_a_chat_that_cannot_start_fails_and_the_next_ones_run(
    here: World, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    first = await here.begin(HANG, working_dir=str(gone))
    second, third = await here.begin(say("second")), await here.begin(say("third"))
    await here.until_said(first)
    gone.rmdir()
    await here.one("cancel", stream_id=first)
    for stream in (second, third):
        ended = await here.end_of(stream)
        assert ended.status == "failed"
        assert str(ended.error).endswith("gone does not exist")
    with pytest.raises(Failure, match="does not exist"):
        await here.begin(say("fourth"))
    gone.mkdir()
    assert (await here.chat(say("fifth"))).text == "fifth"


async def test_a_caller_that_leaves_does_not_end_the_chat(here: World) -> None:
    caller = asyncio.ensure_future(here.items("claudecode.chat", name="s", prompt="hang:"))
    stream = (await here.until_listed(lambda row: row["status"] == "running"))["stream_id"]
    await here.until_said(stream)
    caller.cancel()
    await asyncio.wait([caller])
    page = await here.one("poll", stream_id=stream, from_seq=0)
    assert page["status"] == "running"
    await here.one("cancel", stream_id=stream)


@pytest.mark.parametrize("turns", range(0, 40, 8))
async def test_a_chat_can_be_cancelled_at_any_moment_of_its_start(here: World, turns: int) -> None:
    starting = asyncio.ensure_future(here.begin(HANG))
    stream = (await here.until_listed(lambda row: True))["stream_id"]
    for _ in range(turns):
        await asyncio.sleep(0)
    cancelled = await here.one("cancel", stream_id=stream)
    assert cancelled["status"] == "cancelled"
    await asyncio.wait([starting])
    ended = await here.end_of(stream)
    assert ended.status == "cancelled"
    assert (await here.chat(say("after"))).text == "after"


async def test_more_chats_than_may_run_at_once_wait_and_all_end(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "MAX_RUNNING", 2)
    started = await asyncio.gather(*(here.begin(say(f"n{n}"), name=f"s{n}") for n in range(6)))
    ended = await asyncio.gather(*(here.end_of(each) for each in started))
    assert [each.text for each in ended] == [f"n{n}" for n in range(6)]


async def test_a_waiting_chat_takes_the_place_of_one_that_cannot_start(
    here: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    await here.one("create", name="broken", working_dir=str(gone))
    await here.one("create", name="good")
    gone.rmdir()
    monkeypatch.setattr(places, "MAX_RUNNING", 1)
    for _ in range(10):
        refused, stream = await asyncio.gather(
            here.begin(say("no"), name="broken"),
            here.begin(say("yes"), name="good"),
            return_exceptions=True,
        )
        assert isinstance(refused, Failure | str)  # the latter if it was the one that waited
        assert isinstance(stream, str)
        assert (await here.end_of(stream)).text == "yes"
