"""Open calls in session files: their state, cutting, markers and results."""

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from hubd.errors import Conflict, InvalidParams
from hubd.plugins.claudecode.native import conversation, read_history
from hubd.plugins.claudecode.native.call_message import CallState, OpenCall
from hubd.plugins.claudecode.native.pending_call import (
    cut,
    inspect,
    live_marker,
    supports_marker,
    supports_stages,
    sync,
    withdraw_marker,
    write_marker,
    write_result,
)
from tests.plugins.claudecode.native.native_content import (
    SESSION,
    Entry,
    attachment,
    call,
    encoded,
    entry,
    mark,
    result,
    text,
)
from tests.support import file_size_limit

CLOSED = "Tool permission request failed: AbortError: {} closed before response received"
FRAME: dict[str, Any] = {"session_id": SESSION, "cwd": Path("/work"), "version": "2.1.325"}

PROMPT = [entry("p", None, "go"), attachment("x", "p"), mark("x")]
ONE = [*PROMPT, entry("a", "x", [call("1")], id="msg_1")]
TWO = [*ONE, entry("b", "a", [call("2")], id="msg_1")]


def failed(key: str, uuid: str, parent: str, words: str = "Tool permission stream") -> Entry:
    block = {**result(key, CLOSED.format(words)), "is_error": True}
    return entry(uuid, parent, [block])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / f"{SESSION}.jsonl"


def state_of(file: Path, *lines: Entry, key: str = "1") -> CallState:
    file.write_bytes(encoded(*lines))
    return inspect(file, f"toolu_{key}")


def ids(state: CallState) -> list[str]:
    return [each.tool_use_id.removeprefix("toolu_") for each in state.open_calls]


DONE = entry("r", "a", [result("1")])
ANSWER = entry("z", "r", [text("done")], id="msg_2")


@pytest.mark.parametrize(
    ("lines", "kind", "open_calls"),
    [
        (ONE, "open", ["1"]),
        (TWO, "open", ["1", "2"]),
        ([*TWO, entry("r", "b", [result("2")])], "open", ["1"]),
        # Results may come between the blocks of a message.
        ([*ONE, entry("b", "a", [call("2")], id="msg_1"), DONE], "answered", ["2"]),
        ([*ONE, DONE, entry("b", "a", [call("2")], id="msg_1")], "answered", ["2"]),
        ([*ONE, DONE, ANSWER], "answered", []),
        ([*ONE, attachment("y", "a"), mark("y")], "open", ["1"]),
        # A subagent's entries are not part of the conversation.
        ([*ONE, entry("s", "a", [text("sub")], id="msg_2", isSidechain=True)], "open", ["1"]),
        ([*ONE, entry("m", "a", "Continue", isMeta=True)], "open", ["1"]),
        ([*ONE, failed("1", "r", "a")], "closed_by_hub_death", ["1"]),
        (
            [*TWO, failed("1", "r", "a"), failed("2", "q", "b", "Stream")],
            "closed_by_hub_death",
            "12",
        ),
        ([*TWO, failed("2", "q", "b", "Stream")], "closed_by_hub_death", ["1", "2"]),
        ([*ONE, failed("1", "r", "a"), attachment("y", "r"), ANSWER], "closed_by_hub_death", ["1"]),
        (
            [*ONE, failed("1", "r", "a"), entry("z", "r", [call("3")], id="msg_2")],
            "moved_on",
            ["1"],
        ),
        ([*ONE, failed("1", "r", "a"), entry("z", "r", "and?")], "moved_on", ["1"]),
        ([*ONE, entry("z", "a", "and?")], "moved_on", ["1"]),
        ([*ONE, entry("z", "a", [text("ok")], id="msg_2")], "moved_on", ["1"]),
        (PROMPT, "missing", []),
        ([*PROMPT, entry("z", "x", "toolu_1")], "missing", []),
        ([], "missing", []),
    ],
)
def test_the_state_of_a_call_follows_from_the_entries_after_it(
    file: Path, lines: list[Entry], kind: str, open_calls: list[str] | str
) -> None:
    state = state_of(file, *lines)
    assert (state.kind, ids(state)) == (kind, list(open_calls))
    assert bool(state.reason) == (kind != "open")


