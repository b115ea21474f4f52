"""The prompts that activations offer, as MCP prompts: `notes.weekly` is `weekly` of `notes`."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from mcp_types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from hubd.errors import InvalidParams, NotFound
from hubd.plexus.hub import Hub, Node
from hubd.transport.mcp_facts import Facts, offered

log = logging.getLogger("hubd.transport")

# A plugin that needs longer to say what it offers offers nothing.
OFFER_SECONDS: Final = 5.0


class Prompts:
    """The prompts of the hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def listed(self, facts: Facts) -> list[Prompt]:
        """All of them, in the order of their names."""
        found: list[Prompt] = []
        for node in self._nodes(facts):
            found += await _prompts_of(node)
        return sorted(found, key=lambda prompt: prompt.name)

    async def fill(self, name: str, arguments: Mapping[str, str], facts: Facts) -> GetPromptResult:
        """One of them, with its blanks filled.

        Raises:
            NotFound: There is none of that name.
            InvalidParams: A blank that must be filled is not, or there is no such blank.
            HubError: What the plugin says.
        """
        for node in self._nodes(facts):
            # A prompt's own name may hold dots too.
            if name.startswith(f"{node.path}."):
                for prompt in await _prompts_of(node):
                    if prompt.name == name:
                        _check(prompt, arguments)
                        return await _fill(node, prompt, arguments)
        raise NotFound(f"there is no prompt '{name}'")

    def _nodes(self, facts: Facts) -> list[Node]:
        return [node for node in self._hub.root.walk() if offered(node.path, facts.profile)]


async def _prompts_of(node: Node) -> list[Prompt]:
    try:
        async with asyncio.timeout(OFFER_SECONDS):
            offers = await node.activation.offer_prompts()
    except Exception:  # a plugin's; the prompts of the others are still there
        log.exception("the prompts of %s are not known", node.path)
        return []
    return [
        Prompt(
            name=f"{node.path}.{offer.name}",
            description=offer.description or None,
            arguments=[
                PromptArgument(
                    name=argument.name,
                    description=argument.description or None,
                    required=argument.required,
                )
                for argument in offer.arguments
            ],
        )
        for offer in offers
    ]


def _check(prompt: Prompt, arguments: Mapping[str, str]) -> None:
    known = {argument.name: argument for argument in prompt.arguments or ()}
    for name, argument in known.items():
        if argument.required and name not in arguments:
            raise InvalidParams(f"'{name}' is missing", available=known)
    for name in arguments:
        if name not in known:
            raise InvalidParams(f"{prompt.name} has no argument '{name}'", available=known)


async def _fill(node: Node, prompt: Prompt, arguments: Mapping[str, str]) -> GetPromptResult:
    name = prompt.name.removeprefix(f"{node.path}.")
    messages = await node.activation.fill_prompt(name, arguments)
    return GetPromptResult(
        description=prompt.description,
        messages=[
            PromptMessage(role=message.role, content=TextContent(text=message.text))
            for message in messages
        ],
    )
