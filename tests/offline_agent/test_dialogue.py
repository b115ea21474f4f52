"""Talking to the offline agent: turn after turn, interrupts, control requests and signals."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.fakes.agent_process import OFFLINE, Program
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


def ends_message(line: dict[str, Any]) -> bool:
    return bool(line["type"] == "stream_event" and line["event"]["type"] == "message_stop")


async def test_one_process_takes_many_turns_until_its_input_ends(offline: Program) -> None:
    async with offline.talk() as running:
        for count in range(3):
            await running.say(f"hello {count}")
            turn = await running.turn()
            assert turn[0]["subtype"] == "init"
            assert f"history: {2 * count} messages" in turn[-1]["result"]
            assert turn[-1]["result_index"] == count
        assert await running.end() == 0


async def test_the_running_turn_is_finished_when_the_input_ends(
    offline: Program, gate: Gate
) -> None:
    async with offline.talk("--allowedTools", "Bash") as running:
        await running.say("run: read line < gate\nsay: finished")
        await running.until(ends_message)
        assert running.process.stdin is not None
        running.process.stdin.close()
        gate.open()
        assert await running.end() == 0
        assert running.lines[-1]["result"] == "finished"


async def test_messages_that_come_during_a_turn_are_answered_together(
    offline: Program, gate: Gate
) -> None:
    async with offline.talk("--allowedTools", "Bash") as running:
        await running.say("run: read line < gate")
        await running.until(ends_message)
        for text in ("second", "third"):
            await running.say(f"say: {text}", uuid=str(uuid4()))
            await running.until(lambda line: line.get("state") == "queued")
        gate.open()
        first = await running.turn()
        assert first[-1]["queued_turn_count"] == 2
        together = await running.turn()
        assistant_lines = [line for line in together if line["type"] == "assistant"]
        assert [line["message"]["content"][0]["text"] for line in assistant_lines] == [
            "second",
            "third",
        ]
        assert await running.end() == 0


async def test_a_message_with_an_id_is_tracked_by_it(offline: Program) -> None:
    key = "7b0f7a34-0b06-4c5c-9b0b-2f6ad9c1a001"
    async with offline.talk("--replay-user-messages") as running:
        await running.say("say: x", uuid=key)
        await running.turn()
        assert await running.end() == 0
    states = [line["state"] for line in running.of_type("command_lifecycle")]
    assert states == ["queued", "started", "completed"]
    [replayed] = running.of_type("user")
    assert (replayed["uuid"], replayed["isReplay"]) == (key, True)
    assert running.of_type("assistant")[0]["user_message_uuids"] == [key]


async def test_an_interrupt_keeps_the_text_so_far(offline: Program) -> None:
    async with offline.talk() as running:
        await running.say("say: first\nhang:")
        await running.until(lambda line: is_delta(line) and line["event"]["index"] == 1)
        await running.interrupt("r1")
        turn = await running.turn()
        kept = [line for line in turn if line.get("aborted")]
        assert kept[0]["message"]["content"][0]["text"].startswith("offline agent: waiting")
        assert turn[-1]["terminal_reason"] == "aborted_streaming"
        assert turn[-1]["subtype"] == "error_during_execution"
        await running.say("hello again")
        assert "history: 3 messages" in (await running.turn())[-1]["result"]
        assert await running.end() == 0


async def test_an_interrupt_ends_the_tools(offline: Program, gate: Gate) -> None:
    async with offline.talk("--allowedTools", "Bash") as running:
        await running.say(
            "parallel:\n- run: tail -f /dev/null\n- run: echo > gate; tail -f /dev/null"
        )
        await running.until(ends_message)
        await gate.reached()
        await running.interrupt()
        turn = await running.turn()
        rejected = [
            line for line in turn if line.get("tool_use_result") == "User rejected tool use"
        ]
        assert len(rejected) == 2
        assert turn[-1]["terminal_reason"] == "aborted_tools"
        assert offline.processes == {running.pid}
        # The last result was an error, and the exit status says so, as claude's does.
        assert await running.end() == 1


async def test_an_interrupt_between_turns_changes_nothing(offline: Program) -> None:
    async with offline.talk() as running:
        await running.interrupt("early")
        await running.say("say: fine")
        assert (await running.turn())[-1]["result"] == "fine"
        [answer] = running.of_type("control_response")
        assert answer["response"]["request_id"] == "early"
        assert await running.end() == 0


async def test_sigint_ends_the_turn_with_a_result_and_then_the_program(offline: Program) -> None:
    async with offline.talk() as running:
        await running.say("hang:")
        await running.until(is_delta)
        os.kill(running.pid, signal.SIGINT)
        turn = await running.turn()
        assert turn[-1]["terminal_reason"] == "aborted_streaming"
        assert await asyncio.wait_for(running.process.wait(), 10) == 0


async def test_sigint_between_turns_ends_the_program(offline: Program) -> None:
    async with offline.talk() as running:
        await running.say("say: x")
        await running.turn()
        os.kill(running.pid, signal.SIGINT)
        assert await asyncio.wait_for(running.process.wait(), 10) == 0


@pytest.mark.parametrize("where", ["hang:", "run: echo > gate; tail -f /dev/null"])
async def test_sigterm_ends_everything_without_a_result(
    offline: Program, gate: Gate, where: str
) -> None:
    async with offline.talk("--allowedTools", "Bash") as running:
        await running.say(where)
        await running.until(is_delta)
        if where != "hang:":
            await gate.reached()
        os.kill(running.pid, signal.SIGTERM)
        assert await running.end() == 143
        assert running.of_type("result") == []
        assert offline.processes == set()


async def test_sigterm_ends_the_agent_without_a_reader(offline: Program) -> None:
    reading, writing = os.pipe()
    flags = ("-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages")
    process = await asyncio.create_subprocess_exec(
        *OFFLINE,
        *flags,
        "repeat: 100000 x",
        cwd=offline.cwd,
        env=offline.environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=writing,
    )
    os.close(writing)
    os.read(reading, 1)
    os.kill(process.pid, signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 20) == 143
    os.close(reading)


async def test_closing_the_output_ends_the_agent_and_its_tools(offline: Program) -> None:
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *OFFLINE, "-p", "--output-format", "stream-json", "--verbose", "repeat: 100000 x\nhang:",
        "--include-partial-messages", cwd=offline.cwd, env=offline.environment,
        stdin=asyncio.subprocess.DEVNULL, stdout=writing,
    )  # fmt: skip
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    assert await asyncio.wait_for(process.wait(), 20) == 1


async def test_control_requests_are_answered_and_take_effect(offline: Program) -> None:
    async with offline.talk() as running:
        for key, request in {
            "i": {"subtype": "initialize"},
            "m": {"subtype": "set_permission_mode", "mode": "acceptEdits"},
            "s": {"subtype": "mcp_status"},
            "x": {"subtype": "nonsense"},
        }.items():
            line = {"type": "control_request", "request_id": key, "request": request}
            await running.send(line)
        await running.say("write: a.txt x")
        turn = await running.turn()
        assert await running.end() == 0
    answers = [line["response"] for line in running.of_type("control_response")]
    assert [(answer["request_id"], answer["subtype"]) for answer in answers] == [
        ("i", "success"),
        ("m", "success"),
        ("s", "success"),
        ("x", "error"),
    ]
    assert (
        next(line for line in turn if line.get("subtype") == "init")["permissionMode"]
        == "acceptEdits"
    )
    assert (offline.cwd / "a.txt").read_text() == "x"


async def test_input_that_is_not_json_ends_the_program_with_a_reason(
    offline: Program,
) -> None:
    async with offline.talk() as running:
        assert running.process.stdin is not None
        running.process.stdin.write(b"hello\n")
        assert await running.end() == 1
        assert "Error parsing streaming input line" in running.stderr
