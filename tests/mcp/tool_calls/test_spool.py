"""Large results in files: all of it comes back, nothing stays, hostile readers get nothing."""

import json
import stat
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.errors import NotFound, Overloaded, Unavailable
from hubd.mcp import spool as mcp_spool
from hubd.mcp.results import Collected, tool_result
from hubd.mcp.spool import Spool, Spooled
from tests.support import file_size_limit


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "results")
    yield spool
    spool.close()


def written(spool: Spool, *lines: bytes) -> Spooled:
    spooled = spool.open()
    for line in lines:
        spooled.add(line)
    spooled.close()
    return spooled


def kept(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "results").iterdir())


async def read_all(spool: Spool, result_id: str) -> list[str]:
    pages: list[str] = []
    start: int | None = 0
    while start is not None:
        page, after = await spool.read(result_id, start)
        assert after is None or after > start
        pages.append(page)
        start = after
    return pages


lines_of_any_text = st.lists(
    st.text(max_size=60).map(lambda text: json.dumps(text, ensure_ascii=False).encode()),
    min_size=1,
    max_size=30,
)


@given(lines_of_any_text, st.integers(4, 100))
async def test_the_pages_together_are_all_of_it(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], page_bytes: int
) -> None:
    spool = Spool(tmp_path_factory.mktemp("spool") / "results")
    spooled = written(spool, *lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mcp_spool, "PAGE_BYTES", page_bytes)
        pages = await read_all(spool, spooled.id)
    assert "".join(pages).encode() == b"".join(line + b"\n" for line in lines)
    assert all(len(page.encode()) <= page_bytes for page in pages)
    # Only a line that is longer than a page goes on in the next one.
    ends = list(accumulate(len(line) + 1 for line in lines))
    for begin in accumulate(len(page.encode()) for page in pages):
        if begin not in ends:
            torn = next(n for n, end in enumerate(ends) if end > begin)
            assert len(lines[torn]) + 1 > page_bytes
    spool.close()


@given(st.integers(0, 200))
async def test_a_page_from_any_offset_is_text(
    tmp_path_factory: pytest.TempPathFactory, start: int
) -> None:
    spool = Spool(tmp_path_factory.mktemp("spool") / "results")
    spooled = written(spool, "€𝄞ü".encode() * 5, b"{}")
    if start > spooled.size:
        with pytest.raises(NotFound):
            await spool.read(spooled.id, start)
    else:
        page, after = await spool.read(spooled.id, start)
        assert after is None
        assert page.endswith("\n") or start == spooled.size
    spool.close()


@pytest.mark.parametrize(
    "result_id", ["", ".", "..", "../hub.db", "/etc/passwd", "x" * 10_000, "\0", "*", "results"]
)
async def test_an_id_that_was_not_given_out_is_nothing(
    spool: Spool, tmp_path: Path, result_id: str
) -> None:
    (tmp_path / "hub.db").write_text("not for you")
    written(spool, b"{}")
    with pytest.raises(NotFound):
        await spool.read(result_id, 0)


@pytest.mark.parametrize("start", [-1, 4, 10**12])
async def test_an_offset_outside_of_the_result_is_nothing(spool: Spool, start: int) -> None:
    spooled = written(spool, b"{}")
    with pytest.raises(NotFound):
        await spool.read(spooled.id, start)


async def test_a_result_under_way_cannot_be_read(spool: Spool) -> None:
    spooled = spool.open()
    spooled.add(b"{}")
    with pytest.raises(NotFound):
        await spool.read(spooled.id, 0)
    spooled.close()
    assert await spool.read(spooled.id, 0) == ("{}\n", None)


def test_ids_cannot_be_guessed_and_files_are_for_this_user_only(
    spool: Spool, tmp_path: Path
) -> None:
    ids = {written(spool, b"{}").id for _ in range(50)}
    assert len(ids) == 50
    assert all(len(result_id) >= 20 for result_id in ids)
    assert stat.S_IMODE((tmp_path / "results").stat().st_mode) == 0o700


def test_a_result_that_is_too_large_is_an_error_and_leaves_no_file(
    spool: Spool, tmp_path: Path
) -> None:
    collected = Collected(spool)
    event = b'"' + b"x" * (1024 * 1024 - 3) + b'"'
    # With their ends of line they fill it to the byte.
    for _ in range(64):
        collected.add(event)
    assert len(kept(tmp_path)) == 1
    with pytest.raises(Overloaded) as caught:
        collected.add(b"1")
    assert "67108864 bytes" in caught.value.message
    assert kept(tmp_path) == []
    collected.add(event)
    assert kept(tmp_path) == []


