"""Approvals that outlive their process and their hub."""

from pathlib import Path

import pytest

from tests.plugins.claudecode.chat_support import ENGINES, EngineName, Event
from tests.plugins.loopback.support import Desk, desk, events_in, types_in


def check_record(end: Event, tool_use_id: str) -> None:
    """One stream without gaps: one question, one answer, one result of the same call."""
    assert [record["seq"] for record in end["events"]] == list(range(end["total_events"]))
    kinds = types_in(end)
    for kind in ("tool_use", "awaiting_approval", "approval_resolved", "tool_result"):
        assert kinds.count(kind) == 1, kinds
    [result] = events_in(end, "tool_result")
    assert result["tool_use_id"] == tool_use_id


def results_told(person: Desk, tool_use_id: str) -> int:
    """How many results of a call the newest request to the API has."""
    if person.engine == "offline":
        return 1
    blocks = [block for message in person.api.conversations[-1] for block in message["content"]]
    return sum(
        isinstance(block, dict) and block.get("tool_use_id") == tool_use_id for block in blocks
    )


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_killed_hub_carries_out_the_same_call_once_after_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineName
) -> None:
    async with desk(tmp_path, engine, monkeypatch) as person:
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        person.daemon.kill()
        person.daemon.start()
        [again] = (await person.one("loopback.pending"))["approvals"]
        assert again["id"] == approval["id"]
        await person.answer(approval)
        end = await person.ended(stream)
        assert end["status"] == "complete", end
        check_record(end, approval["tool_use_id"])
        assert person.lines_in() == 1
        assert results_told(person, approval["tool_use_id"]) == 1


async def test_a_parked_chat_continues_with_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"HUBD_CLAUDECODE_PARK_SECS": "0.05"}
    async with desk(tmp_path, "offline", monkeypatch, **variables) as person:
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        await person.until_parked(stream)
        await person.answer(approval)
        end = await person.ended(stream)
        assert end["status"] == "complete", end
        check_record(end, approval["tool_use_id"])
        assert person.lines_in() == 1


async def test_a_stopped_hub_leaves_the_approval_pending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        person.daemon.stop()
        person.daemon.start()
        await person.answer(approval, False, message="No.")
        end = await person.ended(stream)
        assert end["status"] == "complete", end
        check_record(end, approval["tool_use_id"])
        assert person.lines_in() == 0
