"""Approvals of the offline agent: rules, modes, and requests to approvers."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.offline_agent.directives import Call
from hubd.offline_agent.options import Options, UsageError
from hubd.offline_agent.permission import Permissions
from tests.fakes.agent_process import OFFLINE, AgentProcess, Program

STDIO = ("--permission-prompt-tool", "stdio")


@pytest.fixture
def offline(tmp_path: Path) -> Program:
    return Program(tmp_path, *OFFLINE)


def decide(command: str, **options: Any) -> str:
    """Return the decision of the rules about a command."""
    call = Call("Bash", {"command": command})
    return Permissions(Options(**options)).decide(call).behavior


def meta(process: AgentProcess) -> dict[str, Any]:
    """The decision about the only call."""
    [line] = [line for line in process.lines if "tool_result_meta" in line]
    [entry] = line["tool_result_meta"]
    matching: dict[str, Any] = entry
    return matching


@pytest.mark.parametrize(
    ("rule", "command", "expected"),
    [
        ("Bash", "anything; at all", "allow"),
        ("Bash(*)", "anything; at all", "allow"),
        ("Bash(git:*)", "git status", "allow"),
        ("Bash(git:*)", "git", "allow"),
        ("Bash(git:*)", "gitk", "ask"),
        ("Bash(git status)", "git status", "allow"),
        ("Bash(git status)", "git push", "ask"),
        ("Bash(npm run *)", "npm run test", "allow"),
        ("Bash(git:*)", "git status && rm -rf x", "ask"),
        ("Bash(git:*)", "git status > x", "ask"),
        ("Bash(git:*)", "git $(rm x)", "ask"),
        ("Write", "git status", "ask"),
        ("Write,Bash(git:*)", "git status", "allow"),
        ("Write Bash(git commit:*)", "git commit -m x", "allow"),
        # Never closed: it must not allow more than it says.
        ("Bash(git", "rm x", "ask"),
    ],
)
def test_a_rule_allows_only_matching_calls(rule: str, command: str, expected: str) -> None:
    assert decide(command, allowed_tools=(rule,)) == expected


@given(st.text(min_size=1), st.text())
def test_a_rule_for_one_command_never_allows_two(command: str, other: str) -> None:
    joined = f"git {command}; {other}"
    assert decide(joined, allowed_tools=("Bash(git:*)",)) == "ask"


def test_denying_wins_over_allowing_and_asking_over_allowing() -> None:
    both = {"allowed_tools": ("Bash",), "disallowed_tools": ("Bash(rm:*)",)}
    assert decide("rm x", **both) == "deny"
    assert decide("rm x && ls", **both) == "deny"
    assert decide("ls", **both) == "allow"
    settings = json.dumps({"permissions": {"ask": ["Bash"]}})
    assert decide("ls", allowed_tools=("Bash",), settings=settings) == "ask"
    assert decide("ls", permission_mode="bypassPermissions", settings=settings) == "ask"


@pytest.mark.parametrize(
    ("mode", "bash", "write"),
    [
        ("default", "ask", "ask"),
        ("acceptEdits", "ask", "allow"),
        ("bypassPermissions", "allow", "allow"),
        ("dontAsk", "deny", "deny"),
        ("plan", "deny", "ask"),
    ],
)
def test_the_mode_decides_where_no_rule_does(mode: str, bash: str, write: str) -> None:
    permissions = Permissions(Options(permission_mode=mode))
    assert permissions.decide(Call("Bash", {"command": "x"})).behavior == bash
    assert permissions.decide(Call("Write", {"file_path": "x"})).behavior == write
    assert permissions.decide(Call("Read", {"file_path": "x"})).behavior == "allow"


def test_settings_come_as_json_or_as_a_file(tmp_path: Path) -> None:
    text = json.dumps({"permissions": {"allow": ["Bash(ls:*)"], "deny": ["Bash(rm:*)"]}})
    path = tmp_path / "settings.json"
    path.write_text(text)
    for settings in (text, str(path)):
        assert decide("ls -l", settings=settings) == "allow"
        assert decide("rm x", settings=settings) == "deny"
    with pytest.raises(UsageError, match="Invalid settings"):
        Permissions(Options(settings=str(tmp_path / "nothing")))


async def test_without_an_approver_changes_are_denied(offline: Program) -> None:
    output = await offline.ask("write: a.txt x")
    assert not (offline.cwd / "a.txt").exists()
    [denied] = output.of_type("system", "permission_denied")
    assert denied["tool_name"] == "Write"
    assert meta(output)["non_execution_kind"] == "user-rejected"
    [denial] = output.lines[-1]["permission_denials"]
    assert denial["tool_input"] == {"file_path": "a.txt", "content": "x"}


async def test_a_disallowed_tool_does_not_exist(offline: Program) -> None:
    output = await offline.ask("run: touch x", "--disallowedTools", "Bash")
    assert "Bash" not in output.lines[0]["tools"]
    [result] = output.blocks("user")
    assert result["content"].startswith("<tool_use_error>Error: No such tool available: Bash.")
    assert output.lines[-1]["permission_denials"] == []


async def asked(running: AgentProcess) -> dict[str, Any]:
    """Wait for a question on the pipes."""
    return await running.until(lambda line: line["type"] == "control_request")


async def test_an_approval_over_the_pipes_waits_for_its_answer(offline: Program) -> None:
    async with offline.talk(*STDIO) as running:
        await running.say("run: touch made")
        question = await asked(running)
        assert not (offline.cwd / "made").exists()
        request = question["request"]
        assert request["subtype"] == "can_use_tool"
        assert (request["tool_name"], request["input"]["command"]) == ("Bash", "touch made")
        call = next(block for block in running.blocks("assistant") if block["type"] == "tool_use")
        assert request["tool_use_id"] == call["id"]
        await running.answer(question["request_id"], {"behavior": "allow", "updatedInput": {}})
        await running.turn()
        assert (offline.cwd / "made").exists()
        decision = {"decision": "accept", "source": "user_temporary"}
        assert meta(running)["permission_decision"] == decision
        assert await running.end() == 0


async def test_an_answer_may_change_the_input_that_runs_but_not_the_recorded_one(
    offline: Program,
) -> None:
    async with offline.talk(*STDIO) as running:
        await running.say("run: touch asked")
        question = await asked(running)
        updated = {"command": "echo REPLACED"}
        answer = {"behavior": "allow", "updatedInput": updated}
        await running.answer(question["request_id"], answer)
        await running.turn()
        assert await running.end() == 0
    assert [block["content"] for block in running.blocks("user")] == ["REPLACED"]
    assert "echo REPLACED" not in json.dumps(running.of_type("assistant"))
    assert not (offline.cwd / "asked").exists()


async def test_a_denial_gives_its_reason_to_the_agent_and_the_turn_continues(
    offline: Program,
) -> None:
    async with offline.talk(*STDIO) as running:
        await running.say("run: touch x\nsay: never mind")
        question = await asked(running)
        await running.answer(
            question["request_id"], {"behavior": "deny", "message": "not on a Sunday"}
        )
        turn = await running.turn()
        assert await running.end() == 0
    [result] = running.blocks("user")
    assert (result["content"], result["is_error"]) == ("not on a Sunday", True)
    decision = {"decision": "reject", "source": "user_reject"}
    assert meta(running)["permission_decision"] == decision
    assert turn[-1]["result"] == "never mind"
    assert len(turn[-1]["permission_denials"]) == 1


@pytest.mark.parametrize(
    "answer",
    [
        {"behavior": "deny"},
        {"behavior": "perhaps"},
        {"behavior": "allow", "updatedInput": "rm"},
        {},
        "allow",
        None,
    ],
)
async def test_an_unclear_answer_denies(offline: Program, answer: Any) -> None:
    async with offline.talk(*STDIO) as running:
        await running.say("run: touch made")
        question = await asked(running)
        await running.answer(question["request_id"], answer)
        turn = await running.turn()
        assert await running.end() == 0
    assert not (offline.cwd / "made").exists()
    assert len(turn[-1]["permission_denials"]) == 1


async def test_a_denial_that_interrupts_ends_the_turn(offline: Program) -> None:
    async with offline.talk(*STDIO) as running:
        await running.say("run: touch x\nsay: never said")
        question = await asked(running)
        answer = {"behavior": "deny", "message": "stop", "interrupt": True}
        await running.answer(question["request_id"], answer)
        turn = await running.turn()
        assert turn[-1]["terminal_reason"] == "aborted_tools"
        assert len(turn[-1]["permission_denials"]) == 1
        assert await running.end() == 1


async def test_an_interrupt_withdraws_the_approval(offline: Program) -> None:
    async with offline.talk(*STDIO) as running:
        await running.say("run: touch x")
        question = await asked(running)
        await running.interrupt()
        turn = await running.turn()
        [cancelled] = running.of_type("control_cancel_request")
        assert cancelled["request_id"] == question["request_id"]
        assert turn[-1]["terminal_reason"] == "aborted_tools"
        await running.say("say: fine")
        assert (await running.turn())[-1]["result"] == "fine"
        assert await running.end() == 0


async def test_an_approval_is_denied_when_the_input_ends(offline: Program) -> None:
    async with offline.talk(*STDIO) as running:
        await running.say("run: touch x")
        await asked(running)
        assert await running.end() == 0
    [result] = running.blocks("user")
    assert "stream closed before response received" in result["content"]
    assert running.lines[-1]["subtype"] == "success"


async def test_approvals_of_one_message_are_requested_one_after_the_other(offline: Program) -> None:
    async with offline.talk(*STDIO) as running:
        await running.say("parallel:\n- run: touch a\n- run: touch b")
        first = await asked(running)
        assert len(running.of_type("control_request")) == 1
        await running.answer(first["request_id"], {"behavior": "deny", "message": "no"})
        second = await asked(running)
        await running.answer(second["request_id"], {"behavior": "allow", "updatedInput": {}})
        await running.turn()
        assert await running.end() == 0
    assert not (offline.cwd / "a").exists()
    assert (offline.cwd / "b").exists()


async def test_a_permanent_approval_is_not_requested_again(offline: Program) -> None:
    async with offline.talk(*STDIO) as running:
        await running.say("run: touch made\nrun: touch made")
        question = await asked(running)
        answer = {
            "behavior": "allow",
            "updatedPermissions": question["request"]["permission_suggestions"],
        }
        await running.answer(question["request_id"], answer)
        await running.turn()
        assert len(running.of_type("control_request")) == 1
        assert await running.end() == 0


async def test_only_the_pipes_can_be_asked(offline: Program) -> None:
    flags = ("--permission-prompt-tool", "mcp__plexus__loopback_permit")
    output = await offline.ask("run: touch made", *flags, status=1)
    assert output.of_type("result") == []
    assert "not found" in output.stderr
    assert not (offline.cwd / "made").exists()


async def test_an_approved_call_ends_before_the_next_request(offline: Program) -> None:
    async with offline.talk(*STDIO) as running:
        await running.say("parallel:\n- run: echo a >> made\n- run: echo b >> made")
        for content in ("", "a\n"):
            question = await asked(running)
            path = offline.cwd / "made"
            assert (path.read_text() if path.exists() else "") == content
            assert len(running.of_type("user")) == len(content.split())
            await running.answer(question["request_id"], {"behavior": "allow"})
        await running.turn()
        assert await running.end() == 0
    assert (offline.cwd / "made").read_text() == "a\nb\n"


async def test_a_question_to_the_user_is_answered_by_its_approval(offline: Program) -> None:
    async with offline.talk(*STDIO) as running:
        await running.say("ask: Which colour? | red | blue\nsay: done")
        question = await asked(running)
        request = question["request"]
        assert (request["tool_name"], request["requires_user_interaction"]) == (
            "AskUserQuestion",
            True,
        )
        [inner] = request["input"]["questions"]
        assert inner["question"] == "Which colour?"
        assert [option["label"] for option in inner["options"]] == ["red", "blue"]
        updated = {**request["input"], "answers": {"Which colour?": "blue"}}
        answer = {"behavior": "allow", "updatedInput": updated}
        await running.answer(question["request_id"], answer)
        assert (await running.turn())[-1]["result"] == "done"
        assert await running.end() == 0
    [result] = running.blocks("user")
    assert '"Which colour?"="blue"' in result["content"]


async def test_an_approved_plan_ends_the_plan_mode(offline: Program) -> None:
    async with offline.talk(*STDIO, "--permission-mode", "plan") as running:
        await running.say("plan: first this\\nthen that\nrun: touch made")
        question = await asked(running)
        assert question["request"]["input"] == {"plan": "first this\nthen that"}
        await running.answer(question["request_id"], {"behavior": "allow"})
        # Commands are asked for again, instead of being denied.
        assert (await asked(running))["request"]["tool_name"] == "Bash"
        await running.end()


async def test_a_question_needs_an_approver(offline: Program) -> None:
    output = await offline.ask("ask: Which? | a | b")
    assert "AskUserQuestion" not in output.lines[0]["tools"]
    assert "No such tool available" in output.blocks("user")[0]["content"]


async def test_the_request_of_a_subagent_names_it(offline: Program) -> None:
    async with offline.talk(*STDIO) as running:
        await running.say("subagent: run: touch made")
        question = await asked(running)
        [started] = running.of_type("system", "task_started")
        assert question["request"]["agent_id"] == started["task_id"]
        await running.answer(question["request_id"], {"behavior": "allow"})
        await running.turn()
        assert await running.end() == 0
    assert (offline.cwd / "made").exists()
