"""`kill -9` of the hub in the middle of a chat: nothing read is lost, nothing is left running."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path

import pytest

from tests.plugins.claudecode.chat_support import (
    HANG,
    EngineName,
    Event,
    is_sound,
    plain,
    run,
    say,
    text_of,
    think,
)
from tests.plugins.claudecode.daemon_support import Caller, daemon_and_caller
from tests.support import PATIENCE_SECONDS, Daemon, few, hubd

# A chat that waits to be killed has about so many events.
MOST_EVENTS = 22


async def read_and_kill(daemon: Daemon, caller: Caller, stream_id: str, reads: int) -> list[Event]:
    """Read event by event, kill the daemon after so many, and return the events."""
    seen: list[Event] = []
    while len(seen) < reads:
        asked = {"stream_id": stream_id, "from_seq": len(seen), "limit": 1, "wait_ms": 300}
        [page] = await caller.call("poll", **asked)
        if not page["events"]:
            break  # it hangs, as it was asked to
        seen += page["events"]
    daemon.kill()
    return seen


async def left_of(stream_id: str) -> set[int]:
    """Return the processes with the mark of a chat that do not end by themselves."""
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while _marked(stream_id):
                await asyncio.to_thread(_marked, stream_id)
    return _marked(stream_id)


def _marked(stream_id: str) -> set[int]:
    mark = f"HUBD_STREAM={stream_id}".encode()
    pids = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            zombie = b") Z " in (entry / "stat").read_bytes()
            if not zombie and mark in (entry / "environ").read_bytes().split(b"\0"):
                pids.add(int(entry.name))
    return pids


@pytest.mark.parametrize(
    ("engine", "kills"),
    [
        ("offline", 3),
        pytest.param("claude", 1, marks=pytest.mark.soak),
        pytest.param("offline", 50, marks=pytest.mark.soak),
        pytest.param("claude", 50, marks=pytest.mark.soak),
    ],
)
async def test_a_chat_survives_the_kill_of_the_hub_as_far_as_it_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineName, kills: int
) -> None:
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    async with daemon_and_caller(tmp_path, engine, monkeypatch) as (daemon, caller, api):
        for kill in range(kills):
            where = f"kill {kill} with seed {seed}"
            stream = await caller.begin(think("hm"), say("a"), run("echo b"), say("c"), HANG)
            seen = await read_and_kill(daemon, caller, stream, dice.randint(0, MOST_EVENTS))
            daemon.start()
            kept = await caller.records(stream)
            assert [record["seq"] for record in kept] == list(range(len(kept))), where
            assert [_event(record) for record in kept[: len(seen)]] == [
                _event(record) for record in seen
            ], where
            [listed] = await caller.call("streams", name="s")
            assert listed["streams"][0]["status"] == "interrupted", where
            assert kept[-1]["event"] == {
                **kept[-1]["event"],
                "type": "error",
                "code": "interrupted",
            }
            going_on = await caller.begin(say(f"round {kill}"))
            events = [record["event"] for record in await caller.records(going_on)]
            assert events[-1]["type"] == "complete", (where, events[-1])
            assert await left_of(stream) == set(), where
            context = plain(await caller.call("render_context", name="s"))
            assert is_sound(context), where
            if engine == "claude":
                assert plain(api.conversations[-1]) == context[:-1], where
        words = [text for role, text in text_of(context) if role == "assistant"]
        rounds = [text for text in words if text.startswith("round")]
        assert rounds == [f"round {kill}" for kill in range(kills)], f"seed {seed}"
        daemon.stop()
        checked = hubd("check", home=daemon.home)
        assert checked.returncode == 0, f"{checked.stdout} with seed {seed}"


async def test_a_queued_chat_runs_after_a_kill_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon_and_caller(tmp_path, "offline", monkeypatch) as (daemon, caller, _):
        first = await caller.begin(HANG)
        second, third = await caller.begin(say("second")), await caller.begin(say("third"))
        daemon.kill()
        daemon.start()
        for stream, text in ((second, "second"), (third, "third")):
            events = [record["event"] for record in await caller.records(stream)]
            assert events[-1]["type"] == "complete"
            assert [event["text"] for event in events if event["type"] == "content"] == [text]
        [listed] = await caller.call("streams", name="s")
        statuses = {row["stream_id"]: row["status"] for row in listed["streams"]}
        assert statuses == {first: "interrupted", second: "complete", third: "complete"}
        assert await left_of(first) == set()


@pytest.mark.parametrize("engine", few(["offline", "claude"], 1))
async def test_a_hub_that_is_asked_to_stop_interrupts_the_chat_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineName
) -> None:
    async with daemon_and_caller(tmp_path, engine, monkeypatch) as (daemon, caller, _):
        stream = await caller.begin(say("a"), run("tail -f /dev/null"))
        seq = 0
        kinds: list[str] = []
        while "tool_use" not in kinds:
            [page] = await caller.call("poll", stream_id=stream, from_seq=seq, wait_ms=10_000)
            kinds += [record["event"]["type"] for record in page["events"]]
            seq = page["read_position"]
        daemon.stop()
        assert await left_of(stream) == set()
        daemon.start()
        kept = await caller.records(stream)
        assert kept[-1]["event"]["code"] == "interrupted"
        [listed] = await caller.call("streams", name="s")
        assert listed["streams"][0]["status"] == "interrupted"


def _event(record: Event) -> tuple[int, str, Event]:
    return record["seq"], record["node_id"], record["event"]
