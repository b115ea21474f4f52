"""cone: the plugin: what its handles point at, and the prompts it offers."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from hubd.activation import NotFound, Prompt, PromptMessage, resolver
from hubd.plugins.cone import events, store
from hubd.plugins.cone.conversation import Conversation
from hubd.plugins.cone.handles import NAMESPACE, VERSION, MessageRef
from hubd.plugins.cone.providers.provider import Settings
from hubd.plugins.cone.registry import Models
from hubd.plugins.cone.tables import MIGRATIONS
from hubd.storage import ids


class Cone(Conversation, Models, namespace=NAMESPACE, version=VERSION):
    """Conversations with language models: branching, durable, with handles of any plugin in them.

    A cone is a name for a place in a tree and a model that answers there. Models are `offline`
    (built in), Anthropic's, and those of any server that speaks OpenAI's protocol.
    """

    migrations = MIGRATIONS
    settings_model = Settings

    @resolver
    async def message(self, ref: MessageRef) -> AsyncIterator[events.ResolvedMessage]:
        """Read a message back."""
        row = await store.message(self.db, ref.message_id.bytes)
        if row is None or row.role != ref.role:
            raise NotFound(f"no {ref.role} message {ref.message_id}")
        role: Any = row.role
        yield events.ResolvedMessage(
            id=ids.text(row.id), role=role, content=row.content, model=row.model, name=row.name
        )

    async def offer_prompts(self) -> Sequence[Prompt]:
        """The system prompts of the cones that have one."""
        found = await store.with_system_prompts(self.db)
        return [Prompt(name, f"The system prompt of a cone on {model}") for name, model in found]

    async def fill_prompt(self, name: str, arguments: Mapping[str, str]) -> Sequence[PromptMessage]:
        """The system prompt of a cone; it has no blanks."""
        text = await store.system_prompt(self.db, name)
        if text is None:
            raise NotFound(f"no cone '{name}' with a system prompt")
        return [PromptMessage("user", text)]
