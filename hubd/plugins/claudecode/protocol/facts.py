"""What the lines of the program say together: all that a mirror into a tree needs to know.

For every message that started there is a `MessageFinished`, for every block that started exactly
one `BlockFinished`, whatever became of the program. A block is named by its message and its
index, which counts the blocks of a message in order of arrival. Messages of a subagent carry in
`parent_tool_use_id` the call that started it, and come between those of the main conversation.

`raw` is a line as it came, parsed and otherwise untouched.
"""

from dataclasses import dataclass
from typing import Any, Literal

# What a block is to a reader. `tool_use` are calls of any kind; `other` is only kept.
BlockKind = Literal["thinking", "content", "tool_use", "other"]


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """The program is up, or begins a further turn."""

    session_id: str
    model: str | None
    cwd: str | None
    tools: tuple[str, ...]
    raw: dict[str, Any]


@dataclass(frozen=True, slots=True)
class MessageStarted:
    """An assistant message begins; once for each message id."""

    message_id: str
    parent_tool_use_id: str | None
    model: str | None


@dataclass(frozen=True, slots=True)
class BlockStarted:
    """A block begins."""

    message_id: str
    parent_tool_use_id: str | None
    index: int
    kind: BlockKind
    tool_use_id: str | None
    tool_name: str | None


@dataclass(frozen=True, slots=True)
class BlockDelta:
    """A block grew by `text`, or by `partial_json` if it is a tool call; never by nothing."""

    message_id: str
    parent_tool_use_id: str | None
    index: int
    kind: BlockKind
    # How many characters of this block came before.
    offset: int
    text: str | None
    partial_json: str | None


@dataclass(frozen=True, slots=True)
class BlockFinished:
    """A block is as it will stay."""

    message_id: str
    parent_tool_use_id: str | None
    index: int
    kind: BlockKind
    # As the program gave it, signature and all; put together from deltas where it never did.
    block: dict[str, Any]
    # False if it was cut off, and `block` is what had come until then.
    complete: bool
    # The line that held the whole block; None where there was none.
    raw: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class MessageFinished:
    """A message is as it will stay. Comes again in the unseen case that it still grew."""

    message_id: str
    parent_tool_use_id: str | None
    model: str | None
    # The native entries that hold the message, in order; a native fork is at one of these.
    uuids: tuple[str, ...]
    usage: dict[str, Any]
    # Not known without partial messages, unless the program made the message up itself.
    stop_reason: str | None
    # False if it was cut off: by an interrupt, by the API, or by the end of the program.
    complete: bool


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool call gave. Comes in any order, also before the calling message is finished."""

    tool_use_id: str
    parent_tool_use_id: str | None
    output_text: str
    is_error: bool
    block: dict[str, Any]
    uuid: str | None
    raw: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How a turn ended; there may be none, or several. `is_error` decides, not `subtype`."""

    subtype: str | None
    is_error: bool
    result: str | None
    session_id: str | None
    usage: dict[str, Any]
    cost_usd: float | None
    num_turns: int | None
    api_error_status: int | None
    terminal_reason: str | None
    raw: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Passed:
    """A line that no other fact holds, whole."""

    event_type: str
    raw: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that could not be read."""

    reason: str


Fact = (
    SessionStarted
    | MessageStarted
    | BlockStarted
    | BlockDelta
    | BlockFinished
    | MessageFinished
    | ToolResult
    | TurnResult
    | Passed
    | Skipped
)
