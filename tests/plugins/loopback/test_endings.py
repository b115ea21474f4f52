"""The ends of chats that wait for approvals, and approvals whose calls can't be continued."""

import asyncio
import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from hubd.plugins.claudecode import places
from tests.fakes.failing_disk import Faults, full_disk, small_disk
from tests.plugins.claudecode.chat_support import Event, run, say
from tests.plugins.claudecode.test_recovery import pids_of_stream
from tests.plugins.loopback.kill_scenarios import check_dense, check_end
from tests.plugins.loopback.support import Desk, Failure, desk, events_in

PARKED = {"HUBD_CLAUDECODE_PARK_SECS": "0.05"}
# Seconds for a stop, however many agents wait.
STOP_SECONDS = 10


async def only_approval(person: Desk) -> Event:
    """The only approval that was ever asked."""
    [row] = (await person.one("loopback.history"))["approvals"]
    return dict(row)


def native_files(person: Desk) -> list[Path]:
    """The session files of the offline agent."""
    return list((person.daemon.home / "offline_agent").rglob("*.jsonl"))


async def words_of_next_turn(person: Desk, name: str = "s") -> str:
    """All that an offline agent says in the next turn; it repeats what it is told."""
    end = await person.ended(await person.begin(say("Next."), name=name))
    assert end["status"] == "complete", end
    return " ".join(event["text"] for event in events_in(end, "content"))


async def test_an_agent_that_is_killed_while_it_waits_withdraws_its_approval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        stream = await person.begin_touch()
        await person.pending(stream)
        for pid in pids_of_stream(stream):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        end = await person.ended(stream)
        assert end["status"] == "failed"
        check_dense(end)
        assert (await only_approval(person))["status"] == "withdrawn"


async def test_a_parked_chat_can_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch, **PARKED) as person:
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        await person.until_parked(stream)
        with pytest.raises(Failure, match="busy"):
            await person.one("claudecode.delete", name="s")
        await person.one("claudecode.cancel", stream_id=stream)
        end = await person.ended(stream)
        assert end["status"] == "cancelled"
        check_dense(end)
        with pytest.raises(Failure, match="needs no answer any more"):
            await person.answer(approval)
        # The session is free again.
        assert (await person.ended(await person.begin(say("Next."))))["status"] == "complete"
        assert person.lines_in() == 0


async def test_cancelling_a_chat_right_after_the_answer_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch, **PARKED) as person:
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        await person.until_parked(stream)
        # The chat is about to continue, and its program may start.
        await person.answer(approval)
        await person.one("claudecode.cancel", stream_id=stream)
        end = await person.ended(stream)
        assert end["status"] in ("cancelled", "complete")
        check_dense(end)
        assert person.lines_in() <= 1
        assert (await person.ended(await person.begin(say("Next."))))["status"] == "complete"


async def test_a_stop_while_a_decided_call_is_resumed_does_not_lose_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch, **PARKED) as person:
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        await person.until_parked(stream)
        await person.answer(approval)
        person.daemon.stop()
        person.daemon.start()
        end = await person.ended(stream)
        check_dense(end)
        if end["status"] == "complete":
            assert person.lines_in() == 1
        else:
            # The call had started.
            assert end["status"] == "interrupted"
            assert "outcome is unknown" in await words_of_next_turn(person)
            assert person.lines_in() <= 1


async def test_a_deadline_denies_the_call_of_a_parked_chat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch, **PARKED) as person:
        stream = await person.begin_touch(deadline_secs=1)
        approval = await person.pending(stream)
        end = await check_end(person, stream, approval)
        [resolved] = events_in(end, "approval_resolved")
        assert (resolved["approved"], resolved["by"]) == (False, "deadline")
        assert person.lines_in() == 0


