"""`kill -9` during snapshots and deletions: each named content is there, and no other stays."""

import asyncio
import hashlib
import random
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from hubd.storage.blobs.store import MAX_ROW_BYTES
from tests.support import PATIENCE_SECONDS, Daemon

WRITERS = 4
# Contents of several sizes that some snapshots share.
CONTENTS = [
    random.Random(number).randbytes(size)
    for number, size in enumerate([10, MAX_ROW_BYTES + 1, MAX_ROW_BYTES + 2, 3 * MAX_ROW_BYTES])
]


class Files:
    """Files of a test, and the snapshots that were acknowledged and not deleted."""

    def __init__(self, directory: Path) -> None:
        self.paths = [directory / f"file{number}" for number in range(len(CONTENTS))]
        for path, content in zip(self.paths, CONTENTS, strict=True):
            path.write_bytes(content)
        self.kept: dict[str, bytes] = {}
        # Set when enough calls were acknowledged.
        self._left = 0
        self.reached = asyncio.Event()

    def kill_after(self, calls: int) -> None:
        self._left = calls
        self.reached.clear()

    def _acknowledge(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self.reached.set()

    async def change(self, daemon: Daemon, dice: random.Random) -> None:
        """Take and delete snapshots until the daemon is killed."""
        with suppress(ConnectionError):
            async with daemon.client() as client:
                while True:
                    number = dice.randrange(len(CONTENTS))
                    path = str(self.paths[number])
                    items = await client.call("file.snapshot", {"path": path})
                    assert items[0]["type"] == "data", items
                    self.kept[items[0]["content"]["snapshot_id"]] = CONTENTS[number]
                    self._acknowledge()
                    if dice.random() < 0.6:
                        # From now on it may be there or not.
                        chosen = dice.choice([*self.kept])
                        self.kept.pop(chosen)
                        await client.call("file.delete", {"snapshot_id": chosen})
                        self._acknowledge()


@pytest.mark.parametrize("kills", [3, pytest.param(60, marks=pytest.mark.soak)])
async def test_no_content_is_lost_or_left_behind_when_the_daemon_is_killed(
    home: Path, tmp_path: Path, kills: int
) -> None:
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    files = Files(tmp_path)
    with Daemon(home) as daemon:
        for kill in range(kills):
            async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as group:
                for _ in range(WRITERS):
                    group.create_task(files.change(daemon, dice))
                files.kill_after(dice.randint(1, 40))
                await files.reached.wait()
                for _ in range(dice.randint(0, 30)):
                    await asyncio.sleep(0)
                daemon.kill()
            daemon.start()
            where = f"kill {kill} with seed {seed}"
            async with daemon.client() as client:
                for snapshot_id, content in files.kept.items():
                    items = await client.call("file.get", {"snapshot_id": snapshot_id})
                    assert items[0]["type"] == "data", (where, items)
                    digest = items[0]["content"]["digest"]
                    assert digest == hashlib.sha256(content).hexdigest(), where
        daemon.stop()
        daemon.start()
        await _no_other_content(Path(daemon.home))


async def _no_other_content(home: Path) -> None:
    """Wait until the cleanup of the last start has left the named files only."""
    with closing(sqlite3.connect(home / "hub.db")) as connection:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                in_files = "SELECT digest FROM hub_blobs WHERE place = 'file'"
                named = {digest.hex() for (digest,) in connection.execute(in_files)}
                present = {file.name for file in (home / "blobs").glob("[0-9a-f]*")}
                assert named <= present
                if named == present:
                    break
                await asyncio.sleep(0)
        counts = connection.execute(
            "SELECT count(*), coalesce(sum(refs), 0) FROM hub_blobs"
        ).fetchone()
        snapshots = connection.execute(
            "SELECT count(DISTINCT digest), count(*) FROM file_snapshots"
        ).fetchone()
        assert counts == snapshots
