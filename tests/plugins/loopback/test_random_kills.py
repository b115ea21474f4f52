"""Kills of the hub at random moments while agents ask, wait, park, resume and run their calls."""

import asyncio
import json
import logging
import random
import time
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.claudecode.chat_support import ENGINES, EngineName
from tests.plugins.loopback.kill_scenarios import check_dense
from tests.plugins.loopback.support import OPEN, Desk, Failure, desk, events_in
from tests.plugins.loopback.test_surviving import check_database

log = logging.getLogger(__name__)

KILLS = 100
SESSIONS = 4
# Seconds between two kills: at least this, and at most twice the time of a whole chat.
SHORTEST = 0.02
# A call that the kill has ended.
GONE = (OSError, EOFError, asyncio.IncompleteReadError, json.JSONDecodeError, TimeoutError)


class Chats:
    """Chats with one call each, and their answers, at a daemon that may be gone at any time."""

    def __init__(self, person: Desk, choose: random.Random) -> None:
        self._person = person
        self._choose = choose
        # The streams that have begun, with the file that their call writes.
        self.files: dict[str, str] = {}
        self._number = 0

    async def begin(self, name: str) -> None:
        """Start a chat if the session is free."""
        self._number += 1
        file = f"{name}-{self._number}"
        stream = await self._person.begin_touch(file, name=name, if_busy="refuse")
        self.files[stream] = file

    async def answer(self) -> None:
        """Answer a pending approval, mostly with yes."""
        rows = (await self._person.one("loopback.pending"))["approvals"]
        if rows:
            row = self._choose.choice(rows)
            await self._person.answer(row, self._choose.random() < 0.8)

    async def work(self) -> None:
        """Start chats and answer approvals until cancelled."""
        while True:
            name = f"s-{self._choose.randrange(SESSIONS)}"
            step: Coroutine[Any, Any, None] = self._choose.choice([self.begin, self._answer])(name)
            with suppress(Failure, *GONE):
                await step
            await asyncio.sleep(self._choose.uniform(0, 0.1))

    async def _answer(self, _: str) -> None:
        await self.answer()


async def ended(person: Desk, chats: Chats, stream: str) -> dict[str, Any]:
    """Answer everything until a chat ends."""
    while True:
        page = await person.one("claudecode.poll", stream_id=stream, from_seq=0, limit=1000)
        if page["status"] not in OPEN and not page["has_more"]:
            return page
        with suppress(Failure):
            await chats.answer()
        await asyncio.sleep(0.05)


async def seconds_of_a_chat(person: Desk) -> float:
    """How long a chat takes here that asks, gets its answer and completes."""
    began = time.monotonic()
    stream = await person.begin_touch("first", name="first")
    await person.answer(await person.pending(stream))
    await person.ended(stream)
    return time.monotonic() - began


@pytest.mark.soak
@pytest.mark.parametrize("engine", ENGINES)
async def test_no_call_runs_twice_whenever_the_hub_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineName
) -> None:
    seed = random.randrange(2**32)
    choose = random.Random(seed)
    variables = {"HUBD_CLAUDECODE_PARK_SECS": "0.2"}
    async with desk(tmp_path, engine, monkeypatch, **variables) as person:
        person.patience *= 10
        longest = 2 * await seconds_of_a_chat(person)
        chats = Chats(person, choose)
        worker = asyncio.create_task(chats.work())
        for _ in range(KILLS):
            await asyncio.sleep(choose.uniform(SHORTEST, longest))
            await asyncio.to_thread(person.daemon.kill)
            await asyncio.to_thread(person.daemon.start)
        worker.cancel()
        await asyncio.wait([worker])
        assert worker.cancelled()
        states: dict[str, int] = {}
        for stream, file in chats.files.items():
            async with asyncio.timeout(person.patience):
                end = await ended(person, chats, stream)
            check_dense(end)
            states[end["status"]] = states.get(end["status"], 0) + 1
            assert end["status"] in ("complete", "interrupted"), end
            runs = person.lines_in(file)
            assert runs <= 1, (file, runs)
            answers = [event["approved"] for event in events_in(end, "approval_resolved")]
            assert len(answers) <= 1
            if end["status"] == "complete":
                assert runs == sum(answers), end
                assert len(events_in(end, "tool_result")) == 1, end
            if answers != [True]:
                assert runs == 0, end
        log.info("%s: %d kills, at most %.1f s apart: %s", engine, KILLS, longest, states)
        assert states.get("complete"), seed
        assert (await person.one("loopback.pending"))["approvals"] == []
        check_database(person)
