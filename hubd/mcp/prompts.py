"""The prompts that activations offer, as MCP prompts: `notes.weekly` is `weekly` of `notes`."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from mcp_types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from hubd.errors import HubError, InvalidParams, NotFound
from hubd.mcp.access import Access
from hubd.mcp.extensions import ask_plugin
from hubd.mcp.results import printable
from hubd.plexus.hub import Hub, Node

log = logging.getLogger("hubd.transport")

# Seconds that a plugin has to list its prompts.
OFFER_SECONDS: Final = 5.0
# Seconds to fill a prompt; the plugin may have to read files or call methods.
FILL_SECONDS: Final = 60.0


class Prompts:
    """The prompts of the hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def listed(self, access: Access) -> list[Prompt]:
        """Return all prompts, sorted by name."""
        # At once, so that slow plugins do not add up.
        offers_by_plugin = await asyncio.gather(*map(_prompts_of, self._nodes(access)))
        prompts = (prompt for offers in offers_by_plugin for prompt in offers.values())
        return sorted(prompts, key=lambda prompt: prompt.name)

    async def fill(
        self, name: str, arguments: Mapping[str, str], access: Access
    ) -> GetPromptResult:
        """Return a prompt, filled with its arguments.

        Raises:
            NotFound: There is no prompt with this name.
            InvalidParams: A required argument is missing, or an argument is unknown.
            HubError: The plugin failed.
        """
        for node in self._nodes(access):
            # A prompt's own name may contain dots too.
            if name.startswith(f"{node.path}."):
                prompt = (await _prompts_of(node)).get(name)
                if prompt is not None:
                    _check(prompt, arguments)
                    work = _fill(node, prompt, arguments)
                    return await ask_plugin(f"the prompt {name}", work, FILL_SECONDS)
        raise NotFound(f"there is no prompt '{name[:200]}'")

    def _nodes(self, access: Access) -> list[Node]:
        return [node for node in self._hub.root.walk() if access.allows(node.path)]


async def _prompts_of(node: Node) -> dict[str, Prompt]:
    """Return the prompts of a plugin by name; none if the plugin fails."""
    try:
        what = f"offer_prompts of {node.path}"
        prompts = await ask_plugin(what, _offered_by(node), OFFER_SECONDS)
    except HubError as error:  # the other plugins' prompts are listed
        log.warning("the prompts of %s are not listed: %s", node.path, error.message)
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
    declared = {argument.name: argument for argument in prompt.arguments or ()}
    takes = f"{prompt.name} takes: {', '.join(declared) or 'nothing'}"
    for name, argument in declared.items():
        if argument.required and name not in arguments:
            raise InvalidParams(f"'{name}' is missing", suggestion=takes)
    for name in arguments:
        if name not in declared:
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