async def test_an_answer_fails_while_the_disk_is_full_and_works_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "home") as mounted:
        async with desk(tmp_path, "offline", monkeypatch) as person:
            stream = await person.begin_touch()
            approval = await person.pending(stream)
            with full_disk(person.daemon, mounted=mounted):
                with pytest.raises(Failure) as caught:
                    await person.answer(approval)
                assert caught.value.code == "unavailable"
                [row] = (await person.one("loopback.pending"))["approvals"]
                assert row["id"] == approval["id"]
                assert person.lines_in() == 0
            await person.answer(approval)
            await check_end(person, stream, approval)
            assert person.lines_in() == 1
            person.daemon.stop()


async def test_a_question_is_asked_as_soon_as_the_disk_has_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults(tmp_path, tmp_path / "home")
    async with desk(tmp_path, "offline", monkeypatch, **faults.variables) as person:
        # The first call waits for the file, so that the disk fails before the second asks.
        steps = run("until [ -e go ]; do sleep 0.01; done"), run("echo x >> ran"), say("Ready.")
        stream = await person.begin(*steps)
        first = await person.pending(stream)
        await person.answer(first)
        await person.page(stream, lambda page: not page["pending_approvals"])
        with faults.on("full"):
            (person.cwd / "go").touch()
            await asyncio.sleep(0.5)
            assert (await person.one("loopback.pending"))["approvals"] == []
        second = await person.next_pending(stream, first)
        await person.answer(second)
        end = await person.ended(stream)
        assert end["status"] == "complete", end
        check_dense(end)
        assert person.lines_in() == 1


async def test_a_chat_that_parks_on_a_full_disk_continues_with_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults(tmp_path, tmp_path / "home")
    variables = {"HUBD_CLAUDECODE_PARK_SECS": "0.5", **faults.variables}
    async with desk(tmp_path, "offline", monkeypatch, **variables) as person:
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        with faults.on("full"):
            await person.until_ended(stream)
        await person.until_parked(stream)
        await person.answer(approval)
        await check_end(person, stream, approval)
        assert person.lines_in() == 1


async def test_a_subagents_call_is_lost_and_reported_to_the_next_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        prompt = "subagent: run: echo x >> ran\nsay: Ready."
        stream = await person.begin(prompt=prompt)
        approval = await person.pending(stream)
        assert approval["agent_id"]
        person.daemon.stop()
        person.daemon.start()
        end = await person.ended(stream)
        assert end["status"] == "interrupted"
        check_dense(end)
        row = await only_approval(person)
        assert row["status"] == "lost"
        assert "subagent" in row["message"]
        words = await words_of_next_turn(person)
        assert approval["tool_use_id"] in words
        assert "subagent" in words
        assert person.lines_in() == 0


async def test_a_lost_session_file_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch, **PARKED) as person:
        await person.ended(await person.begin(say("Before.")))
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        await person.until_parked(stream)
        for file in native_files(person):
            file.unlink()
        await person.answer(approval)
        await check_end(person, stream, approval)
        assert person.lines_in() == 1


async def test_the_lost_end_of_a_session_file_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch, **PARKED) as person:
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        await person.until_parked(stream)
        [file] = native_files(person)
        lines = file.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if approval["tool_use_id"].encode() not in line]
        assert len(kept) < len(lines)
        file.write_bytes(b"".join(kept))
        await person.answer(approval)
        await check_end(person, stream, approval)
        assert person.lines_in() == 1
        # In the same native session.
        assert native_files(person) == [file]


async def test_a_result_that_the_program_did_not_write_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch, **PARKED) as person:
        prompt = "parallel:\n- run: echo x >> a\n- run: echo x >> b\nsay: Ready."
        stream = await person.begin(prompt=prompt)
        first = await person.pending(stream)
        await person.answer(first)
        second = await person.next_pending(stream, first)
        await person.until_parked(stream)
        for file in native_files(person):
            lines = file.read_bytes().splitlines(keepends=True)
            lost = f'"tool_use_id":"{first["tool_use_id"]}"'.encode()
            file.write_bytes(b"".join(line for line in lines if lost not in line))
        await person.answer(second)
        end = await person.ended(stream)
        assert end["status"] == "complete", end
        assert (person.lines_in("a"), person.lines_in("b")) == (1, 1)
        assert len(events_in(end, "tool_result")) == 2


