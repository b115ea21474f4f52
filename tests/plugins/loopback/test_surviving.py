"""Approvals that outlive their process and their hub."""

import asyncio
import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from hubd.storage.maintenance import check
from tests.plugins.claudecode.chat_support import ENGINES, EngineName, run, say
from tests.plugins.claudecode.test_recovery import pids_of_stream
from tests.plugins.loopback import kill_scenarios
from tests.plugins.loopback.kill_scenarios import check_dense, check_end
from tests.plugins.loopback.support import Desk, desk, events_in, types_in
from tests.support import PATIENCE_SECONDS

# In the marked run; a variable for a shorter one.
ROUNDS = int(os.environ.get("HUBD_TEST_ROUNDS", "100"))


def check_database(person: Desk) -> None:
    """Stop the daemon; its database has no fault."""
    person.daemon.stop()
    findings = check(person.daemon.home / "hub.db")
    assert [finding for finding in findings if not finding.ok] == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rounds", [1, pytest.param(ROUNDS, marks=pytest.mark.soak)])
async def test_calls_that_wait_survive_kills_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineName, rounds: int
) -> None:
    async with desk(tmp_path, engine, monkeypatch) as person:
        is_short = engine == "claude" and rounds == 1
        scenarios = kill_scenarios.SHORT if is_short else kill_scenarios.ALL
        for number in range(rounds):
            await kill_scenarios.run_all(person, scenarios, f"-{number}")
        check_database(person)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rounds", [1, pytest.param(ROUNDS, marks=pytest.mark.soak)])
async def test_a_call_that_had_started_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineName, rounds: int
) -> None:
    async with desk(tmp_path, engine, monkeypatch) as person:
        for number in range(rounds):
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
                told = json.dumps(events_in(following, "content"))
            else:
                told = json.dumps(person.api.conversations[-1])
            assert approval["tool_use_id"] in told
            assert "outcome is unknown" in told
            # It is told once.
            again = await person.ended(await person.begin(say("Again."), name=name))
            assert "outcome is unknown" not in json.dumps(events_in(again, "content"))
        check_database(person)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rounds", [1, pytest.param(ROUNDS, marks=pytest.mark.soak)])
async def test_a_parked_chat_continues_with_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineName, rounds: int
) -> None:
    variables = {"HUBD_CLAUDECODE_PARK_SECS": "0.05"}
    async with desk(tmp_path, engine, monkeypatch, **variables) as person:
        for number in range(rounds):
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
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        person.daemon.stop()
        person.daemon.start()
        [again] = (await person.one("loopback.pending"))["approvals"]
        assert again["id"] == approval["id"]
        await person.answer(approval, False, message="No.")
        await check_end(person, stream, approval)
        assert person.lines_in() == 0


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
