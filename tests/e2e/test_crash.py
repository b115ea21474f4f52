"""`kill -9` at any moment loses nothing that was acknowledged, and tears nothing."""

import asyncio
import random
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.support import PATIENCE_SECONDS, Daemon, hubd

WRITERS = 8
# A kill comes after at most so many more acknowledged writes, and loop turns after that.
MAX_WRITES = 40
MAX_TURNS = 30


class Writers:
    """Clients that write as fast as they are answered, until the daemon dies under them."""

    def __init__(self, daemon: Daemon, acknowledged: dict[int, str], label: str) -> None:
        self._daemon = daemon
        # Everything that was ever acknowledged; shared by all rounds.
        self._acknowledged = acknowledged
        self._label = label
        self._target = 0
        self._reached = asyncio.Event()

    async def kill_after(self, writes: int, turns: int) -> None:
        """Write until so many writes are acknowledged, wait some turns of the loop, kill."""
        self._target = len(self._acknowledged) + writes
        async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._write(number)) for number in range(WRITERS)]
            if writes:
                waiting = asyncio.ensure_future(self._reached.wait())
                await asyncio.wait([*tasks, waiting], return_when=asyncio.FIRST_COMPLETED)
                assert waiting.done(), "a writer ended before the daemon was killed"
            for _ in range(turns):
                await asyncio.sleep(0)
            self._daemon.kill()

    async def _write(self, number: int) -> None:
        with suppress(ConnectionError):
            async with self._daemon.client() as client:
                for count in range(1_000_000):
                    text = f"{self._label} {number} {count}"
                    items = await client.call("trouble.write", {"text": text})
                    assert [item["type"] for item in items] == ["data", "done"], items
                    n = items[0]["content"]["n"]
                    assert n not in self._acknowledged, f"row {n} was given away twice"
                    self._acknowledged[n] = text
                    if len(self._acknowledged) >= self._target:
                        self._reached.set()


async def rows_after(daemon: Daemon, last: int) -> set[int]:
    """Return the numbers of the rows after a known one."""
    async with daemon.client() as client:
        *items, done = await client.call("trouble.read", {"after": last})
    assert done["type"] == "done"
    assert {item["type"] for item in items} <= {"data"}, items
    return {item["content"]["n"] for item in items}


@pytest.mark.parametrize("kills", [10, pytest.param(50, marks=pytest.mark.soak)])
async def test_no_acknowledged_write_is_lost_when_the_daemon_is_killed(
    home: Path, kills: int
) -> None:
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    acknowledged: dict[int, str] = {}
    last = 0
    with Daemon(home, "--plugin", "tests.sample_plugins.trouble:Trouble") as daemon:
        for kill in range(kills):
            where = f"kill {kill} with seed {seed}"
            writers = Writers(daemon, acknowledged, f"kill {kill}")
            await writers.kill_after(dice.randint(0, MAX_WRITES), dice.randint(0, MAX_TURNS))
            daemon.start()
            rows = await rows_after(daemon, last)
            expected = {n for n in acknowledged if n > last}
            assert expected <= rows, f"lost {expected - rows} at {where}"
            # A writer without an answer has written at most that one row.
            assert len(rows - expected) <= WRITERS, where
            last = max(rows, default=last)
        everything = await rows_after(daemon, 0)
        result = hubd("check", home=home)
    assert acknowledged
    assert acknowledged.keys() <= everything, f"seed {seed}"
    assert (result.returncode, result.stderr) == (0, ""), f"{result.stdout} with seed {seed}"
    with closing(sqlite3.connect(daemon.paths.database)) as connection:
        stored = dict(connection.execute("SELECT n, text FROM trouble_log"))
    assert stored.keys() == everything, f"seed {seed}"
    assert {n: stored[n] for n in acknowledged} == acknowledged, f"seed {seed}"
