"""What cone's handles look like."""

from typing import Annotated, Final, Literal
from uuid import UUID

from pydantic import Field

from hubd.activation import Handle, Prefix

NAMESPACE: Final = "cone"
VERSION: Final = "1.0.0"

Role = Literal["system", "user", "assistant"]


class MessageRef(Handle, method="chat", kind="message", summary="{role}: {content}"):
    """Points at one message."""

    message_id: Annotated[UUID, Prefix("msg-"), Field(description="The id of the message")]
    role: Role = Field(description="Who said it: system, user or assistant")
    name: str | None = Field(None, description="What the speaker is called")
