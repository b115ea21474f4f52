"""Large contents: stored once, on disk before a row names them, and removed with the last row."""

import asyncio
import hashlib
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hubd.errors import DatabaseUnusable, NotFound
from hubd.storage.blobs import rows
from hubd.storage.blobs.files import BlobFiles
from hubd.storage.blobs.rows import PART_BYTES, Blob
from hubd.storage.blobs.store import BUFFER_BYTES, MAX_ROW_BYTES
from hubd.storage.database import Database, Tx
from hubd.storage.maintenance import backup, check
from tests.storage.rerun import database
from tests.support import PATIENCE_SECONDS, file_size_limit

LARGE = os.urandom(MAX_ROW_BYTES + 1)


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(tmp_path / "hub.db") as database:
        yield database


async def put(db: Database, content: bytes) -> Blob:
    """Store a content with one reference."""
    async with db.blobs.stage() as staging:
        await staging.write(content)
        blob = await staging.finish()
        await db.transaction(lambda tx: rows.refer(tx, blob))
    return blob


async def drop(db: Database, blob: Blob) -> None:
    await db.transaction(lambda tx: rows.release(tx, blob.digest))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a step of the cleanup, which wakes no reader."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 -- the cleanup sets no event
            await asyncio.sleep(0)


async def settled(db: Database) -> None:
    """Wait until no staging is under way."""
    await until(lambda: not db.blobs._settling)


async def only(db: Database, *blobs: Blob) -> None:
    """Wait until the directory has just the files of these contents."""
    await settled(db)
    await until(lambda: files(db) == {blob.digest.hex() for blob in blobs})


def files(db: Database) -> set[str]:
    directory = db.path.parent / "blobs"
    names = {file.name for file in directory.iterdir()} if directory.exists() else set()
    return names - {".lock"}


@pytest.mark.parametrize("size", [0, 1, MAX_ROW_BYTES, MAX_ROW_BYTES + 1, BUFFER_BYTES * 2 + 3])
async def test_a_content_is_read_as_it_was_written(db: Database, size: int) -> None:
    content = os.urandom(size)
    blob = await put(db, content)
    assert blob.digest == hashlib.sha256(content).digest()
    assert await db.blobs.read(blob.digest) == content
    assert b"".join([chunk async for chunk in db.blobs.chunks(blob.digest)]) == content
    assert len(files(db)) == (size > MAX_ROW_BYTES)


async def test_any_part_can_be_read(db: Database) -> None:
    small, large = await put(db, b"0123456789"), await put(db, LARGE)
    for blob, content in ((small, b"0123456789"), (large, LARGE)):
        size = len(content)
        for offset in (0, 1, size - 1, size, size + 5):
            for length in (None, 0, 1, size - 1, size, size + 5):
                end = None if length is None else offset + length
                part = await db.blobs.read(blob.digest, offset, length)
                assert part == content[offset:end], (offset, length)


async def test_equal_contents_are_stored_once_until_the_last_reference_goes(db: Database) -> None:
    first, second = await put(db, LARGE), await put(db, LARGE)
    assert first.digest == second.digest
    assert len(files(db)) == 1
    await drop(db, first)
    assert await db.blobs.read(second.digest) == LARGE
    await drop(db, second)
    await only(db)
    with pytest.raises(NotFound):
        await db.blobs.read(first.digest)


async def test_a_small_content_disappears_with_its_last_reference(db: Database) -> None:
    blob = await put(db, b"small")
    await drop(db, blob)
    assert await db.fetch_rows("SELECT key FROM hub_blob_parts") == []


async def test_a_content_without_a_reference_leaves_no_file(db: Database) -> None:
    async with db.blobs.stage() as staging:
        await staging.write(LARGE)
        await staging.finish()
    async with db.blobs.stage() as staging:
        await staging.write(LARGE * 20)
    await only(db)


async def test_a_transaction_whose_caller_was_cancelled_keeps_its_content(db: Database) -> None:
    staged = asyncio.Event()

    async def store() -> None:
        async with db.blobs.stage() as staging:
            await staging.write(LARGE)
            blob = await staging.finish()
            future = db.transaction(lambda tx: rows.refer(tx, blob))
            staged.set()
            await future

    task = asyncio.create_task(store())
    await staged.wait()
    task.cancel()
    await asyncio.wait([task])
    await settled(db)
    assert await db.blobs.read(hashlib.sha256(LARGE).digest()) == LARGE


async def test_a_cancelled_writer_leaves_no_file(db: Database) -> None:
    async def store() -> None:
        async with db.blobs.stage() as staging:
            while True:
                await staging.write(LARGE)

    task = asyncio.create_task(store())
    await until(lambda: bool(files(db)))
    task.cancel()
    await asyncio.wait([task])
    await only(db)


async def test_contents_stored_and_released_at_the_same_time_are_never_lost(db: Database) -> None:
    async def repeat() -> None:
        for _ in range(15):
            blob = await put(db, LARGE)
            assert await db.blobs.read(blob.digest) == LARGE
            await drop(db, blob)

    await asyncio.gather(*(repeat() for _ in range(8)))
    await only(db)


