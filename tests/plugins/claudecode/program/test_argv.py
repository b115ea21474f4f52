"""Options as a command line, against the rules and against the real program."""

import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.errors import InvalidParams
from hubd.plugins.claudecode.program.argv import (
    MAX_ARGUMENT_BYTES,
    STREAM_JSON,
    ChatOptions,
    command_line,
)
from tests.fakes.agent_process import AgentProcess, agent, agent_environment, claude_program
from tests.fakes.messages_api import FakeMessagesApi

PLAIN = ["claude", *STREAM_JSON]


def test_without_options_the_command_line_only_selects_stream_json() -> None:
    assert command_line(["claude"], ChatOptions()) == [
        "claude",
        "--print",
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--verbose",
        "--include-partial-messages",
    ]


def test_a_program_keeps_its_own_arguments_in_front() -> None:
    assert command_line(["python", "-m", "agent"], ChatOptions())[:4] == [
        "python",
        "-m",
        "agent",
        "--print",
    ]


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        (ChatOptions(model="opus"), ["--model=opus"]),
        (ChatOptions(model="-x"), ["--model=-x"]),
        (ChatOptions(system_prompt="be brief"), ["--append-system-prompt=be brief"]),
        (ChatOptions(system_prompt=""), ["--append-system-prompt="]),
        (
            ChatOptions(system_prompt="be brief", replace_system_prompt=True),
            ["--system-prompt=be brief"],
        ),
        (ChatOptions(system_prompt=Path("/a/b")), ["--append-system-prompt-file=/a/b"]),
        (
            ChatOptions(system_prompt=Path("/a/b"), replace_system_prompt=True),
            ["--system-prompt-file=/a/b"],
        ),
        (
            ChatOptions(allowed_tools=["Bash(git log, x)", "Edit"], disallowed_tools=["Write"]),
            ["--allowedTools=Bash(git log, x)", "--allowedTools=Edit", "--disallowedTools=Write"],
        ),
        (ChatOptions(permission_mode="plan"), ["--permission-mode=plan"]),
        (ChatOptions(permission_prompt_tool="stdio"), ["--permission-prompt-tool=stdio"]),
        (
            ChatOptions(mcp_config=Path("/m.json"), strict_mcp_config=True),
            ["--mcp-config=/m.json", "--strict-mcp-config"],
        ),
        (ChatOptions(settings=Path("/s.json")), ["--settings=/s.json"]),
        (ChatOptions(resume="abc"), ["--resume=abc"]),
        (
            ChatOptions(resume="a", fork_session=True, resume_session_at="b", session_id="c"),
            ["--resume=a", "--resume-session-at=b", "--session-id=c", "--fork-session"],
        ),
        (ChatOptions(session_id="abc"), ["--session-id=abc"]),
        (ChatOptions(max_turns=3), ["--max-turns=3"]),
    ],
)
def test_each_option_becomes_its_flag(options: ChatOptions, flags: list[str]) -> None:
    assert command_line(["claude"], options) == [*PLAIN, *flags]


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(
    texts=st.lists(texts, min_size=5, max_size=5),
    rules=st.lists(texts),
)
def test_no_text_can_become_a_flag_or_a_separate_argument(
    texts: list[str], rules: list[str]
) -> None:
    model, prompt, mode, tool, session = texts
    options = ChatOptions(
        model=model,
        system_prompt=prompt,
        permission_mode=mode,
        permission_prompt_tool=tool,
        resume=session,
        allowed_tools=rules,
        disallowed_tools=rules,
    )
    arguments = command_line(["claude"], options)[len(PLAIN) :]
    assert len(arguments) == 5 + 2 * len(rules)
    assert {argument.partition("=")[0] for argument in arguments} <= {
        "--model",
        "--append-system-prompt",
        "--permission-mode",
        "--permission-prompt-tool",
        "--resume",
        "--allowedTools",
        "--disallowedTools",
    }
    values = [argument.partition("=")[2] for argument in arguments]
    assert sorted(values) == sorted([*texts, *rules, *rules])


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        (ChatOptions(fork_session=True), "resume"),
        (ChatOptions(resume="a", resume_session_at="b"), "fork_session"),
        (ChatOptions(resume="a", session_id="c"), "fork_session"),
    ],
)
def test_session_options_that_claude_would_refuse_or_ignore_are_refused(
    options: ChatOptions, missing: str
) -> None:
    with pytest.raises(InvalidParams, match=missing):
        command_line(["claude"], options)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a\0b", "the value of --append-system-prompt contains a zero character"),
        ("\ud800", "the value of --append-system-prompt is not valid Unicode"),
        ("x" * MAX_ARGUMENT_BYTES, "the value of --append-system-prompt is too long"),
    ],
)
def test_an_invalid_argument_is_refused_with_the_name_of_its_option(text: str, reason: str) -> None:
    with pytest.raises(InvalidParams, match=reason):
        command_line(["claude"], ChatOptions(system_prompt=text))


