"""The prompts that activations offer, as MCP prompts: `notes.weekly` is `weekly` of `notes`."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from mcp_types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from hubd.errors import ExecutionError, HubError, InvalidParams, NotFound
from hubd.plexus.hub import Hub, Node
from hubd.transport.mcp_facts import Facts

log = logging.getLogger("hubd.transport")

# A plugin that needs longer to say what it offers offers nothing.
OFFER_SECONDS: Final = 5.0


class Prompts:
    """The prompts of the hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def listed(self, facts: Facts) -> list[Prompt]:
        """All of them, in the order of their names."""
        # At once: one that is slow does not add to another.
        found = await asyncio.gather(*map(_prompts_of, self._nodes(facts)))
        prompts = (prompt for offers in found for prompt in offers.values())
        return sorted(prompts, key=lambda prompt: prompt.name)

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
                prompt = (await _prompts_of(node)).get(name)
                if prompt is not None:
                    _check(prompt, arguments)
                    return await _fill(node, prompt, arguments)
        raise NotFound(f"there is no prompt '{name[:200]}'")

    def _nodes(self, facts: Facts) -> list[Node]:
        return [node for node in self._hub.root.walk() if facts.allows(node.path)]


async def _prompts_of(node: Node) -> dict[str, Prompt]:
    """What a plugin offers, by name; nothing if it does so wrongly."""
    try:
        async with asyncio.timeout(OFFER_SECONDS):
            offers = await node.activation.offer_prompts()
        prompts = [
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
    except Exception:  # a plugin's; the prompts of the others are still there
        log.exception("the prompts of %s are not known", node.path)
        return {}
    return {prompt.name: prompt for prompt in prompts}


def _check(prompt: Prompt, arguments: Mapping[str, str]) -> None:
    known = {argument.name: argument for argument in prompt.arguments or ()}
    for name, argument in known.items():
        if argument.required and name not in arguments:
            raise InvalidParams(f"'{name}' is missing", available=known)
    for name in arguments:
        if name not in known:
            raise InvalidParams(f"{prompt.name} has no argument '{name[:200]}'", available=known)


async def _fill(node: Node, prompt: Prompt, arguments: Mapping[str, str]) -> GetPromptResult:
    name = prompt.name.removeprefix(f"{node.path}.")
    try:
        messages = await node.activation.fill_prompt(name, arguments)
        return GetPromptResult(
            description=prompt.description,
            messages=[
                PromptMessage(role=message.role, content=TextContent(text=message.text))
                for message in messages
            ],
        )
    except HubError:
        raise
    except Exception as error:
        log.exception("the prompt %s could not be filled", prompt.name)
        raise ExecutionError(f"{type(error).__name__}: {error}") from error
