"""The offline agent as a program: its input, its output and its end."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.offline_agent.directives import DIRECTIVES, read_plan
from hubd.offline_agent.message import pieces
from hubd.offline_agent.options import Options, UsageError, parse
from tests.fakes.agent_process import OFFLINE, AgentProcess, Program, agent
from tests.fakes.gate import Gate


@pytest.fixture
def offline(tmp_path: Path) -> Program:
    return Program(tmp_path, *OFFLINE)


@pytest.fixture
def gate(offline: Program) -> Iterator[Gate]:
    with Gate(offline.cwd / "gate") as opened:
        yield opened


def is_delta(line: dict[str, Any]) -> bool:
    return bool(line["type"] == "stream_event" and line["event"]["type"] == "content_block_delta")


def streamed(process: AgentProcess) -> list[str]:
    """Return the sum of the deltas of each block."""
    blocks: list[str] = []
    for line in process.of_type("stream_event"):
        event = line["event"]
        if event["type"] == "content_block_start":
            blocks.append("")
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            blocks[-1] += delta.get("text", delta.get("thinking", delta.get("partial_json", "")))
    return blocks


async def test_a_plain_prompt_is_repeated_with_a_note_about_the_offline_agent(
    offline: Program,
) -> None:
    output = await offline.ask("what is love?")
    assert output.lines[0]["model"] == "offline"
    words = "offline agent: you said: what is love? (history: 0 messages; no model is asked)"
    assert output.lines[-1]["result"] == words
    assert output.stderr == ""


async def test_the_same_prompt_gives_the_same_words(offline: Program) -> None:
    prompt = "hello\nthink: hm\nsay: well\nread: nothing.txt"
    first, second = await offline.ask(prompt), await offline.ask(prompt)
    assert streamed(first) == streamed(second)
    [thought, *_] = [block for block in first.blocks("assistant") if block["type"] == "thinking"]
    assert thought in second.blocks("assistant")


async def test_deltas_add_up_to_the_blocks(offline: Program) -> None:
    output = await offline.ask("think: slowly\nsay: a text of many words\nbig: 5")
    whole = [
        block.get("text") or block.get("thinking") or json.dumps(block["input"])
        for block in output.blocks("assistant")
    ]
    assert streamed(output) == whole


async def test_without_partial_messages_only_complete_ones_are_printed(offline: Program) -> None:
    flags = ("-p", "--output-format", "stream-json", "--verbose")
    command = (*OFFLINE, *flags, "think: a\nsay: b")
    starting = agent(*command, cwd=offline.cwd, environment=offline.environment, dialogue=False)
    async with starting as running:
        assert await running.end() == 0
    kinds = [line.get("subtype", line["type"]) for line in running.lines]
    assert kinds == ["init", "assistant", "assistant", "success"]


async def test_a_command_runs_in_the_directory_of_the_agent(offline: Program) -> None:
    output = await offline.ask(
        "run: pwd; touch made; echo wrong >&2; exit 3", "--allowedTools", "Bash"
    )
    assert (offline.cwd / "made").exists()
    [result] = output.blocks("user")
    assert result["is_error"]
    assert result["content"] == f"Exit code 3\n{offline.cwd}\nwrong"
    assert output.lines[-1]["result"].startswith("offline agent: Bash failed: Exit code 3")
    assert output.lines[-1]["num_turns"] == 2


async def test_a_command_that_takes_too_long_is_ended(offline: Program) -> None:
    offline.environment["BASH_DEFAULT_TIMEOUT_MS"] = "100"
    output = await offline.ask("run: echo begun; tail -f /dev/null", "--allowedTools", "Bash")
    [result] = output.blocks("user")
    assert result["content"] == "Command timed out after 0.1s\nbegun"
    assert offline.processes == set()


async def test_background_processes_of_a_command_end_with_it(offline: Program) -> None:
    output = await offline.ask("run: tail -f /dev/null & echo left", "--allowedTools", "Bash")
    assert [block["content"] for block in output.blocks("user")] == ["left"]
    assert offline.processes == set()


async def test_long_output_is_cut(offline: Program) -> None:
    prompt = "run: head -c 3000000 /dev/zero | tr '\\0' x"
    output = await offline.ask(prompt, "--allowedTools", "Bash")
    [result] = output.blocks("user")
    assert result["content"] == "x" * 1_000_000 + "\n… cut after 1000000 bytes"


async def test_a_command_that_cannot_be_started_is_a_failed_call(offline: Program) -> None:
    offline.environment["PATH"] = "/nowhere"
    output = await offline.ask("run: echo x", "--allowedTools", "Bash")
    [result] = output.blocks("user")
    assert result["is_error"]
    assert "could not be started" in result["content"]


async def test_files_are_written_and_read(offline: Program) -> None:
    prompt = "write: sub/a.txt one\\ntwo\nread: sub/a.txt\nwrite: sub/a.txt three\nread: nothing"
    output = await offline.ask(prompt, "--allowedTools", "Write")
    assert (offline.cwd / "sub" / "a.txt").read_text() == "three"
    results = [line["tool_use_result"] for line in output.of_type("user")]
    assert [each["type"] for each in results[:3]] == ["create", "text", "update"]
    assert results[1]["file"]["content"] == "one\ntwo"
    assert results[2]["originalFile"] == "one\ntwo"
    assert results[3].startswith("Error: File does not exist")


async def test_a_file_name_may_have_a_line_break(offline: Program) -> None:
    await offline.ask("write: a\\nb text", "--allowedTools", "Write")
    assert (offline.cwd / "a\nb").read_text() == "text"


async def test_parallel_calls_are_one_message_and_reported_out_of_order(offline: Program) -> None:
    prompt = "parallel:\n- run: echo one\n- run: echo two\n- big: 3"
    output = await offline.ask(prompt, "--allowedTools", "Bash")
    calls = [block for block in output.blocks("assistant") if block["type"] == "tool_use"]
    assert [call["name"] for call in calls] == ["Bash", "Bash", "Big"]
    assert len({line["message"]["id"] for line in output.of_type("assistant")[:3]}) == 1
    results = output.blocks("user")
    assert [each["tool_use_id"] for each in results] == [call["id"] for call in calls][::-1]
    assert [each["content"] for each in results] == ["xxx", "two", "one"]


async def test_parallel_commands_run_at_the_same_time(offline: Program, gate: Gate) -> None:
    # The first waits for the second: one after the other they would never end.
    prompt = "parallel:\n- run: read line < gate\n- run: echo > gate"
    output = await offline.ask(prompt, "--allowedTools", "Bash")
    assert [block["is_error"] for block in output.blocks("user")] == [False, False]


async def test_many_deltas_and_large_results_arrive_complete(offline: Program) -> None:
    output = await offline.ask("repeat: 2000 ab \nbig: 3000000")
    assert sum(is_delta(line) for line in output.lines) >= 2000
    assert output.blocks("assistant")[0]["text"] == "ab" * 2000
    assert len(output.blocks("user")[0]["content"]) == 3_000_000


async def test_slow_spreads_the_deltas_and_loses_none(offline: Program) -> None:
    output = await offline.ask("slow: 0.2\nsay: one two three four five six seven")
    assert output.lines[-1]["result"] == "one two three four five six seven"


async def test_an_error_has_the_shape_of_an_api_error(offline: Program) -> None:
    output = await offline.ask("say: so far\nerror: on purpose", status=1)
    result = output.lines[-1]
    assert (result["subtype"], result["is_error"]) == ("success", True)
    assert result["terminal_reason"] == "api_error"
    synthetic = output.lines[-2]
    assert synthetic["message"]["model"] == "<synthetic>"
    assert synthetic["message"]["content"][0]["text"] == "API Error: 500 on purpose"


async def test_a_crash_is_in_the_middle_of_a_block_and_without_a_result(offline: Program) -> None:
    output = await offline.ask("say: so far\ncrash: 42", status=42)
    assert is_delta(output.lines[-1])
    assert output.of_type("result") == []


async def test_broken_lines_come_between_good_ones(offline: Program) -> None:
    output = await offline.ask("say: before\nbroken:\nsay: after")
    assert output.noise == ["{this line is not JSON\n"]
    assert len(output.of_type("offline_unknown")) == 1
    assert output.lines[-1]["result"] == "after"


async def test_messages_of_a_subagent_name_its_task(offline: Program) -> None:
    output = await offline.ask(
        "subagent: run: echo inner\nsubagent: hello", "--allowedTools", "Bash"
    )
    tasks = [b["id"] for b in output.blocks("assistant") if b.get("name") == "Task"]
    inner = [line for line in output.lines if line.get("parent_tool_use_id")]
    assert [line["parent_tool_use_id"] for line in inner] == [tasks[0]] * 3 + [tasks[1]] * 2
    assert [line["type"] for line in inner] == ["user", "assistant", "user", "user", "assistant"]
    assert "offline subagent: Bash said: inner" in json.dumps(output.lines)
    assert output.lines[-1]["subagent_stats"]["spawned"] == 2


async def test_turns_end_at_the_limit(offline: Program) -> None:
    flags = ("--max-turns", "1")
    output = await offline.ask("big: 1\nbig: 2\nsay: never", *flags, status=1)
    result = output.lines[-1]
    assert result["subtype"] == "error_max_turns"
    assert result["errors"] == ["Reached maximum number of turns (1)"]
    assert result["num_turns"] == 2


async def test_half_a_surrogate_pair_goes_out_as_it_came_in(offline: Program) -> None:
    async with offline.talk() as running:
        await running.say("say: a\ud800b ünï")
        assert (await running.turn())[-1]["result"] == "a\ud800b ünï"
        assert await running.end() == 0


async def test_unknown_flags_are_named_and_do_no_harm(offline: Program) -> None:
    output = await offline.ask("say: x", "--effort", "high", "--new-thing")
    assert output.lines[-1]["result"] == "x"
    assert "--effort is not supported" in output.stderr
    assert "--new-thing is not supported" in output.stderr


async def plain_output(offline: Program, *arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *OFFLINE, *arguments, cwd=offline.cwd, env=offline.environment,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def test_help_documents_every_directive(offline: Program) -> None:
    status, text = await plain_output(offline, "--help")
    assert status == 0
    for name, (argument, meaning) in DIRECTIVES.items():
        assert f"{name}: {argument}".rstrip() in text
        assert meaning in text


async def test_the_text_and_json_formats_give_the_result_alone(offline: Program) -> None:
    assert await plain_output(offline, "-p", "say: words") == (0, "words\n")
    status, text = await plain_output(offline, "-p", "--output-format", "json", "say: words")
    assert (status, json.loads(text)["result"]) == (0, "words")


async def test_the_agent_imports_no_heavy_modules(offline: Program) -> None:
    code = (
        "import sys\nfrom hubd.offline_agent.agent import main\n"
        "main(['-p', 'hello'])\nprint('\\n'.join(sys.modules))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, cwd=offline.cwd, env=offline.environment,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, _ = await process.communicate()
    loaded = set(output.decode().split())
    heavy = {"asyncio", "pydantic", "subprocess", "http.client", "argparse", "dataclasses"}
    assert loaded & heavy == set()
    modules = {name for name in loaded if name.startswith("hubd.")}
    shared = {name for name in modules if not name.startswith("hubd.offline_agent")}
    # The directories of the hub, and `shorten`; these modules import nothing else.
    assert shared <= {"hubd.wire", "hubd.wire.paths", "hubd.wire.text"}


@given(st.text())
def test_pieces_add_up_and_are_few(text: str) -> None:
    parts = list(pieces(text))
    assert "".join(parts) == text
    assert len(parts) <= 32
    assert all(parts)


@given(st.text())
def test_every_prompt_is_parsed(prompt: str) -> None:
    plan = read_plan(prompt)
    assert {step.kind for step in plan.steps} <= {*DIRECTIVES, "tools"}


@given(st.lists(st.sampled_from(["say: x", "think: y", "run: z", "plain"]), max_size=8))
def test_directives_are_followed_in_order_and_the_rest_is_the_prompt(lines: list[str]) -> None:
    plan = read_plan("\n".join(lines))
    kinds = {"say: x": "say", "think: y": "think", "run: z": "tools"}
    assert [step.kind for step in plan.steps] == [kinds[line] for line in lines if line in kinds]
    assert plan.plain.split() == ["plain"] * lines.count("plain")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("slow: soon", "'soon' is not a number"),
        ("big: -1", "a number from 0 to"),
        ("crash: 999", "a number from 0 to 255"),
        ("run:", "it needs an argument"),
        ("parallel:", "it needs tools below it"),
        ("say:", "it needs a text"),
    ],
)
def test_an_invalid_directive_becomes_an_explanation(line: str, problem: str) -> None:
    [step] = read_plan(line).steps
    assert step.kind == "say"
    assert problem in step.text


def test_flags_with_many_values_end_at_the_next_flag() -> None:
    options = parse(
        ["--allowedTools", "Bash", "Write", "--model", "m", "--mcp-config", "{}", "--", "hi"]
    )
    assert options.allowed_tools == ("Bash", "Write")
    assert options.mcp_config == ("{}",)
    assert options.prompt == "hi"


def test_resume_takes_its_value_in_both_forms_but_never_a_flag() -> None:
    assert parse(["--resume=abc"]).resume == "abc"
    assert parse(["--resume", "abc"]).resume == "abc"
    assert parse(["--resume", "--verbose"]) == Options(verbose=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p", "--output-format", "stream-json"], "requires --verbose"),
        (["--session-id", "nope"], "Invalid session ID"),
        (["--model"], "argument missing"),
        (["--max-turns", "0"], "must be a positive number"),
        (["--input-format", "stream-json"], "requires output-format"),
    ],
)
def test_an_invalid_command_line_is_refused_with_a_reason(
    arguments: list[str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        parse(arguments)