def test_an_open_call_has_its_name_its_input_and_its_entry(file: Path) -> None:
    [first, second] = state_of(file, *TWO).open_calls
    assert first == OpenCall("toolu_1", "Bash", {"command": "1"}, "a")
    assert second.entry_uuid == "b"


def test_a_missing_file_is_reported_as_a_missing_call(file: Path) -> None:
    assert inspect(file, "toolu_1").kind == "missing"
    assert sync(file) is False


@pytest.mark.parametrize("end", [b"", b'{"type":"user","message":{"ro', b"\0" * 40, b'"toolu_1"'])
def test_a_torn_last_line_is_ignored_and_does_not_swallow_a_marker(file: Path, end: bytes) -> None:
    file.write_bytes(encoded(*ONE) + end)
    state = inspect(file, "toolu_1")
    assert state.kind == "open"
    write_marker(file, state.open_calls[0], **FRAME, permission_mode="default")
    [marker] = [json.loads(line) for line in file.read_bytes().splitlines() if b"deferred" in line]
    assert (marker["parentUuid"], marker["sessionId"]) == ("a", SESSION)
    assert marker["attachment"]["toolUseID"] == "toolu_1"
    assert inspect(file, "toolu_1").kind == "open"
    write_result(file, state.open_calls[0], "Not carried out: x", **FRAME)
    assert file.read_bytes().endswith(b"\n")
    assert b'"tool_use_id":"toolu_1"' in file.read_bytes().splitlines()[-1]
    assert inspect(file, "toolu_1").kind == "answered"
    assert conversation(read_history(file)).messages[-1].content[0]["is_error"] is True


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ([*ONE, failed("1", "r", "a")], ONE),
        ([*ONE, failed("1", "r", "a"), attachment("y", "r"), ANSWER, mark("z")], ONE),
        ([*TWO, failed("2", "q", "b"), failed("1", "r", "a", "Stream"), ANSWER], TWO),
        # The result of another call stays.
        (
            [*TWO, failed("1", "r", "a"), entry("q", "b", [result("2")]), ANSWER, mark("z")],
            [*TWO, entry("q", "b", [result("2")])],
        ),
        # So does a call that came after the failure.
        (
            [*ONE, failed("1", "r", "a"), entry("b", "a", [call("2")], id="msg_1")],
            [*ONE, entry("b", "a", [call("2")], id="msg_1")],
        ),
    ],
)
def test_cutting_removes_the_failure_and_the_text_after_it(
    file: Path, lines: list[Entry], kept: list[Entry]
) -> None:
    file.write_bytes(encoded(*lines))
    file.chmod(0o600)
    cut(file, "toolu_1")
    assert file.read_bytes() == encoded(*kept)
    assert inspect(file, "toolu_1").kind == "open"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("lines", [ONE, [*ONE, DONE], PROMPT, [*ONE, entry("z", "a", "and?")]])
def test_only_the_failure_of_a_dead_hub_is_cut(file: Path, lines: list[Entry]) -> None:
    file.write_bytes(encoded(*lines))
    with pytest.raises(Conflict):
        cut(file, "toolu_1")
    assert file.read_bytes() == encoded(*lines)


def test_a_failed_write_leaves_the_file_as_it_was(file: Path) -> None:
    [open_call] = state_of(file, *ONE).open_calls
    before = file.read_bytes()
    with file_size_limit(len(before) + 10), pytest.raises(OSError, match="too large"):
        write_marker(file, open_call, **FRAME, permission_mode="default")
    assert file.read_bytes() == before


def test_only_the_file_of_the_session_is_changed(tmp_path: Path, file: Path) -> None:
    [open_call] = state_of(file, *ONE).open_calls
    other = file.rename(tmp_path / "other.jsonl")
    for frame in ({**FRAME, "session_id": "other"}, FRAME):
        with pytest.raises(InvalidParams):
            write_result(other, open_call, "x", **frame)
    file.symlink_to(other)
    with pytest.raises(OSError, match="symbolic"):
        write_result(file, open_call, "x", **FRAME)
    file.unlink()
    with pytest.raises(FileNotFoundError):
        write_result(file, open_call, "x", **FRAME)
    assert other.read_bytes() == encoded(*ONE)


