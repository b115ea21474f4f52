"""The parameters that the parts of cone share, its settings, and the storage of messages."""

import os
from collections.abc import Mapping
from typing import Annotated, Final, NotRequired, TypedDict
from uuid import UUID

from pydantic import Field

from hubd.activation import Activation, params
from hubd.activation.params import NodeId
from hubd.conversations.heads import ChatLocks, now
from hubd.plugins.cone import store
from hubd.plugins.cone.handles import NAMESPACE, MessageRef, Role
from hubd.plugins.cone.settings import Settings
from hubd.plugins.cone.store import HEADS
from hubd.storage.arbor import tree
from hubd.storage.arbor.tree import Place, TreeRow
from hubd.storage.database import Tx

Name = params.Name
NewName = params.NewName
Identifier = Annotated[str, Field(min_length=1, max_length=200)]
ModelId = Annotated[str, Field(min_length=1, max_length=200, examples=["offline"])]
Prompt = Annotated[str, Field(min_length=1, max_length=4 * 1024 * 1024)]
SystemPrompt = Annotated[str, Field(min_length=1, max_length=1024 * 1024)]

# In `create` alone, `name` is a parameter itself.
ALIASES: Final = {"identifier": ["name"]}
LIST_CONES: Final = {"identifier": f"{NAMESPACE}.list"}


class ConversationPath(TypedDict):
    """The path of a conversation."""

    identifier: Annotated[
        Identifier,
        Field(description="The name of the cone, its id, or the first 8 or more digits of its id."),
    ]
    node_id: NotRequired[
        Annotated[
            NodeId | None,
            Field(
                description="The id of the last node of the path, or its last 4 or more digits; "
                "the cone's head by default."
            ),
        ]
    ]


class ConeBase(Activation):
    """The settings, the locks and the storage of messages, for all parts of cone."""

    def __init__(self) -> None:
        self.locks = ChatLocks(HEADS)
        # Read when the first call needs them.
        self._settings: Settings | None = None

    @property
    def configured(self) -> Settings:
        """The settings of the plugin."""
        if self._settings is None:
            self._settings = self.settings(Settings)
        return self._settings

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of the caller, then those of the hub."""
        return {**os.environ, **self.host.context.env}

    def add_message(
        self,
        tx: Tx,
        row: TreeRow,
        parent: Place,
        role: Role,
        name: str,
        content: str,
        *,
        model: str | None = None,
        usage: str | None = None,
        side: bool = False,
    ) -> tuple[Place, MessageRef]:
        """Store a message and its node. Return the place of the node, and the handle."""
        message_id = store.add_message(
            tx,
            row.key,
            role=role,
            name=name,
            content=content,
            model=model,
            usage=usage,
            now=now(),
        )
        message = MessageRef(message_id=UUID(bytes=message_id), role=role, name=name)
        reference = message.at(self.origin)
        node = tree.external(tx, reference.wire)
        return tree.append(tx, parent, node, now(), side=side), reference
