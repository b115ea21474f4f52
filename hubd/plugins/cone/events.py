"""The events of cone's methods."""

from pydantic import BaseModel, Field

from hubd.activation import Event, columns
from hubd.activation.handle import UnreadHandle
from hubd.activation.params import Position
from hubd.conversations.attachments import Attached
from hubd.plugins.cone.handles import MessageRef, Role


class ConeInfo(BaseModel, defer_build=True):
    """One cone."""

    cone_id: str
    name: str
    model_id: str
    head: Position
    created_at: int
    updated_at: int


class ConeCreated(Event, summary="created cone {name} on {model_id}"):
    """A new cone."""

    cone_id: str
    name: str
    model_id: str
    head: Position
    handle: MessageRef | None = Field(
        description="The handle of the system prompt; null without one"
    )


class ConeData(Event, summary="cone {cone.name} on {cone.model_id}"):
    """One cone and its system prompt. The model sees the prompt if it is on the path."""

    cone: ConeInfo
    system_prompt: str | None


class ConeList(Event):
    """A page of cones."""

    cones: list[ConeInfo] = Field(
        json_schema_extra=columns(
            name="{name}",
            model="{model_id}",
            head="{head}",
            created="{created_at}",
            updated="{updated_at}",
        )
    )


class ConeDeleted(Event, summary="deleted cone {name}"):
    """A deleted cone. Its tree stays while it has other owners."""

    cone_id: str
    name: str


class ConeForked(Event, summary="created cone {name} on {model_id}"):
    """A new cone on the tree of another."""

    cone_id: str
    name: str
    model_id: str
    head: Position


class HeadSet(Event, summary="head: {head.node_id}"):
    """The new head of a cone. Its next chat continues from there."""

    cone_id: str
    head: Position


class Usage(BaseModel, defer_build=True):
    """The tokens of an answer; null if the provider does not report them."""

    input_tokens: int | None
    output_tokens: int | None


class ChatStart(Event, summary="asking {model_id}"):
    """The start of a chat: the question is stored."""

    cone_id: str
    user_position: Position
    handle: MessageRef
    model_id: str
    attachments: list[Attached] = Field(description="The nodes above the question, in their order")


class ChatContent(Event):
    """The next piece of the answer."""

    content: str
    offset: int = Field(description="The position of the piece in the answer, in characters")


class ChatComplete(Event, summary="answered by {model}"):
    """The end of a chat: the answer is stored, and the head has moved."""

    new_head: Position = Field(description="The cone's head")
    position: Position = Field(description="The node of the answer; not the head if ephemeral")
    handle: MessageRef
    usage: Usage
    model: str
    stop_reason: str | None


class ConversationMessage(Event, tag="message", summary="{role}: {content}"):
    """One message of a conversation."""

    role: Role
    content: str
    name: str | None
    model: str | None
    node_id: str
    short_id: str | None = Field(
        description="The shortest unique end of node_id, at least 4 digits"
    )
    handle: UnreadHandle | None = Field(
        description="The handle of the message; null for a text node"
    )
    created_at: int


class Exported(Event):
    """A part of the document: the heading, or one message."""

    text: str


class ProviderInfo(BaseModel, defer_build=True):
    """One provider of language models."""

    provider: str
    available: bool
    models: list[str] = Field(description="The models, as values for model_id")
    note: str | None = Field(
        description="The reason why the provider, or its list of models, is not available"
    )


class Registry(Event, summary="default model: {default_model}"):
    """The providers of language models."""

    default_model: str = Field(description="The model of cones without a model_id")
    providers: list[ProviderInfo]


class ResolvedMessage(Event, summary="{role}: {content}"):
    """The message behind a handle."""

    id: str
    role: Role
    content: str
    model: str | None
    name: str
