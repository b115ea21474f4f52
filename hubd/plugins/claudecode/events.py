"""The events that claudecode's methods return, except those of a chat (chat_events.py)."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from hubd.activation import Event, columns
from hubd.activation.handle import UnreadHandle
from hubd.activation.params import Position
from hubd.plugins.claudecode.chat_events import AnyChatEvent
from hubd.plugins.claudecode.handles import (
    ApprovalRef,
    ContentRef,
    EventRef,
    MessageRef,
    SessionRef,
    ThinkingRef,
    ToolResultRef,
    ToolUseRef,
    TurnRef,
)

StatusName = Literal[
    "queued", "running", "awaiting_permission", "complete", "failed", "cancelled", "interrupted"
]


class SessionInfo(BaseModel, defer_build=True):
    """A session."""

    id: str
    name: str
    head: Position
    working_dir: str
    model: str | None
    engine: str | None
    claude_session_id: str | None
    loopback_enabled: bool
    approver: str
    status: StatusName | None = Field(description="The status of its newest chat")
    prompt: str | None = Field(description="The beginning of the newest prompt, on one line")
    turns: int = Field(description="The number of its turns")
    cost_usd: float = Field(description="The cost of its turns")
    created_at: int
    updated_at: int


class Created(Event, summary="session {name}"):
    """A session was created."""

    id: str
    name: str
    head: Position
    handle: SessionRef


class SessionData(Event, tag="session"):
    """A session and its options."""

    session: SessionInfo
    options: dict[str, Any]
    handle: SessionRef


class SessionList(Event):
    """A page of sessions."""

    sessions: list[SessionInfo] = Field(
        json_schema_extra=columns(
            name="{name}",
            status="{status}",
            asked="{prompt}",
            turns="{turns}",
            cost="{cost_usd}",
            updated="{updated_at}",
        )
    )


class Deleted(Event, summary="session {name}"):
    """A session was deleted. Its tree stays while something else references it."""

    id: str
    name: str


class Started(Event, summary="{status} on {engine}: stream {stream_id}"):
    """A chat runs, or waits in the queue."""

    stream_id: str
    session_id: str
    status: StatusName
    engine: str


class StreamInfo(BaseModel, defer_build=True):
    """The stream of one chat."""

    stream_id: str
    session_id: str
    name: str | None = Field(description="The session's name; null if the session was deleted")
    prompt: str | None = Field(description="The beginning of the prompt, on one line")
    tree_id: str
    status: StatusName
    root_node: str | None
    head_node: str | None
    total_events: int
    created_at: int
    started_at: int | None
    ended_at: int | None
    error: str | None


class StreamList(Event):
    """A page of streams, the newest first."""

    streams: list[StreamInfo] = Field(
        json_schema_extra=columns(
            name="{name}",
            status="{status}",
            asked="{prompt}",
            stream="{stream_id}",
            events="{total_events}",
            began="{created_at}",
            error="{error}",
        )
    )


class Cancelled(Event, summary="{status}: stream {stream_id}"):
    """A chat was asked to end. `status` is its status afterwards."""

    stream_id: str
    status: StatusName
    written: bool = Field(
        description="Whether the end is on disk; if not, the hub retries until it is"
    )


class ResolvedApproval(Event, tag="approval"):
    """An approval: the question whether a tool may run, and its answer."""

    handle: ApprovalRef
    approval: dict[str, Any]
    tool_name: str
    status: str


class EventRecord(BaseModel, defer_build=True):
    """A durable event and its place in the stream."""

    seq: int
    node_id: str
    timestamp: int
    event: dict[str, Any]


class Polled(Event, tag="ok"):
    """A page of the events of a stream."""

    stream_id: str
    session_id: str
    status: StatusName
    events: list[EventRecord]
    pending_approvals: list[dict[str, Any]]
    read_position: int = Field(description="The sequence number of the next event")
    cursor: str | None = Field(
        description="The node of the last event of the page; of an empty page the given node, or "
        "the one that the consumer has reached"
    )
    total_events: int
    has_more: bool


class Followed(Event, tag="event", summary="{seq}: {event.type}"):
    """A durable event of the stream."""

    seq: int
    node_id: str
    timestamp: int
    event: AnyChatEvent


class LiveEvent(Event, tag="live", summary="{event.type}"):
    """Text of a block that is still being written. The durable event of the block follows."""

    event: AnyChatEvent


class ConsumerInfo(BaseModel, defer_build=True):
    """A consumer of a stream. `lag` is the number of events that it has not read."""

    consumer: str
    position: int
    lag: int
    updated_at: int


class Consumers(Event):
    """The consumers of a stream."""

    stream_id: str
    total_events: int
    consumers: list[ConsumerInfo]


class ConsumerMoved(Event, tag="ok", summary="{consumer} at {position}"):
    """A consumer's new position: the sequence number of its next event."""

    stream_id: str
    consumer: str
    position: int