async def test_the_next_start_removes_files_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "hub.db"
    async with Database(path) as db:
        blob = await put(db, LARGE)
    blob_files = BlobFiles(path)
    for unnamed in (os.urandom(32).hex(), "x.tmp"):
        (blob_files.directory / unnamed).write_bytes(b"left behind")
    async with Database(path) as db:
        await only(db, blob)
        assert await db.blobs.read(blob.digest) == LARGE


async def test_a_release_that_a_crash_interrupted_is_completed(tmp_path: Path) -> None:
    path = tmp_path / "hub.db"
    async with Database(path) as db:
        blob = await put(db, LARGE)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE hub_blobs SET refs = 0")
        connection.commit()
    async with Database(path) as db:
        await only(db)
        with pytest.raises(NotFound):
            await db.blobs.read(blob.digest)


async def test_a_full_disk_is_reported_and_leaves_no_file(db: Database) -> None:
    with file_size_limit(BUFFER_BYTES):
        with pytest.raises(DatabaseUnusable, match="cannot be written"):
            await put(db, os.urandom(BUFFER_BYTES * 3))
        await only(db)
    await put(db, LARGE)


async def test_a_missing_file_is_reported(db: Database) -> None:
    blob = await put(db, LARGE)
    (db.path.parent / "blobs" / blob.digest.hex()).unlink()
    with pytest.raises(DatabaseUnusable, match="is missing"):
        await db.blobs.read(blob.digest)
    [finding] = [each for each in check(db.path) if each.what == "contents"]
    assert not finding.ok
    assert blob.digest.hex() in finding.detail


async def test_a_damaged_file_is_found_by_the_check(db: Database) -> None:
    blob = await put(db, LARGE)
    file = db.path.parent / "blobs" / blob.digest.hex()
    assert [each.ok for each in check(db.path) if each.what == "contents"] == [True]
    file.write_bytes(LARGE[:-1] + b"?")
    assert [each.ok for each in check(db.path) if each.what == "contents"] == [False]


async def test_a_backup_is_one_file_with_all_contents(db: Database, tmp_path: Path) -> None:
    long = os.urandom(PART_BYTES * 2 + 5)
    blobs = [await put(db, content) for content in (b"small", LARGE, long)]
    target = tmp_path / "copy" / "hub.db"
    target.parent.mkdir()
    assert backup(db.path, target).missing == 0
    async with Database(target) as copy:
        assert [await copy.blobs.read(blob.digest) for blob in blobs] == [b"small", LARGE, long]
        assert (
            await copy.blobs.read(blobs[2].digest, PART_BYTES - 2, 4)
            == long[PART_BYTES - 2 : PART_BYTES + 2]
        )
        # The content is in rows there, and stored only once.
        again = await put(copy, LARGE)
        await only(copy)
        await drop(copy, again)
        await drop(copy, again)
        with pytest.raises(NotFound):
            await copy.blobs.read(again.digest)
    assert all(finding.ok for finding in check(target))


async def test_a_backup_counts_contents_that_are_missing(db: Database, tmp_path: Path) -> None:
    blob = await put(db, LARGE)
    (db.path.parent / "blobs" / blob.digest.hex()).unlink()
    assert backup(db.path, tmp_path / "copy.db").missing == 1


async def test_no_file_is_removed_during_a_backup(db: Database) -> None:
    blob = await put(db, LARGE)
    with BlobFiles(db.path).kept():
        await drop(db, blob)
        await until(lambda: blob.digest in db.blobs._candidates)
        assert files(db) == {blob.digest.hex()}
    other = await put(db, LARGE + b"?")
    await drop(db, other)
    await only(db)


class References(RuleBasedStateMachine):
    """Contents come and go; each is there as long as it has a reference."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = database()
        self.model: dict[bytes, int] = {}

    @rule(number=st.integers(0, 3), in_file=st.booleans())
    def refer(self, number: int, in_file: bool) -> None:
        content = bytes([number])
        blob = Blob(hashlib.sha256(content).digest(), 1, None if in_file else content)
        rows.refer(Tx(self.connection), blob)
        self.model[blob.digest] = self.model.get(blob.digest, 0) + 1

    @rule(number=st.integers(0, 3))
    def release(self, number: int) -> None:
        digest = hashlib.sha256(bytes([number])).digest()
        rows.release(Tx(self.connection), digest)
        if digest in self.model:
            self.model[digest] -= 1
            if not self.model[digest]:
                del self.model[digest]

    @rule()
    def remove_released(self) -> None:
        rows.remove_released(Tx(self.connection), 10)

    @invariant()
    def counts_agree(self) -> None:
        stored = dict(self.connection.execute("SELECT digest, refs FROM hub_blobs WHERE refs > 0"))
        assert stored == self.model


TestReferences = References.TestCase