def test_the_marker_of_a_large_input_stays_within_the_part_that_is_searched(file: Path) -> None:
    large = {**call("1"), "input": {"command": "x" * 2_000_000}}
    [open_call] = state_of(file, *PROMPT, entry("a", "x", [large], id="msg_1")).open_calls
    write_marker(file, open_call, **FRAME, permission_mode="default")
    assert len(file.read_bytes().splitlines()[-1]) < 1024
    assert inspect(file, "toolu_1").open_calls == (open_call,)


def test_a_large_file_is_read_from_its_end(file: Path) -> None:
    line = encoded(entry("old", None, "y" * 100_000))
    with file.open("wb") as stream:
        stream.writelines(line for _ in range(300))
        stream.write(encoded(*TWO))
    tracemalloc.start()
    try:
        state = inspect(file, "toolu_2")
        gone = inspect(file, "toolu_3")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (ids(state), gone.kind) == (["1", "2"], "missing")
    assert peak < 8_000_000


def test_a_marker_is_live_until_a_result_or_a_withdrawal(file: Path) -> None:
    assert live_marker(file) is None
    first, second = state_of(file, *TWO).open_calls
    assert live_marker(file) is None
    write_marker(file, first, **FRAME, permission_mode="default")
    assert live_marker(file) == "toolu_1"
    write_result(file, second, "other", **FRAME)
    assert live_marker(file) == "toolu_1"
    withdraw_marker(file, "toolu_1", session_id=SESSION)
    assert live_marker(file) is None
    assert inspect(file, "toolu_1").kind == "open"
    write_marker(file, first, **FRAME, permission_mode="default")
    assert live_marker(file) == "toolu_1"
    write_result(file, first, "done", **FRAME)
    assert live_marker(file) is None
    assert read_history(file).corrupt == 0
    with pytest.raises(InvalidParams):
        withdraw_marker(file, "toolu_1", session_id=SESSION.replace("1", "2"))


def test_a_file_that_was_torn_anywhere_has_a_state_and_takes_a_result(file: Path) -> None:
    closed = failed("1", "r", "a")
    complete = encoded(*TWO, closed, attachment("y", "r"), ANSWER, mark("z"))
    call_end = len(encoded(*ONE)) - 1
    for size in range(0, len(complete), 19):
        file.write_bytes(complete[:size])
        state = inspect(file, "toolu_1")
        assert (state.kind == "missing") == (size < call_end), size
        if state.kind == "closed_by_hub_death":
            cut(file, "toolu_1")
            state = inspect(file, "toolu_1")
        if state.kind != "missing":
            assert state.kind == "open", size
            write_result(file, state.open_calls[0], "x", **FRAME)
            assert inspect(file, "toolu_1").kind == "answered", size


def test_sync_reports_whether_the_call_is_in_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    file.write_bytes(encoded(*PROMPT))
    assert sync(file) is True
    assert sync(file, "toolu_1") is False
    file.write_bytes(encoded(*ONE))
    assert sync(file, "toolu_1") is True
    # The file and its directory.
    assert len(synced) == 6


@pytest.mark.parametrize(
    ("version", "marker", "stages"),
    [
        ("2.1.325", True, True),
        ("2.1.325 (Claude Code)", True, True),
        ("2.2.0", True, True),
        ("3.0.1-beta", True, True),
        ("2.1.197", True, False),
        ("2.1.89", False, False),
        ("1.9.999", False, False),
        ("offline-0.1.0", True, True),
        ("unknown", False, False),
        ("", False, False),
    ],
)
def test_the_version_decides_what_can_be_resumed(version: str, marker: bool, stages: bool) -> None:
    assert (supports_marker(version), supports_stages(version)) == (marker, stages)
