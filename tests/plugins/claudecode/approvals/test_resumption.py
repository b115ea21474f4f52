"""The calls of a message that another process continues: closed ones, and those carried out."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from hubd.plugins.claudecode.approvals.resumption import (
    NOT_CARRIED_OUT,
    UNKNOWN_OUTCOME,
    CallLost,
    Ledger,
    Resumption,
)
from hubd.plugins.claudecode.approvals.store import ApprovalRow
from hubd.plugins.claudecode.native import NativeMessage, read_history, write_session
from hubd.plugins.claudecode.native.pending_call import live_marker

CALLS = ("a", "b", "c")


def approval(tool_use_id: str, status: str, call_state: str) -> ApprovalRow:
    """An approval; only its call and its states matter."""
    fields: dict[str, Any] = dict.fromkeys(ApprovalRow._fields)
    fields |= {"tool_use_id": tool_use_id, "status": status, "call_state": call_state}
    return ApprovalRow(**fields)


def resumption(
    directory: Path,
    *rows: ApprovalRow,
    at: str = "b",
    version: str = "2.1.325",
    results: dict[str, Any] | None = None,
    subagents: tuple[str, ...] = (),
) -> Resumption:
    """A session whose last message has three calls without results."""
    session = str(uuid4())
    file = directory / f"{session}.jsonl"
    blocks = [{"type": "tool_use", "id": key, "name": "Bash", "input": {}} for key in CALLS]
    messages = [
        NativeMessage(role="user", content=[{"type": "text", "text": "go"}]),
        NativeMessage(role="assistant", content=blocks, model="m"),
    ]
    write_session(
        file,
        session_id=session,
        cwd=directory,
        messages=messages,
        version=version,
        now=datetime.now(UTC),
    )
    ledger = Ledger(rows, results or {}, frozenset(subagents))
    return Resumption(file, session, directory, version, "default", at, ledger)


def written(file: Path) -> dict[str, tuple[str, bool]]:
    """The results in a file: text and whether it is an error, by call."""
    blocks = [block for entry in read_history(file).entries for block in entry.blocks]
    return {
        block["tool_use_id"]: (block["content"], block["is_error"])
        for block in blocks
        if block["type"] == "tool_result"
    }


async def test_a_result_that_the_hub_has_is_written_again(tmp_path: Path) -> None:
    block = {"type": "tool_result", "tool_use_id": "a", "content": "fine"}
    call = resumption(
        tmp_path,
        approval("a", "approved", "done"),
        approval("b", "approved", "waiting"),
        results={"a": {"block": block, "uuid": str(uuid4())}},
    )
    # c was never asked about.
    assert await call.prepare() is True
    assert written(call.file) == {"a": ("fine", False)}
    assert live_marker(call.file) == "b"


@pytest.mark.parametrize("rows", [(), (approval("a", "approved", "started"),)])
async def test_a_call_that_may_have_started_has_an_unknown_outcome(
    tmp_path: Path, rows: tuple[ApprovalRow, ...]
) -> None:
    call = resumption(tmp_path, *rows, approval("b", "denied", "waiting"))
    assert await call.prepare() is True
    assert written(call.file) == {"a": (UNKNOWN_OUTCOME, True)}
    assert live_marker(call.file) == "b"


async def test_a_call_whose_subagent_has_begun_does_not_start_again(tmp_path: Path) -> None:
    rows = (approval("b", "approved", "waiting"),)
    call = resumption(tmp_path, *rows, subagents=("c",))
    assert await call.prepare() is False
    assert set(written(call.file)) == {"a", "c"}


async def test_an_older_version_continues_one_call(tmp_path: Path) -> None:
    rows = (approval("a", "approved", "waiting"),)
    call = resumption(tmp_path, *rows, at="a", version="2.1.197")
    assert await call.prepare() is False
    assert written(call.file) == {"b": (NOT_CARRIED_OUT, True), "c": (NOT_CARRIED_OUT, True)}


async def test_a_call_is_marked_once(tmp_path: Path) -> None:
    call = resumption(tmp_path, approval("a", "approved", "waiting"), at="a")
    # The program then leaves it open.
    assert await call.prepare()
    with pytest.raises(CallLost, match="did not carry out"):
        await call.prepare()


async def test_a_chat_that_ends_withdraws_its_marker(tmp_path: Path) -> None:
    call = resumption(tmp_path, approval("a", "approved", "waiting"), at="a")
    await call.prepare()
    await call.withdraw()
    assert live_marker(call.file) is None
