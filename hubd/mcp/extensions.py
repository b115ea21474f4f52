"""Asking plugins what they add to MCP, once each: when they come, and until they go."""

import logging

from hubd.errors import reason_of
from hubd.mcp.registry import Registry
from hubd.plexus.hub import Hub, Node

log = logging.getLogger("hubd.transport")


class Extensions:
    """Who was asked, and through which hands it added what it added."""

    def __init__(self, hub: Hub, registry: Registry) -> None:
        self._hub = hub
        self._registry = registry
        self._asked: dict[Node, Registry] = {}

    def update(self) -> set[str]:
        """Look who came and who went since the last time; the namespaces of both."""
        there = list(self._hub.root.walk())
        gone = self._asked.keys() - set(there)
        come = [node for node in there if node not in self._asked]
        for node in gone:
            self._take_back(node)
        for node in come:
            self._ask(node)
        return {node.path for node in (*gone, *come)}

    def _take_back(self, node: Node) -> None:
        self._asked.pop(node).take_back()
        self._hub.broken[:] = [entry for entry in self._hub.broken if entry[0] != _source(node)]

    def _ask(self, node: Node) -> None:
        self._asked[node] = own = self._registry.in_the_hands_of(node.path)
        try:
            node.activation.extend_mcp(own)
        except (Exception, SystemExit) as error:  # a plugin's; the others must not suffer
            log.exception("%s could not extend MCP", node.path)
            own.take_back()
            tell_of(self._hub, _source(node), reason_of(error))


def tell_of(hub: Hub, source: str, reason: str) -> None:
    """Report what was left out; once, since a server may be built again."""
    if (source, reason) not in hub.broken:
        log.warning("%s was left out: %s", source, reason)
        hub.broken.append((source, reason))


def _source(node: Node) -> str:
    return f"{node.path} as an extension of MCP"
