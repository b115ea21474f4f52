"""arbor: the methods for single nodes, and for the paths between them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Unpack

from pydantic import Field
from pydantic_core import to_json

from hubd.activation import AnyHandle, Encoded, InvalidParams, method
from hubd.activation.params import NodeId, TreeId
from hubd.plugins.arbor import events
from hubd.plugins.arbor.base import (
    LIST_TREES,
    MAX_TEXT,
    ArborBase,
    Label,
    Lanes,
    NewNode,
    PathToNode,
    lanes_of,
    metadata_text,
    now,
)
from hubd.plugins.arbor.encode import encoded, node_json, nodes_json
from hubd.plugins.arbor.search import NODES
from hubd.storage import ids
from hubd.storage.arbor import tree, walk
from hubd.storage.arbor.tree import MAX_HANDLE, Place, TreeRow
from hubd.storage.database import Tx


class Nodes(ArborBase):
    """Methods for nodes."""

    @method(completes=LIST_TREES)
    async def node_create_text(
        self,
        tree_id: TreeId,
        content: Annotated[str, Field(max_length=MAX_TEXT)],
        **node: Unpack[NewNode],
    ) -> events.NodeCreated:
        """Add a node with a text.

        Args:
            tree_id: The id of the tree, or its first 8 or more digits.
            content: The text.
        """
        return await self._create(tree_id, lambda tx: tree.text(content), content, node)

    @method(completes=LIST_TREES)
    async def node_create_external(
        self, tree_id: TreeId, handle: AnyHandle, **node: Unpack[NewNode]
    ) -> events.NodeCreated:
        """Add a node that points at data of a plugin.

        A handle of a plugin that is not running is stored too, with a warning.

        Args:
            tree_id: The id of the tree, or its first 8 or more digits.
            handle: The handle of the data.
        """
        named = self.host.named(handle)
        text = str(named)
        if len(text) > MAX_HANDLE:
            raise InvalidParams(f"the handle is longer than {MAX_HANDLE} characters")
        created = await self._create(tree_id, lambda tx: tree.external(tx, named), text, node)
        if (problem := self.host.unowned(named)) is not None:
            plugins = ", ".join(name for name in problem.available if "." not in name)
            await self.host.advise(
                problem.code,
                f"The handle is stored, but {problem.message}; it resolves when such a plugin runs"
                + (f". Plugins with handles: {plugins}" if plugins else ""),
            )
        return created

    @method(read_only=True, completes=LIST_TREES)
    async def node_get(self, tree_id: TreeId, node_id: NodeId) -> events.NodeData | Encoded:
        """Read one node.

        Args:
            tree_id: The id of the tree, or its first 8 or more digits.
            node_id: The id of the node, or its last 4 or more digits.
        """
        row, place = await self._place(tree_id, node_id)
        node = await walk.node(self.db, place)
        return encoded(events.NodeData, node=node_json(ids.text(row.id), node))

    @method(read_only=True, completes=LIST_TREES)
    async def node_get_children(
        self,
        tree_id: TreeId,
        node_id: NodeId | None = None,
        lanes: Lanes = None,
        after: NodeId | None = None,
        limit: Annotated[int, Field(ge=1)] | None = None,
    ) -> AsyncIterator[events.NodeChildren | Encoded]:
        """Read the children of a node in order of creation, in pages.

        Args:
            tree_id: The id of the tree, or its first 8 or more digits.
            node_id: The id of the node, or its last 4 or more digits; the root by default.
            lanes: The lanes to show; `main` by default.
            after: The child to continue after: `next` of the previous page.
            limit: The maximum number of children; all by default.
        """
        row, place = await self._place(tree_id, node_id)
        key = (await tree.look_up_place(self.db, row, after)).key if after else 0
        left = limit
        while True:
            size = min(left or walk.PAGE_NODES, walk.PAGE_NODES)
            # One row more than the page has tells whether another page follows.
            rows = await walk.children(self.db, place, lanes_of(lanes), key, size + 1)
            page = rows[:size]
            yield encoded(
                events.NodeChildren,
                tree_id=ids.text(row.id),
                node_id=ids.text(place.id),
                children=nodes_json(ids.text(row.id), page),
                next=ids.text(page[-1].id) if len(rows) > size else None,
            )
            left = None if left is None else left - len(page)
            if len(rows) <= size or left == 0:
                return
            key = page[-1].key

    @method(read_only=True, completes=LIST_TREES)
    async def node_get_parent(
        self, tree_id: TreeId, node_id: NodeId
    ) -> events.NodeParent | Encoded:
        """Read the parent of a node.

        Args:
            tree_id: The id of the tree, or its first 8 or more digits.
            node_id: The id of the node, or its last 4 or more digits.
        """
        row, place = await self._place(tree_id, node_id)
        above = await walk.parent(self.db, place)
        content: dict[str, Any] = {"tree_id": ids.text(row.id), "node_id": ids.text(place.id)}
        content["parent"] = (
            node_json(content["tree_id"], await walk.node(self.db, above)) if above else None
        )
        return Encoded(to_json({"type": events.NodeParent.tag, **content}))

    @method(read_only=True, completes=LIST_TREES)
    async def node_get_path(
        self, **where: Unpack[PathToNode]
    ) -> AsyncIterator[events.NodePath | Encoded]:
        """Read the ids of the nodes from the root to a node, in pages."""
        row, place = await self._place(where["tree_id"], where["node_id"])
        common = {"tree_id": ids.text(row.id), "node_id": ids.text(place.id)}
        async for page in self._path_pages(place, where.get("lanes")):
            yield encoded(events.NodePath, **common, path=[ids.text(node.id) for node in page])

    @method(
        read_only=True,
        completes=LIST_TREES,
        aliases={"start": ["from_node", "start_node"], "end": ["to_node", "end_node"]},
    )
    async def node_get_path_between(
        self, tree_id: TreeId, start: NodeId, end: NodeId, lanes: Lanes = None
    ) -> AsyncIterator[events.PathBetween | Encoded]:
        """Read the nodes from one node to another, both included, in pages.

        The path leads up to the last node that both paths from the root share, then down.

        Args:
            tree_id: The id of the tree, or its first 8 or more digits.
            start: The id of the first node, or its last 4 or more digits.
            end: The id of the last node, or its last 4 or more digits.
            lanes: The lanes to show; `main` and the lanes of both nodes by default.
        """
        row, first = await self._place(tree_id, start)
        last = await tree.look_up_place(self.db, row, end)
        up, down = await walk.path(self.db, first), await walk.path(self.db, last)
        depth = walk.parting(up, down)
        selected = lanes_of(lanes, first, last)
        common = {
            "tree_id": ids.text(row.id),
            "start": ids.text(first.id),
            "end": ids.text(last.id),
            "common": ids.text(await walk.id_at(self.db, down, depth)),
        }
        empty = True
        # The shared node belongs to the first part.
        parts = ((walk.cut(up, depth), True), (walk.cut(down, depth + 1), False))
        for stretches, upwards in parts:
            async for page in walk.nodes(self.db, stretches, selected, upwards=upwards):
                empty = False
                path = nodes_json(common["tree_id"], page)
                yield encoded(events.PathBetween, **common, path=path)
        if empty:
            yield encoded(events.PathBetween, **common, path=[])

    @method(completes=LIST_TREES)
    async def node_label(
        self, tree_id: TreeId, node_id: NodeId, label: Label | None = None
    ) -> events.NodeLabelled:
        """Set or remove the label of a node.

        Args:
            tree_id: The id of the tree, or its first 8 or more digits.
            node_id: The id of the node, or its last 4 or more digits.
            label: The new label; by default the label is removed.
        """

        def set_label(tx: Tx) -> tuple[TreeRow, Place]:
            row = tree.writable(tx, tree_id)
            place = tree.place(tx, row, node_id)
            tree.set_label(tx, place, label or None)
            self.search_row_changed(tx, NODES, place.key)
            return row, place

        row, place = await self.db.transaction(set_label)
        return events.NodeLabelled(
            tree_id=ids.text(row.id), node_id=ids.text(place.id), label=label or None
        )

    @method(destructive=True, completes=LIST_TREES)
    async def node_delete(
        self, tree_id: TreeId, node_id: NodeId, recursive: bool = False
    ) -> events.NodeDeleted:
        """Remove a node.

        Args:
            tree_id: The id of the tree, or its first 8 or more digits.
            node_id: The id of the node, or its last 4 or more digits.
            recursive: Remove all nodes below it too. Otherwise a node with children is refused.
        """

        def delete(tx: Tx) -> tuple[TreeRow, Place, int]:
            row = tree.writable(tx, tree_id)
            place = tree.place(tx, row, node_id)
            return row, place, tree.delete(tx, place, recursive=recursive)

        row, place, count = await self.db.transaction(delete)
        return events.NodeDeleted(tree_id=ids.text(row.id), node_id=ids.text(place.id), count=count)

    async def _create(
        self,
        tree_id: str,
        content: Callable[[Tx], tree.Content],
        content_text: str,
        node: NewNode,
    ) -> events.NodeCreated:
        label = node.get("label") or None
        metadata = metadata_text(node.get("metadata"))

        def create(tx: Tx) -> tuple[TreeRow, Place, Place]:
            row = tree.writable(tx, tree_id)
            parent = tree.place(tx, row, node.get("parent"))
            place = tree.append(tx, parent, content(tx), now(), label=label, metadata=metadata)
            return row, parent, place

        row, parent, place = await self.db.transaction(create)
        return events.NodeCreated(
            tree_id=ids.text(row.id),
            node_id=ids.text(place.id),
            parent=ids.text(parent.id),
            content=content_text,
        )
