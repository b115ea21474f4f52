"""The context of a node: what was said on the way to it, whoever keeps it.

Text nodes are what they say. Everything else is resolved through the hub, our own messages like
those of any other plugin.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final, NamedTuple, get_args

from hubd.activation import Host, HubError, Resolved
from hubd.plugins.cone.handles import Role
from hubd.storage import tree, walk
from hubd.storage.database import Database
from hubd.storage.tree import Place
from hubd.storage.walk import Node

MAIN: Final = frozenset((tree.MAIN,))
ROLES: Final = frozenset(get_args(Role))


class Said(NamedTuple):
    """A node of a conversation, and what it says."""

    node: Node
    role: Role
    content: str
    name: str | None = None
    model: str | None = None


async def said(db: Database, host: Host, place: Place) -> AsyncGenerator[Said, None]:
    """What was said on the way to a place, in order. Use it inside `aclosing`."""
    async for page in walk.nodes(db, await walk.path(db, place), MAIN):
        handles = [node.handle for node in page if node.handle is not None]
        async with aclosing(host.resolve_each(handles)) as answers:
            for node in page:
                if node.handle is not None:
                    yield _resolved(node, await anext(answers))
                elif node.text:
                    yield Said(node, "user", node.text)


def _resolved(node: Node, answer: Resolved | HubError) -> Said:
    if isinstance(answer, HubError):
        return Said(node, "user", f"[External reference: {node.handle}]")
    role: Any = _text(answer.data.get("role"))
    return Said(
        node,
        # What nobody said in a conversation is told to the model by the user.
        role if role in ROLES else "user",
        answer.text,
        _text(answer.data.get("name")),
        _text(answer.data.get("model")),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
