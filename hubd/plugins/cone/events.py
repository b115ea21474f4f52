"""What cone's methods yield."""

from pydantic import BaseModel, Field

from hubd.activation import Event
from hubd.activation.handle import UnreadHandle
from hubd.activation.params import Position
from hubd.plugins.cone.handles import MessageRef, Role


class ConeInfo(BaseModel, defer_build=True):
    """One cone."""

    cone_id: str
    name: str
    model_id: str
    head: Position
    created_at: int
    updated_at: int


class ConeCreated(Event):
    """A cone was made."""

    cone_id: str
    name: str
    model_id: str
    head: Position
    handle: MessageRef | None = Field(description="Of its system prompt, if it has one")


class ConeData(Event):
    """One cone, with the system prompt it was made with: told wherever that is on its path."""

    cone: ConeInfo
    system_prompt: str | None


class ConeList(Event):
    """Some cones."""

    cones: list[ConeInfo]


class ConeDeleted(Event):
    """A cone is gone; its tree stays until nobody holds it."""

    cone_id: str
    name: str


class ConeForked(Event):
    """A cone that shares the tree of another."""

    cone_id: str
    name: str
    model_id: str
    head: Position


class HeadSet(Event):
    """A cone stands elsewhere; its next chat goes on from there."""

    cone_id: str
    head: Position


class Usage(BaseModel, defer_build=True):
    """What an answer has cost, as far as the provider says."""

    input_tokens: int | None
    output_tokens: int | None


class ChatStart(Event):
    """The question is stored, and the model is asked."""

    cone_id: str
    user_position: Position
    handle: MessageRef
    model_id: str


class ChatContent(Event):
    """The next piece of the answer."""

    content: str
    offset: int = Field(description="Where in the answer it begins")


class ChatComplete(Event):
    """The answer is stored, and is where the conversation goes on."""

    new_head: Position = Field(description="Where the cone stands now")
    position: Position = Field(description="Where the answer lies; in an ephemeral chat elsewhere")
    handle: MessageRef
    usage: Usage
    model: str
    stop_reason: str | None


class ConversationMessage(Event, tag="message"):
    """One message of a conversation."""

    role: Role
    content: str
    name: str | None
    model: str | None
    node_id: str
    short_id: str | None = Field(
        description="The shortest end of node_id, at least 4 digits, that no other node has"
    )
    handle: UnreadHandle | None = Field(description="None for a node that is text itself")
    created_at: int


class Exported(Event):
    """A piece of the export: a message, or the heading before them."""

    text: str


class ProviderInfo(BaseModel, defer_build=True):
    """One provider of language models."""

    provider: str
    available: bool
    models: list[str] = Field(description="As they are written in a model_id")
    note: str | None = Field(description="Why it is not available, or does not say its models")


class Registry(Event):
    """Which language models can answer."""

    default_model: str = Field(description="Of cones that name none")
    providers: list[ProviderInfo]


class ResolvedMessage(Event):
    """What a handle of cone points at."""

    id: str
    role: Role
    content: str
    model: str | None
    name: str
