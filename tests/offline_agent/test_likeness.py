"""The offline agent and the real `claude` play the same scenes and print the same lines.

Differences that are right are listed here with the reason; any other one fails. Three have no
scene: the offline agent has no API, so it never tries again (system/api_retry); it asks before a
command that only reads, and claude doesn't; and SIGTERM in a tool ends it at once, where claude
may still report the killed tool (neither gives a result, both exit with 143).
"""

import os
import re
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fakes.agent_process import OFFLINE, AgentProcess, Line, Program, claude_program
from tests.fakes.likeness import keys, shape
from tests.fakes.messages_api import FakeMessagesApi
from tests.support import few

# Key paths that only claude has, by kind of line, as patterns; and why that is right.
ONLY_CLAUDE = {
    # Surroundings that the offline agent does not have.
    "system/init": r"memory_paths.*|messaging_socket_path|fast_mode_disabled_reason|plugins\..*"
    r"|per_turn_effort_active|ultrathink_.*|terminal_slash_commands",
    # Models are named by their key; times to the first token mean nothing without a model.
    r"result/.*": r"fast_mode_disabled_reason|ttft_ms|ttft_stream_ms|time_to_request_ms"
    r"|first_content_frame_ms|(modelUsage|model_usage_since_last_result)\.claude-.*",
    # Display hints of claude's own terminal, and its clock.
    r"stream_event:.*": r"thinking_display",
    "assistant:thinking": r"thinking_display|thinking_duration_ms",
    # An error that is made up belongs to no request.
    "assistant:text": r"request_id",
    # The path that a shell command touches is found by reading the command, which is not done.
    "control_request/can_use_tool": r"request\.(blocked_path"
    r"|permission_suggestions\.(directories|mode))",
    # claude reports more about a task and its costs; the offline agent has no costs.
    r"system/task_.*": r"run_id|subagent_type|is_backgrounded|spawn_depth|output_file"
    r"|patch\.end_time",
    # It also keeps plans in files.
    "user:tool_result": r"tool_use_result\.(toolsUsed|harness\w+|resolvedModel|usage.*|toolStats.*"
    r"|canContinueAgent|filePath)",
    r"under a task:assistant:.*": r"request_id",
}

# Key paths that only the offline agent has.
ONLY_OFFLINE = {
    r"result/.*": r"(modelUsage|model_usage_since_last_result)\.offline.*",
    # claude reads its plan from a file, and has none here.
    "assistant:tool_use": r"message\.content\.input\.plan",
    "control_request/can_use_tool": r"request\.input\.plan",
}

BASH = ("--allowedTools", "Bash")
STDIO = ("--permission-prompt-tool", "stdio")

Play = Callable[[AgentProcess], Awaitable[None]]


class Scene(NamedTuple):
    """The input of both agents; `play` acts as the user if there is more than a prompt."""

    name: str
    claude: str
    offline: str
    flags: tuple[str, ...] = ()
    play: Play | None = None
    status: int = 0


def is_delta(line: Line) -> bool:
    return bool(line["type"] == "stream_event" and line["event"]["type"] == "content_block_delta")


def is_question(line: Line) -> bool:
    return bool(line["type"] == "control_request")


async def interrupt_and_go_on(running: AgentProcess) -> None:
    await running.until(is_delta)
    await running.interrupt()
    await running.turn()
    await running.say("SAY[still alive]" if "claude" in running.program else "say: still alive")
    await running.turn()


async def interrupt_the_tool(running: AgentProcess) -> None:
    # Until the tool has been started: an interrupt before that is another scene.
    await running.until(lambda line: line["type"] == "assistant" and "tool_use" in str(line))
    await running.until(lambda line: "message_stop" in str(line))
    await running.interrupt()
    await running.turn()


def answer(*behaviors: str, **more: object) -> Play:
    async def play(running: AgentProcess) -> None:
        for behavior in behaviors:
            question = await running.until(is_question)
            await running.answer(question["request_id"], {"behavior": behavior, **more})
        await running.turn()

    return play


async def choose(running: AgentProcess) -> None:
    question = await running.until(is_question)
    updated = {**question["request"]["input"], "answers": {"Which?": "b"}}
    await running.answer(question["request_id"], {"behavior": "allow", "updatedInput": updated})
    await running.turn()


async def interrupt_the_question(running: AgentProcess) -> None:
    await running.until(is_question)
    # The question may come before its message has ended; the interrupt should not.
    if not any("message_stop" in str(line) for line in running.lines):
        await running.until(lambda line: "message_stop" in str(line))
    await running.interrupt()
    await running.turn()


