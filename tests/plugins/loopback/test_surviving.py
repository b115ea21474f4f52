"""Approvals that outlive their process and their hub."""

import asyncio
import json
import os
import shlex
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from hubd.storage.maintenance import check
from tests.fakes.agent_process import OFFLINE
from tests.fakes.old_claude import old_claude
from tests.plugins.claudecode.chat_support import ENGINES, EngineName, run, say
from tests.plugins.claudecode.test_recovery import pids_of_stream
from tests.plugins.loopback import kill_scenarios
from tests.plugins.loopback.kill_scenarios import check_dense, check_end, rounds
from tests.plugins.loopback.support import Desk, desk, events_in, types_in
from tests.support import PATIENCE_SECONDS, few

# In the marked run.
ROUNDS = 100


def check_database(person: Desk) -> None:
    """Stop the daemon; its database has no fault."""
    person.daemon.stop()
    findings = check(person.daemon.home / "hub.db")
    assert [finding for finding in findings if not finding.ok] == []


@pytest.mark.parametrize("engine", [pytest.param("claude", marks=pytest.mark.claude), "offline"])
@pytest.mark.parametrize("count", [1, pytest.param(ROUNDS, marks=pytest.mark.soak)])
async def test_calls_that_wait_survive_kills_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineName, count: int
) -> None:
    async with desk(tmp_path, engine, monkeypatch) as person:
        is_short = engine == "claude" and count == 1
        scenarios = kill_scenarios.SHORT if is_short else kill_scenarios.ALL
        for number in rounds(person, count):
            await kill_scenarios.run_all(person, scenarios, f"-{number}")
        check_database(person)


@pytest.mark.parametrize("engine", few(ENGINES[::-1], 1))
@pytest.mark.parametrize("count", [1, pytest.param(ROUNDS, marks=pytest.mark.soak)])
async def test_a_call_that_had_started_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineName, count: int
) -> None:
    async with desk(tmp_path, engine, monkeypatch) as person:
        for number in rounds(person, count):
            name = f"s-{number}"
            assert person.daemon.process is not None
            # The tool itself kills the hub, so the call has certainly started.
            kill = f"echo x >> {name}; kill -9 {person.daemon.process.pid}; sleep 60"
            stream = await person.begin(run(kill), say("Ready."), name=name)
            approval = await person.pending(stream)
            with suppress(EOFError, OSError, asyncio.IncompleteReadError, json.JSONDecodeError):
                await person.answer(approval)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await asyncio.to_thread(person.daemon.process.wait)
            person.daemon.start()
            end = await person.ended(stream)
            assert end["status"] == "interrupted"
            check_dense(end)
            assert "tool_result" not in types_in(end)
            following = await person.ended(await person.begin(say("Next."), name=name))
            assert following["status"] == "complete", following
            assert person.lines_in(name) == 1
            if engine == "offline":
                text = json.dumps(events_in(following, "content"))
            else:
                text = json.dumps(person.api.conversations[-1])
            assert approval["tool_use_id"] in text
            assert "outcome is unknown" in text
            # It is told once.
            again = await person.ended(await person.begin(say("Again."), name=name))
            assert "outcome is unknown" not in json.dumps(events_in(again, "content"))
        check_database(person)


@pytest.mark.parametrize("engine", few(ENGINES[::-1], 1))
@pytest.mark.parametrize("count", [1, pytest.param(ROUNDS, marks=pytest.mark.soak)])
async def test_a_parked_chat_continues_with_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineName, count: int
) -> None:
    variables = {"HUBD_CLAUDECODE_PARK_SECS": "0.05"}
    async with desk(tmp_path, engine, monkeypatch, **variables) as person:
        for number in rounds(person, count):
            name = f"s-{number}"
            stream = await person.begin_touch(name, name=name)
            approval = await person.pending(stream)
            await person.until_parked(stream)
            await person.answer(approval)
            await check_end(person, stream, approval)
            assert person.lines_in(name) == 1


