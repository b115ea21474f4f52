"""The parts of the hub that an actor with grants may call and see."""

from functools import lru_cache
from typing import Final

from hubd.activation.method import Method
from hubd.errors import PermissionDenied
from hubd.plexus.hub import Hub, Node
from hubd.wire.caller import Actor
from hubd.wire.schema import PluginSchema, content_hash
from hubd.wire.text import did_you_mean

# The methods that describe a namespace. They show granted methods, so they need no grant.
DESCRIPTIVE: Final = ("schema", "hash")


def may_call(actor: Actor, node: Node, method: Method) -> bool:
    """Return whether an actor may call a method of a node: by a grant, or as a session."""
    if actor.kind == "session" and method.open_to_sessions:
        return True
    return actor.is_granted(node.path, method.name)


def may_use(actor: Actor, node: Node, method: Method) -> bool:
    """Return whether an actor may call a method of a node, also one that describes it."""
    if may_call(actor, node, method):
        return True
    return method.name in DESCRIPTIVE and may_see(actor, node)


def may_see(actor: Actor, node: Node) -> bool:
    """Return whether the schema of a node is readable. Everything is below the root."""
    return actor.may_see(node.path) or (node.parent is None and bool(actor.grants))


def visible_methods(node: Node, actor: Actor) -> list[str]:
    """Return the methods of a node that an actor was granted."""
    return [name for name in node.activation.methods if actor.is_granted(node.path, name)]


def visible_schema(node: Node, actor: Actor) -> PluginSchema:
    """Return the schema of a node, with the methods and children that an actor may use."""
    schema = node.schema
    if actor.grants is None:
        return schema
    visible: PluginSchema = {**schema, "hash": visible_hash(schema["hash"], actor)}
    visible["methods"] = [
        method for method in schema["methods"] if actor.is_granted(node.path, method["name"])
    ]
    if not actor.is_granted(node.path, "resolve_handle"):
        visible["handles"] = []
    if "children" in schema:
        visible["children"] = [
            {**child, "hash": visible_hash(child["hash"], actor)}
            for child in schema["children"]
            if may_see(actor, node.children[child["namespace"]])
        ]
    return visible


def visible_hash(whole: str, actor: Actor) -> str:
    """Return the hash of a schema that shows the granted methods of an actor.

    It differs from that of the whole schema, so that a client's cache does not mix them up.
    """
    return whole if actor.grants is None else _hash(whole, actor.grants)


@lru_cache(maxsize=256)
def _hash(whole: str, grants: tuple[str, ...]) -> str:
    return content_hash([whole, *sorted(grants)])


def refusal(hub: Hub, actor: Actor, path: str) -> PermissionDenied:
    """Return the error of a call that is not granted. It names the granted methods."""
    available = [
        f"{node.path}.{name}" for node in hub.root.walk() for name in visible_methods(node, actor)
    ]
    if actor.kind == "unknown":
        return PermissionDenied(
            f"this process may not call {path}: an agent that has ended may have started it",
            suggestion="Call the hub from a process that no agent has started",
        )
    if not actor.grants:
        return PermissionDenied(
            f"this agent may not call {path}: it has no grants",
            suggestion="Grant methods when the session is created: --grants NAMESPACE.METHOD",
        )
    nearest = did_you_mean(path, available)
    return PermissionDenied(
        f"this agent may not call {path}",
        suggestion=f"{nearest} Grant it when the session is created: --grants {path}".strip(),
        available=available,
    )
