"""What claudecode's methods yield."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from hubd.activation import Event
from hubd.activation.handle import UnreadHandle
from hubd.activation.params import Position
from hubd.plugins.claudecode.handles import (
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
    """One session."""

    id: str
    name: str
    head: Position
    working_dir: str
    model: str | None
    engine: str | None
    claude_session_id: str | None
    loopback_enabled: bool
    status: StatusName | None = Field(description="Of its newest chat")
    created_at: int
    updated_at: int


class Created(Event):
    """A session was made."""

    id: str
    name: str
    head: Position
    handle: SessionRef


class SessionData(Event, tag="session"):
    """One session, with what it tells the program."""

    session: SessionInfo
    options: dict[str, Any]
    handle: SessionRef


class SessionList(Event):
    """Some sessions."""

    sessions: list[SessionInfo]


class Deleted(Event):
    """A session is gone; its tree stays until nobody holds it."""

    id: str
    name: str


class Started(Event):
    """A chat runs, or waits for its turn."""

    stream_id: str
    session_id: str
    status: StatusName
    engine: str


class StreamInfo(BaseModel, defer_build=True):
    """The log of one chat."""

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
    """Some streams, the newest first."""

    streams: list[StreamInfo]


class Cancelled(Event):
    """A chat was asked to end; its status now."""

    stream_id: str
    status: StatusName
    written: bool = Field(
        description="Whether the end is on disk; if not, the hub tries again until it is"
    )


class EventRecord(BaseModel, defer_build=True):
    """A durable event with its place in the stream."""

    seq: int
    node_id: str
    timestamp: int
    event: dict[str, Any]


class Polled(Event, tag="ok"):
    """A page of a stream."""

    stream_id: str
    session_id: str
    status: StatusName
    events: list[EventRecord]
    pending_approvals: list[dict[str, Any]]
    read_position: int = Field(description="The next seq")
    cursor: str | None = Field(
        description="The node of the last event returned; if there is none, the given node or "
        "the one that the consumer has reached"
    )
    total_events: int
    has_more: bool


class Followed(Event, tag="event"):
    """A durable event of a stream that is followed."""

    seq: int
    node_id: str
    timestamp: int
    event: dict[str, Any]


class LiveEvent(Event, tag="live"):
    """What a chat is saying right now; the durable event follows."""

    event: dict[str, Any]


class ConsumerInfo(BaseModel, defer_build=True):
    """A named reader of a stream."""

    consumer: str
    position: int
    lag: int
    updated_at: int


class Consumers(Event):
    """Who reads a stream under a name."""

    stream_id: str
    total_events: int
    consumers: list[ConsumerInfo]


class ConsumerMoved(Event, tag="ok"):
    """Where a consumer stands now."""

    stream_id: str
    consumer: str
    position: int


class ConsumerDeleted(Event):
    """A consumer is forgotten."""

    stream_id: str
    consumer: str


class RetentionStep(Event):
    """The events of a chat were removed, or would be."""

    stream_id: str
    session_id: str
    ended_at: int
    events: int
    dry_run: bool


class RetentionDone(Event):
    """All of which it was time."""

    streams: int
    events: int
    dry_run: bool


class Forked(Event):
    """A session that shares the tree of another."""

    id: str
    name: str
    head: Position
    handle: SessionRef


class HeadSet(Event):
    """A session stands elsewhere; its next chat goes on from there."""

    id: str
    head: Position


class TreeOf(Event, tag="ok"):
    """Where the conversation of a session lies."""

    tree_id: str
    head: Position


class Branch(BaseModel, defer_build=True):
    """A way the conversation went on below a node."""

    node_id: str
    turn_index: int | None
    summary: str
    handle: UnreadHandle | None
    sessions: list[str] = Field(description="Sessions whose head is in this branch")


class Branches(Event):
    """The ways in which the conversation went on."""

    tree_id: str
    node_id: str
    branches: list[Branch]


class ConversationMessage(Event, tag="message"):
    """One message of a conversation, with its blocks as a model would get them.

    Tool results have the node and the handle of the message that called the tools.
    """

    role: Literal["user", "assistant", "system"]
    content: list[dict[str, Any]]
    model: str | None
    node_id: str | None = Field(description="Null in Claude's own session files")
    handle: UnreadHandle | None = Field(description="Null if the node is text, or there is none")
    created_at: int | None = Field(description="Unix seconds; null if a session file lacks it")
    short_id: str | None = Field(
        description="The shortest end of the node's id, at least 4 digits, that no other node of "
        "the tree has; null in Claude's own session files"
    )


class ExportedPart(Event, tag="exported"):
    """A piece of a document: a message, or the heading before them."""

    text: str


class Block(Event):
    """One block, message or turn, whole."""

    blob_id: str
    blob_type: str
    complete: bool
    data: dict[str, Any]


class NativeSessionInfo(BaseModel, defer_build=True):
    """One of Claude's own sessions."""

    session_id: str
    path: str
    cwd: str | None
    modified_at: int
    prompt: str
    messages: int | None
    size: int


class NativeSessions(Event):
    """Claude's own sessions, the newest first."""

    sessions: list[NativeSessionInfo]


class Imported(Event):
    """One of Claude's own sessions is a session of the hub."""

    id: str
    name: str
    head: Position
    claude_session_id: str
    messages: int = Field(description="How many messages were new")
    corrupt: int = Field(description="Lines that could not be read")
    notes: list[str]
    handle: SessionRef


class Exported(Event):
    """A conversation is one of Claude's own sessions: `claude --resume` goes on with it."""

    claude_session_id: str
    path: str
    messages: int


class UsageRow(BaseModel, defer_build=True):
    """What the turns of a session have cost."""

    session_id: str
    engine: str
    turns: int
    cost_usd: float | None
    input_tokens: int | None
    output_tokens: int | None
    cache_read_input_tokens: int | None
    cache_creation_input_tokens: int | None


class Usage(Event):
    """What turns have cost."""

    sessions: list[UsageRow]
    cost_usd: float
    turns: int


class ResolvedTurn(Event):
    """A turn: what was asked, and how it went."""

    handle: TurnRef
    index: int
    prompt: str
    status: str
    data: dict[str, Any]


class ResolvedMessage(Event):
    """A message, with its blocks."""

    handle: MessageRef
    role: str
    text: str
    content: list[dict[str, Any]]
    model: str | None
    complete: bool = Field(description="False if it broke off and the program dropped it")
    synthetic: bool = Field(description="The program's own words, which no model is told")
    data: dict[str, Any]


class ResolvedBlock(Event):
    """A block of text or of thinking."""

    handle: ContentRef | ThinkingRef
    text: str
    block: dict[str, Any]
    complete: bool


class ResolvedToolUse(Event):
    """A call of a tool."""

    handle: ToolUseRef
    tool_name: str
    input: Any
    block: dict[str, Any]
    complete: bool


class ResolvedToolResult(Event):
    """What a tool gave."""

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
