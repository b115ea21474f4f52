"""The prompts that activations offer, as MCP prompts: `notes.weekly` is `weekly` of `notes`."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from mcp_types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from hubd.errors import HubError, InvalidParams, NotFound
from hubd.mcp.access import Facts
from hubd.mcp.plugin_hooks import ask_plugin
from hubd.mcp.results import printable
from hubd.plexus.hub import Hub, Node

log = logging.getLogger("hubd.transport")

# A plugin that needs longer to say what it offers offers nothing.
OFFER_SECONDS: Final = 5.0
# To fill one it may have to read or ask; but nobody waits for ever.
FILL_SECONDS: Final = 60.0


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
                    work = _fill(node, prompt, arguments)
                    return await ask_plugin(f"the prompt {name}", work, FILL_SECONDS)
        raise NotFound(f"there is no prompt '{name[:200]}'")

    def _nodes(self, facts: Facts) -> list[Node]:
        return [node for node in self._hub.root.walk() if facts.allows(node.path)]


async def _prompts_of(node: Node) -> dict[str, Prompt]:
    """What a plugin offers, by name; nothing if it does so wrongly."""
    try:
        what = f"the offer of prompts of {node.path}"
        prompts = await ask_plugin(what, _offered_by(node), OFFER_SECONDS)
    except HubError as error:  # the prompts of the others are still there
        log.warning("the prompts of %s are not known: %s", node.path, error.message)
        return {}
    return {prompt.name: prompt for prompt in prompts}


async def _offered_by(node: Node) -> list[Prompt]:
    return [
        Prompt(
            name=f"{node.path}.{offer.name}",
            description=printable(offer.description) or None,
            arguments=[
                PromptArgument(
                    name=argument.name,
                    description=printable(argument.description) or None,
                    required=argument.required,
                )
                for argument in offer.arguments
            ],
        )
        for offer in await node.activation.offer_prompts()
    ]


def _check(prompt: Prompt, arguments: Mapping[str, str]) -> None:
    known = {argument.name: argument for argument in prompt.arguments or ()}
    takes = f"{prompt.name} takes: {', '.join(known) or 'nothing'}"
    for name, argument in known.items():
        if argument.required and name not in arguments:
            raise InvalidParams(f"'{name}' is missing", suggestion=takes)
    for name in arguments:
        if name not in known:
            raise InvalidParams(f"{prompt.name} has no argument '{name[:200]}'", suggestion=takes)


async def _fill(node: Node, prompt: Prompt, arguments: Mapping[str, str]) -> GetPromptResult:
    name = prompt.name.removeprefix(f"{node.path}.")
    return GetPromptResult(
        description=prompt.description,
        messages=[
            PromptMessage(role=message.role, content=TextContent(text=message.text))
            for message in await node.activation.fill_prompt(name, arguments)
        ],
    )
