"""Let all plugins check what they need from this machine, for `hubd doctor`."""

import asyncio
import logging
from typing import Final

from hubd.activation import Activation, Finding
from hubd.errors import reason_of
from hubd.plexus.hub import Hub

log = logging.getLogger(__name__)

# Seconds for the checks of one plugin. All plugins check at the same time.
EXAMINE_SECONDS: Final = 60.0


async def examine_plugins(hub: Hub) -> list[Finding]:
    """Return the findings of all plugins, in the order of the tree."""
    nodes = [node for node in hub.root.walk() if node is not hub.root]
    lists = await asyncio.gather(*(_examine(node.path, node.activation) for node in nodes))
    return [finding for findings in lists for finding in findings]


async def _examine(path: str, plugin: Activation) -> list[Finding]:
    try:
        async with asyncio.timeout(EXAMINE_SECONDS):
            return list(await plugin.examine())
    except TimeoutError:
        return [Finding(path, False, f"its checks took longer than {EXAMINE_SECONDS:g} s")]
    except Exception as error:
        log.exception("the checks of %s failed", path)
        return [Finding(path, False, f"its checks failed: {reason_of(error)}")]
