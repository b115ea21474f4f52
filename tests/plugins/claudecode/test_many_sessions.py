"""Hundreds of sessions and many chats in one daemon: bounded memory, and prompt answers."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from hubd.plugins.claudecode.places import MAX_RUNNING
from tests.fakes.gate import Gate
from tests.plugins.claudecode.chat_support import Event, Step, run, say
from tests.plugins.claudecode.daemon_support import Caller, daemon_and_caller
from tests.support import PATIENCE_SECONDS, Daemon, LineClient

SESSIONS: Final = 200
# Of each kind: those that talk all the time, and those that wait in a tool.
TALKING: Final = 10
WAITING: Final = 10
# Calls that are answered meanwhile, by so many clients at once.
CALLS: Final = 200
CLIENTS: Final = 4

KIB: Final = 1024
# A session is rows in the database: 200 of them, listed and all, took 1.1 MiB, most of it caches
# that grow no further. A reader, a buffer or a thread for each would be several times this.
PER_SESSION: Final = 64 * KIB
# A chat that runs is a child's pipes and the block that it is writing: 20 took 1.4 MiB, and 200,
# of which 64 ran at a time, 8 MiB.
PER_CHAT: Final = 512 * KIB
# A daemon takes so many connections at one moment, and more.
AT_ONCE: Final = 40

# Fifty pieces of text a second, for an hour.
TALK: Final = (Step("slow", "3600"), Step("repeat", "180000 word "))


def resident(daemon: Daemon) -> int:
    """The memory of a daemon, in bytes."""
    assert daemon.process is not None
    return int(Path(f"/proc/{daemon.process.pid}/statm").read_text().split()[1]) * 4096


async def statuses(caller: Caller) -> Counter[str]:
    """How many chats there are of each status."""
    pages = await caller.call("streams")
    return Counter(row["status"] for page in pages for row in page["streams"])


async def said(client: LineClient, stream_id: str, at_least: int = 1) -> int:
    """How many characters a chat has said that is still talking, once they are so many."""
    call = {"method": "claudecode.follow", "params": {"stream_id": stream_id}}
    await client.send("plexus.call", call)
    await client.receive()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            content = (await client.receive())["params"]["result"]["content"]
            event: Event = content["event"]
            if event["type"] == "content_delta":
                length: int = event["offset"] + len(event["text"])
                if length >= at_least:
                    return length


async def ask(daemon: Daemon, calls: list[tuple[str, dict[str, Any]]]) -> int:
    """Make calls one after the other; how many of them were answered as they should."""
    answered = 0
    async with daemon.client() as client:
        for method, params in calls:
            items = await client.call(method, params)
            assert {item["type"] for item in items} == {"data", "done"}, items
            answered += 1
    return answered


@asynccontextmanager
async def many_sessions(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Daemon, Caller]]:
    """A daemon with all its sessions, and its memory use before the chats."""
    async with daemon_and_caller(directory, "offline", monkeypatch) as (daemon, caller, _):
        # Modules that are imported on first use are imported now.
        await caller.records(await caller.begin(say("warm"), name="warm"))
        await caller.call("list")
        before = resident(daemon)
        options = {"model": "offline", "allowed_tools": ["Bash"]}
        for number in range(SESSIONS):
            await caller.call("create", name=f"s{number}", **options)
        pages = await caller.call("list")
        assert sum(len(page["sessions"]) for page in pages) == SESSIONS + 1
        assert resident(daemon) < before + SESSIONS * PER_SESSION
        yield daemon, caller


async def test_other_calls_are_answered_while_twenty_of_two_hundred_sessions_chat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with many_sessions(tmp_path, monkeypatch) as (daemon, caller):
        before = resident(daemon)
        with ExitStack() as gates:
            reached, references = (
                [gates.enter_context(Gate(tmp_path / f"{kind}{n}")) for n in range(WAITING)]
                for kind in ("reached", "held")
            )
            talking = [await caller.begin(*TALK, name=f"s{n}") for n in range(TALKING)]
            waiting = []
            for n in range(WAITING):
                wait = run(
                    f"echo > {tmp_path / f'reached{n}'}; read line < {tmp_path / f'held{n}'}"
                )
                waiting.append(await caller.begin(wait, say(f"end {n}"), name=f"s{TALKING + n}"))
            await asyncio.gather(*(gate.reached() for gate in reached))
            async with daemon.client() as client:
                so_far = await said(client, talking[-1])

            # All chats hang until these calls are answered.
            questions: list[tuple[str, dict[str, Any]]] = [
                ("claudecode.list", {}),
                ("echo.once", {"message": "hello"}),
                *(("claudecode.poll", {"stream_id": each, "from_seq": 0}) for each in talking),
                ("claudecode.get", {"name": f"s{SESSIONS - 1}"}),
                ("arbor.tree_list", {}),
                *(("claudecode.poll", {"stream_id": each, "from_seq": 0}) for each in waiting),
            ]
            calls = (questions * CALLS)[: CALLS // CLIENTS]
            answered = await asyncio.gather(*(ask(daemon, calls) for _ in range(CLIENTS)))
            assert sum(answered) == CALLS
            assert await statuses(caller) == {"running": TALKING + WAITING, "complete": 1}
            # And all the while they have been talking.
            async with daemon.client() as client:
                assert await said(client, talking[-1], so_far + 1) > so_far
            assert resident(daemon) < before + (TALKING + WAITING) * PER_CHAT

            for gate in references:
                gate.open()
            for n, stream in enumerate(waiting):
                events = [record["event"] for record in await caller.records(stream)]
                assert [each["text"] for each in events if each["type"] == "content"][-1] == (
                    f"end {n}"
                )
        for stream in talking:
            [cancelled] = await caller.call("cancel", stream_id=stream)
            assert cancelled["status"] == "cancelled"
        assert await statuses(caller) == {"complete": 1 + WAITING, "cancelled": TALKING}


@pytest.mark.soak
async def test_two_hundred_chats_at_once_run_some_at_a_time_and_all_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with many_sessions(tmp_path, monkeypatch) as (daemon, caller):
        before = resident(daemon)
        few = asyncio.Semaphore(AT_ONCE)

        async def chat(number: int) -> tuple[str, int]:
            async with few:
                stream = await caller.begin(say(f"I am {number}"), name=f"s{number}")
                return stream, (await statuses(caller))["running"]

        begun = await asyncio.gather(*(chat(number) for number in range(SESSIONS)))
        assert max(running for _, running in begun) <= MAX_RUNNING
        for number, (stream, _) in enumerate(begun):
            events = [record["event"] for record in await caller.records(stream)]
            texts = [each["text"] for each in events if each["type"] == "content"]
            assert (texts, events[-1]["type"]) == ([f"I am {number}"], "complete")
        assert await statuses(caller) == {"complete": SESSIONS + 1}
        assert resident(daemon) < before + MAX_RUNNING * PER_CHAT
