"""The handle of a message."""

from typing import Annotated, Final, Literal
from uuid import UUID

from pydantic import Field

from hubd.activation import Handle, Prefix

NAMESPACE: Final = "cone"
VERSION: Final = "1.0.0"

Role = Literal["system", "user", "assistant"]


class MessageRef(
    Handle,
    method="chat",
    kind="message",
    summary="{role}: {content}",
    templates={"verbose": "{{role}} ({{name}}{{#model}}, {{model}}{{/model}}):\n{{content}}"},
):
    """The handle of one message."""

    message_id: Annotated[UUID, Prefix("msg-"), Field(description="The id of the message")]
    role: Role = Field(description="The role: system, user or assistant")
    name: str | None = Field(None, description="The name of the speaker")
