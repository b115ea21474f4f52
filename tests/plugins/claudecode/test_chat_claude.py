"""Chats by the real `claude` against a Messages API of our own: all that can come from it."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.agent_process import processes_of
from tests.fakes.gate import Gate
from tests.fakes.script import SIGNATURE
from tests.plugins.claudecode.chat_support import (
    HANG,
    Event,
    World,
    fail,
    is_sound,
    run,
    say,
    text_of,
    think,
    world,
)

BASH: dict[str, Any] = {"allowed_tools": ["Bash"]}


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with world(tmp_path, monkeypatch, "claude") as running:
        yield running


async def resolved(here: World, event: Event) -> Event:
    """Resolve the handle at the node of an event."""
    node = await here.one("arbor.node_get", **event["position"])
    handle = node["node"]["data"]["handle"]
    return dict((await here.one("plexus.resolve_handle", handle=handle))["data"])


@pytest.mark.claude
async def test_a_turn_with_thinking_and_a_tool_has_its_events_in_order_and_its_costs(
    here: World,
) -> None:
    ended = await here.chat(think("hm"), run("echo seen; pwd"), say("done"), **BASH)
    assert (ended.status, ended.error) == ("complete", None)
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
    assert ended.events[0]["engine"] == "claude"
    [call], [result] = ended.of("tool_use"), ended.of("tool_result")
    assert (call["tool_name"], call["input"]["command"]) == ("Bash", "echo seen; pwd")
    assert result["tool_use_id"] == call["tool_use_id"]
    assert (result["output"], result["is_error"]) == (f"seen\n{here.cwd}", False)
    # Signatures are kept to the byte: a model refuses its own thoughts without them.
    block = (await resolved(here, ended.of("thinking")[0]))["block"]
    assert block == {"type": "thinking", "thinking": "hm", "signature": SIGNATURE}
    complete = ended.events[-1]
    assert complete["claude_session_id"] == (await here.session())["claude_session_id"]
    usage = await here.one("usage", name="s")
    assert usage["turns"] == 1
    assert usage["rows"][0]["input_tokens"] == complete["usage"]["input_tokens"] == 20
    assert usage["cost_usd"] == complete["usage"]["cost_usd"] > 0


@pytest.mark.soak
async def test_each_parallel_call_gets_its_result(here: World) -> None:
    commands = [f"echo result {number}" for number in range(3)]
    calls = [{"name": "Bash", "input": {"command": each}} for each in commands]
    listed = ", ".join(json.dumps(call) for call in calls)
    ended = await here.chat(prompt=f"TOOLS[{listed}]", **BASH)
    assert ended.status == "complete"
    asked = {event["tool_use_id"]: event["input"]["command"] for event in ended.of("tool_use")}
    given = {event["tool_use_id"]: event["output"] for event in ended.of("tool_result")}
    assert len(asked) == 3
    assert {f"echo {given[each]}" for each in asked} == set(commands)
    assert all(asked[each] == f"echo {given[each]}" for each in asked)
    # They were calls of one message, and their results lie below it.
    caller = ended.of("assistant_message")[0]["position"]["node_id"]
    for result in ended.of("tool_result"):
        node = await here.one("arbor.node_get", **result["position"])
        assert node["node"]["parent"] == caller
    here.native_file((await here.session())["claude_session_id"]).unlink()
    before = await here.context()
    await here.chat(say("on"))
    messages = await here.model_messages()
    assert messages[:-1] == before
    assert is_sound(messages)


@pytest.mark.soak
async def test_a_disallowed_tool_is_refused_and_the_turn_continues(here: World) -> None:
    ended = await here.chat(run("touch forbidden"), say("done"))
    assert ended.status == "complete"
    [result] = ended.of("tool_result")
    assert result["is_error"] is True
    assert not (here.cwd / "forbidden").exists()


@pytest.mark.soak
async def test_a_retry_after_an_overloaded_api_is_an_event(here: World) -> None:
    ended = await here.chat(prompt="STATUS[529 x1] SAY[at last]")
    assert (ended.status, ended.text) == ("complete", "at last")
    retries = [event for event in ended.of("passthrough") if "retry" in event["event_type"]]
    assert len(retries) == 1


@pytest.mark.soak
async def test_an_answer_that_is_cut_off_is_requested_again(here: World) -> None:
    ended = await here.chat(prompt="CUT[only a beginn] SAY[the whole]")
    assert ended.status == "complete"
    whole = [event for event in ended.of("content") if event.get("complete", True)]
    assert [event["text"] for event in whole] == ["the whole"]
    assert text_of(await here.context())[-1] == ("assistant", "the whole")


@pytest.mark.soak
@pytest.mark.parametrize("status", [400, 529])
async def test_an_api_error_fails_the_chat_with_its_message(here: World, status: int) -> None:
    ended = await here.chat(fail(status))
    assert ended.status == "failed"
    assert str(status) in str(ended.error)
    assert ended.types[-1] == "error"
    assert ended.events[-1] == {**ended.events[-1], "message": ended.error, "code": "failed"}
    assert await here.context() == []


@pytest.mark.soak
async def test_an_unreachable_api_fails_the_chat(here: World) -> None:
    here.environment["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:9"
    ended = await here.chat(say("hi"))
    assert ended.status == "failed"
    assert ended.error


@pytest.mark.soak
async def test_killing_claude_fails_the_chat_and_the_session_continues(
    here: World, tmp_path: Path
) -> None:
    await here.chat(say("one"), **BASH)
    with Gate(tmp_path / "gate") as gate:
        stream = await here.begin(run(f"echo > {tmp_path / 'gate'}; tail -f /dev/null"))
        await gate.reached()
        for pid in processes_of(here.environment):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"stream-json" in command:
                os.kill(pid, signal.SIGKILL)
        ended = await here.end_of(stream)
    assert ended.status == "failed"
    assert "SIGKILL" in str(ended.error)
    [message] = ended.of("assistant_message")
    assert await here.head() == message["position"]["node_id"]
    # Its tool is in a separate process group, and is ended too.
    assert await here.survivors() == set()
    assert (await here.chat(say("two"))).status == "complete"
    messages = await here.model_messages()
    assert is_sound(messages)
    assert messages == (await here.context())[:-1]
    assert "interrupted before it gave a result" in str(messages)


@pytest.mark.soak
async def test_text_before_the_kill_of_claude_stays(
    here: World,
) -> None:
    await here.chat(say("one"))
    head = await here.head()
    stream = await here.begin(HANG)
    await here.until_said(stream)
    for pid in processes_of(here.environment):
        os.kill(pid, signal.SIGKILL)
    ended = await here.end_of(stream)
    assert ended.status == "failed"
    assert ended.of("content")[0]["complete"] is False
    assert await here.head() == head
    await here.chat(say("two"))
    assert [text for _, text in text_of(await here.model_messages())][1:] == ["one", "SAY[two]"]


@pytest.mark.soak
async def test_the_callers_directory_and_environment_are_used(here: World, tmp_path: Path) -> None:
    here.environment["GREETING"] = "hello from the caller"
    ended = await here.chat(run("pwd; echo $GREETING"), **BASH)
    assert ended.of("tool_result")[0]["output"] == f"{here.cwd}\nhello from the caller"
    below = here.cwd / "below"
    below.mkdir()
    given = await here.chat(run("pwd"), name="given", working_dir="below", **BASH)
    assert given.of("tool_result")[0]["output"] == str(below)
    # The directory is the session's; a caller in another directory does not change it.
    here.cwd = tmp_path
    again = await here.chat(run("pwd"), name="given")
    assert again.of("tool_result")[0]["output"] == str(below)
    # Nothing of the environment is kept.
    database = (tmp_path / "hub.db").read_bytes() + (tmp_path / "hub.db-wal").read_bytes()
    assert b"dummy" not in database


@pytest.mark.soak
async def test_the_options_of_a_session_reach_the_program(here: World) -> None:
    options = {"model": "some-model", "system_prompt": "Speak like a pirate."}
    await here.chat(say("arr"), **options)
    request = here.api.requests[-1].body
    assert request["model"] == "some-model"
    assert "Speak like a pirate." in json.dumps(request["system"])
    assert (await here.session())["model"] == "some-model"


@pytest.mark.soak
async def test_two_sessions_chat_at_once_with_separate_contexts(here: World) -> None:
    names = ["a", "b", "c"]
    ended = await asyncio.gather(*(here.chat(say(f"I am {name}"), name=name) for name in names))
    assert [each.text for each in ended] == [f"I am {name}" for name in names]
    assert len({each.events[-1]["claude_session_id"] for each in ended}) == 3
