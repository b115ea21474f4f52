"""A pending call is carried out by another process, exactly once, by both agents."""

import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hubd.plugins.claudecode.native import conversation, read_history
from hubd.plugins.claudecode.native.pending_call import cut, withdraw_marker, write_result
from tests.fakes.agent_process import Line
from tests.fakes.likeness import shape
from tests.fakes.resumable import (
    ALLOW,
    SESSION,
    STAGE,
    Resumable,
    kill,
    question,
    resumable,
)

DENY = {"behavior": "deny", "message": "not today"}
EDIT = {"behavior": "allow", "updatedInput": {"command": "echo edited >> made"}}

CLAUDE = pytest.param("claude", marks=pytest.mark.soak)
OLD = pytest.param("old", marks=pytest.mark.soak)
both = pytest.mark.parametrize("agent", ["offline", CLAUDE], indirect=True)
all_versions = pytest.mark.parametrize("agent", ["offline", CLAUDE, OLD], indirect=True)
offline_only = pytest.mark.parametrize("agent", ["offline"], indirect=True)


@pytest.fixture
async def agent(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Resumable]:
    async with resumable(request.param, tmp_path) as running:
        yield running


def decided(name: str, answer: Line, runs: list[str], result: str, *, soak: bool) -> object:
    marks = [pytest.mark.soak] if soak else []
    return pytest.param(name, answer, runs, result, marks=marks)


@pytest.mark.parametrize(
    ("agent", "answer", "runs", "result"),
    [
        decided("offline", ALLOW, ["one"], "(Bash completed with no output)", soak=False),
        decided("offline", DENY, [], "not today", soak=False),
        decided("offline", EDIT, ["edited"], "(Bash completed with no output)", soak=False),
        decided("claude", ALLOW, ["one"], "(Bash completed with no output)", soak=True),
        decided("claude", DENY, [], "not today", soak=True),
        decided("claude", EDIT, ["edited"], "(Bash completed with no output)", soak=True),
        decided("old", EDIT, ["edited"], "(Bash completed with no output)", soak=True),
        decided("old", DENY, [], "not today", soak=True),
    ],
    indirect=["agent"],
)
async def test_a_killed_agent_s_call_is_decided_and_carried_out_once(
    agent: Resumable, answer: Line, runs: list[str], result: str
) -> None:
    key = await agent.killed_while_asking("one")
    state = agent.state(key)
    assert (state.kind, len(state.open_calls)) == ("open", 1)
    agent.mark(state.open_calls[0])
    running = await agent.resume(answer)
    assert [line["request"]["tool_use_id"] for line in running.of_type("control_request")] == [key]
    assert running.of_type("result")[0]["result"] == "done"
    assert agent.runs == runs
    assert agent.results() == [(key, result)]
    assert agent.state(key).kind == "answered"
    # The marker is used up.
    async with agent.resuming() as again:
        assert await again.end() == 0
    assert (again.lines, agent.runs) == ([], runs)


@both
async def test_parallel_calls_are_carried_out_in_stages(agent: Resumable) -> None:
    async with agent.asking("one", "two", "three") as (running, request):
        keys = [request["request"]["tool_use_id"]]
        await running.answer(request["request_id"], ALLOW)
        printed = await running.until(lambda line: line["type"] == "user")
        keys.append((await question(running))["request"]["tool_use_id"])
        await kill(running)
    agent.restore(running.lines)
    if agent.state(keys[0]).kind == "open":
        # The agent has printed the result, but has not written it.
        [block] = printed["message"]["content"]
        done = agent.state(keys[0]).open_calls[0]
        more = {"is_error": False, "uuid": printed["uuid"]}
        write_result(agent.file, done, block["content"], **agent.frame, **more)
    assert agent.runs == ["one"]
    second, third = agent.state(keys[1]).open_calls
    keys.append(third.tool_use_id)
    agent.mark(second)
    # Killed again while it asks again.
    async with agent.resuming(*STAGE) as running:
        assert (await question(running))["request"]["tool_use_id"] == keys[1]
        await kill(running)
    assert [each.tool_use_id for each in agent.state(keys[1]).open_calls] == keys[1:]
    running = await agent.resume(ALLOW, *STAGE)
    [result] = running.of_type("result")
    assert (result["subtype"], result["num_turns"]) == ("success", 0)
    assert agent.runs == ["one", "two"]
    [open_call] = agent.state(keys[2]).open_calls
    assert open_call == third
    agent.mark(open_call)
    running = await agent.resume(DENY)
    assert running.of_type("result")[0]["result"] == "done"
    assert agent.runs == ["one", "two"]
    silence = "(Bash completed with no output)"
    assert agent.results() == list(zip(keys, (silence, silence, "not today"), strict=True))


