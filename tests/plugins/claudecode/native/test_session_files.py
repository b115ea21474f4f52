"""Session files as they are read, line by line."""

import json
import os
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.errors import Conflict
from hubd.plugins.claudecode.native import (
    NativeHistory,
    NativeMark,
    conversation,
    read_history,
)
from hubd.plugins.claudecode.native.entries import read_lines
from tests.plugins.claudecode.native.native_content import (
    RECORDED,
    attachment,
    encoded,
    entry,
    history_of,
    mark,
    text,
)


def test_an_entry_has_its_parent_its_message_and_the_complete_line() -> None:
    line = entry("b", "a", [text("hi")], id="msg_1", isSidechain=True, isMeta=True, madeBy="x")
    [read] = history_of(line).entries
    assert (read.kind, read.uuid, read.parent_uuid) == ("assistant", "b", "a")
    assert (read.is_sidechain, read.is_meta, read.is_shown) == (True, True, False)
    assert read.timestamp == "2026-01-01T00:00:00.000Z"
    assert read.message == line["message"]
    assert read.raw == line


def test_recorded_files_have_no_corrupt_lines_and_are_read_to_their_end() -> None:
    for path in RECORDED.glob("*.jsonl"):
        history = read_history(path)
        assert history.corrupt == 0
        assert history.offset == path.stat().st_size
        kinds = {entry.kind for entry in history.entries}
        assert {"user", "assistant", "attachment"} <= kinds <= {*kinds, "system"}


@pytest.mark.parametrize(
    "line",
    [
        b"{half an ent",
        b"[1]",
        b'"text"',
        b"\0\0\0\0",
        b'{"type": "user", "message": {"content": "no id"}}',
        b'{"type": "user", "uuid": "u", "parentUuid": null, "message": {"content": [1]}}',
        b'{"type": "assistant", "uuid": "u", "parentUuid": null}',
        b'{"type": "attachment", "uuid": 7, "parentUuid": null}',
        b'{"type": "attachment", "uuid": "u", "parentUuid": 7}',
        b'{"type": "mode", "text": "\xff"}',
        b"[" * 100_000,
    ],
)
def test_corrupt_lines_are_counted_and_skipped(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "s.jsonl"
    first, last = encoded(entry("a", None, "one")), encoded(entry("b", "a", "two"))
    path.write_bytes(first + line + b"\n" + last)
    history = read_history(path)
    assert history.corrupt == 1
    assert [each.uuid for each in history.entries] == ["a", "b"]
    assert history.offset == path.stat().st_size


@pytest.mark.parametrize(
    "line", [b"", b"  ", b"\r", b'{"type": "mode"}', b"{}", b'{"type": "summary", "leafUuid": "a"}']
)
def test_bookkeeping_and_empty_lines_are_not_corrupt(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(line + b"\n")
    assert read_history(path) == NativeHistory((), 0, len(line) + 1)


def test_a_line_of_many_megabytes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(encoded(entry("a", None, "x" * 20_000_000), entry("b", "a", "y")))
    first, last = conversation(read_history(path)).messages
    assert len(first.content[0]["text"]) == 20_000_000
    assert last.content == [text("y")]


def test_an_incomplete_line_is_left_for_the_next_reading(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    whole = encoded(entry("a", None, "one"))
    path.write_bytes(whole + b'{"type": "us')
    history = read_history(path)
    assert (history.corrupt, history.offset) == (0, len(whole))


def test_a_file_that_became_shorter_is_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(encoded(entry("a", None, "one")))
    before = read_history(path)
    assert read_history(path, before.offset) == NativeHistory(offset=before.offset)
    path.write_bytes(b"\n")
    with pytest.raises(Conflict, match="is shorter than before"):
        read_history(path, before.offset)


LINES = st.sampled_from(
    [
        encoded(entry("a", None, "one")),
        encoded(entry("b", "a", [text("two")], id="msg_1")),
        json.dumps(entry("c", "b", "drei ä€😀"), ensure_ascii=False).encode() + b"\n",
        encoded(attachment("d", "c")),
        encoded(mark("b")),
        encoded(mark("a", explicit=True)),
        b"\n",
        b"12345\n",
        b"not JSON\n",
        b'{"type": "mode"}\n',
    ]
)


@given(st.lists(LINES, max_size=6), st.booleans(), st.data())
def test_a_file_read_in_parts_gives_the_same_history(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], ends: bool, data: Any
) -> None:
    path = tmp_path_factory.mktemp("cuts") / "s.jsonl"
    whole = b"".join(lines) if ends else b"".join(lines)[:-1]
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=4).map(sorted))
    history = NativeHistory()
    for cut in [*cuts, len(whole)]:
        path.write_bytes(whole[:cut])
        history = history.then(read_history(path, history.offset))
    assert history == read_history(path)


def test_a_recorded_file_read_in_two_parts_gives_the_same_history(tmp_path: Path) -> None:
    whole = (RECORDED / "compacted.jsonl").read_bytes()[-1800:]
    path = tmp_path / "s.jsonl"
    path.write_bytes(whole)
    expected = read_history(path)
    assert len(expected.entries) > 1
    for cut in range(len(whole), -1, -1):
        os.truncate(path, cut)
        first = read_history(path)
        rest = read_lines(BytesIO(whole[first.offset :]), first.offset)
        assert first.then(rest) == expected


def test_a_mark_has_its_place_in_the_file() -> None:
    lines = [entry("a", None, "one"), mark("a"), entry("b", "a", "two"), mark(None, explicit=True)]
    assert history_of(*lines).mark == NativeMark(None, True, 2)
    assert history_of(*lines[:3]).mark == NativeMark("a", False, 1)
    assert history_of(*lines[:2]).then(history_of(*lines[2:])).mark == NativeMark(None, True, 2)
    assert history_of(lines[0], {"type": "last-prompt", "lastPrompt": "x"}).mark is None