async def test_a_stopped_hub_leaves_the_approval_pending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        attach = ["echo@1.0.0::once:a", "echo@1.0.0::once:b"]
        stream = await person.begin_touch(ephemeral=True, attach=attach)
        approval = await person.pending(stream)
        person.daemon.stop()
        person.daemon.start()
        [again] = (await person.one("loopback.pending"))["approvals"]
        assert again["id"] == approval["id"]
        await person.answer(approval, False, message="No.")
        end = await check_end(person, stream, approval)
        assert person.lines_in() == 0
        # The head is above the attachments, as before the chat.
        [start], [complete] = events_in(end, "start"), events_in(end, "complete")
        assert [node["handle"] for node in start["attachments"]] == attach
        tree = await person.one("claudecode.get_tree", name="s")
        assert complete["new_head"] == tree["head"]
        [below] = await person.call("arbor.node_get_children", **tree["head"])
        assert [node["id"] for node in below["children"]] == [start["attachments"][0]["node_id"]]


async def test_an_agent_that_gets_sigterm_while_it_waits_is_parked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        for pid in pids_of_stream(stream):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        await person.until_parked(stream)
        await person.answer(approval)
        await check_end(person, stream, approval)
        assert person.lines_in() == 1


async def test_a_fork_at_an_earlier_message_does_not_repeat_a_call_of_the_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        await person.ended(await person.begin(say("Before.")))
        earlier = (await person.one("claudecode.get_tree", name="s"))["head"]["node_id"]
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        person.daemon.kill()
        person.daemon.start()
        assert person.daemon.process is not None
        # The program that resumes the session follows a marker, and dies while the call runs.
        command = f"echo x >> ran; kill -9 {person.daemon.process.pid}; sleep 60"
        edited = {**approval["input"], "command": command}
        await person.answer(approval, updated_input=edited)
        await asyncio.to_thread(person.daemon.process.wait)
        person.daemon.start()
        assert (await person.ended(stream))["status"] == "interrupted"
        for name, at in (("fork", earlier), ("tip", None)):
            place = {} if at is None else {"at": at}
            await person.one("claudecode.fork", name="s", new_name=name, **place)
            end = await person.ended(await person.begin(say("Forked."), name=name))
            assert end["status"] == "complete", end
        end = await person.ended(await person.begin(say("Next.")))
        assert "outcome is unknown" in json.dumps(events_in(end, "content"))
        assert person.lines_in() == 1


@pytest.mark.soak  # it downloads the older version
async def test_an_older_claude_continues_one_of_three_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = old_claude()
    variables = {"HUBD_CLAUDECODE_PROGRAM": program}
    async with desk(tmp_path, "claude", monkeypatch, **variables) as person:
        prompt = kill_scenarios.parallel_prompt(person, ["a", "b", "c"])
        stream = await person.begin(prompt=prompt)
        first = await person.pending(stream)
        person.daemon.kill()
        person.daemon.start()
        await person.answer(first)
        end = await person.ended(stream)
        assert end["status"] == "complete", end
        check_dense(end)
        assert [person.lines_in(word) for word in "abc"] == [1, 0, 0]
        calls = [event["tool_use_id"] for event in events_in(end, "tool_use")]
        for call in calls:
            [result] = kill_scenarios.results_in(person.api.conversations[-1], call)
            is_first = call == first["tool_use_id"]
            assert ("Not carried out" in json.dumps(result)) is not is_first


async def test_a_call_that_a_version_cannot_continue_is_lost_and_reported_to_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "claude"
    offline = shlex.join(OFFLINE)
    program.write_text(
        '#!/bin/sh\nif [ "$1" = --version ]; then echo "2.0.1 (Claude Code)"; exit; fi\n'
        f'exec {offline} --session-directory="$CLAUDE_CONFIG_DIR" "$@"\n'
    )
    program.chmod(0o755)
    variables = {"HUBD_CLAUDECODE_PROGRAM": str(program)}
    async with desk(tmp_path, "claude", monkeypatch, **variables) as person:
        stream = await person.begin(prompt="run: echo x >> ran\nsay: Ready.")
        approval = await person.pending(stream)
        person.daemon.kill()
        person.daemon.start()
        await person.answer(approval)
        end = await person.ended(stream)
        assert end["status"] == "interrupted", end
        [row] = (await person.one("loopback.history"))["approvals"]
        assert row["status"] == "lost"
        assert "2.0.1" in row["message"]
        following = await person.ended(await person.begin(prompt="say: Next."))
        text = json.dumps(events_in(following, "content"))
        assert "approved by person" in text
        assert "2.0.1" in text
        assert person.lines_in() == 0