def test_a_text_only_result_that_is_too_large_fails_without_a_file() -> None:
    collected = Collected(None, 1000)
    for _ in range(10):
        collected.add(b'"' + b"x" * 98 + b'"')
    assert len(collected.inline) == 10
    with pytest.raises(Overloaded):
        collected.add(b"1")


def test_the_oldest_results_go_when_all_together_are_too_large(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_spool, "MAX_KEPT_BYTES", 1000)
    results = [written(spool, b"x" * 99) for _ in range(25)]
    assert kept(tmp_path) == sorted(spooled.id for spooled in results[-10:])
    # A growing result deletes older ones.
    growing = spool.open()
    for _ in range(7):
        growing.add(b"x" * 99)
    assert kept(tmp_path) == sorted([growing.id, *(spooled.id for spooled in results[-3:])])


def test_a_result_under_way_never_goes_to_make_room_for_another(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_spool, "MAX_KEPT_BYTES", 1000)
    first, second = spool.open(), spool.open()
    for _ in range(5):
        first.add(b"x" * 99)
        second.add(b"x" * 99)
    with pytest.raises(Overloaded):
        second.add(b"x" * 99)
    spool.drop(second)
    first.add(b"x" * 99)
    first.close()
    assert kept(tmp_path) == [first.id]
    assert first.size == 600


async def test_a_result_goes_after_its_time(spool: Spool, tmp_path: Path) -> None:
    old, young = written(spool, b"{}"), written(spool, b"{}")
    old.closed_at -= mcp_spool.KEPT_SECONDS
    with pytest.raises(NotFound):
        await spool.read(old.id, 0)
    assert await spool.read(young.id, 0) == ("{}\n", None)
    assert kept(tmp_path) == [young.id]


def test_old_results_are_deleted_without_reads(spool: Spool, tmp_path: Path) -> None:
    old = written(spool, b"{}")
    old.closed_at -= mcp_spool.KEPT_SECONDS
    young = spool.open()
    assert kept(tmp_path) == [young.id]


async def test_a_result_that_took_long_is_kept_for_as_long_as_any_other(spool: Spool) -> None:
    slow = spool.open()
    slow.add(b"{}")
    slow.closed_at -= mcp_spool.KEPT_SECONDS
    assert await spool.read(written(spool, b"1").id, 0) == ("1\n", None)
    # It is not forgotten under the hands of its call, nor when that is over.
    slow.add(b"[]")
    slow.close()
    assert await spool.read(slow.id, 0) == ("{}\n[]\n", None)


async def test_a_result_that_is_forgotten_while_it_is_read_is_not_there(
    spool: Spool, tmp_path: Path
) -> None:
    spooled = written(spool, b"{}")
    (tmp_path / "results" / spooled.id).unlink()
    with pytest.raises(NotFound):
        await spool.read(spooled.id, 0)


def test_results_do_not_outlive_the_daemon(
    tmp_path: Path,
) -> None:
    left = tmp_path / "results" / "left"
    left.parent.mkdir()
    left.write_text("by a daemon that was killed")
    spool = Spool(tmp_path / "results")
    assert kept(tmp_path) == []
    written(spool, b"{}")
    spool.open().add(b"{}")
    spool.close()
    assert not (tmp_path / "results").exists()


def test_a_full_disk_during_a_result_is_an_error_and_leaves_no_file(
    spool: Spool, tmp_path: Path
) -> None:
    collected = Collected(spool, inline_bytes=100)
    with file_size_limit(32 * 1024), pytest.raises(Unavailable) as caught:
        collected.add(b'"' + b"x" * 70_000 + b'"')
    assert caught.value.message.startswith("cannot write the result to disk: ")
    assert kept(tmp_path) == []


def test_a_full_disk_at_the_end_of_a_result_is_an_error_and_leaves_no_file(
    spool: Spool, tmp_path: Path
) -> None:
    collected = Collected(spool, inline_bytes=100)
    # So little waits in memory until the file is closed.
    collected.add(b'"' + b"x" * 1000 + b'"')
    with file_size_limit(500):
        result = tool_result(collected)
    assert result.is_error
    assert result.content[0].type == "text"
    assert result.content[0].text.startswith("unavailable: cannot write the result to disk: ")
    assert kept(tmp_path) == []