@all_versions
async def test_a_call_that_a_dying_hub_closed_is_carried_out_after_a_cut(
    agent: Resumable,
) -> None:
    async with agent.asking("one", "two") as (running, request):
        assert await running.end() == 0
    key = request["request"]["tool_use_id"]
    state = agent.state(key)
    assert (state.kind, len(state.open_calls)) == ("closed_by_hub_death", 2)
    cut(agent.file, key)
    first, second = agent.state(key).open_calls
    write_result(agent.file, second, "Not carried out: x", **agent.frame)
    agent.mark(first)
    await agent.resume(ALLOW)
    assert agent.runs == ["one"]
    assert sorted(agent.results()) == sorted(
        [(key, "(Bash completed with no output)"), (second.tool_use_id, "Not carried out: x")]
    )


@all_versions
async def test_a_call_survives_sigterm_and_a_torn_last_line(agent: Resumable) -> None:
    async with agent.asking("one") as (running, request):
        os.kill(running.pid, signal.SIGTERM)
        assert await running.end() == 143
    assert running.of_type("result") == []
    key = request["request"]["tool_use_id"]
    with agent.file.open("ab") as file:
        file.write(b'{"type":"user","message":{"role":"user","content":[{"tool_use_id":"')
    [open_call] = agent.state(key).open_calls
    agent.mark(open_call)
    await agent.resume(ALLOW)
    assert agent.runs == ["one"]
    assert agent.results() == [(key, "(Bash completed with no output)")]


@all_versions
async def test_a_result_makes_a_marker_stale(agent: Resumable) -> None:
    key = await agent.killed_while_asking("one")
    [open_call] = agent.state(key).open_calls
    agent.mark(open_call)
    write_result(agent.file, open_call, "outcome unknown", **agent.frame)
    async with agent.resuming() as running:
        await running.say("SAY[next]" if agent.api else "say: next")
        await running.turn()
        assert await running.end() == 0
    assert running.of_type("control_request") == []
    assert (agent.runs, agent.results()) == ([], [(key, "outcome unknown")])


@all_versions
async def test_a_withdrawn_marker_has_no_effect_until_there_is_another(agent: Resumable) -> None:
    key = await agent.killed_while_asking("one")
    [open_call] = agent.state(key).open_calls
    agent.mark(open_call)
    withdraw_marker(agent.file, key, session_id=SESSION)
    fork = SESSION.replace("1", "2")
    async with agent.resuming("--fork-session", f"--session-id={fork}") as running:
        assert await running.end() == 0
    assert running.lines == []
    agent.mark(open_call)
    await agent.resume(ALLOW)
    assert agent.runs == ["one"]
    assert agent.results() == [(key, "(Bash completed with no output)")]


@both
async def test_a_fork_carries_the_call_out_too(agent: Resumable) -> None:
    key = await agent.killed_while_asking("one")
    agent.mark(agent.state(key).open_calls[0])
    fork = SESSION.replace("1", "2")
    running = await agent.resume(ALLOW, "--fork-session", f"--session-id={fork}")
    assert running.lines[-2]["session_id"] == fork
    # The original session still has its marker: forks are a way to run a call twice.
    assert agent.state(key).kind == "open"
    await agent.resume(ALLOW)
    assert agent.runs == ["one", "one"]
    assert len(read_history(agent.file.with_name(f"{fork}.jsonl")).entries) > 4


@both
async def test_a_message_that_waits_is_the_next_turn(agent: Resumable) -> None:
    key = await agent.killed_while_asking("one")
    agent.mark(agent.state(key).open_calls[0])
    async with agent.resuming() as running:
        request = await question(running)
        await running.say("SAY[next]" if agent.api else "say: next")
        await running.answer(request["request_id"], ALLOW)
        await running.turn()
        await running.turn()
        assert await running.end() == 0
    assert [line["result"] for line in running.of_type("result")] == ["done", "next"]
    assert agent.runs == ["one"]


