"""Complete the records of chats that ran when the hub died, at the next start."""

from typing import Any, Final, NamedTuple
from uuid import UUID

from pydantic_core import to_json

from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.approvals import store as approvals
from hubd.plugins.claudecode.chat_events import BLOCK_EVENTS, Error
from hubd.plugins.claudecode.handles import EventRef
from hubd.plugins.claudecode.protocol.message_builder import tool_input
from hubd.storage.arbor import tree
from hubd.storage.database import Tx
from hubd.storage.streams import streams

MESSAGE: Final = "the hub ended while the chat was running"
SUBAGENT: Final = "a subagent's call can't be continued after the hub ended"


class LeftOpen(NamedTuple):
    """The chats of a hub that died."""

    interrupted: list[streams.StreamRow]
    # Chats that wait for approvals, or whose approvals were decided: they continue.
    waiting: list[streams.StreamRow]


def sort_left_open(tx: Tx, now: int) -> LeftOpen:
    """Mark the chats that ran when the hub died as interrupted, except those that can continue."""
    left_open = LeftOpen([], [])
    for stream in streams.left_open(tx):
        if can_continue(tx, stream.key):
            left_open.waiting.append(stream)
        else:
            _interrupt(tx, stream, now)
            left_open.interrupted.append(stream)
    busy = {stream.tree for stream in left_open.waiting}
    for key in {stream.tree for stream in left_open.interrupted} - busy:
        store.close_blobs(tx, key)
    return left_open


def can_continue(tx: Tx, stream: int) -> bool:
    """Return whether a chat without a process can continue with its approvals.

    Its calls must all wait for a decision, or for their start after it. A call that has started
    is not repeated, and a subagent's call has no place to continue from.
    """
    rows = [row for row in approvals.of_stream(tx, stream) if row.call_state != "done"]
    undone = [row for row in rows if row.status not in ("withdrawn", "lost")]
    request = store.kept_request(tx, stream)
    return (
        bool(undone)
        and request is not None
        and request[1] is not None
        and all(row.call_state == "waiting" and row.agent_id is None for row in undone)
    )


def end_without_process(tx: Tx, stream: int, status: streams.Status, reason: str, now: int) -> None:
    """End a chat that waits for approvals without a process."""
    row = streams.by_key(tx, stream)
    if row.status in streams.OPEN:
        _interrupt(tx, row, now, status, reason)


def _interrupt(
    tx: Tx,
    stream: streams.StreamRow,
    now: int,
    status: streams.Status = "interrupted",
    reason: str = MESSAGE,
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
        durable = BLOCK_EVENTS[blob.blob_type].durable
        push(durable.fields(**content, **fields, complete=False))
        store.break_off(tx, blob.id)
    store.interrupt_turn(tx, stream.key, status)
    # A cancelled chat withdraws its approvals. Otherwise they are lost, with the reason.
    rows = approvals.pending_of(tx, stream.key)
    if any(row.agent_id is not None for row in rows):
        approvals.end_all(tx, stream.key, SUBAGENT, now, lost=True)
    else:
        approvals.end_all(tx, stream.key, reason, now, lost=status == "interrupted")
    push(Error.fields(message=reason, code=status))
    streams.set_status(tx, stream.key, status, now, reason)
    store.forget_request(tx, stream.key)
