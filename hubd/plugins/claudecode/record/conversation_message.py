"""A message of a context or of a session file, as methods return it."""

from __future__ import annotations

from datetime import UTC, datetime

from hubd.plugins.claudecode import events
from hubd.plugins.claudecode.native import NativeMessage
from hubd.storage import ids


def conversation_message(
    message: NativeMessage, short_id: str | None = None
) -> events.ConversationMessage:
    """Return the event for a message.

    Args:
        message: The message.
        short_id: The short id of its node, if the message comes from a tree.
    """
    return events.ConversationMessage(
        role=message.role,
        content=message.content,
        model=message.model,
        node_id=ids.text(message.node_id) if message.node_id else None,
        handle=message.handle,
        created_at=unix_seconds(message.timestamp),
        short_id=short_id,
    )


def unix_seconds(timestamp: str | None) -> int | None:
    """Return an ISO time in Unix seconds; None if the text is not a time."""
    try:
        moment = datetime.fromisoformat(timestamp or "")
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
