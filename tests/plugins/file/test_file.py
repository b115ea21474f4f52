"""file: exact copies of files, compared, restored and deleted."""

import asyncio
import base64
import hashlib
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from hubd.activation import (
    Conflict,
    HubError,
    InvalidParams,
    NotFound,
    PermissionDenied,
)
from hubd.plugins.file import reading
from hubd.plugins.file.comparing import MAX_DIFF_BYTES
from hubd.plugins.file.pages import PAGE_BYTES
from hubd.plugins.file.plugin import ATTEMPTS, MAX_RESOLVED_BYTES, File
from hubd.plugins.file.text_check import TextCheck, mime_type
from hubd.storage.blobs.store import MAX_ROW_BYTES
from hubd.testing import InProcessHub, hub

GREETING = "héllo\n"


@pytest.fixture
async def h(tmp_path: Path) -> AsyncIterator[InProcessHub]:
    (tmp_path / "home").mkdir()
    async with hub(File(), path=tmp_path / "home" / "hub.db") as each:
        yield each.calling(cwd=tmp_path)


async def snapshot(h: InProcessHub, path: object, **more: Any) -> dict[str, Any]:
    return await h.call_one("file.snapshot", path=str(path), **more)


async def content(h: InProcessHub, snapshot_id: str, **more: Any) -> bytes:
    """Return the bytes that `get` sends."""
    whole = b""
    async for event in h.call("file.get", snapshot_id=snapshot_id, **more):
        if event["type"] != "snapshot":
            assert event["offset"] == more.get("offset", 0) + len(whole)
            is_text = event["type"] == "text"
            whole += event["text"].encode() if is_text else base64.b64decode(event["base64"])
    return whole


async def test_a_snapshot_describes_the_file(h: InProcessHub, tmp_path: Path) -> None:
    file = tmp_path / "notes.md"
    file.write_text(GREETING)
    os.utime(file, (1_700_000_000, 1_700_000_000))
    event = await snapshot(h, "notes.md")
    assert event["path"] == str(file)
    assert event["name"] == "notes.md"
    assert event["size"] == len(GREETING.encode())
    assert event["digest"] == hashlib.sha256(GREETING.encode()).hexdigest()
    assert event["mime_type"] == "text/markdown"
    assert event["modified_at"] == 1_700_000_000
    assert not event["changed"]
    assert event["handle"] == f"file@1.0.0::snapshot:{event['snapshot_id']}:notes.md"


@pytest.mark.parametrize(
    "change",
    [lambda f: f.write_text("other"), lambda f: f.rename(f.with_name("moved")), Path.unlink],
    ids=["changed", "moved", "vanished"],
)
async def test_a_snapshot_stays_as_the_file_was(
    h: InProcessHub, tmp_path: Path, change: Callable[[Path], object]
) -> None:
    for name, written in (("small.txt", b"abc\n"), ("large.bin", os.urandom(3 * MAX_ROW_BYTES))):
        file = tmp_path / name
        file.write_bytes(written)
        event = await snapshot(h, file)
        change(file)
        resolved = await h.resolve(event["handle"])
        if name == "small.txt":
            assert (resolved.kind, resolved.text) == ("document", "abc\n")
        else:
            assert resolved.kind == "binary"
            assert base64.b64decode(resolved.data["base64"]) == written
        assert await content(h, event["snapshot_id"]) == written


async def test_equal_files_share_their_content(h: InProcessHub, tmp_path: Path) -> None:
    written = os.urandom(MAX_ROW_BYTES + 1)
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(written)
    first, second, third = [await snapshot(h, name) for name in ("a", "b", "a")]
    assert len({event["snapshot_id"] for event in (first, second, third)}) == 3
    assert len([*(tmp_path / "home" / "blobs").glob("[0-9a-f]*")]) == 1
    await h.call_one("file.delete", snapshot_id=first["snapshot_id"])
    await h.call_one("file.delete", snapshot_id=third["snapshot_id"])
    assert await content(h, second["snapshot_id"]) == written


async def test_a_content_is_read_in_pieces_that_fit_together(
    h: InProcessHub, tmp_path: Path
) -> None:
    text = ("é" * (PAGE_BYTES - 1)).encode()
    (tmp_path / "text").write_bytes(b"x" + text)
    (tmp_path / "bytes").write_bytes(os.urandom(2 * PAGE_BYTES + 1))
    for name in ("text", "bytes"):
        event = await snapshot(h, name)
        assert await content(h, event["snapshot_id"]) == (tmp_path / name).read_bytes()
        part = await content(h, event["snapshot_id"], offset=1, max_bytes=10)
        assert part == (tmp_path / name).read_bytes()[1:11]


