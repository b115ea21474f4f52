"""A disk that fails under a chat: its end is written as soon as the disk works again."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.e2e.claudecode.test_crash import left_of
from tests.fakes.failing_disk import Faults, full_disk, small_disk
from tests.fakes.gate import Gate
from tests.plugins.claudecode.chat_support import HANG, Event, run, say
from tests.plugins.claudecode.daemon_support import Caller, daemon_and_caller
from tests.support import PATIENCE_SECONDS, Daemon, hubd


@asynccontextmanager
async def on_a_faulty_disk(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Faults, Daemon, Caller]]:
    """A daemon with a disk that fails when the test wants it to."""
    faults = Faults(directory, directory / "home")
    here = daemon_and_caller(directory, "offline", monkeypatch, **faults.variables)
    async with here as (daemon, caller, _):
        yield faults, daemon, caller


async def until_event(caller: Caller, stream_id: str, kind: str) -> None:
    """Wait for the first durable event of a type."""
    seq = 0
    while True:
        [page] = await caller.call("poll", stream_id=stream_id, from_seq=seq, wait_ms=10_000)
        if kind in [record["event"]["type"] for record in page["events"]]:
            return
        seq = page["read_position"]


async def until_said(caller: Caller, stream_id: str) -> None:
    """Wait until the text of a block that is still growing is shown."""
    async with caller.stream("follow", stream_id=stream_id) as items:
        async for item in items:
            if item.get("content", {}).get("event", {}).get("type") == "content_delta":
                return


async def status_of(caller: Caller, stream_id: str) -> str:
    [page] = await caller.call("poll", stream_id=stream_id, from_seq=0)
    return str(page["status"])


async def refusal_of_delete(caller: Caller) -> Event:
    """Return the error of `delete` when the hub has noticed that the disk fails."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            items = await caller.items("delete", name="s")
            assert items[-2]["type"] == "error", items
            if items[-2]["code"] != "conflict":
                assert items[-2]["code"] == "unavailable"
                return items[-2]


async def test_a_chat_that_ends_on_a_full_disk_is_complete_once_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "home") as mounted, Gate(tmp_path / "gate") as gate:
        async with daemon_and_caller(tmp_path, "offline", monkeypatch) as (daemon, caller, _):
            stream = await caller.begin(run(f"read line < {tmp_path / 'gate'}"), say("the end"))
            await until_event(caller, stream, "tool_use")
            with full_disk(daemon, mounted=mounted):
                gate.open()
                refusal = await refusal_of_delete(caller)
                assert "refuses the end of the chat" in refusal["message"]
                # Readers see it as running, and nothing of what follows.
                assert await status_of(caller, stream) == "running"
            events = [record["event"] for record in await caller.records(stream)]
            assert events[-1]["type"] == "complete"
            assert [event["text"] for event in events if event["type"] == "content"] == ["the end"]
            # The next chat goes on from there, and the session can go.
            again = [each["event"] for each in await caller.records(await caller.begin(say("on")))]
            assert again[-1]["type"] == "complete"
            await caller.call("delete", name="s")
            daemon.stop()
            checked = hubd("check", home=daemon.home)
            assert checked.returncode == 0, checked.stdout


async def test_a_chat_is_cancelled_at_once_although_its_end_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_a_faulty_disk(tmp_path, monkeypatch) as (faults, daemon, caller):
        stream = await caller.begin(say("so far"), HANG)
        await until_said(caller, stream)
        with faults.on("fsync"):
            items = await caller.items("cancel", stream_id=stream)
            assert [item["type"] for item in items] == ["guidance", "data", "done"], items
            assert items[0]["error_type"] == "end_not_written"
            answer = items[1]["content"]
            assert (answer["status"], answer["written"]) == ("running", False)
            assert await left_of(stream) == set()
            assert (await refusal_of_delete(caller))["recoverable"]
        # Without a restart: the end is written as soon as the disk works.
        records = await caller.records(stream)
        assert (records[-1]["event"]["type"], records[-1]["event"]["code"]) == (
            "error",
            "cancelled",
        )
        [answer] = await caller.call("cancel", stream_id=stream)
        assert (answer["status"], answer["written"]) == ("cancelled", True)
        # A stop does not wait for a disk that fails, and the next start tells how it ended.
        second = await caller.begin(HANG)
        await until_said(caller, second)
        with faults.on("fsync"):
            # 1: it did not end by itself.
            assert daemon.stop() != 1
        daemon.start()
        records = await caller.records(second)
        assert records[-1]["event"]["code"] == "interrupted"


async def test_chats_that_begin_while_the_disk_fails_run_once_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_a_faulty_disk(tmp_path, monkeypatch) as (faults, _, caller):
        first = await caller.begin(HANG)
        queued = await caller.begin(say("queued"))
        await until_said(caller, first)
        with faults.on("full"):
            await caller.items("cancel", stream_id=first)
            refused = await caller.items("chat_async", name="other", prompt="hi", model="offline")
            assert refused[-2]["code"] == "unavailable"
            assert await status_of(caller, queued) == "queued"
        events = [record["event"] for record in await caller.records(queued)]
        assert [event["text"] for event in events if event["type"] == "content"] == ["queued"]
        assert events[-1]["type"] == "complete"


@pytest.mark.soak
async def test_after_faults_and_kills_at_random_moments_every_chat_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    async with on_a_faulty_disk(tmp_path, monkeypatch) as (faults, daemon, caller):
        seen: dict[str, list[Event]] = {}

        async def watch(stream: str) -> None:
            """Keep every event that a reader got, until the daemon goes."""
            with suppress(ConnectionError, FileNotFoundError):
                async with caller.stream("follow", stream_id=stream) as items:
                    async for item in items:
                        if item.get("content", {}).get("type") == "event":
                            seen[stream].append(item["content"])

        for step in range(25):
            where = f"round {step} with seed {seed}"
            watchers = []
            for number in range(3):
                steps = [say("a" * 2000), run("echo b"), say("c")]
                started = await caller.begin(*steps, name=f"s{number}", prefix="slow: 0.3\n")
                seen[started] = []
                watchers.append(asyncio.ensure_future(watch(started)))
            for _ in range(dice.randint(0, 4)):
                with faults.on(dice.choice(["fsync", "full"])):
                    await asyncio.sleep(dice.random() * 0.3)
                await asyncio.sleep(dice.random() * 0.1)
            if dice.random() < 0.4:
                with suppress(ConnectionError):
                    daemon.kill()
                daemon.start()
            await asyncio.wait(watchers)
            for stream, events in seen.items():
                kept = await caller.records(stream)
                assert kept[: len(events)] == events, where
                assert kept[-1]["event"]["type"] in ("complete", "error"), where
            seen.clear()
        pages = await caller.call("streams")
        statuses = {row["status"] for page in pages for row in page["streams"]}
        assert statuses <= {"complete", "interrupted"}, (statuses, seed)
        daemon.stop()
        checked = hubd("check", home=daemon.home)
        assert checked.returncode == 0, f"{checked.stdout} with seed {seed}"
