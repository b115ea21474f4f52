"""The events about a complete block and a tool result. This file does no I/O."""

from __future__ import annotations

from typing import Any, Final

from hubd.plugins.claudecode import chat_events
from hubd.plugins.claudecode.handles import ToolResultRef
from hubd.plugins.claudecode.protocol.updates import BlockFinished, BlockStarted, ToolResult

# Characters of a tool's output in its event. The blob has all of it.
MAX_OUTPUT: Final = 64 * 1024


def block_fields(update: BlockStarted | BlockFinished, position: dict[str, str]) -> dict[str, Any]:
    """Return the fields that every event about a block has."""
    return {
        "block_index": update.index,
        "position": position,
        "message_id": update.message_id,
        "parent_tool_use_id": update.parent_tool_use_id,
    }


def block_text(block: dict[str, Any]) -> str:
    """Return the text of a block, or its thinking."""
    return str(block.get("text") or block.get("thinking") or "")


def block_event(update: BlockFinished, position: dict[str, str]) -> dict[str, Any]:
    """Return the event about a block that is complete or cut off."""
    block = update.block
    common = {**block_fields(update, position), "complete": update.complete}
    if update.kind == "tool_use":
        return chat_events.ToolUse.fields(
            tool_use_id=block.get("id"),
            tool_name=block.get("name"),
            input=block.get("input"),
            **common,
        )
    if update.kind in ("thinking", "content"):
        return chat_events.BLOCK_EVENTS[update.kind].durable.fields(
            text=block_text(block), **common
        )
    event_type = f"block/{block.get('type')}"
    return chat_events.Passthrough.fields(event_type=event_type, data=block, **common)


def result_event(
    update: ToolResult, position: dict[str, str], reference: ToolResultRef
) -> dict[str, Any]:
    """Return the event about a tool result, with the start of a long output."""
    length = len(update.output_text)
    return chat_events.ToolResult.fields(
        tool_use_id=update.tool_use_id,
        output=update.output_text[:MAX_OUTPUT],
        is_error=update.is_error,
        position=position,
        block=str(reference),
        truncated=length if length > MAX_OUTPUT else None,
        parent_tool_use_id=update.parent_tool_use_id,
    )
