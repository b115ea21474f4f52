"""Complete the records of chats that ran when the hub died, at the next start."""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from uuid import UUID

from pydantic_core import to_json

from hubd.plugins.claudecode import chat_events, store
from hubd.plugins.claudecode.approvals import store as approvals
from hubd.plugins.claudecode.handles import EventRef
from hubd.plugins.claudecode.protocol.message_builder import tool_input
from hubd.storage.arbor import tree
from hubd.storage.database import Tx
from hubd.storage.streams import streams

MESSAGE: Final = "the hub ended while the chat was running"


class LeftOpen(NamedTuple):
    """The chats of a hub that died."""

    interrupted: list[streams.StreamRow]
    # Chats that wait for approvals, or whose approvals were decided: they continue.
    waiting: list[streams.StreamRow]
    # The native session files of the interrupted chats.
    files: list[str]


def sort_left_open(tx: Tx, now: int) -> LeftOpen:
    """Mark the chats that ran when the hub died as interrupted, except those that can continue."""
    left_open = LeftOpen([], [], [])
    for stream in streams.left_open(tx):
        if can_continue(tx, stream.key):
            left_open.waiting.append(stream)
        else:
            file = end_without_process(tx, stream.key, "interrupted", MESSAGE, now)
            left_open.interrupted.append(stream)
            left_open.files.extend([file] if file else ())
    busy = {stream.tree for stream in left_open.waiting}
    for key in {stream.tree for stream in left_open.interrupted} - busy:
        store.close_blobs(tx, key)
    return left_open


def can_continue(tx: Tx, stream: int) -> bool:
    """Return whether a chat without a process can continue with its approvals.

    One of its calls must wait for a decision, or for its start after the decision. A subagent's
    call has no place to continue from.
    """
    rows = waiting_calls(tx, stream)
    request = store.kept_request(tx, stream)
    has_file = request is not None and request[1] is not None
    return bool(rows) and has_file and all(row.agent_id is None for row in rows)


def waiting_calls(tx: Tx, stream: int) -> list[approvals.ApprovalRow]:
    """Return the approvals of a chat whose calls have not started and may still do so."""
    return [
        row
        for row in approvals.of_stream(tx, stream)
        if row.call_state == "waiting" and row.status not in ("withdrawn", "lost")
    ]


def end_without_process(
    tx: Tx, stream: int, status: streams.Status, reason: str, now: int
) -> str | None:
    """End a chat that has no process; return its native session file if it is known."""
    row = streams.by_key(tx, stream)
    if row.status not in streams.OPEN:
        return None
    request = store.kept_request(tx, stream)
    _interrupt(tx, row, now, status, reason)
    return request[1] if request else None


def _interrupt(
    tx: Tx,
    stream: streams.StreamRow,
    now: int,
    status: streams.Status,
    reason: str,
) -> None:
    """End the turn of a chat and its unfinished blocks.

    The text so far of each block becomes an event that is not complete.
    """
    origin = tree.origin(tx, EventRef(event_id=UUID(int=0), event_type="x").wire)

    def push(event: dict[str, Any]) -> None:
        data = to_json(event).decode()
        streams.push(tx, stream.key, origin, event["type"], data, now)

    for blob in store.growing_blocks(tx, stream.tree):
        growing = blob.data.get("growing") or {}
        text = blob.data["block"].get("text")
        if growing.get("stream") != stream.key or not text:
            continue
        fields = {name: value for name, value in growing.items() if name != "stream"}
        is_call = blob.blob_type == "tool_use"
        content = {"input": tool_input(text)} if is_call else {"text": text}
        durable = chat_events.BLOCK_EVENTS[blob.blob_type].durable
        push(durable.fields(**content, **fields, complete=False))
        store.break_off(tx, blob.id)
    store.interrupt_turn(tx, stream.key, status)
    # A cancelled chat withdraws its approvals. Otherwise they are lost, with the reason.
    approvals.end_all(tx, stream.key, reason, now, lost=status == "interrupted")
    push(chat_events.Error.fields(message=reason, code=status))
    streams.set_status(tx, stream.key, status, now, reason)
    store.forget_request(tx, stream.key)
