"""What all parts of cone share: parameters, who may change a cone when, and making messages."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Final
from uuid import UUID
from weakref import WeakValueDictionary

from pydantic import Field

from hubd.activation import Activation, Conflict, params
from hubd.activation.params import Position
from hubd.plugins.cone import events, store
from hubd.plugins.cone.handles import NAMESPACE, VERSION, MessageRef, Role
from hubd.plugins.cone.providers.provider import Settings
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.arbor.tree import Place, TreeRow
from hubd.storage.database import Tx

Name = params.Name
NewName = params.NewName
Identifier = Annotated[str, Field(min_length=1, max_length=200)]
ModelId = Annotated[str, Field(min_length=1, max_length=200, examples=["offline"])]
Prompt = Annotated[str, Field(min_length=1, max_length=4 * 1024 * 1024)]
SystemPrompt = Annotated[str, Field(min_length=1, max_length=1024 * 1024)]

# A cone is named one way or the other; `create` alone gives it its name.
ALIASES: Final = {"identifier": ["name"]}
LIST_CONES: Final = {"identifier": f"{NAMESPACE}.list"}


class ConeBase(Activation, version=VERSION):
    """Finding cones, and changing them one at a time."""

    def __init__(self) -> None:
        # Who may change a cone; there while somebody does, or waits to.
        self._locks: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()
        # Read when the first call needs them.
        self._settings: Settings | None = None

    @property
    def configured(self) -> Settings:
        """The settings."""
        if self._settings is None:
            self._settings = self.settings(Settings)
        return self._settings

    @property
    def environment(self) -> Mapping[str, str]:
        """The hub's environment under the caller's: where keys are looked for."""
        return {**os.environ, **self.host.context.env}

    def lock_of(self, cone: store.ConeRow) -> asyncio.Lock:
        """What is held while a cone's head may move."""
        return self._locks.setdefault(cone.id, asyncio.Lock())

    @asynccontextmanager
    async def idle(self, cone: store.ConeRow) -> AsyncIterator[None]:
        """Keep chats from a cone for as long as the block lasts.

        Raises:
            Conflict: One is under way.
        """
        lock = self.lock_of(cone)
        try:
            # Not `locked()`: it does not know of whoever waits, and comes next.
            async with asyncio.timeout(0):
                await lock.acquire()
        except TimeoutError:
            raise Conflict(
                f"the cone '{cone.name}' is busy", suggestion="Wait for its chat"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def say(
        self,
        tx: Tx,
        held: TreeRow,
        parent: Place,
        role: Role,
        name: str,
        content: str,
        *,
        model: str | None = None,
        usage: str | None = None,
        side: bool = False,
    ) -> tuple[Place, MessageRef]:
        """Keep a message and its node; one transaction with whatever else `tx` does."""
        message_id = store.add_message(
            tx,
            held.key,
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


def info(cone: store.ConeRow) -> events.ConeInfo:
    """A cone as any client sees it."""
    return events.ConeInfo(
        cone_id=ids.text(cone.id),
        name=cone.name,
        model_id=cone.model_id,
        head=Position.at(cone.tree_id, cone.head_id),
        created_at=cone.created_at,
        updated_at=cone.updated_at,
    )


def now() -> int:
    """In seconds."""
    return int(time.time())
