"""Methods by their paths, with the data that all calls of a method share."""

from typing import Final

from hubd.activation.handle import ORIGIN
from hubd.activation.method import Method
from hubd.plexus.hub import Hub, Node
from hubd.plexus.namespace import UNIVERSAL_METHODS
from hubd.plexus.params.validate import ParamsValidator
from hubd.wire.item import Stamp

# Paths of one hub. A method has a few, such as `echo.once` and `plexus.echo.once`.
MAX_ROUTES: Final = 4096


class Route:
    """A method of a node. It is valid until the tree changes."""

    __slots__ = (
        "content_type",
        "is_universal",
        "node",
        "provenance",
        "serialization",
        "spec",
        "stamp",
        "validate",
    )

    def __init__(self, hub: Hub, node: Node, spec: Method) -> None:
        self.node = node
        self.spec = spec
        # Whether the hub answers the method for every namespace.
        self.is_universal = spec.name in UNIVERSAL_METHODS
        self.content_type = f"{node.path}.{spec.name}"
        self.provenance = (*provenance(hub, node), spec.name)
        # For actors without a limit. The hash that others see differs.
        self.stamp = Stamp(self.provenance, hub.hash)
        # The serialization context of events: the owner of new handles.
        self.serialization = {ORIGIN: node.activation.origin}
        self.validate = ParamsValidator(spec)


def provenance(hub: Hub, node: Node) -> tuple[str, ...]:
    """Return the names from the root to a node, as items carry them."""
    return (hub.name,) if node is hub.root else (hub.name, *node.path.split("."))


def add_route(hub: Hub, path: str, node: Node, spec: Method) -> Route:
    """Return the route of a path, and keep it for later calls."""
    route = Route(hub, node, spec)
    if len(hub.routes) < MAX_ROUTES:
        hub.routes[path] = route
    return route
