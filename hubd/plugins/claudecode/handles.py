"""The handle types of claudecode."""

from typing import Final
from uuid import UUID

from pydantic import Field

from hubd.activation import Handle

NAMESPACE: Final = "claudecode"
VERSION: Final = "1.0.0"


class TurnRef(Handle, method="turn", kind="turn", summary="turn {index}: {prompt}"):
    """Points at a turn: one prompt and the messages that answer it."""

    turn_id: UUID
    turn_index: int


class MessageRef(Handle, method="message", kind="message", summary="{role}: {text}"):
    """Points at a message of the user or of the assistant."""

    blob_id: UUID
    role: str


class ContentRef(Handle, method="content", kind="block", summary="{text}"):
    """Points at a block of text."""

    blob_id: UUID
    block_index: int


class ThinkingRef(Handle, method="thinking", kind="block", summary="thinking: {text}"):
    """Points at a block of thinking, with its signature."""

    blob_id: UUID
    block_index: int


class ToolUseRef(
    Handle,
    method="tool_use",
    kind="block",
    summary="{tool_name} {input}",
    templates={
        # The principal field of the common tools.
        "compact": "{{tool_name}}{{#input}} {{command}}{{file_path}}{{url}}{{pattern}}{{/input}}",
        "verbose": "{{tool_name}}\n{{input}}",
    },
):
    """Points at a tool call."""

    blob_id: UUID
    tool_use_id: str
    tool_name: str


class ToolResultRef(
    Handle,
    method="tool_result",
    kind="output",
    summary="{output}",
    templates={"compact": "{{#is_error}}failed: {{/is_error}}{{output}}"},
):
    """Points at the result of a tool call."""

    blob_id: UUID
    tool_use_id: str
    is_error: bool


class EventRef(Handle, method="chat_event", kind="event", summary="{event_type}"):
    """Points at a durable event of a chat."""

    event_id: UUID
    event_type: str


class SessionRef(Handle, method="session", kind="session", summary="session {name}"):
    """Points at a session."""

    session_id: UUID


class ApprovalRef(Handle, method="approval", kind="approval", summary="{tool_name}: {status}"):
    """Points at an approval: the question whether a tool may run."""

    approval_id: UUID = Field(description="The id that loopback gave it")


def block_handle(
    kind: str, blob_id: bytes, index: int, tool_use_id: str | None, tool_name: str | None
) -> Handle:
    """Return the handle of a block of this kind."""
    name = UUID(bytes=blob_id)
    if kind == "thinking":
        return ThinkingRef(blob_id=name, block_index=index)
    if kind == "tool_use":
        return ToolUseRef(blob_id=name, tool_use_id=tool_use_id or "", tool_name=tool_name or "")
    return ContentRef(blob_id=name, block_index=index)
