"""arbor: what lies on the way to a node, as a reader or a language model needs it."""

from collections.abc import AsyncIterator
from typing import Annotated

from pydantic import Field

from hubd.activation import Encoded, method
from hubd.activation.params import NodeId, TreeId
from hubd.plugins.arbor import events
from hubd.plugins.arbor.base import (
    LIST_TREES,
    VERSION,
    ArborBase,
    Lanes,
    at_least_one,
    lanes_of,
)
from hubd.plugins.arbor.encode import encoded, nodes_json
from hubd.storage import ids
from hubd.storage.arbor import tree, walk
from hubd.storage.arbor.walk import Node


class Contexts(ArborBase, version=VERSION):
    """Methods about contexts."""

    @method(read_only=True, completes=LIST_TREES)
    async def context_list_leaves(
        self, tree_id: TreeId, lanes: Lanes = None
    ) -> AsyncIterator[events.ContextLeaves | Encoded]:
        """List the nodes without children: the ends of all branches, in pages.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            lanes: Which lanes to look at; `main` unless said otherwise.
        """
        found = await tree.look_up(self.db, tree_id)
        async for page in at_least_one(walk.leaves(self.db, found, lanes_of(lanes))):
            shown = [ids.text(leaf) for leaf in page]
            yield encoded(events.ContextLeaves, tree_id=ids.text(found.id), leaves=shown)

    @method(read_only=True, completes=LIST_TREES)
    async def context_get_path(
        self, tree_id: TreeId, node_id: NodeId, lanes: Lanes = None
    ) -> AsyncIterator[events.ContextPath | Encoded]:
        """Read the nodes from the root to a node, in pages.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            node_id: The node: its id, or the last 4 or more digits of it.
            lanes: Which lanes to show; `main` and the node's own unless said otherwise.
        """
        found, place = await self._place(tree_id, node_id)
        common = {"tree_id": ids.text(found.id), "node_id": ids.text(place.id)}
        async for page in self._path_pages(place, lanes):
            path = nodes_json(common["tree_id"], page)
            yield encoded(events.ContextPath, **common, path=path)

    @method(read_only=True, completes=LIST_TREES)
    async def context_get_handles(
        self, tree_id: TreeId, node_id: NodeId | None = None, lanes: Lanes = None
    ) -> AsyncIterator[events.ContextHandles | Encoded]:
        """List the handles of a tree, or of the path to one of its nodes, in pages.

        The handles of a path come in its order, those of a tree in order of creation.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            node_id: Only the path from the root to this node: its id, or the last 4 or more digits.
            lanes: Which lanes to look at; `main`, and the node's own, unless said otherwise.
        """
        found, place = await self._place(tree_id, node_id)
        pages = (
            at_least_one(walk.whole(self.db, found, lanes_of(lanes)))
            if node_id is None
            else self._path_pages(place, lanes)
        )
        async for page in pages:
            handles = [node.handle for node in page if node.handle is not None]
            yield encoded(events.ContextHandles, tree_id=ids.text(found.id), handles=handles)

    @method(
        streaming=False,
        read_only=True,
        completes=LIST_TREES,
        aliases={"other": ["other_node", "other_id"]},
    )
    async def context_diff(
        self,
        tree_id: TreeId,
        node_id: NodeId,
        other: NodeId,
        lanes: Lanes = None,
        limit: Annotated[int, Field(ge=0, le=walk.PAGE_NODES)] = 100,
    ) -> AsyncIterator[events.ContextDiff | Encoded]:
        """What the paths to two nodes share, and where they part.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            node_id: One node: its id, or the last 4 or more digits of it.
            other: The other node, in the same way.
            lanes: Which lanes to show; `main` and the lanes of the two unless said otherwise.
            limit: How many nodes to show of each side, from where they part.
        """
        found, one = await self._place(tree_id, node_id)
        two = await tree.look_up_place(self.db, found, other)
        left, right = await walk.path(self.db, one), await walk.path(self.db, two)
        depth = walk.parting(left, right)
        shown = lanes_of(lanes, one, two)
        sides = [
            await self._some(walk.cut(side, depth + 1, depth + limit), shown)
            for side in (left, right)
        ]
        tree_text = ids.text(found.id)
        yield encoded(
            events.ContextDiff,
            tree_id=tree_text,
            node_id=ids.text(one.id),
            other=ids.text(two.id),
            common=ids.text(await walk.id_at(self.db, left, depth)),
            shared=depth + 1,
            ahead=one.depth - depth,
            behind=two.depth - depth,
            only_node=nodes_json(tree_text, sides[0]),
            only_other=nodes_json(tree_text, sides[1]),
        )

    async def _some(self, stretches: list[walk.Stretch], lanes: frozenset[int]) -> list[Node]:
        """Few enough nodes to have them all at once."""
        return [node async for page in walk.nodes(self.db, stretches, lanes) for node in page]
