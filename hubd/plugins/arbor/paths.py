"""arbor: the methods for the paths from the root: the ends of branches, nodes, handles, diffs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Unpack

from pydantic import Field

from hubd.activation import Encoded, method
from hubd.activation.params import NodeId, TreeId
from hubd.plugins.arbor import events
from hubd.plugins.arbor.base import (
    LIST_TREES,
    ArborBase,
    Lanes,
    PathToNode,
    at_least_one,
    lanes_of,
)
from hubd.plugins.arbor.encode import encoded, nodes_json
from hubd.storage import ids
from hubd.storage.arbor import tree, walk
from hubd.storage.arbor.walk import Node


class Paths(ArborBase):
    """Methods for paths."""

    @method(read_only=True, completes=LIST_TREES)
    async def context_list_leaves(
        self, tree_id: TreeId, lanes: Lanes = None
    ) -> AsyncIterator[events.ContextLeaves | Encoded]:
        """List the nodes without children, which are the ends of all branches, in pages.

        Args:
            tree_id: The id of the tree, or its first 8 or more digits.
            lanes: The lanes to search; `main` by default.
        """
        row = await tree.look_up(self.db, tree_id)
        async for page in at_least_one(walk.leaves(self.db, row, lanes_of(lanes))):
            leaves = [ids.text(leaf) for leaf in page]
            yield encoded(events.ContextLeaves, tree_id=ids.text(row.id), leaves=leaves)

    @method(read_only=True, completes=LIST_TREES)
    async def context_get_path(
        self, **where: Unpack[PathToNode]
    ) -> AsyncIterator[events.ContextPath | Encoded]:
        """Read the nodes from the root to a node, in pages."""
        row, place = await self._place(where["tree_id"], where["node_id"])
        common = {"tree_id": ids.text(row.id), "node_id": ids.text(place.id)}
        async for page in self._path_pages(place, where.get("lanes")):
            path = nodes_json(common["tree_id"], page)
            yield encoded(events.ContextPath, **common, path=path)

    @method(read_only=True, completes=LIST_TREES)
    async def context_get_handles(
        self, tree_id: TreeId, node_id: NodeId | None = None, lanes: Lanes = None
    ) -> AsyncIterator[events.ContextHandles | Encoded]:
        """List the handles of a tree, or of the path to one of its nodes, in pages.

        The handles of a path are in the order of the path, those of a tree in order of creation.

        Args:
            tree_id: The id of the tree, or its first 8 or more digits.
            node_id: The id of the last node of a path, or its last 4 or more digits; by default
                the whole tree.
            lanes: The lanes to search; `main` and the lane of the node by default.
        """
        row, place = await self._place(tree_id, node_id)
        pages = (
            at_least_one(walk.whole(self.db, row, lanes_of(lanes)))
            if node_id is None
            else self._path_pages(place, lanes)
        )
        async for page in pages:
            handles = [node.handle for node in page if node.handle is not None]
            yield encoded(events.ContextHandles, tree_id=ids.text(row.id), handles=handles)

    @method(
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
    ) -> events.ContextDiff | Encoded:
        """Compare the paths to two nodes: the shared part, and the nodes of each branch.

        Args:
            tree_id: The id of the tree, or its first 8 or more digits.
            node_id: The id of one node, or its last 4 or more digits.
            other: The id of the other node, or its last 4 or more digits.
            lanes: The lanes to show; `main` and the lanes of both nodes by default.
            limit: The maximum number of nodes of each branch, counted from the shared part.
        """
        row, one = await self._place(tree_id, node_id)
        two = await tree.look_up_place(self.db, row, other)
        left, right = await walk.path(self.db, one), await walk.path(self.db, two)
        depth = walk.parting(left, right)
        selected = lanes_of(lanes, one, two)
        branches = [
            await self._all_nodes(walk.cut(path, depth + 1, depth + limit), selected)
            for path in (left, right)
        ]
        tree_text = ids.text(row.id)
        return encoded(
            events.ContextDiff,
            tree_id=tree_text,
            node_id=ids.text(one.id),
            other=ids.text(two.id),
            common=ids.text(await walk.id_at(self.db, left, depth)),
            shared=depth + 1,
            ahead=one.depth - depth,
            behind=two.depth - depth,
            only_node=nodes_json(tree_text, branches[0]),
            only_other=nodes_json(tree_text, branches[1]),
        )

    async def _all_nodes(self, stretches: list[walk.Stretch], lanes: frozenset[int]) -> list[Node]:
        """Return the nodes of a short path."""
        return [node async for page in walk.nodes(self.db, stretches, lanes) for node in page]
