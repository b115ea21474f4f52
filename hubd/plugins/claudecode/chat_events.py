"""The events of a chat, as `chat` yields them: durable ones with a handle, live ones without.

They are written by mirror.py and live.py without these models; a test holds the two together.
"""

from typing import Any, Final, Literal

from pydantic import ConfigDict, Field

from hubd.activation import Event
from hubd.activation.params import Position
from hubd.plugins.claudecode.handles import EventRef

# What has a default is left out where that is all there is to say, and the schema says so.
SPARSE: Final = ConfigDict(json_schema_serialization_defaults_required=False)
RESULT: Final = (
    "Fields of the agent's result line, such as errors, num_turns, permission_denials, modelUsage "
    "and terminal_reason; absent if it printed none"
)


class Durable(Event):
    """What all durable events have."""

    model_config = SPARSE

    handle: EventRef


class Start(Durable):
    """The turn begins; `environment` is there if it is not the caller's, which is never kept."""

    id: str
    turn_position: Position
    engine: str
    environment: Literal["daemon"] | None = None


class UserMessage(Durable):
    """What was asked is in the tree."""

    position: Position


class Thinking(Durable):
    """A block of thinking, whole."""

    text: str
    block_index: int
    position: Position
    message_id: str
    parent_tool_use_id: str | None = None
    complete: bool = True


class Content(Durable):
    """A block of text, whole."""

    text: str
    block_index: int
    position: Position
    message_id: str
    parent_tool_use_id: str | None = None
    complete: bool = True


class ToolUse(Durable):
    """The agent calls a tool."""

    tool_use_id: str | None
    tool_name: str | None
    input: Any
    block_index: int
    position: Position
    message_id: str
    parent_tool_use_id: str | None = None
    complete: bool = True


class ToolResult(Durable):
    """What the tool gave; of a long output the beginning, `truncated` is its length then."""

    tool_use_id: str
    output: str
    is_error: bool
    position: Position
    block: str
    truncated: int | None = None
    parent_tool_use_id: str | None = None


class AssistantMessage(Durable):
    """A message of the agent is whole."""

    position: Position
    parent_tool_use_id: str | None = None


class Complete(Durable):
    """The turn is over. `new_head` is the session's head; an ephemeral chat does not move it."""

    new_head: Position
    claude_session_id: str | None
    usage: dict[str, Any]
    result: dict[str, Any] | None = Field(None, description=RESULT)


class Passthrough(Durable):
    """Something the program said that has no meaning here, whole."""

    event_type: str
    data: dict[str, Any]
    block_index: int | None = None
    position: Position | None = None
    message_id: str | None = None
    parent_tool_use_id: str | None = None
    complete: bool = True


class Error(Durable):
    """The turn ended before its time."""

    message: str
    code: str | None = None
    result: dict[str, Any] | None = Field(None, description=RESULT)


class BlockLive(Event):
    """What all live events have: which block of which message they are about."""

    model_config = SPARSE

    block_index: int
    message_id: str
    parent_tool_use_id: str | None = None


class ContentStart(BlockLive):
    """A block of text begins."""


class ContentDelta(BlockLive):
    """A block of text grew."""

    offset: int
    text: str


class ContentEnd(BlockLive):
    """A block of text is whole."""

    position: Position


class ThinkingStart(BlockLive):
    """A block of thinking begins."""


class ThinkingDelta(BlockLive):
    """A block of thinking grew."""

    offset: int
    text: str


class ThinkingEnd(BlockLive):
    """A block of thinking is whole."""

    position: Position


class ToolUseStart(BlockLive):
    """A call of a tool begins."""

    tool_use_id: str | None
    tool_name: str | None


class ToolUseDelta(BlockLive):
    """The input of a tool grew."""

    offset: int
    partial_json: str


class ToolUseEnd(BlockLive):
    """A tool call is complete."""

    input: Any
    position: Position


AnyChatEvent = (
    Start
    | UserMessage
    | Thinking
    | Content
    | ToolUse
    | ToolResult
    | AssistantMessage
    | Complete
    | Passthrough
    | Error
    | ContentStart
    | ContentDelta
    | ContentEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolUseStart
    | ToolUseDelta
    | ToolUseEnd
)
