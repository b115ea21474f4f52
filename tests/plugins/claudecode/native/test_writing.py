"""Session files as they are written, and read again."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import assume, given

from hubd.errors import Conflict, InvalidParams
from hubd.plugins.claudecode.native import (
    NativeMessage,
    conversation,
    leaves,
    read_history,
    restore_entries,
    write_session,
)
from hubd.plugins.claudecode.native.pending_call import inspect
from tests.plugins.claudecode.native.native_content import (
    IMAGE,
    RECORDED,
    SESSION,
    THOUGHT,
    assistant,
    attachment,
    call,
    conversations,
    encoded,
    result,
    text,
    user,
)
from tests.support import file_size_limit

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=timezone(timedelta(hours=2)))


def write(path: Path, messages: Sequence[NativeMessage], **more: Any) -> str:
    fields: dict[str, Any] = {"session_id": SESSION, "cwd": Path("/work"), "version": "2.1.325"}
    return write_session(path, messages=messages, **fields, now=NOW, **more)


def answers_some_calls(messages: Sequence[NativeMessage]) -> bool:
    """Return whether the last message has results for some calls of the message before it."""
    if len(messages) < 2 or messages[-1].role != "user":
        return False
    calls = {block["id"] for block in messages[-2].content if block["type"] == "tool_use"}
    answered = {block.get("tool_use_id") for block in messages[-1].content}
    return bool(answered & calls) and bool(calls - answered)


@given(conversations())
def test_a_written_conversation_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, messages: list[NativeMessage]
) -> None:
    # Results of some calls only follow their calls: test_a_session_may_end_in_open_calls.
    assume(not answers_some_calls(messages))
    path = tmp_path_factory.mktemp("written") / f"{SESSION}.jsonl"
    last = write(path, messages)
    history = read_history(path)
    parsed = conversation(history)
    *earlier, final = messages
    if final.model is None and any(block["type"] == "tool_use" for block in final.content):
        final = replace(final, model="<synthetic>")
    assert parsed.messages == [*earlier, final]
    assert (parsed.leaf, parsed.notes, history.corrupt) == (last, [], 0)
    assert [leaf.uuid for leaf in leaves(history)] == [last]


@pytest.mark.parametrize("name", ["parallel", "interleaved", "failed", "compacted"])
def test_a_recorded_conversation_is_the_same_after_writing(tmp_path: Path, name: str) -> None:
    messages = conversation(read_history(RECORDED / f"{name}.jsonl")).messages
    write(tmp_path / "s.jsonl", messages)
    assert conversation(read_history(tmp_path / "s.jsonl")).messages == messages


def test_missing_ids_and_times_are_generated(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    blocks = [THOUGHT, text("hi"), call("1")]
    last = write(path, [user(text("a"), IMAGE), assistant(*blocks), user(result("1"), result("2"))])
    asked, words, results = conversation(read_history(path)).messages
    assert (asked.content, words.content) == ([text("a"), IMAGE], blocks)
    # As in Claude's files: one entry for each block, and one for the user's message.
    assert [len(message.uuids) for message in (asked, words, results)] == [1, 3, 1]
    assert results.uuids == (last,)
    for message in (asked, words, results):
        assert message.timestamp == "2026-01-02T01:04:05.678Z"
        assert all(str(UUID(uuid)) == uuid for uuid in message.uuids)
    assert words.message_id is not None


def test_entries_have_the_fields_of_claudes_entries(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write(path, [user(text("a")), assistant(text("b"), text("c"))])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    recorded = [json.loads(line) for line in (RECORDED / "parallel.jsonl").read_text().splitlines()]
    for line in lines:
        [*alike] = [each for each in recorded if each["type"] == line["type"]]
        assert set(line) <= set().union(*alike)
        assert set(line["message"]) <= set().union(*(each["message"] for each in alike))
        updates = (line["sessionId"], line["cwd"], line["version"], line["isSidechain"])
        assert updates == (SESSION, "/work", "2.1.325", False)
    assert [line["parentUuid"] for line in lines] == [None, lines[0]["uuid"], lines[1]["uuid"]]
    assert lines[1]["message"]["id"] == lines[2]["message"]["id"]


def test_the_file_and_its_directory_are_private(tmp_path: Path) -> None:
    path = tmp_path / "projects" / "-work" / "s.jsonl"
    before = os.umask(0)
    try:
        write(path, [user(text("a"))])
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["s.jsonl"]


def test_an_existing_file_is_replaced_only_with_overwrite(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("mine")
    with pytest.raises(Conflict, match=f"exists already: {path}"):
        write(path, [user(text("a"))])
    assert path.read_text() == "mine"
    write(path, [user(text("a"))], overwrite=True)
    assert conversation(read_history(path)).messages[0].content == [text("a")]
    assert [each.name for each in tmp_path.iterdir()] == ["s.jsonl"]


def test_a_full_disk_keeps_the_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("mine")
    with file_size_limit(4096), pytest.raises(OSError, match="File too large"):
        write(path, [user(text("x" * 10_000))], overwrite=True)
    assert path.read_text() == "mine"
    assert [each.name for each in tmp_path.iterdir()] == ["s.jsonl"]


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([], "a session needs at least one message"),
        ([user(uuids=("a",)), user(uuids=("a",))], "cannot have the same id"),
        ([user({"type": "text", "text": float("nan")})], "cannot be written as JSON"),
        ([user({"type": "text", "text": b"bytes"})], "cannot be written as JSON"),
    ],
)
def test_invalid_messages_are_refused(
    tmp_path: Path, messages: list[NativeMessage], error: str
) -> None:
    with pytest.raises(InvalidParams, match=error):
        write(tmp_path / "s.jsonl", messages)
    assert list(tmp_path.iterdir()) == []


def test_times_are_written_in_utc(tmp_path: Path) -> None:
    stamps = []
    for name, now in [("a", NOW), ("b", NOW.astimezone(UTC))]:
        path = tmp_path / name
        fields: dict[str, Any] = {"session_id": SESSION, "cwd": Path("/"), "version": "1"}
        write_session(path, messages=[user(text("x"))], now=now, **fields)
        stamps.append(conversation(read_history(path)).messages[0].timestamp)
    assert stamps[0] == stamps[1]


def test_a_session_may_end_in_open_calls(tmp_path: Path) -> None:
    file = tmp_path / f"{SESSION}.jsonl"
    called = assistant(text("both"), call("1"), call("2"), uuids=("a", "b", "c"))
    write(file, [user(text("go")), called])
    assert [each.entry_uuid for each in inspect(file, "toolu_1").open_calls] == ["b", "c"]
    write(file, [user(text("go")), called, user(result("1"))], overwrite=True)
    state = inspect(file, "toolu_2")
    assert (state.kind, [each.tool_use_id for each in state.open_calls]) == ("open", ["toolu_2"])
    # The result follows its own call, so that the other call can be continued.
    *_, last = read_history(file).entries
    assert (last.parent_uuid, last.blocks) == ("b", [result("1")])


TURN = [
    user(text("go"), uuids=("p",)),
    assistant(text("both"), call("1"), call("2"), uuids=("a", "b", "c"), message_id="msg_1"),
    user(result("1"), result("2"), uuids=("r", "q")),
    assistant(call("3"), uuids=("d",), message_id="msg_2"),
]


def restore(file: Path, messages: Sequence[NativeMessage]) -> bool:
    fields: dict[str, Any] = {"session_id": SESSION, "cwd": Path("/work"), "version": "2.1.325"}
    return restore_entries(file, messages=messages, **fields, now=NOW)


@pytest.mark.parametrize("lines", range(8))
def test_lost_entries_of_a_turn_are_restored(tmp_path: Path, lines: int) -> None:
    file = tmp_path / f"{SESSION}.jsonl"
    write(file, [user(text("earlier")), assistant(text("ok")), *TURN])
    complete = file.read_bytes().splitlines(keepends=True)
    # The program adds attachments, and the last line may be torn.
    attached = encoded(attachment("x", read_history(file).entries[1 + lines].uuid))
    file.write_bytes(b"".join([*complete[: 2 + lines], attached, b'{"type":"us']))
    messages = [replace(TURN[0], uuids=()), *TURN[1:]]
    for _ in range(2):
        assert restore(file, messages) is (lines > 0)
        if lines > 0:
            sent = conversation(read_history(file)).messages
            assert [each.content for each in sent[2:]] == [each.content for each in TURN]
            assert len(file.read_bytes().splitlines()) == len(complete) + 2
            assert inspect(file, "toolu_3").kind == "open"


def test_a_turn_is_restored_if_its_prompt_was_sent_with_attachments(tmp_path: Path) -> None:
    file = tmp_path / f"{SESSION}.jsonl"
    prompt = user(text("a file"), text("go"), uuids=("p",))
    write(file, [prompt, TURN[1]])
    assert restore(file, [replace(TURN[0], uuids=()), *TURN[1:]]) is True
    messages = conversation(read_history(file)).messages
    assert [each.content for each in messages] == [each.content for each in (prompt, *TURN[1:])]


def test_a_file_of_another_turn_is_not_restored(tmp_path: Path) -> None:
    file = tmp_path / f"{SESSION}.jsonl"
    assert restore(file, TURN) is False
    write(file, [user(text("other"))])
    before = file.read_bytes()
    assert restore(file, TURN) is False
    assert file.read_bytes() == before
    with pytest.raises(InvalidParams):
        restore(tmp_path / "other.jsonl", TURN)
