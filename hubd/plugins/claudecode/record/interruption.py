"""Complete the records of chats that ran when the hub died, at the next start."""

from typing import Any
from uuid import UUID

from pydantic_core import to_json

from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.chat_events import BLOCK_EVENTS, Error
from hubd.plugins.claudecode.handles import EventRef
from hubd.plugins.claudecode.protocol.message_builder import tool_input
from hubd.storage.arbor import tree
from hubd.storage.database import Tx
from hubd.storage.streams import streams


def interrupt_all(tx: Tx, now: int) -> list[streams.StreamRow]:
    """Mark every chat that ran when the hub died as interrupted; return their streams."""
    interrupted = streams.interrupt_all(tx, now)
    for stream in interrupted:
        _interrupt(tx, stream, now)
    for key in {stream.tree for stream in interrupted}:
        store.close_blobs(tx, key)
    return interrupted


def _interrupt(tx: Tx, stream: streams.StreamRow, now: int) -> None:
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
    store.interrupt_turn(tx, stream.key)
    message = "the hub ended while the chat was running"
    push(Error.fields(message=message, code="interrupted"))
