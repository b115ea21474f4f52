"""The events of a chat: the only definition of their shapes.

The schema of `chat`, the record in the stream, the text as it is written, and the events of an
interrupted chat all come from these classes. Durable events are stored and have a handle; the
handle is added when they are read. Live events are sent while a block is written, and not stored.

Writers call `ToolUse.fields(…)`, which checks no types: values stay as the program printed them.
"""

from typing import Any, ClassVar, Final, Literal, NamedTuple

from pydantic import ConfigDict, Field

from hubd.activation import Event
from hubd.activation.params import Position
from hubd.conversations.attachments import Attached
from hubd.plugins.claudecode.handles import EventRef

RESULT: Final = (
    "Fields of the agent's result line, such as errors, num_turns, permission_denials, modelUsage "
    "and terminal_reason; absent if it printed none"
)


class ChatEvent(Event):
    """The base of all events of a chat. A field with its default is left out."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    # The defaults of the fields that may be left out.
    defaults: ClassVar[tuple[tuple[str, Any], ...]] = ()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Collect the defaults, which are known only now."""
        super().__pydantic_init_subclass__(**kwargs)
        cls.defaults = tuple(
            (name, field.default)
            for name, field in cls.model_fields.items()
            if name != "type" and not field.is_required()
        )

    @classmethod
    def fields(cls, **values: Any) -> dict[str, Any]:
        """Return an event as it is stored and sent."""
        for name, default in cls.defaults:
            if name in values and values[name] is default:
                del values[name]
        return {"type": cls.tag, **values}


class Durable(ChatEvent):
    """The base of all durable events."""

    handle: EventRef


class Start(Durable, summary="turn started on {engine}"):
    """A turn starts. `environment` is there if the program does not get the caller's."""

    id: str
    turn_position: Position
    engine: str
    environment: Literal["daemon"] | None = None
    attachments: list[Attached] | None = Field(
        None, description="The nodes above the turn, in their order; absent without attachments"
    )


class UserMessage(Durable):
    """The prompt is in the tree. `prompt` is its beginning."""

    position: Position
    prompt: str | None = None


class DurableBlock(Durable):
    """The base of the events about one complete block. `complete` is false if it was cut off."""

    block_index: int
    position: Position
    message_id: str
    parent_tool_use_id: str | None = None
    complete: bool = True


class Thinking(DurableBlock, summary="thinking: {text}"):
    """A complete block of thinking."""

    text: str


class Content(DurableBlock, summary="{text}"):
    """A complete block of text."""

    text: str


class ToolUse(DurableBlock, summary="{tool_name} {input}"):
    """A tool call of the agent."""

    tool_use_id: str | None
    tool_name: str | None
    input: Any


class ToolResult(Durable, summary="result: {output}"):
    """The result of a tool call. Of a long output the beginning; `truncated` is its length."""

    tool_use_id: str
    output: str
    is_error: bool
    position: Position
    block: str
    truncated: int | None = None
    parent_tool_use_id: str | None = None


class AwaitingApproval(Durable, summary="{tool_name} waits for approval {approval_id:.8}"):
    """A tool call waits for an approval. `agent_id` is the subagent that makes the call."""

    approval_id: str
    tool_name: str
    tool_use_id: str
    input: Any
    session_id: str
    stream_id: str
    approval: str
    agent_id: str | None = None


class ApprovalResolved(Durable, summary="{status} by {by}"):
    """An approval has ended. `by` is the actor or the rule; `updated_input` was run instead."""

    approval_id: str
    approved: bool
    status: str
    by: str
    message: str | None = None
    updated_input: Any = None


class AssistantMessage(Durable):
    """A message of the agent is complete."""

    position: Position
    parent_tool_use_id: str | None = None


class Complete(Durable, summary="turn complete, head at {new_head.node_id}"):
    """The turn is complete. `new_head` is the session's head; an ephemeral chat keeps it."""

    new_head: Position
    claude_session_id: str | None
    usage: dict[str, Any]
    result: dict[str, Any] | None = Field(None, description=RESULT)


class Passthrough(Durable, summary="{event_type}"):
    """A line or a block of the program that has no meaning to the hub, in full."""

    event_type: str
    data: dict[str, Any]
    block_index: int | None = None
    position: Position | None = None
    message_id: str | None = None
    parent_tool_use_id: str | None = None
    complete: bool = True


class Error(Durable, summary="error: {message}"):
    """The turn failed, was cancelled or was interrupted."""

    message: str
    code: str | None = None
    result: dict[str, Any] | None = Field(None, description=RESULT)


class Pending(ChatEvent, summary="stream {stream_id} waits for an approval"):
    """The approvals that a chat waits for. Sent live; the last event if the call returns early."""

    stream_id: str
    session_id: str
    status: str
    pending_approvals: list[dict[str, Any]]


class LiveBlock(ChatEvent):
    """The base of all live events: the block of the message that they are about."""

    block_index: int
    message_id: str
    parent_tool_use_id: str | None = None


class ContentStart(LiveBlock):
    """A block of text starts."""


class ContentDelta(LiveBlock, summary="{text}"):
    """A block of text grew."""

    offset: int
    text: str


class ContentEnd(LiveBlock):
    """A block of text is complete."""

    position: Position


class ThinkingStart(LiveBlock):
    """A block of thinking starts."""


class ThinkingDelta(LiveBlock, summary="thinking: {text}"):
    """A block of thinking grew."""

    offset: int
    text: str


class ThinkingEnd(LiveBlock):
    """A block of thinking is complete."""

    position: Position


class ToolUseStart(LiveBlock, summary="{tool_name} starts"):
    """A tool call starts."""

    tool_use_id: str | None
    tool_name: str | None


class ToolUseDelta(LiveBlock, summary="{partial_json}"):
    """The input of a tool call grew."""

    offset: int
    partial_json: str


class ToolUseEnd(LiveBlock, summary="input: {input}"):
    """A tool call is complete."""

    input: Any
    position: Position


AnyChatEvent = (
    Start
    | UserMessage
    | Thinking
    | Content
    | ToolUse
    | AwaitingApproval
    | ApprovalResolved
    | ToolResult
    | AssistantMessage
    | Complete
    | Passthrough
    | Error
    | Pending
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


class BlockEvents(NamedTuple):
    """The events about a block of one kind, and the field of a delta that holds the new text."""

    durable: type[DurableBlock]
    start: type[LiveBlock]
    delta: type[LiveBlock]
    end: type[LiveBlock]
    delta_field: str


# By the kind of the block. Blocks of other kinds are `Passthrough` events, without live ones.
BLOCK_EVENTS: Final = {
    "content": BlockEvents(Content, ContentStart, ContentDelta, ContentEnd, "text"),
    "thinking": BlockEvents(Thinking, ThinkingStart, ThinkingDelta, ThinkingEnd, "text"),
    "tool_use": BlockEvents(ToolUse, ToolUseStart, ToolUseDelta, ToolUseEnd, "partial_json"),
}
