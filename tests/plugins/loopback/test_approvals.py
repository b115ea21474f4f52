"""Tool calls that wait for an approval, and the answers of a person."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.plugins.claudecode.chat_support import ENGINES, EngineName, run, say
from tests.plugins.loopback.support import Failure, desk, events_in, types_in
from tests.process.test_agents import CALLER
from tests.support import few


@pytest.mark.parametrize("engine", few(ENGINES[::-1], 1))
async def test_a_call_waits_for_an_approval_and_runs_when_it_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineName
) -> None:
    async with desk(tmp_path, engine, monkeypatch) as person:
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        assert approval["tool_name"] == "Bash"
        assert approval["input"]["command"] == "echo x >> ran"
        assert approval["status"] == "pending"
        page = await person.one("claudecode.poll", stream_id=stream, from_seq=0)
        assert page["status"] == "awaiting_permission"
        kinds = [kind for kind in types_in(page) if kind != "assistant_message"]
        assert kinds[-2:] == ["tool_use", "awaiting_approval"]
        [listed] = (await person.one("loopback.pending"))["approvals"]
        assert listed["id"] == approval["id"]
        assert person.lines_in() == 0

        answered = await person.answer(approval)
        assert (answered["type"], answered["approval_id"]) == ("ok", approval["id"])
        end = await person.ended(stream)
        assert end["status"] == "complete"
        # The end of the message with the call may come before or after the question.
        kinds = [kind for kind in types_in(end) if kind != "assistant_message"]
        assert kinds[kinds.index("awaiting_approval") :] == [
            "awaiting_approval",
            "approval_resolved",
            "tool_result",
            "content",
            "complete",
        ]
        [resolved] = events_in(end, "approval_resolved")
        assert (resolved["approved"], resolved["by"]) == (True, "person")
        assert [record["seq"] for record in end["events"]] == list(range(end["total_events"]))
        assert person.lines_in() == 1
        assert (await person.one("loopback.pending"))["approvals"] == []
        [handle] = [event["approval"] for event in events_in(end, "awaiting_approval")]
        resolved = await person.one("plexus.resolve_handle", handle=handle)
        assert (resolved["kind"], resolved["data"]["status"]) == ("approval", "approved")


async def test_a_person_answers_over_the_websocket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        answer = json.dumps({"approval_id": approval["id"], "approve": True})
        command = [str(CALLER), str(person.daemon.home), "loopback.respond", answer, "websocket"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        assert json.loads(output) == {"websocket": "ok"}
        end = await person.ended(stream)
        [resolved] = events_in(end, "approval_resolved")
        assert resolved["by"] == "person"
        assert person.lines_in() == 1


async def test_a_denied_call_does_not_run_and_the_agent_reads_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        stream = await person.begin_touch()
        await person.answer(await person.pending(stream), False, message="Not today.")
        end = await person.ended(stream)
        assert end["status"] == "complete"
        [result] = events_in(end, "tool_result")
        assert result["is_error"]
        assert "Not today." in result["output"]
        assert person.lines_in() == 0
        [row] = (await person.one("loopback.history"))["approvals"]
        assert (row["status"], row["message"], row["by"]) == ("denied", "Not today.", "person")


async def test_a_denial_without_a_message_has_none_in_its_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        stream = await person.begin_touch()
        await person.answer(await person.pending(stream), False)
        end = await person.ended(stream)
        [resolved] = events_in(end, "approval_resolved")
        assert not resolved.get("message")
        # The agent needs some words.
        [result] = events_in(end, "tool_result")
        assert "The call was denied." in result["output"]


async def test_an_edited_input_runs_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        edited = {**approval["input"], "command": "echo x >> edited"}
        await person.answer(approval, updated_input=edited)
        end = await person.ended(stream)
        assert (person.lines_in(), person.lines_in("edited")) == (0, 1)
        [resolved] = events_in(end, "approval_resolved")
        assert resolved["updated_input"] == edited


async def test_the_same_answer_twice_succeeds_and_another_one_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        first, second = await asyncio.gather(
            person.answer(approval, True),
            person.answer(approval, False),
            return_exceptions=True,
        )
        failures = [each for each in (first, second) if isinstance(each, Failure)]
        assert [failure.code for failure in failures] == ["conflict"]
        assert "person" in failures[0].message
        end = await person.ended(stream)
        [resolved] = events_in(end, "approval_resolved")
        assert person.lines_in() == int(resolved["approved"])
        again = await person.answer(approval, resolved["approved"])
        assert again["status"] == ("approved" if resolved["approved"] else "denied")


async def test_cancelling_a_chat_withdraws_its_approval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        await person.one("claudecode.cancel", stream_id=stream)
        end = await person.ended(stream)
        assert end["status"] == "cancelled"
        [row] = (await person.one("loopback.history"))["approvals"]
        assert row["status"] == "withdrawn"
        with pytest.raises(Failure, match="needs no answer any more"):
            await person.answer(approval)
        assert person.lines_in() == 0


async def test_parallel_calls_are_asked_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        stream = await person.begin(
            run("echo x >> a"), run("echo x >> b"), say("Ready."), name="two"
        )
        for _ in range(2):
            approval = await person.pending(stream)
            await person.answer(approval)
            await person.page(
                stream,
                lambda page, asked=approval["id"]: all(  # type: ignore[misc]
                    row["id"] != asked for row in page["pending_approvals"]
                ),
            )
        assert (await person.ended(stream))["status"] == "complete"
        assert (person.lines_in("a"), person.lines_in("b")) == (1, 1)


async def test_an_approval_is_denied_at_its_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        stream = await person.begin_touch(deadline_secs=1)
        end = await person.ended(stream)
        [resolved] = events_in(end, "approval_resolved")
        assert (resolved["approved"], resolved["by"]) == (False, "deadline")
        assert person.lines_in() == 0


async def test_without_loopback_the_rules_of_the_agent_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        stream = await person.begin_touch(loopback_enabled=False)
        end = await person.ended(stream)
        assert "awaiting_approval" not in types_in(end)
        assert person.lines_in() == 0