async def leave_the_question(running: AgentProcess) -> None:
    await running.until(is_question)


async def sigint(running: AgentProcess) -> None:
    await running.until(is_delta)
    os.kill(running.pid, signal.SIGINT)
    await running.turn()


async def say_more(running: AgentProcess) -> None:
    await running.turn()
    await running.say("SAY[two]" if "claude" in running.program else "say: two")
    await running.turn()


CALL = '{"name": "Bash", "input": {"command": "echo %s", "description": "x"}}'
WRITE = '{"name": "Write", "input": {"file_path": "a.txt", "content": "one"}}'
READ = '{"name": "Read", "input": {"file_path": "%s"}}'
TASK = (
    '{"name": "Task", "input": {"description": "d", "prompt": "RUN_BASH[echo inner]",'
    ' "subagent_type": "general-purpose", "run_in_background": false}}'
)
ECHO = '{"name": "Bash", "input": {"command": "echo %s >> made", "description": "x"}}'
QUESTION = (
    '{"name": "AskUserQuestion", "input": {"questions": [{"question": "Which?", "header": "Which",'
    ' "multiSelect": false, "options": [{"label": "a", "description": "a"},'
    ' {"label": "b", "description": "b"}]}]}}'
)
TOUCH = ("RUN_BASH[touch made]", "say: I will run it.\nrun: touch made")

SCENES = [
    # The first two run by default.
    Scene(
        "two tools at once",
        f"SAY[both] TOOLS[{CALL % 'one'}, {CALL % 'two'}]",
        "say: both\nparallel:\n- run: echo one\n- run: echo two",
        BASH,
    ),
    Scene("an interrupt", "SAY[never done] HANG[]", "hang:", (), interrupt_and_go_on),
    Scene("plain", "SAY[hello there]", "say: hello there"),
    Scene("thinking", "THINK[two and two] SAY[four]", "think: two and two\nsay: four"),
    Scene("two texts", "SAY[one] SAY[two]", "say: one\nsay: two"),
    Scene("a tool", *TOUCH, BASH),
    Scene("a failing tool", "RUN_BASH[exit 3]", "say: I will run it.\nrun: exit 3", BASH),
    Scene(
        "tools one after the other",
        "RUN_BASH[echo 1] RUN_BASH[echo 2] SAY[done]",
        "say: a\nrun: echo 1\nsay: b\nrun: echo 2\nsay: done",
        BASH,
    ),
    Scene(
        "files",
        f"TOOLS[{WRITE}] TOOLS[{READ % 'a.txt'}] TOOLS[{READ % 'none'}] SAY[x]",
        "write: a.txt one\nread: a.txt\nread: none\nsay: x",
        ("--allowedTools", "Write"),
    ),
    Scene("no approver", *TOUCH),
    Scene("mode dontAsk", *TOUCH, ("--permission-mode", "dontAsk")),
    Scene("a tool taken away", *TOUCH, ("--disallowedTools", "Bash")),
    Scene("a command forbidden", *TOUCH, ("--disallowedTools", "Bash(touch:*)")),
    Scene("an error of the API", "STATUS[400]", "error: fake", status=1),
    Scene(
        "too many turns",
        "RUN_BASH[echo 1] SAY[x]",
        "say: a\nrun: echo 1\nsay: x",
        (*BASH, "--max-turns", "1"),
        status=1,
    ),
    Scene("no such session", "x", "x", ("--resume=11111111-2222-4333-8444-555555555555",), None, 1),
    Scene("a subagent", f"TOOLS[{TASK}] SAY[x]", "subagent: run: echo inner\nsay: x", BASH),
    Scene(
        "an interrupted tool",
        "RUN_BASH[tail -f /dev/null]",
        "say: I will run it.\nrun: tail -f /dev/null",
        BASH,
        interrupt_the_tool,
        1,
    ),
    Scene("SIGINT", "SAY[never done] HANG[]", "hang:", (), sigint),
    Scene("asked and allowed", *TOUCH, STDIO, answer("allow", updatedInput={})),
    Scene("asked and denied", *TOUCH, STDIO, answer("deny", message="no")),
    Scene("asked and misunderstood", *TOUCH, STDIO, answer("perhaps")),
    Scene("denied for good", *TOUCH, STDIO, answer("deny", message="no", interrupt=True), status=1),
    Scene("interrupted while asking", *TOUCH, STDIO, interrupt_the_question, 1),
    Scene("left while asking", *TOUCH, STDIO, leave_the_question),
    Scene(
        "two asked",
        f"TOOLS[{ECHO % 'a'}, {ECHO % 'b'}] SAY[x]",
        "parallel:\n- run: echo a >> made\n- run: echo b >> made\nsay: x",
        STDIO,
        answer("allow", "deny", updatedInput={}, message="no"),
    ),
    Scene(
        "left while asking for two",
        f"TOOLS[{ECHO % 'a'}, {ECHO % 'b'}] SAY[x]",
        "parallel:\n- run: echo a >> made\n- run: echo b >> made\nsay: x",
        STDIO,
        leave_the_question,
    ),
    Scene(
        "a subagent asks",
        f"TOOLS[{TASK.replace('echo', 'touch')}] SAY[x]",
        "subagent: run: touch inner\nsay: x",
        STDIO,
        answer("allow", updatedInput={}),
    ),
    Scene(
        "a subagent is left while asking",
        f"TOOLS[{TASK.replace('echo', 'touch')}] SAY[x]",
        "subagent: run: touch inner\nsay: x",
        STDIO,
        leave_the_question,
    ),
    Scene("a question", f"TOOLS[{QUESTION}] SAY[x]", "ask: Which? | a | b\nsay: x", STDIO, choose),
    Scene(
        "a plan",
        'TOOLS[{"name": "ExitPlanMode", "input": {}}] SAY[x]',
        "plan: do it\nsay: x",
        (*STDIO, "--permission-mode", "plan"),
        answer("allow", updatedInput={}),
    ),
    Scene("two turns", "SAY[one]", "say: one", ("--replay-user-messages",), say_more),
]


