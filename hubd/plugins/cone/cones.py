"""cone: the methods that create, list, fork, move and delete cones."""

from __future__ import annotations

from collections.abc import AsyncIterator

from hubd.activation import method
from hubd.activation.pages import RowLimit, limited
from hubd.activation.params import NodeId, TreeId
from hubd.conversations.heads import now, position
from hubd.plugins.cone import events, store
from hubd.plugins.cone.base import (
    ALIASES,
    LIST_CONES,
    ConeBase,
    Identifier,
    ModelId,
    Name,
    NewName,
    SystemPrompt,
)
from hubd.plugins.cone.handles import MessageRef
from hubd.plugins.cone.providers import choice, offline
from hubd.plugins.cone.store import HEADS
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.database import Tx


class Cones(ConeBase):
    """Methods for cones."""

    @method(needs_context=True)
    async def create(
        self,
        name: Name,
        model_id: ModelId | None = None,
        system_prompt: SystemPrompt | None = None,
        tree_id: TreeId | None = None,
        node_id: NodeId | None = None,
    ) -> events.ConeCreated:
        """Create a cone on a new tree, or at a node of an existing tree.

        Args:
            name: The name of the cone.
            model_id: The model: `offline`, `anthropic/…` or `openai/…`; by default the model in
                the settings.
            system_prompt: The system prompt, stored as the first message.
            tree_id: The id of an existing tree, or its first 8 or more digits.
            node_id: The id of a node of that tree, or its last 4 or more digits; the root by
                default.
        """
        model = model_id or self.configured.model

        def create(tx: Tx) -> tuple[store.ConeRow, MessageRef | None]:
            cone = HEADS.create(
                tx, name, store.Columns(model), now(), tree_id=tree_id, node_id=node_id
            )
            if system_prompt is None:
                return cone, None
            row = tree.find(tx, ids.text(cone.tree_id))
            head = tree.place(tx, row, cone.head_id)
            place, reference = self.add_message(tx, row, head, "system", "system", system_prompt)
            store.TABLE.set_head(tx, cone.key, place.key, now())
            store.set_system_message(tx, cone.key, reference.message_id.bytes)
            return HEADS.reread(tx, cone), reference

        cone, reference = await self.db.transaction(create)
        if system_prompt is not None:
            self.host.prompts_changed()
        await self._warn_about_model(model, chosen=model_id is not None)
        return events.ConeCreated(
            cone_id=ids.text(cone.id),
            name=cone.name,
            model_id=cone.model_id,
            head=position(cone),
            handle=reference,
        )

    @method(name="list", read_only=True, render="table")
    async def list_cones(self, limit: RowLimit | None = None) -> AsyncIterator[events.ConeList]:
        """List all cones in order of creation, in pages.

        Args:
            limit: The maximum number of cones; all by default.
        """
        async for page in limited(HEADS.pages(self.db, limit), limit):
            yield events.ConeList(cones=list(map(_info, page)))

    @method(read_only=True, aliases=ALIASES, completes=LIST_CONES)
    async def get(self, identifier: Identifier) -> events.ConeData:
        """Show a cone and its system prompt.

        Args:
            identifier: The name of the cone, its id, or the first 8 or more digits of its id.
        """
        cone = await HEADS.look_up(self.db, identifier)
        return events.ConeData(
            cone=_info(cone), system_prompt=await store.system_prompt(self.db, cone.name)
        )

    @method(aliases=ALIASES, completes=LIST_CONES)
    async def fork(
        self,
        identifier: Identifier,
        new_name: NewName,
        at: NodeId | None = None,
        model_id: ModelId | None = None,
    ) -> events.ConeForked:
        """Create a cone that continues another one's conversation. Nothing is copied.

        Args:
            identifier: The name of the cone to fork, its id, or the first 8 or more digits of it.
            new_name: The name of the new cone.
            at: The id of the node to continue from, such as an earlier message, or its last 4 or
                more digits; the head by default.
            model_id: The model of the new cone; the same model by default.
        """
        source = await HEADS.look_up(self.db, identifier)

        def create(tx: Tx) -> store.ConeRow:
            current = HEADS.reread(tx, source)
            columns = store.Columns(model_id or current.model_id, current.system_message)
            return HEADS.fork(tx, current, new_name, columns, now(), at=at)

        fork = await self.db.transaction(create)
        if fork.system_message is not None:
            self.host.prompts_changed()
        return events.ConeForked(
            cone_id=ids.text(fork.id),
            name=fork.name,
            model_id=fork.model_id,
            head=position(fork),
        )

    @method(aliases=ALIASES, completes=LIST_CONES)
    async def set_head(self, identifier: Identifier, node_id: NodeId) -> events.HeadSet:
        """Move a cone's head to another node of its tree. The next chat continues from there.

        Args:
            identifier: The name of the cone, its id, or the first 8 or more digits of its id.
            node_id: The id of the node, or its last 4 or more digits.
        """
        cone = await HEADS.look_up(self.db, identifier)
        async with self.locks.idle(cone):
            head = await self.db.transaction(lambda tx: HEADS.move(tx, cone, node_id, now()))
        return events.HeadSet(cone_id=ids.text(cone.id), head=head)

    @method(destructive=True, aliases=ALIASES, completes=LIST_CONES)
    async def delete(self, identifier: Identifier) -> events.ConeDeleted:
        """Delete a cone. Its tree stays while it has other owners.

        Args:
            identifier: The name of the cone, its id, or the first 8 or more digits of its id.
        """
        cone = await HEADS.look_up(self.db, identifier)
        async with self.locks.idle(cone):
            await self.db.transaction(lambda tx: HEADS.delete(tx, cone, now()))
        if cone.system_message is not None:
            self.host.prompts_changed()
        return events.ConeDeleted(cone_id=ids.text(cone.id), name=cone.name)

    async def _warn_about_model(self, model_id: str, *, chosen: bool) -> None:
        """Send guidance if the model can't answer, or is the offline model by default."""
        name, _ = choice.split_model_id(model_id)
        obstacle = choice.create_provider(name, self.configured, self.environment).obstacle()
        if obstacle is not None:
            await self.host.advise("model", f"{obstacle.message}. {obstacle.suggestion}")
        elif name == offline.NAME and not chosen:
            await self.host.advise(
                "model",
                "The offline model answers, because no other model is configured. Choose one with "
                "model_id, or for all cones with `model` in section [cone] of config.toml: "
                "anthropic/… (ANTHROPIC_API_KEY), openai/… (OPENAI_API_KEY, OPENAI_BASE_URL)",
            )


def _info(cone: store.ConeRow) -> events.ConeInfo:
    """Return a cone as clients see it."""
    return events.ConeInfo(
        cone_id=ids.text(cone.id),
        name=cone.name,
        model_id=cone.model_id,
        head=position(cone),
        created_at=cone.created_at,
        updated_at=cone.updated_at,
    )
