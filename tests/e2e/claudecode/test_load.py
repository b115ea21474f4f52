"""Chats that are large, long or many: the hub stays small, quick to answer, and loses nothing."""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from tests.plugins.claudecode.chat_support import Event, Step, run, say
from tests.plugins.claudecode.daemon_support import daemon_and_caller
from tests.support import Daemon, few

MIB: Final = 1024 * 1024


def memory(daemon: Daemon, which: str) -> int:
    """Return the memory of the daemon in bytes, now (VmRSS) or at most so far (VmHWM)."""
    assert daemon.process is not None
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith(which)]
    return int(line.split()[1]) * 1024


def of(records: list[Event], kind: str) -> list[Event]:
    """Return the events of a type."""
    return [record["event"] for record in records if record["event"]["type"] == kind]


# The allocator returns a block to the system at once if it is larger than 32 MiB.
@pytest.mark.parametrize("size", few([33 * MIB, 50 * MIB], 1))
async def test_a_large_tool_output_is_kept_whole_and_its_memory_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    async with daemon_and_caller(tmp_path, "offline", monkeypatch) as (daemon, caller, _):
        await caller.records(await caller.begin(say("warm")))
        before = memory(daemon, "VmRSS")
        records = await caller.records(await caller.begin(Step("big", str(size))))
        assert of(records, "complete")
        [result] = of(records, "tool_result")
        # The event has only the beginning; the block has all of it.
        assert result["truncated"] == size
        assert len(result["output"]) < MIB
        # A line holds it twice, and parsing, checking and storing it make copies. Their number is
        # bounded, and none is left when it is stored.
        assert memory(daemon, "VmHWM") < before + 10 * size
        assert memory(daemon, "VmRSS") < before + size
        blob_id = result["block"].split("::")[1].split(":")[1]
        [block] = await caller.call("get_block", blob_id=blob_id)
        content = block["data"]["block"]["content"]
        assert len(content if isinstance(content, str) else content[0]["text"]) == size


@pytest.mark.parametrize("count", few([80, 1000], 1))
async def test_many_tool_calls_in_one_turn_are_all_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    async with daemon_and_caller(tmp_path, "offline", monkeypatch) as (daemon, caller, _):
        await caller.records(await caller.begin(say("warm")))
        before = memory(daemon, "VmRSS")
        calls = [Step("big", str(100 + number)) for number in range(count)]
        records = await caller.records(await caller.begin(*calls))
        assert of(records, "complete")
        assert [record["seq"] for record in records] == list(range(len(records)))
        called = [event["tool_use_id"] for event in of(records, "tool_use")]
        given = {event["tool_use_id"]: len(event["output"]) for event in of(records, "tool_result")}
        assert [given[each] for each in called] == [100 + number for number in range(count)]
        assert memory(daemon, "VmHWM") < before + 64 * MIB


@pytest.mark.parametrize("chats", few([8, 20], 1))
async def test_chats_at_once_lose_nothing_while_other_calls_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chats: int
) -> None:
    async with daemon_and_caller(tmp_path, "offline", monkeypatch) as (daemon, caller, _):
        pings = 0
        over = asyncio.Event()

        async def ping() -> None:
            nonlocal pings
            async with daemon.client() as client:
                while not over.is_set():
                    items = await client.call("echo.ping")
                    assert [item["type"] for item in items] == ["data", "done"]
                    pings += 1

        async def chat(number: int) -> list[Event]:
            steps = [Step("repeat", f"200 <{number}>"), run(f"echo {number}"), say("end")]
            return await caller.records(await caller.begin(*steps, name=f"s{number}"))

        pinging = asyncio.ensure_future(ping())
        ended = await asyncio.gather(*(chat(number) for number in range(chats)))
        at_end = pings
        over.set()
        await pinging
        for number, records in enumerate(ended):
            assert [record["seq"] for record in records] == list(range(len(records)))
            texts = [event["text"] for event in of(records, "content")]
            assert texts == [f"<{number}>" * 200, "end"]
            assert [event["output"] for event in of(records, "tool_result")] == [str(number)]
            assert of(records, "complete")
        # The daemon answered other calls all the while.
        assert at_end > len(ended)
