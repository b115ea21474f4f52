"""The root of the tree: an activation with the hub's own methods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any, Literal

from hubd.activation import Encoded, Style, Unavailable, method
from hubd.activation.params import NodeId, TreeId
from hubd.plexus import events
from hubd.plexus.dispatch import current_call
from hubd.plexus.grants import may_see, visible_hash, visible_methods
from hubd.plexus.hub import Hub, Node
from hubd.plexus.namespace import UNIVERSAL_METHODS, answer_events
from hubd.plexus.resolve import resolve_each
from hubd.plexus.search import SearchMethods
from hubd.plexus.templates import by_style
from hubd.storage.arbor import tree, walk
from hubd.wire.caller import Actor
from hubd.wire.paths import HUB_NAME


class Plexus(SearchMethods, version="1.0.0"):
    """The hub: searches texts and methods, lists namespaces, calls methods, resolves handles."""

    def __init__(self, name: str = HUB_NAME) -> None:
        self.namespace = name
        # Only the root lists the universal methods.
        self.methods = {**type(self).methods, **UNIVERSAL_METHODS}  # type: ignore[misc]

    # The inner method may ask its caller and use the caller's context.
    @method(bidirectional=True, needs_context=True)
    async def call(
        self, method: str, params: dict[str, Any] | None = None
    ) -> AsyncIterator[Encoded]:
        """Call a method by its path and stream its events.

        Args:
            method: Path of the method, such as `solar.earth.info`.
            params: Parameters of the method.
        """
        raise AssertionError("dispatch.py calls the inner method directly")
        yield Encoded(b"")  # pragma: no cover -- makes this a generator

    @method(read_only=True, render="table")
    async def activations(self) -> AsyncIterator[events.NamespaceInfo | events.BrokenPlugin]:
        """List all namespaces, and the plugins that failed."""
        actor = current_call.get().actor
        for node in self._visible(actor):
            yield events.NamespaceInfo(
                namespace=node.path,
                version=node.activation.version,
                description=node.activation.description,
                plugin_id=str(node.plugin_id),
                hash=visible_hash(node.hash, actor),
                methods=visible_methods(node, actor),
                children=sorted(
                    name for name, child in node.children.items() if may_see(actor, child)
                ),
            )
        for source, reason in self.hub.broken:
            yield events.BrokenPlugin(source=source, reason=reason)

    @method(read_only=True, render="table")
    async def hashes(self) -> AsyncIterator[events.NamespaceHash]:
        """List the hash of every namespace, to find stale schemas in a cache."""
        actor = current_call.get().actor
        for node in self._visible(actor):
            yield events.NamespaceHash(
                namespace=node.path,
                hash=visible_hash(node.hash, actor),
                self_hash=node.schema["self_hash"],
                children_hash=node.schema.get("children_hash"),
            )

    @method(read_only=True)
    async def walk_and_resolve(
        self,
        tree_id: TreeId,
        node_id: NodeId | None = None,
        lanes: list[Literal["main", "events"]] | None = None,
        style: Style | None = None,
    ) -> AsyncIterator[events.ResolvedHandle | events.UnresolvedHandle | Encoded]:
        """Show the data of every handle in a tree, or on the path to a node.

        Handles on a path are listed from the root to the node, handles of a tree in order of
        creation.

        Args:
            tree_id: Tree id, or its first 8 or more digits.
            node_id: Id of the node at the end of the path, or its last 4 or more digits.
            lanes: Lanes to walk; by default `main` and the lane of the node.
            style: Style of the text, by the templates of the handle types: `default`, `compact` or
                `verbose`.
        """
        database = self.hub.database
        if database is None:
            raise Unavailable("this hub has no database")
        key = await tree.look_up(database, tree_id)
        walked = set(map(tree.LANES.index, lanes or ["main"]))
        if node_id is None:
            pages = walk.whole(database, key, frozenset(walked))
        else:
            place = await tree.look_up_place(database, key, node_id)
            if not lanes:
                walked.add(place.lane)
            pages = walk.nodes(database, await walk.path(database, place), frozenset(walked))
        advise = current_call.get().advise
        text_of = by_style(self.hub, style, advise) if style is not None else None
        async for page in pages:
            handles = [node.handle for node in page if node.handle is not None]
            async with aclosing(resolve_each(self.hub, handles)) as answers:
                async for event in answer_events(handles, answers, text_of):
                    yield event

    def _visible(self, actor: Actor) -> Iterator[Node]:
        return (node for node in self.hub.root.walk() if may_see(actor, node))


def build_hub(name: str = HUB_NAME, **options: Any) -> Hub:
    """Return a hub with only its root."""
    root = Plexus(name)
    root.hub = Hub(root, **options)
    return root.hub