class ConsumerDeleted(Event, summary="{consumer}"):
    """A consumer was deleted."""

    stream_id: str
    consumer: str


class RetentionStep(Event, summary="{events} events of stream {stream_id}"):
    """The events of one chat were removed, or would be in a dry run."""

    stream_id: str
    session_id: str
    ended_at: int
    events: int
    dry_run: bool


class RetentionDone(Event, summary="{events} events of {streams} streams"):
    """The sum of all removed events."""

    streams: int
    events: int
    dry_run: bool


class Forked(Event, summary="session {name}"):
    """A session was created that shares the tree of another one."""

    id: str
    name: str
    head: Position
    handle: SessionRef


class HeadSet(Event, summary="head at {head.node_id}"):
    """The head of a session moved. The next chat continues from there."""

    id: str
    head: Position


class TreeOf(Event, tag="ok", summary="head at {head.node_id}"):
    """The tree and the head of a session."""

    tree_id: str
    head: Position


class Branch(BaseModel, defer_build=True):
    """A continuation of the conversation below a node."""

    node_id: str
    turn_index: int | None
    summary: str
    handle: UnreadHandle | None
    sessions: list[str] = Field(description="Sessions with their head in this branch")


class Branches(Event):
    """The continuations of the conversation below a node."""

    tree_id: str
    node_id: str
    branches: list[Branch]


class ConversationMessage(Event, tag="message"):
    """A message of a conversation, with its blocks as a model would get them.

    Tool results have the node and the handle of the message with the tool calls.
    """

    role: Literal["user", "assistant", "system"]
    content: list[dict[str, Any]]
    model: str | None
    node_id: str | None = Field(description="Null in Claude's own session files")
    handle: UnreadHandle | None = Field(description="Null without a node, or if its node is text")
    created_at: int | None = Field(description="Unix seconds; null if a session file has no time")
    short_id: str | None = Field(
        description="The last digits of the node's id, at least 4, that are unique in the tree; "
        "null in Claude's own session files"
    )


class ExportedPart(Event, tag="exported"):
    """A part of a document: the heading, or one message."""

    text: str


class Block(Event):
    """A block, message or turn in full."""

    blob_id: str
    blob_type: str
    complete: bool
    data: dict[str, Any]


class NativeSessionInfo(BaseModel, defer_build=True):
    """A session of Claude's own."""

    session_id: str
    path: str
    cwd: str | None
    modified_at: int
    prompt: str
    messages: int | None
    size: int


class NativeSessions(Event):
    """A page of Claude's own sessions, the newest first."""

    sessions: list[NativeSessionInfo]


class Imported(Event, summary="{messages} messages into session {name}"):
    """One of Claude's own sessions was imported."""

    id: str
    name: str
    head: Position
    claude_session_id: str
    messages: int = Field(description="The number of new messages")
    corrupt: int = Field(description="The number of lines that could not be read")
    notes: list[str]
    handle: SessionRef


class Exported(Event, summary="{messages} messages to {path}"):
    """A conversation was written as a session file. `claude --resume` continues it."""

    claude_session_id: str
    path: str
    messages: int


class UsageRow(BaseModel, defer_build=True):
    """The tokens and costs of one session."""

    session_id: str
    engine: str
    turns: int
    cost_usd: float | None
    input_tokens: int | None
    output_tokens: int | None
    cache_read_input_tokens: int | None
    cache_creation_input_tokens: int | None


class Usage(Event):
    """The tokens and costs of sessions."""

    sessions: list[UsageRow]
    cost_usd: float
    turns: int


class ResolvedTurn(Event):
    """A turn: its prompt and its status."""

    handle: TurnRef
    index: int
    prompt: str
    status: str
    data: dict[str, Any]


class ResolvedMessage(Event):
    """A message and its blocks."""

    handle: MessageRef
    role: str
    text: str
    content: list[dict[str, Any]]
    model: str | None
    complete: bool = Field(description="False if it was cut off and the program dropped it")
    synthetic: bool = Field(description="Written by the program itself; no model gets it")
    data: dict[str, Any]


class ResolvedBlock(Event):
    """A block of text or of thinking."""

    handle: ContentRef | ThinkingRef
    text: str
    block: dict[str, Any]
    complete: bool


class ResolvedToolUse(Event):
    """A tool call."""

    handle: ToolUseRef
    tool_name: str
    input: Any
    block: dict[str, Any]
    complete: bool


class ResolvedToolResult(Event):
    """The result of a tool call."""

    handle: ToolResultRef
    output: str
    is_error: bool
    block: dict[str, Any]


class ResolvedEvent(Event):
    """A durable event."""

    handle: EventRef
    event_type: str
    seq: int
    timestamp: int
    event: dict[str, Any]


class ResolvedSession(Event):
    """A session."""

    handle: SessionRef
    name: str
    session: SessionInfo