async def act(program: Program, prompt: str, scene: Scene) -> AgentProcess:
    """Play a scene to its end; the exit status has to be the same for both."""
    if scene.play is None:
        return await program.ask(prompt, *scene.flags, status=scene.status)
    async with program.talk(*scene.flags) as running:
        await running.say(prompt)
        await scene.play(running)
        assert await running.end() == scene.status
    assert await program.survivors() == set()
    return running


def unexplained(mine: list[Line], other: list[Line], explained: dict[str, str]) -> dict[str, str]:
    """The keys that only the first has and that no pattern explains."""
    theirs = keys(other)
    by_id = {}
    for kind, paths in keys(mine).items():
        patterns = [paths_ for kinds, paths_ in explained.items() if re.fullmatch(kinds, kind)]
        pattern = re.compile("|".join(patterns) or "(?!)")
        strange = [path for path in paths - theirs[kind] if not pattern.fullmatch(path)]
        if strange:
            by_id[kind] = " ".join(sorted(strange))
    return by_id


@pytest.mark.parametrize("scene", few(SCENES, 1), ids=lambda scene: scene.name)
@pytest.mark.claude
async def test_both_agents_print_the_same_types_of_lines_in_the_same_order(
    scene: Scene, tmp_path: Path
) -> None:
    offline = Program(tmp_path / "offline", *OFFLINE)
    fake = await act(offline, scene.offline, scene)
    async with FakeMessagesApi() as api:
        claude = Program(tmp_path / "claude", claude_program(), api_url=api.url)
        real = await act(claude, scene.claude, scene)
    assert shape(fake.lines) == shape(real.lines)
    assert unexplained(real.lines, fake.lines, ONLY_CLAUDE) == {}
    assert unexplained(fake.lines, real.lines, ONLY_OFFLINE) == {}


@pytest.mark.soak
async def test_both_agents_resume_and_fork_with_the_same_lines_and_ids(tmp_path: Path) -> None:
    runs_of_agents: list[list[AgentProcess]] = []
    async with FakeMessagesApi() as api:
        for name, command, prompt in (
            ("offline", OFFLINE, "say: x"),
            ("claude", (claude_program(),), "SAY[x]"),
        ):
            program = Program(tmp_path / name, *command, api_url=api.url)
            first = await program.ask(prompt)
            resume = f"--resume={first.lines[-1]['session_id']}"
            at = first.of_type("assistant")[-1]["uuid"]
            second = await program.ask(prompt, resume)
            fork = await program.ask(prompt, resume, "--fork-session", "--resume-session-at", at)
            runs_of_agents.append([first, second, fork])
    for fake, real in zip(*runs_of_agents, strict=True):
        assert shape(fake.lines) == shape(real.lines)
    for runs in runs_of_agents:
        ids = [each.lines[-1]["session_id"] for each in runs]
        assert ids[0] == ids[1] != ids[2]
