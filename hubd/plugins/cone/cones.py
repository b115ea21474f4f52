"""cone: making, finding, branching and removing cones."""

from collections.abc import AsyncIterator

from hubd.activation import InvalidParams, method
from hubd.activation.pages import RowLimit, limited
from hubd.activation.params import NodeId, Position, TreeId
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
    info,
    now,
)
from hubd.plugins.cone.handles import VERSION, MessageRef
from hubd.plugins.cone.providers import offline
from hubd.plugins.cone.providers.choice import reach, split
from hubd.storage import ids
from hubd.storage.arbor import references, tree
from hubd.storage.database import Tx


class Cones(ConeBase, version=VERSION):
    """Methods about cones."""

    @method(streaming=False, needs_context=True)
    async def create(
        self,
        name: Name,
        model_id: ModelId | None = None,
        system_prompt: SystemPrompt | None = None,
        tree_id: TreeId | None = None,
        node_id: NodeId | None = None,
    ) -> AsyncIterator[events.ConeCreated]:
        """Make a cone, on a tree of its own or at a node of an existing one.

        Args:
            name: What to call it.
            model_id: Which model answers: `offline`, `anthropic/…`, `openai/…`; the one in the
                settings unless said otherwise.
            system_prompt: What the model is told before everything else.
            tree_id: Begin on this tree.
            node_id: Begin at this node of it: its id, or the last 4 or more digits; the root by
                default.
        """
        if node_id is not None and tree_id is None:
            raise InvalidParams("node_id needs tree_id")
        model = model_id or self.configured.model

        def create(tx: Tx) -> tuple[store.ConeRow, MessageRef | None]:
            cone_id = ids.uuid4()
            owner = store.owner_of(cone_id)
            if tree_id is None:
                held = tree.create(tx, owner, now())
            else:
                held = tree.writable(tx, tree_id)
                references.claim(tx, held, owner, 1, now())
            head = tree.place(tx, held, node_id)
            reference = None
            if system_prompt is not None:
                head, reference = self.say(tx, held, head, "system", "system", system_prompt)
            made = store.create(
                tx,
                cone_id=cone_id,
                name=name,
                head=head,
                model_id=model,
                system_message=reference.message_id.bytes if reference else None,
                now=now(),
            )
            return made, reference

        cone, reference = await self.db.transaction(create)
        if system_prompt is not None:
            self.host.prompts_changed()
        await self._advise(model, asked_for=model_id is not None)
        yield events.ConeCreated(
            cone_id=ids.text(cone.id),
            name=cone.name,
            model_id=cone.model_id,
            head=Position.at(cone.tree_id, cone.head_id),
            handle=reference,
        )

    @method(streaming=False, read_only=True, aliases=ALIASES, completes=LIST_CONES)
    async def get(self, identifier: Identifier) -> AsyncIterator[events.ConeData]:
        """Look at a cone.

        Args:
            identifier: Its name, its id, or the beginning of its id.
        """
        cone = await store.look_up(self.db, identifier)
        yield events.ConeData(
            cone=info(cone), system_prompt=await store.system_prompt(self.db, cone.name)
        )

    @method(name="list", read_only=True, render="table")
    async def list_cones(self, limit: RowLimit | None = None) -> AsyncIterator[events.ConeList]:
        """List all cones in order of creation, in pages.

        Args:
            limit: The maximum number of cones; all by default.
        """
        async for page in limited(self._pages(), limit):
            yield events.ConeList(cones=list(map(info, page)))

    @method(streaming=False, destructive=True, aliases=ALIASES, completes=LIST_CONES)
    async def delete(self, identifier: Identifier) -> AsyncIterator[events.ConeDeleted]:
        """Remove a cone; its tree stays for as long as anybody holds it.

        Args:
            identifier: Its name, its id, or the beginning of its id.
        """
        cone = await store.look_up(self.db, identifier)

        def delete(tx: Tx) -> None:
            store.delete(tx, store.find(tx, ids.text(cone.id)))
            held = tree.find(tx, ids.text(cone.tree_id))
            references.let_go(tx, held, store.owner_of(cone.id), now())

        async with self.idle(cone):
            await self.db.transaction(delete)
        if cone.system_message is not None:
            self.host.prompts_changed()
        yield events.ConeDeleted(cone_id=ids.text(cone.id), name=cone.name)

    @method(streaming=False, aliases=ALIASES, completes=LIST_CONES)
    async def set_head(
        self, identifier: Identifier, node_id: NodeId
    ) -> AsyncIterator[events.HeadSet]:
        """Move a cone's head to another node of its tree. The next chat continues from there.

        Args:
            identifier: The cone: its name, its id, or the beginning of its id.
            node_id: The node: its id, or the last 4 or more digits of it.
        """
        cone = await store.look_up(self.db, identifier)

        def move(tx: Tx) -> bytes:
            current = store.find(tx, ids.text(cone.id))
            held = tree.find(tx, ids.text(cone.tree_id))
            head = tree.place(tx, held, node_id)
            store.move_head(tx, current, head, now())
            return head.id

        async with self.idle(cone):
            head_id = await self.db.transaction(move)
        yield events.HeadSet(cone_id=ids.text(cone.id), head=Position.at(cone.tree_id, head_id))

    @method(streaming=False, aliases=ALIASES, completes=LIST_CONES)
    async def fork(
        self,
        identifier: Identifier,
        new_name: NewName,
        at: NodeId | None = None,
        model_id: ModelId | None = None,
    ) -> AsyncIterator[events.ConeForked]:
        """Make a cone that goes on from where another one stands, or stood. Copies nothing.

        Args:
            identifier: The cone to fork: its name, its id, or the beginning of its id.
            new_name: What to call the new one.
            at: The node to continue from, such as an earlier message: its id, or the last 4 or
                more digits; the head by default.
            model_id: Which model answers; the same unless said otherwise.
        """
        source = await store.look_up(self.db, identifier)

        def fork(tx: Tx) -> store.ConeRow:
            current = store.find(tx, ids.text(source.id))
            held = tree.find(tx, ids.text(current.tree_id))
            made = store.create(
                tx,
                cone_id=ids.uuid4(),
                name=new_name,
                head=tree.place(tx, held, at or current.head_id),
                model_id=model_id or current.model_id,
                system_message=current.system_message,
                now=now(),
            )
            references.claim(tx, held, store.owner_of(made.id), 1, now())
            return made

        made = await self.db.transaction(fork)
        if made.system_message is not None:
            self.host.prompts_changed()
        yield events.ConeForked(
            cone_id=ids.text(made.id),
            name=made.name,
            model_id=made.model_id,
            head=Position.at(made.tree_id, made.head_id),
        )

    async def _pages(self) -> AsyncIterator[list[store.ConeRow]]:
        after = 0
        while page := await store.page(self.db, after):
            yield page
            after = page[-1].key

    async def _advise(self, model_id: str, *, asked_for: bool) -> None:
        """Say what will keep a cone from answering as its maker may expect."""
        name, _ = split(model_id)
        obstacle = reach(name, self.configured, self.environment).obstacle()
        if obstacle is not None:
            await self.host.advise("model", f"{obstacle.message}. {obstacle.suggestion}")
        elif name == offline.NAME and not asked_for:
            await self.host.advise(
                "model",
                "The offline model answers, because no other is configured. Choose one by "
                "model_id, or for all cones by `model` in the section [cone] of config.toml: "
                "anthropic/… (ANTHROPIC_API_KEY), openai/… (OPENAI_API_KEY, OPENAI_BASE_URL)",
            )
