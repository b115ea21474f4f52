"""The hub's own methods: the root of the tree is an activation like the others."""

import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from hubd.activation import Activation, Encoded, Event, Unavailable, method
from hubd.activation.params import NodeId, TreeId
from hubd.plexus.hub import Hub, Node
from hubd.plexus.namespace import UNIVERSAL_METHODS, ResolvedHandle, UnresolvedHandle, answered
from hubd.plexus.resolve import resolve_each
from hubd.storage.arbor import tree, walk
from hubd.wire.paths import HUB_NAME

_WORD: Final = re.compile(r"[a-z0-9]+")


class NamespaceInfo(Event, tag="activation"):
    """One namespace of the tree."""

    namespace: str
    version: str
    description: str
    plugin_id: str
    hash: str
    methods: list[str]
    children: list[str]


class BrokenPlugin(Event):
    """A plugin that was left out, and why."""

    source: str
    reason: str


class NamespaceHash(Event, tag="hashes"):
    """The hashes of one namespace."""

    namespace: str
    hash: str
    self_hash: str
    children_hash: str | None


class Match(Event):
    """A method that fits a search."""

    method: str
    description: str
    score: int


class Plexus(Activation, version="1.0.0"):
    """The hub: everything there is, how to call it, and what handles point at."""

    def __init__(self, name: str = HUB_NAME) -> None:
        self.namespace = name
        # The root alone lists what every namespace answers.
        self.methods = {**type(self).methods, **UNIVERSAL_METHODS}  # type: ignore[misc]
        # Set by whoever builds the hub around this root.
        self.hub: Hub

    # Whatever the inner method may do, this may do.
    @method(bidirectional=True, needs_context=True)
    async def call(
        self, method: str, params: dict[str, Any] | None = None
    ) -> AsyncIterator[Encoded]:
        """Call a method by its path; what it yields is what this yields.

        Args:
            method: The path, such as `solar.earth.info`.
            params: The parameters of that method.
        """
        raise AssertionError("dispatch runs the inner method in place of this one")
        yield Encoded(b"")  # pragma: no cover -- makes this a generator

    @method(read_only=True, render="table")
    async def activations(self) -> AsyncIterator[NamespaceInfo | BrokenPlugin]:
        """List every namespace, and the plugins that could not be loaded."""
        for node in self.hub.root.walk():
            yield NamespaceInfo(
                namespace=node.path,
                version=node.activation.version,
                description=node.activation.description,
                plugin_id=str(node.plugin_id),
                hash=node.schema["hash"],
                methods=list(node.activation.methods),
                children=sorted(node.children),
            )
        for source, reason in self.hub.broken:
            yield BrokenPlugin(source=source, reason=reason)

    @method(read_only=True, render="table")
    async def hashes(self) -> AsyncIterator[NamespaceHash]:
        """The hash of every namespace, to find out which cached schemas are stale."""
        for node in self.hub.root.walk():
            yield NamespaceHash(
                namespace=node.path,
                hash=node.schema["hash"],
                self_hash=node.schema["self_hash"],
                children_hash=node.schema.get("children_hash"),
            )

    @method(read_only=True, render="table")
    async def search(
        self, query: str, limit: Annotated[int, Field(ge=1, le=1000)] = 20
    ) -> AsyncIterator[Match]:
        """Find methods by words in their names and descriptions, best first.

        Args:
            query: One or more words.
            limit: How many to list at most.
        """
        words = set(_WORD.findall(query.lower()))
        matches = [match for node in self.hub.root.walk() for match in _matches(node, words)]
        matches.sort(key=lambda match: (-match.score, match.method))
        for match in matches[:limit]:
            yield match

    @method(read_only=True)
    async def walk_and_resolve(
        self,
        tree_id: TreeId,
        node_id: NodeId | None = None,
        lanes: list[Literal["main", "events"]] | None = None,
    ) -> AsyncIterator[ResolvedHandle | UnresolvedHandle | Encoded]:
        """Resolve every handle of a tree, or of the path to one of its nodes.

        The handles of a path come in its order, those of a tree in order of creation.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            node_id: Only the path from the root to this node: its id, or the last 4 or more digits.
            lanes: The lanes to walk; `main` and the node's own by default.
        """
        database = self.hub.database
        if database is None:
            raise Unavailable("this hub has no database")
        found = await tree.look_up(database, tree_id)
        shown = set(map(tree.LANES.index, lanes or ["main"]))
        if node_id is None:
            pages = walk.whole(database, found, frozenset(shown))
        else:
            place = await tree.look_up_place(database, found, node_id)
            if not lanes:
                shown.add(place.lane)
            pages = walk.nodes(database, await walk.path(database, place), frozenset(shown))
        async for page in pages:
            handles = [node.handle for node in page if node.handle is not None]
            async with aclosing(resolve_each(self.hub, handles)) as answers:
                async for event in answered(handles, answers):
                    yield event


def build_hub(name: str = HUB_NAME, **options: Any) -> Hub:
    """A hub with its root and nothing else yet."""
    root = Plexus(name)
    root.hub = Hub(root, **options)
    return root.hub


def _matches(node: Node, words: set[str]) -> list[Match]:
    """Name words count four times as much as words of the description."""
    found = []
    for entry in node.activation.methods.values():
        path = f"{node.path}.{entry.name}"
        name = path.lower()
        text = f"{entry.description} {entry.details} {node.activation.description}".lower()
        score = sum(4 * (word in name) + (word in text) for word in words)
        if score:
            found.append(Match(method=path, description=entry.description, score=score))
    return found
