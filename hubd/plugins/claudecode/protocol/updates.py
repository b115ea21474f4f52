"""Updates: the changes of a conversation that the lines of the program report.

Each message that started has a `MessageFinished`, and each block that started has exactly one
`BlockFinished`, even if the program crashed. A block is named by its message and its index, which
counts the blocks of a message in order of arrival. Messages of a subagent have the call that
started it in `parent_tool_use_id`, and come between those of the main conversation.

`raw` is the parsed line, unchanged.
"""

from typing import Any, Literal

from hubd.plugins.claudecode.protocol.messages import ResultLine
from hubd.wire.lazy_dataclass import dataclass

# The kind of a block. `tool_use` are calls of all types; `other` is stored and not shown.
BlockKind = Literal["thinking", "content", "tool_use", "other"]


@dataclass(frozen=True)
class SessionStarted:
    """The program has started, or starts a further turn."""

    session_id: str
    model: str | None
    cwd: str | None
    tools: tuple[str, ...]
    raw: dict[str, Any]


@dataclass(frozen=True)
class MessageStarted:
    """An assistant message starts; once for each message id."""

    message_id: str
    parent_tool_use_id: str | None
    model: str | None


@dataclass(frozen=True)
class BlockStarted:
    """A block starts."""

    message_id: str
    parent_tool_use_id: str | None
    index: int
    kind: BlockKind
    tool_use_id: str | None
    tool_name: str | None


@dataclass(frozen=True)
class BlockDelta:
    """A block grew by `text`, or by `partial_json` if it is a tool call. Neither is empty."""

    message_id: str
    parent_tool_use_id: str | None
    index: int
    kind: BlockKind
    # The number of characters of this block before the delta.
    offset: int
    text: str | None
    partial_json: str | None


@dataclass(frozen=True)
class BlockFinished:
    """A block has its final content."""

    message_id: str
    parent_tool_use_id: str | None
    index: int
    kind: BlockKind
    # The block as the program printed it, with its signature; else built from deltas.
    block: dict[str, Any]
    # False if it was cut off; `block` is the part that came before that.
    complete: bool
    # The line with the complete block; None if there was none.
    raw: dict[str, Any] | None


@dataclass(frozen=True)
class MessageFinished:
    """A message has its final content. It comes again if the message grows afterwards."""

    message_id: str
    parent_tool_use_id: str | None
    model: str | None
    # The native entries of the message in order; a native fork starts at one of these.
    uuids: tuple[str, ...]
    usage: dict[str, Any]
    # None without partial messages, except in messages that the program wrote itself.
    stop_reason: str | None
    # False if an interrupt, the API or the end of the program cut it off.
    complete: bool


@dataclass(frozen=True)
class ToolResult:
    """The result of a tool call. It may come before the message with the call is finished."""

    tool_use_id: str
    parent_tool_use_id: str | None
    output_text: str
    is_error: bool
    block: dict[str, Any]
    uuid: str | None
    raw: dict[str, Any]


@dataclass(frozen=True)
class OtherLine:
    """A line that no other update represents, in full."""

    event_type: str
    raw: dict[str, Any]


@dataclass(frozen=True)
class UnreadableLine:
    """A line that could not be read."""

    reason: str


Update = (
    SessionStarted
    | MessageStarted
    | BlockStarted
    | BlockDelta
    | BlockFinished
    | MessageFinished
    | ToolResult
    | ResultLine
    | OtherLine
    | UnreadableLine
)
