"""cone: the method that asks the model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, nullcontext
from typing import Final, NamedTuple, Unpack

from hubd.activation import Conflict, ExecutionError, Timeout, method
from hubd.activation.params import Position
from hubd.conversations import attachments, context
from hubd.conversations.heads import now
from hubd.conversations.params import AttachOption
from hubd.plugins.cone import answer as answers
from hubd.plugins.cone import events, store
from hubd.plugins.cone.base import ALIASES, LIST_CONES, ConeBase, Identifier, Prompt
from hubd.plugins.cone.handles import MessageRef
from hubd.plugins.cone.providers import choice
from hubd.plugins.cone.providers import provider as model_provider
from hubd.plugins.cone.store import HEADS
from hubd.storage import ids
from hubd.storage.arbor import tree
from hubd.storage.arbor.tree import Place
from hubd.storage.database import Tx

# Characters. A context is held in memory, and no model takes a longer one.
MAX_CONTEXT: Final = 16 * 1024 * 1024


class Request(NamedTuple):
    """A prompt and its attachments."""

    prompt: str
    attached: Sequence[attachments.Attachment]
    # Whether the head stays where it is.
    ephemeral: bool


class Chat(ConeBase):
    """The method `chat`."""

    @method(
        render="chat",
        weight=70,
        interactive={
            "param": "prompt",
            "commands": {
                "fork": {
                    "method": "cone.fork",
                    "argument": "at",
                    "switches": {"identifier": "name"},
                },
                "head": {"method": "cone.set_head", "argument": "node_id"},
            },
        },
        needs_context=True,
        aliases=ALIASES,
        completes=LIST_CONES,
    )
    async def chat(
        self,
        identifier: Identifier,
        prompt: Prompt,
        ephemeral: bool = False,
        **options: Unpack[AttachOption],
    ) -> AsyncIterator[events.ChatStart | events.ChatContent | events.ChatComplete]:
        """Send a prompt to a cone's model, and stream the answer.

        The model sees all messages from the root of the tree to the cone's head. The prompt is
        stored at once. The answer is stored when it is complete, and then the head moves to it. A
        second chat with the same cone waits for the first.

        Args:
            identifier: The name of the cone, its id, or the first 8 or more digits of its id.
            prompt: The message to the model.
            ephemeral: Keep the head unmoved. The prompt and the answer are stored beside the
                conversation.
        """
        cone = await HEADS.look_up(self.db, identifier)
        limit = self.configured.attachment_chars
        attached = await attachments.read(self.host, options.get("attach") or (), limit)
        request = Request(prompt, attached, ephemeral)
        answer = answers.Answer()
        # A separate task, so that a slow caller does not delay the next chat with the cone.
        task = asyncio.create_task(self._converse(cone, request, answer), name="cone chat")
        try:
            async for event in answer.events(task):
                yield event
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _converse(
        self, cone: store.ConeRow, request: Request, answer: answers.Answer
    ) -> None:
        """Wait for the earlier chats, then ask the model and store the answer."""
        ephemeral = request.ephemeral
        lock = self.locks.lock(cone)
        if lock.locked() and not ephemeral:
            await self.host.progress("waiting for the chat before this one")
        async with nullcontext() if ephemeral else lock:
            # Read again, because the previous chat has moved the head.
            cone = await HEADS.look_up(self.db, ids.text(cone.id))
            name, model = choice.split_model_id(cone.model_id)
            provider = choice.create_provider(name, self.configured, self.environment)
            if (obstacle := provider.obstacle()) is not None:
                raise obstacle
            messages = await self._context(cone, request.attached)
            question = await self._store_question(cone, request, answer)
            deadline = asyncio.get_running_loop().time() + self.configured.answer_seconds
            ending: model_provider.Ending | None = None
            messages.append(model_provider.Message("user", request.prompt))
            async with aclosing(provider.answer(model, messages)) as pieces:
                while (piece := await _next(pieces, deadline, name)) is not None:
                    if isinstance(piece, model_provider.Ending):
                        ending = piece
                        answer.end()
                    else:
                        answer.add(piece)
            if ending is None:
                raise ExecutionError(f"{name}: the answer has no end")
            await self._store_answer(cone, question, answer, ending, ephemeral=ephemeral)

    async def _store_question(
        self, cone: store.ConeRow, request: Request, answer: answers.Answer
    ) -> Place:
        """Store the attachments and the question. Return the place of the question."""
        prompt, attached, ephemeral = request
        handles = [attachment.handle for attachment in attached]

        def add(tx: Tx) -> tuple[list[attachments.Attached], Place, MessageRef]:
            row = tree.writable(tx, ids.text(cone.tree_id))
            head = tree.place(tx, row, cone.head_id)
            end, nodes = attachments.put(tx, head, handles, now(), side=ephemeral)
            side = ephemeral and not nodes
            return nodes, *self.add_message(tx, row, end, "user", "user", prompt, side=side)

        nodes, question, reference = await self.db.transaction(add)
        answer.begin(
            events.ChatStart(
                cone_id=ids.text(cone.id),
                user_position=Position.at(cone.tree_id, question.id),
                handle=reference,
                model_id=cone.model_id,
                attachments=nodes,
            )
        )
        return question

    async def _store_answer(
        self,
        cone: store.ConeRow,
        question: Place,
        answer: answers.Answer,
        ending: model_provider.Ending,
        *,
        ephemeral: bool,
    ) -> None:
        """Store the answer and move the head, in one transaction."""
        usage = events.Usage(input_tokens=ending.input_tokens, output_tokens=ending.output_tokens)

        def add(tx: Tx) -> tuple[Place, MessageRef, bytes]:
            current = HEADS.reread(tx, cone)
            row = tree.writable(tx, ids.text(cone.tree_id))
            place, reference = self.add_message(
                tx,
                row,
                tree.place(tx, row, question.id),
                "assistant",
                cone.name,
                answer.text,
                model=ending.model,
                usage=usage.model_dump_json(),
            )
            if ephemeral:
                return place, reference, current.head_id
            store.TABLE.set_head(tx, current.key, place.key, now())
            return place, reference, place.id

        place, reference, head_id = await self.db.transaction(add)
        answer.finish(
            events.ChatComplete(
                new_head=Position.at(cone.tree_id, head_id),
                position=Position.at(cone.tree_id, place.id),
                handle=reference,
                usage=usage,
                model=ending.model,
                stop_reason=ending.stop_reason,
            )
        )

    async def _context(
        self, cone: store.ConeRow, attached: Sequence[attachments.Attachment]
    ) -> list[model_provider.Message]:
        """Return the messages before the question.

        Raises:
            Conflict: They are longer than the limit.
        """
        messages: list[model_provider.Message] = []
        length = sum(len(attachment.content) for attachment in attached)
        limit = self.configured.attachment_chars
        row = await tree.look_up(self.db, ids.text(cone.tree_id))
        place = await tree.look_up_place(self.db, row, cone.head_id)
        async with aclosing(context.messages(self.db, self.host, place, limit)) as entries:
            async for entry in entries:
                # Providers refuse empty messages.
                if entry.content.strip():
                    messages.append(model_provider.Message(entry.role, entry.content))
                    length += len(entry.content)
                if length > MAX_CONTEXT:
                    raise Conflict(
                        f"the conversation of '{cone.name}' exceeds {MAX_CONTEXT} characters",
                        suggestion="Continue from an earlier node with `synapse cone set-head` or "
                        "`synapse cone fork`, or create another cone",
                    )
        messages += [
            model_provider.Message(attachment.role, attachment.content)
            for attachment in attached
            if attachment.content.strip()
        ]
        return messages


async def _next(
    pieces: AsyncGenerator[str | model_provider.Ending, None], deadline: float, name: str
) -> str | model_provider.Ending | None:
    """Return the next piece, or None at the end.

    Raises:
        Timeout: The deadline of the whole answer has passed.
    """
    try:
        async with asyncio.timeout_at(deadline):
            return await anext(pieces, None)
    except TimeoutError:
        raise Timeout(
            f"{name} did not complete its answer in time",
            suggestion="Increase the setting cone.answer_seconds",
        ) from None