def test_the_system_takes_the_longest_allowed_argument() -> None:
    flag = "--append-system-prompt="
    longest = ChatOptions(system_prompt="x" * (MAX_ARGUMENT_BYTES - len(flag)))
    subprocess.run(command_line(["true"], longest), check=True)
    with pytest.raises(OSError, match="too long"):
        subprocess.run([*command_line(["true"], longest), "x" * (MAX_ARGUMENT_BYTES + 1)])


# The real program


@pytest.fixture
async def api() -> AsyncIterator[FakeMessagesApi]:
    async with FakeMessagesApi() as running:
        yield running


async def run_claude(
    options: ChatOptions, directory: Path, api: FakeMessagesApi, prompt: str
) -> AgentProcess:
    """One turn of the real program, to its end."""
    command = command_line([claude_program()], options)
    environ = agent_environment(directory, api.url)
    async with agent(*command, cwd=directory, environment=environ) as running:
        await running.say(prompt)
        await running.end()
    return running


@pytest.mark.claude
async def test_the_real_program_accepts_every_flag_of_a_new_session(
    tmp_path: Path, api: FakeMessagesApi
) -> None:
    mcp_config = tmp_path / "mcp.json"
    mcp_config.write_text('{"mcpServers": {}}')
    settings = tmp_path / "settings.json"
    settings.write_text('{"permissions": {"ask": ["Bash"]}}')
    session = str(uuid4())
    options = ChatOptions(
        model="-model",
        system_prompt="-prompt\nof two lines",
        allowed_tools=["Edit", "Bash(git log, -x)"],
        disallowed_tools=["WebFetch", "NotebookEdit"],
        permission_mode="plan",
        permission_prompt_tool="stdio",
        mcp_config=mcp_config,
        strict_mcp_config=True,
        settings=settings,
        session_id=session,
        max_turns=3,
    )
    claude = await run_claude(options, tmp_path, api, "STATUS[400] hello")
    [init] = claude.of_type("system", "init")
    assert (init["session_id"], init["model"]) == (session, "-model")
    assert init["permissionMode"] == "plan"
    # Denied without conditions, so the model does not get to see them.
    assert {"WebFetch", "NotebookEdit"} & set(init["tools"]) == set()
    [result] = claude.of_type("result")
    assert (result["is_error"], result["api_error_status"]) == (True, 400)
    assert "error: " not in claude.stderr.lower()
    # It comes after the program's own.
    system = api.requests[0].body["system"][-1]["text"]
    own, added, rest = system.partition("-prompt\nof two lines")
    assert (own != "", added != "", rest) == (True, True, "")
    assert "hello" in json.dumps(api.conversations[0])


@pytest.mark.soak
async def test_the_real_program_reads_a_system_prompt_from_a_file_and_replaces_its_own(
    tmp_path: Path, api: FakeMessagesApi
) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("-all there is")
    options = ChatOptions(system_prompt=prompt, replace_system_prompt=True)
    await run_claude(options, tmp_path, api, "hello")
    assert api.requests[0].body["system"][-1]["text"] == "-all there is"


@pytest.mark.soak
async def test_the_real_program_runs_a_tool_that_the_rules_allow(
    tmp_path: Path, api: FakeMessagesApi
) -> None:
    rules = ["Edit", "Bash(touch 'a, b')"]
    await run_claude(ChatOptions(allowed_tools=rules), tmp_path, api, "RUN_BASH[touch 'a, b']")
    assert (tmp_path / "a, b").exists()


@pytest.mark.claude
async def test_the_real_program_resumes_and_branches_at_a_message(
    tmp_path: Path, api: FakeMessagesApi
) -> None:
    first, fork = str(uuid4()), str(uuid4())

    def known() -> list[str]:
        """Which of the prompts the newest request to the API contains."""
        messages = json.dumps(api.conversations[-1])
        return [word for word in ("alpha", "beta", "gamma") if word in messages]

    begun = await run_claude(ChatOptions(session_id=first), tmp_path, api, "alpha")
    assert known() == ["alpha"]
    resumed = await run_claude(ChatOptions(resume=first), tmp_path, api, "beta")
    assert [init["session_id"] for init in resumed.of_type("system", "init")] == [first]
    assert known() == ["alpha", "beta"]
    [answer] = begun.of_type("assistant")
    options = ChatOptions(
        resume=first, fork_session=True, resume_session_at=answer["uuid"], session_id=fork
    )
    forked = await run_claude(options, tmp_path, api, "gamma")
    assert [init["session_id"] for init in forked.of_type("system", "init")] == [fork]
    assert known() == ["alpha", "gamma"]