@offline_only
async def test_the_rest_of_the_plan_follows_the_call(agent: Resumable) -> None:
    async with agent.talk("--permission-prompt-tool=stdio", f"--session-id={SESSION}") as running:
        await running.say("hello\nrun: echo one >> made\nsay: between\nrun: echo two >> made")
        first = await question(running)
        await running.answer(first["request_id"], ALLOW)
        key = (await question(running))["request"]["tool_use_id"]
        await kill(running)
    agent.mark(agent.state(key).open_calls[0])
    running = await agent.resume(ALLOW)
    assert agent.runs == ["one", "two"]
    assert (
        running.lines[-2]["result"] == "offline agent: Bash said: (Bash completed with no output)"
    )
    asked, *_, last = conversation(read_history(agent.file)).messages
    assert asked.content[0]["text"].startswith("hello")
    assert last.content[0]["text"].startswith("offline agent: Bash said")
    # The text before the call is not repeated.
    assert agent.file.read_text().count('"text":"between"') == 1


@offline_only
async def test_a_question_to_the_user_is_answered_by_another_process(agent: Resumable) -> None:
    async with agent.talk("--permission-prompt-tool=stdio", f"--session-id={SESSION}") as running:
        await running.say("ask: Which? | a | b\nsay: done")
        request = (await question(running))["request"]
        await kill(running)
    agent.mark(agent.state(request["tool_use_id"]).open_calls[0])
    answers = {**request["input"], "answers": {"Which?": "b"}}
    running = await agent.resume({"behavior": "allow", "updatedInput": answers})
    assert '"Which?"="b"' in agent.results()[0][1]


@offline_only
async def test_the_prompt_that_continues_can_be_replaced(agent: Resumable) -> None:
    key = await agent.killed_while_asking("one")
    agent.mark(agent.state(key).open_calls[0])
    agent.environment["CLAUDE_CODE_RESUME_PROMPT"] = "say: go on"
    running = await agent.resume(ALLOW)
    # It is not a directive: the turn has its own plan.
    assert running.lines[-2]["result"] == "done"
    [prompt] = [each for each in read_history(agent.file).entries if each.is_meta]
    assert prompt.blocks == [{"type": "text", "text": "say: go on"}]


async def play(agent: Resumable, how: str) -> list[Line]:
    """Resume a call that waits; return the lines."""
    key = await agent.killed_while_asking("one")
    agent.mark(agent.state(key).open_calls[0])
    flags = {"stage": STAGE, "rule": ("--allowedTools=Bash",)}.get(how, ())
    async with agent.resuming(*flags) as running:
        if how != "rule":
            request = await question(running)
            if how == "interrupt":
                await running.interrupt()
            elif how != "leave":
                answer = {**DENY, "interrupt": how == "stop"} if how in ("deny", "stop") else ALLOW
                await running.answer(request["request_id"], answer)
        if how != "leave":
            await running.turn()
        assert await running.end() == (how in ("interrupt", "stop"))
    return running.lines


@pytest.mark.claude
@pytest.mark.parametrize(
    "how",
    [
        "allow",
        *(
            pytest.param(how, marks=pytest.mark.soak)
            for how in ("deny", "stop", "interrupt", "leave", "stage", "rule")
        ),
    ],
)
async def test_both_agents_resume_with_the_same_lines(how: str, tmp_path: Path) -> None:
    printed: list[list[Line]] = []
    for name in ("offline", "claude"):
        async with resumable(name, tmp_path / name) as agent:
            printed.append(await play(agent, how))
    fake, real = printed
    assert shape(fake) == shape(real)
    results = [
        [block["content"] for line in lines if line["type"] == "user" for block in _results(line)]
        for lines in printed
    ]
    assert results[0] == results[1]
    ends = [[line for line in lines if line["type"] == "result"][-1] for lines in printed]
    for field in ("num_turns", "subtype", "is_error", "stop_reason", "terminal_reason", "result"):
        assert ends[0].get(field) == ends[1].get(field), field
    denials = [len(end["permission_denials"]) for end in ends]
    assert denials[0] == denials[1]
    assert json.dumps(fake[0].keys() ^ real[0].keys(), default=list) == "[]"


def _results(line: Line) -> list[Line]:
    return [block for block in line["message"]["content"] if block["type"] == "tool_result"]