async def test_a_resolved_content_is_cut_at_a_limit(h: InProcessHub, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_bytes(b"x" * (MAX_RESOLVED_BYTES + 1))
    event = await snapshot(h, "long.txt")
    resolved = await h.resolve(event["handle"])
    assert resolved.data["truncated"]
    assert len(resolved.text) == MAX_RESOLVED_BYTES
    assert resolved.data["size"] == MAX_RESOLVED_BYTES + 1


async def test_a_link_is_followed(h: InProcessHub, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("abc")
    (tmp_path / "link").symlink_to("target")
    event = await snapshot(h, "link")
    assert (event["name"], event["size"]) == ("link", 3)


async def test_only_regular_files_are_read(h: InProcessHub, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "s"))
        for path, error, words in (
            ("fifo", InvalidParams, "is a FIFO"),
            (".", InvalidParams, "is a directory"),
            ("/dev/zero", InvalidParams, "is a device"),
            ("s", HubError, "s"),
            ("missing", NotFound, "does not exist"),
            ("loop", InvalidParams, "symbolic links"),
            ("x" * 300, InvalidParams, "too long"),
            ("a\0b", InvalidParams, "NUL"),
        ):
            with pytest.raises(error, match=words):
                await snapshot(h, path)
    assert [event async for event in h.call("file.list")] == [
        {"type": "snapshots", "snapshots": []}
    ]


@pytest.mark.skipif(os.getuid() == 0, reason="root can read everything")
async def test_a_file_without_permission_is_refused(h: InProcessHub, tmp_path: Path) -> None:
    (tmp_path / "secret").touch(mode=0)
    with pytest.raises(PermissionDenied):
        await snapshot(h, "secret")


async def test_a_relative_path_needs_the_directory_of_the_caller() -> None:
    async with hub(File()) as h:
        with pytest.raises(InvalidParams, match="relative"):
            await snapshot(h, "notes.md")


async def test_a_file_that_is_too_large_is_refused(h: InProcessHub, tmp_path: Path) -> None:
    (tmp_path / "four").write_text("1234")
    with pytest.raises(InvalidParams, match="larger than 3 bytes"):
        await snapshot(h, "four", max_bytes=3)
    assert (await snapshot(h, "four", max_bytes=4))["size"] == 4


@pytest.mark.parametrize("changes", [1, ATTEMPTS])
async def test_a_file_that_changes_is_read_again(
    h: InProcessHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: int
) -> None:
    file = tmp_path / "log"
    file.write_text("0\n")
    original, done = reading._read, 0

    async def read(opened: Any) -> bytes:
        nonlocal done
        chunk = await original(opened)
        if not chunk and done < changes:
            # Another program appends after the end was read.
            done += 1
            with file.open("a") as appending:
                appending.write(f"{done}\n")
        return chunk

    monkeypatch.setattr(reading, "_read", read)
    event = await snapshot(h, file)
    assert event["changed"] == (changes == ATTEMPTS)
    assert await content(h, event["snapshot_id"]) == b"".join(
        b"%d\n" % number for number in range(min(changes + 1, ATTEMPTS))
    )


async def test_the_list_is_newest_first_and_can_be_limited(h: InProcessHub, tmp_path: Path) -> None:
    for name in ("a", "b", "a"):
        (tmp_path / name).write_text(name)
        await snapshot(h, name)

    async def names(**params: Any) -> list[str]:
        pages = [event async for event in h.call("file.list", **params)]
        return [row["name"] for page in pages for row in page["snapshots"]]

    assert await names() == ["a", "b", "a"]
    assert await names(limit=2) == ["a", "b"]
    assert await names(path="b") == ["b"]


async def test_two_snapshots_are_compared_line_by_line(h: InProcessHub, tmp_path: Path) -> None:
    file = tmp_path / "f.txt"
    file.write_text("one\ntwo\nthree\n")
    first = await snapshot(h, file)
    file.write_text("one\n2\nthree\nfour")
    second = await snapshot(h, file)
    event = await h.call_one(
        "file.diff", **{"from": first["snapshot_id"][:8], "to": second["handle"]}
    )
    assert event["text"] == (
        "--- from\n+++ to\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n three\n+four\n"
        "\\ No newline at end of file\n"
    )
    assert (event["added"], event["removed"], event["identical"]) == (2, 1, False)


async def test_a_snapshot_is_compared_with_the_file_now(h: InProcessHub, tmp_path: Path) -> None:
    file = tmp_path / "f.txt"
    file.write_text("one\n")
    first = await snapshot(h, file)
    same = await h.call_one("file.diff", **{"from": first["handle"]})
    assert (same["identical"], same["text"], same["added"]) == (True, None, 0)
    (tmp_path / "g.txt").write_text("two\n")
    other = await h.call_one("file.diff", **{"from": first["handle"], "to": "g.txt"})
    assert other["text"].endswith("-one\n+two\n")
    file.unlink()
    with pytest.raises(NotFound):
        await h.call_one("file.diff", **{"from": first["handle"]})
    with pytest.raises(NotFound, match="no snapshot"):
        await h.call_one("file.diff", **{"from": "g.txt"})


async def test_contents_that_are_not_text_are_compared_as_a_whole(
    h: InProcessHub, tmp_path: Path
) -> None:
    file = tmp_path / "b"
    file.write_bytes(b"\0one")
    first = await snapshot(h, file)
    file.write_bytes(b"\0two")
    event = await h.call_one("file.diff", **{"from": first["handle"]})
    assert (event["identical"], event["text"], event["sizes"]) == (False, None, [4, 4])


async def test_a_large_file_is_compared_as_a_whole(h: InProcessHub, tmp_path: Path) -> None:
    file = tmp_path / "long.txt"
    file.write_bytes(b"x\n" * MAX_DIFF_BYTES)
    first = await snapshot(h, file)
    same = await h.call_one("file.diff", **{"from": first["handle"]})
    assert (same["identical"], same["added"]) == (True, 0)
    with file.open("ab") as appending:
        appending.write(b"y")
    other = await h.call_one("file.diff", **{"from": first["handle"]})
    assert (other["identical"], other["text"], other["added"]) == (False, None, None)


async def test_a_restored_file_has_the_content_and_the_mode(
    h: InProcessHub, tmp_path: Path
) -> None:
    file = tmp_path / "run.sh"
    file.write_bytes(b"#!/bin/sh\n" * 100_000)
    file.chmod(0o754)
    event = await snapshot(h, file)
    file.unlink()
    restored = await h.call_one("file.restore", snapshot_id=event["snapshot_id"])
    assert restored["path"] == str(file)
    assert file.read_bytes() == b"#!/bin/sh\n" * 100_000
    assert file.stat().st_mode & 0o777 == 0o754


async def test_restoring_overwrites_only_with_the_option(h: InProcessHub, tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("old")
    event = await snapshot(h, file)
    file.write_text("new")
    with pytest.raises(Conflict, match="exists"):
        await h.call_one("file.restore", snapshot_id=event["snapshot_id"])
    assert file.read_text() == "new"
    (tmp_path / "link").symlink_to("f")
    await h.call_one("file.restore", snapshot_id=event["snapshot_id"], to="link", overwrite=True)
    assert file.read_text() == "new"
    assert (tmp_path / "link").read_text() == "old"
    assert not (tmp_path / "link").is_symlink()
    with pytest.raises(NotFound):
        await h.call_one("file.restore", snapshot_id=event["snapshot_id"], to="no/such/f")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "home", "link"]


async def test_a_file_that_appears_during_a_restoration_is_kept(
    h: InProcessHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "f"
    file.write_text("old")
    event = await snapshot(h, file)
    file.unlink()
    chunks = h.database.blobs.chunks

    async def interrupted(digest: bytes) -> AsyncIterator[bytes]:
        async for chunk in chunks(digest):
            yield chunk
        file.write_text("of another program")

    monkeypatch.setattr(h.database.blobs, "chunks", interrupted)
    with pytest.raises(Conflict):
        await h.call_one("file.restore", snapshot_id=event["snapshot_id"])
    assert file.read_text() == "of another program"


async def test_a_deleted_snapshot_no_longer_resolves(h: InProcessHub, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    event = await snapshot(h, "f")
    await h.call_one("file.delete", snapshot_id=event["snapshot_id"])
    with pytest.raises(HubError) as caught:
        await h.resolve(event["handle"])
    assert caught.value.code == "handle_target_missing"
    with pytest.raises(NotFound, match="no snapshot"):
        await h.call_one("file.delete", snapshot_id=event["snapshot_id"])


async def test_a_large_file_does_not_hold_the_event_loop(h: InProcessHub, tmp_path: Path) -> None:
    file = tmp_path / "large"
    with file.open("wb") as sparse:
        sparse.truncate(64 * 1024 * 1024)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    event = await snapshot(h, file)
    counting.cancel()
    assert event["size"] == 64 * 1024 * 1024
    # One turn for each piece at least.
    assert turns > 64
    assert threading.active_count() < 50


@pytest.mark.parametrize(
    ("name", "is_text", "expected"),
    [
        ("a.md", True, "text/markdown"),
        ("a.json", True, "application/json"),
        ("a.svg", True, "image/svg+xml"),
        ("a.png", False, "image/png"),
        ("a.png", True, "text/plain"),
        ("a.unknown", True, "text/plain"),
        ("a.unknown", False, "application/octet-stream"),
        ("a.tar.gz", False, "application/gzip"),
    ],
)
def test_the_type_follows_the_name_and_the_content(name: str, is_text: bool, expected: str) -> None:
    assert mime_type(name, is_text=is_text) == expected


@pytest.mark.parametrize(
    ("pieces", "is_text"),
    [
        ([], True),
        ([b"abc"], True),
        ([b"\xc3", b"\xa9"], True),
        ([b"abc\xc3"], False),
        ([b"a\0b"], False),
        ([b"\xff\xfea"], False),
    ],
)
def test_text_is_utf8_without_nul(pieces: list[bytes], is_text: bool) -> None:
    check = TextCheck()
    for piece in pieces:
        check.add(piece)
    assert check.ends_as_text() == is_text
