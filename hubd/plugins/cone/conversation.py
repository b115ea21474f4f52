"""cone: chatting, and reading what was said."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, nullcontext
from typing import Any, Final, Literal

from pydantic_core import to_json

from hubd.activation import Conflict, ExecutionError, Timeout, method
from hubd.activation.pages import ROWS_PER_ITEM
from hubd.activation.params import NodeId, Position
from hubd.conversations import context
from hubd.plugins.cone import events, store
from hubd.plugins.cone.base import (
    ALIASES,
    LIST_CONES,
    Identifier,
    Prompt,
    now,
)
from hubd.plugins.cone.cones import Cones
from hubd.plugins.cone.exchange import Exchange
from hubd.plugins.cone.handles import VERSION, MessageRef
from hubd.plugins.cone.providers.choice import reach, split
from hubd.plugins.cone.providers.provider import Ending, Message
from hubd.storage import ids
from hubd.storage.arbor import outline, tree
from hubd.storage.arbor.tree import Place
from hubd.storage.database import Tx

# No model takes a longer conversation; it is held in memory.
MAX_CONTEXT: Final = 16 * 1024 * 1024


class Conversation(Cones, version=VERSION):
    """Methods about what is said."""

    @method(render="chat", needs_context=True, aliases=ALIASES, completes=LIST_CONES)
    async def chat(
        self, identifier: Identifier, prompt: Prompt, ephemeral: bool = False
    ) -> AsyncIterator[events.ChatStart | events.ChatContent | events.ChatComplete]:
        """Ask, and watch the answer come.

        The context is everything said on the way to where the cone stands, handles resolved. The
        question is stored at once, the answer when it is whole; only then does the cone move. A
        second chat with the same cone waits for the first.

        Args:
            identifier: The cone: its name, its id, or the beginning of its id.
            prompt: What to ask.
            ephemeral: Do not move the cone; question and answer stay in the tree.
        """
        cone = await store.look_up(self.db, identifier)
        exchange = Exchange()
        # A task of its own: a caller that reads slowly must not hold up whoever is next.
        task = asyncio.create_task(
            self._converse(cone, prompt, exchange, ephemeral=ephemeral), name="cone chat"
        )
        try:
            async for event in exchange.events(task):
                yield event
        finally:
            task.cancel()
            await asyncio.wait([task])

    @method(
        read_only=True,
        render="chat",
        aliases=ALIASES,
        completes=LIST_CONES,
        produces=[MessageRef],
    )
    async def get_conversation(
        self, identifier: Identifier, node_id: NodeId | None = None
    ) -> AsyncIterator[events.ConversationMessage]:
        """Read a conversation: everything said on the way to where the cone stands.

        Args:
            identifier: The cone: its name, its id, or the beginning of its id.
            node_id: Another node of its tree: its id, or the last 4 or more digits of it.
        """
        cone = await store.look_up(self.db, identifier)
        async with aclosing(self._pages_of(self._said(cone, node_id))) as pages:
            async for page in pages:
                nodes = [entry.node.id for entry in page]
                short_ids = await outline.short_ids(self.db, cone.tree, nodes)
                for entry in page:
                    yield events.ConversationMessage(
                        role=entry.role,
                        content=entry.content,
                        name=entry.name,
                        model=entry.model,
                        node_id=ids.text(entry.node.id),
                        short_id=short_ids.get(entry.node.id),
                        handle=entry.node.handle,
                        created_at=entry.node.created_at,
                    )

    @method(read_only=True, render="text", aliases=ALIASES, completes=LIST_CONES)
    async def export(
        self,
        identifier: Identifier,
        format: Literal["markdown", "jsonl"] = "markdown",
        node_id: NodeId | None = None,
    ) -> AsyncIterator[events.Exported]:
        """Write a conversation as a document; `-o raw` gives nothing but the text.

        Args:
            identifier: The cone: its name, its id, or the beginning of its id.
            format: A document for people, or a JSON object for each message.
            node_id: Another node of its tree: its id, or the last 4 or more digits of it.
        """
        cone = await store.look_up(self.db, identifier)
        if format == "markdown":
            yield events.Exported(text=f"# {cone.name}")
        async with aclosing(self._said(cone, node_id)) as messages:
            async for entry in messages:
                written = _markdown(entry) if format == "markdown" else _json_line(entry)
                yield events.Exported(text=written)

    async def _converse(
        self, cone: store.ConeRow, prompt: str, exchange: Exchange, *, ephemeral: bool
    ) -> None:
        """Ask, and keep the answer, when it is this chat's turn."""
        lock = self.lock_of(cone)
        if lock.locked() and not ephemeral:
            await self.host.progress("waiting for the chat before this one")
        async with nullcontext() if ephemeral else lock:
            # Looked up now: whoever waited finds it where the chat before has left it.
            cone = await store.look_up(self.db, ids.text(cone.id))
            name, model = split(cone.model_id)
            asked = reach(name, self.configured, self.environment)
            if (obstacle := asked.obstacle()) is not None:
                raise obstacle
            messages = await self._context(cone)
            question = await self._ask(cone, prompt, exchange, ephemeral=ephemeral)
            deadline = asyncio.get_running_loop().time() + self.configured.answer_seconds
            ending: Ending | None = None
            said = [*messages, Message("user", prompt)]
            async with aclosing(asked.answer(model, said)) as pieces:
                while (piece := await _next(pieces, deadline, name)) is not None:
                    if isinstance(piece, Ending):
                        ending = piece
                        exchange.end()
                    else:
                        exchange.add(piece)
            if ending is None:
                raise ExecutionError(f"{name} has not said how its answer ended")
            await self._keep(cone, question, exchange, ending, ephemeral=ephemeral)

    async def _ask(
        self, cone: store.ConeRow, prompt: str, exchange: Exchange, *, ephemeral: bool
    ) -> Place:
        """Store the question; returns where."""

        def ask(tx: Tx) -> tuple[Place, MessageRef]:
            held = tree.writable(tx, ids.text(cone.tree_id))
            head = tree.place(tx, held, cone.head_id)
            return self.say(tx, held, head, "user", "user", prompt, side=ephemeral)

        question, reference = await self.db.transaction(ask)
        exchange.begin(
            events.ChatStart(
                cone_id=ids.text(cone.id),
                user_position=Position.at(cone.tree_id, question.id),
                handle=reference,
                model_id=cone.model_id,
            )
        )
        return question

    async def _keep(
        self,
        cone: store.ConeRow,
        question: Place,
        exchange: Exchange,
        ending: Ending,
        *,
        ephemeral: bool,
    ) -> None:
        """Store the answer, and move the cone with it."""
        usage = events.Usage(input_tokens=ending.input_tokens, output_tokens=ending.output_tokens)

        def keep(tx: Tx) -> tuple[Place, MessageRef, bytes]:
            current = store.find(tx, ids.text(cone.id))
            held = tree.writable(tx, ids.text(cone.tree_id))
            place, written = self.say(
                tx,
                held,
                tree.place(tx, held, question.id),
                "assistant",
                cone.name,
                exchange.answer,
                model=ending.model,
                usage=usage.model_dump_json(),
            )
            if ephemeral:
                return place, written, current.head_id
            store.move_head(tx, current, place, now())
            return place, written, place.id

        place, reference, head_id = await self.db.transaction(keep)
        exchange.finish(
            events.ChatComplete(
                new_head=Position.at(cone.tree_id, head_id),
                position=Position.at(cone.tree_id, place.id),
                handle=reference,
                usage=usage,
                model=ending.model,
                stop_reason=ending.stop_reason,
            )
        )

    async def _context(self, cone: store.ConeRow) -> list[Message]:
        """What the model is sent before the question."""
        found: list[Message] = []
        length = 0
        async with aclosing(self._said(cone, None)) as messages:
            async for entry in messages:
                # No provider takes a message that says nothing.
                if entry.content.strip():
                    found.append(Message(entry.role, entry.content))
                    length += len(entry.content)
                if length > MAX_CONTEXT:
                    raise Conflict(
                        f"the conversation of '{cone.name}' is longer than any model takes",
                        suggestion="Go back to an earlier node (set_head, fork), or begin anew",
                    )
        return found

    async def _pages_of(
        self, messages: AsyncGenerator[context.Message, None]
    ) -> AsyncGenerator[list[context.Message], None]:
        """The same messages, several at a time."""
        page: list[context.Message] = []
        async with aclosing(messages):
            async for entry in messages:
                page.append(entry)
                if len(page) == ROWS_PER_ITEM:
                    yield page
                    page = []
        if page:
            yield page

    async def _said(
        self, cone: store.ConeRow, node_id: NodeId | None
    ) -> AsyncGenerator[context.Message, None]:
        """What was said on the way to a node of a cone's tree."""
        held = await tree.look_up(self.db, ids.text(cone.tree_id))
        place = await tree.look_up_place(self.db, held, node_id or cone.head_id)
        async with aclosing(context.messages(self.db, self.host, place)) as messages:
            async for entry in messages:
                yield entry


async def _next(
    pieces: AsyncGenerator[str | Ending, None], deadline: float, name: str
) -> str | Ending | None:
    """The next piece; None at the end. A provider that trickles on and on is left in the end."""
    try:
        async with asyncio.timeout_at(deadline):
            return await anext(pieces, None)
    except TimeoutError:
        raise Timeout(
            f"{name} has not finished its answer in time",
            suggestion="Allow more: the setting cone.answer_seconds",
        ) from None


def _markdown(entry: context.Message) -> str:
    speaker = entry.name if entry.name and entry.name != entry.role else None
    title = f"{entry.role} ({speaker})" if speaker else entry.role
    return f"\n## {title}\n\n{entry.content.rstrip()}"


def _json_line(entry: context.Message) -> str:
    fields: dict[str, Any] = {
        "role": entry.role,
        "content": entry.content,
        "name": entry.name,
        "model": entry.model,
        "node_id": ids.text(entry.node.id),
        "handle": entry.node.handle,
        "created_at": entry.node.created_at,
    }
    return to_json(fields).decode()
