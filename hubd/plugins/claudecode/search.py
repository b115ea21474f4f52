"""The texts of claudecode for the search: messages, thinking, tool calls, results, session names.

The text of an assistant's message is that of its text blocks, so these are not documents as well.
"""

import sqlite3
from typing import Any, Final
from uuid import UUID

from pydantic_core import to_json

from hubd.activation import Document, Handle, Reader, SearchSource, Unfinished
from hubd.plugins.claudecode import store
from hubd.plugins.claudecode.handles import MessageRef, SessionRef, ToolResultRef, block_handle
from hubd.plugins.claudecode.protocol import messages
from hubd.storage import ids

SEARCHED: Final = ("message", "thinking", "tool_use", "tool_result")


def sources() -> tuple[SearchSource, ...]:
    """Return the search sources of the plugin."""
    return (
        SearchSource("blobs", store.SEARCHED_BLOBS, _blob_document),
        SearchSource("sessions", store.SEARCHED_SESSIONS, _session_document),
    )


def _blob_document(row: sqlite3.Row, reader: Reader) -> Document | Unfinished | None:
    if row["blob_type"] not in SEARCHED:
        return None
    if not row["complete"]:
        return Unfinished()
    data = store.whole(reader, row["data"])
    if data is None:
        return None
    match row["blob_type"]:
        case "message":
            return _message(row, reader, data)
        case "tool_use":
            return _tool_use(row, data)
        case "tool_result":
            return _tool_result(row, reader, data)
    handle = block_handle("thinking", row["id"], data.get("block_index", 0), None, None)
    block = data["block"]
    text = str(block.get("thinking") or block.get("text") or "")
    return _document(row, handle, text, role="assistant")


def _message(row: sqlite3.Row, reader: Reader, data: dict[str, Any]) -> Document:
    blocks = data.get("content")
    if blocks is None:
        names = [UUID(name).bytes for name in data.get("blocks", ())]
        blocks = [data["block"] for data in store.text_blocks(reader, names)]
    text = "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))
    role = data["role"]
    handle = MessageRef(blob_id=UUID(bytes=row["id"]), role=role)
    return _document(row, handle, text, role=role)


def _tool_use(row: sqlite3.Row, data: dict[str, Any]) -> Document:
    block = data["block"]
    name = str(block.get("name") or "")
    handle = block_handle("tool_use", row["id"], 0, str(block.get("id") or ""), name)
    given = block.get("input", block.get("text"))
    text = given if isinstance(given, str) else " ".join(_values(given))
    return _document(row, handle, f"{name} {text}", role="assistant", tool=name)


def _tool_result(row: sqlite3.Row, reader: Reader, data: dict[str, Any]) -> Document:
    block = data["block"]
    call_id = str(block.get("tool_use_id") or "")
    handle = ToolResultRef(
        blob_id=UUID(bytes=row["id"]), tool_use_id=call_id, is_error=bool(block.get("is_error"))
    )
    tool = reader.rows(store.TOOL_OF_CALL, row["tree"], row["key"], call_id).fetchone()
    text = messages.output_text(block.get("content"))
    return _document(row, handle, text, role="user", tool=tool[0] if tool else None)


def _session_document(row: sqlite3.Row, reader: Reader) -> Document:
    return Document(
        handle=str(SessionRef(session_id=UUID(bytes=row["id"]))),
        kind=SessionRef.kind,
        text=row["name"],
        created_at=row["created_at"],
        session=row["name"],
        session_id=ids.text(row["id"]),
    )


def _document(
    row: sqlite3.Row, handle: Handle, text: str, *, role: str, tool: str | None = None
) -> Document:
    session_id = row["session_id"]
    return Document(
        handle=str(handle),
        kind=handle.kind,
        text=text,
        created_at=row["created_at"],
        session=row["session"],
        session_id=ids.text(session_id) if session_id is not None else None,
        role=role,
        tool=tool,
        # The tree of a deleted session stays for a while.
        hidden=row["state"] != "active",
    )


def _values(value: Any) -> list[str]:
    """Return the values of a tool's input as texts, without the names of its fields."""
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _values(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _values(inner)]
    return [value if isinstance(value, str) else to_json(value).decode()]
