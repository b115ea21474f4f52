"""Code of plugins that runs for MCP outside of calls: `extend_mcp`, prompts, added handlers.

A failure there harms only its own request. Calls of methods have dispatch.py for that.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

from mcp.shared.exceptions import MCPError

from hubd.errors import ExecutionError, HubError, Timeout, reason_of
from hubd.mcp.registry import Registry
from hubd.plexus.hub import Hub, Node

log = logging.getLogger("hubd.transport")

T = TypeVar("T")


class Extensions:
    """The extended plugins, each with its registry."""

    def __init__(self, hub: Hub, registry: Registry) -> None:
        self._hub = hub
        self._registry = registry
        self._registries: dict[Node, Registry] = {}

    def update(self) -> set[str]:
        """Extend MCP by new plugins, and remove the extensions of those that were detached.

        Return the namespaces of both.
        """
        attached = list(self._hub.root.walk())
        removed = self._registries.keys() - set(attached)
        added = [node for node in attached if node not in self._registries]
        for node in removed:
            self._remove(node)
        for node in added:
            self._extend(node)
        return {node.path for node in (*removed, *added)}

    def _remove(self, node: Node) -> None:
        self._registries.pop(node).remove_all()
        self._hub.broken[:] = [entry for entry in self._hub.broken if entry[0] != _source(node)]

    def _extend(self, node: Node) -> None:
        self._registries[node] = registry = self._registry.for_plugin(node.path)
        try:
            node.activation.extend_mcp(registry)
        except (Exception, SystemExit) as error:  # the other plugins are not affected
            log.exception("extend_mcp of %s failed", node.path)
            registry.remove_all()
            report_skipped(self._hub, _source(node), reason_of(error))


async def ask_plugin(what: str, work: Awaitable[T], seconds: float | None = None) -> T:
    """Wait for a plugin. Cancelling is safe, and cancels the plugin's work.

    Args:
        what: The name of the work, for the log and the caller.
        work: The plugin's coroutine.
        seconds: The longest time it may take; None for no limit.

    Raises:
        HubError: The plugin failed. A `sys.exit` counts too, because it would end the daemon.
        MCPError: The plugin chose this error for its caller.
    """
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await work
    except (HubError, MCPError):
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        log.exception("%s cancelled itself", what)
        raise ExecutionError(f"{what} cancelled itself") from error
    except (Exception, SystemExit) as error:
        if limit.expired():
            raise Timeout(f"{what} took longer than {seconds:g} s") from error
        log.exception("%s failed", what)
        raise ExecutionError(reason_of(error)) from error


def report_skipped(hub: Hub, source: str, reason: str) -> None:
    """Report a part that was left out; only once, because the server may be built again."""
    if (source, reason) not in hub.broken:
        log.warning("%s was left out: %s", source, reason)
        hub.broken.append((source, reason))


def _source(node: Node) -> str:
    return f"{node.path} as an extension of MCP"