async def test_a_session_that_another_program_continued_loses_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch, **PARKED) as person:
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        await person.until_parked(stream)
        [file] = native_files(person)
        last = json.loads(file.read_bytes().splitlines()[-1])
        entry = {
            **{name: last[name] for name in ("sessionId", "cwd", "version", "timestamp")},
            "type": "user",
            "uuid": "99999999-2222-4333-8444-555555555555",
            "parentUuid": last["uuid"],
            "isSidechain": False,
            "message": {"role": "user", "content": "by hand"},
        }
        with file.open("a") as lines:
            lines.write(json.dumps(entry, separators=(",", ":")) + "\n")
        await person.answer(approval, False, message="Not today.")
        end = await person.ended(stream)
        assert end["status"] == "interrupted", end
        row = await only_approval(person)
        assert row["status"] == "lost"
        assert "Not today." in row["message"]
        assert "Not today." in await words_of_next_turn(person)
        assert person.lines_in() == 0


async def test_an_ephemeral_chat_survives_a_kill_and_leaves_the_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        await person.ended(await person.begin(say("Before.")))
        before = (await person.one("claudecode.get_tree", name="s"))["head"]
        stream = await person.begin_touch(ephemeral=True)
        approval = await person.pending(stream)
        person.daemon.kill()
        person.daemon.start()
        await person.answer(approval)
        await check_end(person, stream, approval)
        assert person.lines_in() == 1
        assert (await person.one("claudecode.get_tree", name="s"))["head"] == before


async def test_waiting_for_an_approval_is_not_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More than a busy machine needs to start the agent.
    variables = {"HUBD_CLAUDECODE_SILENCE_SECONDS": "2"}
    async with desk(tmp_path, "offline", monkeypatch, **variables) as person:
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        await asyncio.sleep(2.5)
        await person.answer(approval)
        await check_end(person, stream, approval)


@pytest.mark.soak
async def test_an_approval_stays_open_for_400_seconds_without_parking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        stream = await person.begin_touch()
        approval = await person.pending(stream)
        before = pids_of_stream(stream)
        await asyncio.sleep(400)
        assert pids_of_stream(stream) == before
        await person.answer(approval)
        await check_end(person, stream, approval)
        assert person.lines_in() == 1


@pytest.mark.soak
@pytest.mark.parametrize("count", [200])
async def test_many_approvals_at_once_are_all_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        # So many programs keep the machine busy.
        person.patience *= 10
        names = [f"s-{number}" for number in range(count)]
        chats = [await person.begin_touch(name, name=name) for name in names]
        asked: list[Event] = []
        deadline = time.monotonic() + 300
        while len(asked) < count:
            assert time.monotonic() < deadline, len(asked)
            asked = (await person.one("loopback.pending"))["approvals"]
            assert sum(bool(pids_of_stream(chat)) for chat in chats[:5]) <= places.MAX_RUNNING
            await asyncio.sleep(0.5)
        alive = sum(bool(pids_of_stream(chat)) for chat in chats)
        assert alive <= places.MAX_RUNNING
        await asyncio.gather(*(person.answer(approval) for approval in asked))
        for name, chat in zip(names, chats, strict=True):
            end = await person.ended(chat)
            assert end["status"] == "complete", end
            check_dense(end)
            assert person.lines_in(name) == 1


@pytest.mark.soak
async def test_a_hub_with_64_waiting_agents_stops_in_time_and_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, "offline", monkeypatch) as person:
        # So many programs keep the machine busy.
        person.patience *= 10
        names = [f"s-{number}" for number in range(64)]
        chats = [await person.begin_touch(name, name=name) for name in names]
        approvals = [await person.pending(chat) for chat in chats]
        started = time.monotonic()
        person.daemon.stop()
        assert time.monotonic() - started < STOP_SECONDS
        person.daemon.start()
        for approval in approvals:
            await person.answer(approval)
        for name, chat in zip(names, chats, strict=True):
            assert (await person.ended(chat))["status"] == "complete"
            assert person.lines_in(name) == 1
