"""arbor: single nodes, and the ways between them."""

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from pydantic import Field
from pydantic_core import to_json

from hubd.activation import AnyHandle, Encoded, InvalidParams, method
from hubd.activation.params import NodeId, TreeId
from hubd.plugins.arbor import events
from hubd.plugins.arbor.base import (
    LIST_TREES,
    MAX_HANDLE,
    MAX_TEXT,
    VERSION,
    ArborBase,
    Label,
    Lanes,
    Metadata,
    lanes_of,
    metadata_text,
    now,
)
from hubd.plugins.arbor.encode import encoded, node_json, nodes_json
from hubd.storage import ids
from hubd.storage.arbor import tree, walk
from hubd.storage.arbor.tree import Place, TreeRow
from hubd.storage.database import Tx


class Nodes(ArborBase, version=VERSION):
    """Methods about nodes."""

    @method(streaming=False, completes=LIST_TREES)
    async def node_create_text(
        self,
        tree_id: TreeId,
        content: Annotated[str, Field(max_length=MAX_TEXT)],
        parent: NodeId | None = None,
        label: Label | None = None,
        metadata: Metadata = None,
    ) -> AsyncIterator[events.NodeCreated]:
        """Add a node of text.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            content: The text.
            parent: The parent node: its id, or the last 4 or more digits; the root by default.
            label: A name for it.
            metadata: What to know about it.
        """
        yield await self._create(
            tree_id, parent, lambda tx: tree.text(content), content, label, metadata
        )

    @method(streaming=False, completes=LIST_TREES)
    async def node_create_external(
        self,
        tree_id: TreeId,
        handle: AnyHandle,
        parent: NodeId | None = None,
        label: Label | None = None,
        metadata: Metadata = None,
    ) -> AsyncIterator[events.NodeCreated]:
        """Add a node that points at data of a plugin.

        A handle of a plugin that is not running is stored too, with a warning.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            handle: What it points at.
            parent: The parent node: its id, or the last 4 or more digits; the root by default.
            label: A name for it.
            metadata: What to know about it.
        """
        named = self.host.named(handle)
        written = str(named)
        if len(written) > MAX_HANDLE:
            raise InvalidParams(f"a handle may have {MAX_HANDLE} characters, not {len(written)}")
        created = await self._create(
            tree_id, parent, lambda tx: tree.external(tx, named), written, label, metadata
        )
        if (problem := self.host.unowned(named)) is not None:
            plugins = ", ".join(name for name in problem.available if "." not in name)
            await self.host.advise(
                problem.code,
                f"The handle is stored, but {problem.message}; it resolves when such a plugin runs"
                + (f". Plugins with handles: {plugins}" if plugins else ""),
            )
        yield created

    @method(streaming=False, read_only=True, completes=LIST_TREES)
    async def node_get(
        self, tree_id: TreeId, node_id: NodeId
    ) -> AsyncIterator[events.NodeData | Encoded]:
        """Read one node.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            node_id: The node: its id, or the last 4 or more digits of it.
        """
        found, place = await self._place(tree_id, node_id)
        node = await walk.node(self.db, place)
        yield encoded(events.NodeData, node=node_json(ids.text(found.id), node))

    @method(read_only=True, completes=LIST_TREES)
    async def node_get_children(
        self,
        tree_id: TreeId,
        node_id: NodeId | None = None,
        lanes: Lanes = None,
        after: NodeId | None = None,
        limit: Annotated[int, Field(ge=1)] | None = None,
    ) -> AsyncIterator[events.NodeChildren | Encoded]:
        """Read the children of a node in the order in which they came, in pages.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            node_id: The node: its id, or the last 4 or more digits of it; the root by default.
            lanes: Which lanes to show; `main` unless said otherwise.
            after: Continue after this child: the `next` of an earlier page.
            limit: How many at most; all unless said otherwise.
        """
        found, place = await self._place(tree_id, node_id)
        key = (await tree.look_up_place(self.db, found, after)).key if after else 0
        left = limit
        while True:
            wanted = min(left or walk.PAGE_NODES, walk.PAGE_NODES)
            # One more than is shown tells whether there is more.
            page = await walk.children(self.db, place, lanes_of(lanes), key, wanted + 1)
            shown = page[:wanted]
            yield encoded(
                events.NodeChildren,
                tree_id=ids.text(found.id),
                node_id=ids.text(place.id),
                children=nodes_json(ids.text(found.id), shown),
                next=ids.text(shown[-1].id) if len(page) > wanted else None,
            )
            left = None if left is None else left - len(shown)
            if len(page) <= wanted or left == 0:
                return
            key = shown[-1].key

    @method(streaming=False, read_only=True, completes=LIST_TREES)
    async def node_get_parent(
        self, tree_id: TreeId, node_id: NodeId
    ) -> AsyncIterator[events.NodeParent | Encoded]:
        """Read the parent of a node.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            node_id: The node: its id, or the last 4 or more digits of it.
        """
        found, place = await self._place(tree_id, node_id)
        above = await walk.parent(self.db, place)
        content: dict[str, Any] = {"tree_id": ids.text(found.id), "node_id": ids.text(place.id)}
        content["parent"] = (
            node_json(content["tree_id"], await walk.node(self.db, above)) if above else None
        )
        yield Encoded(to_json({"type": events.NodeParent.tag, **content}))

    @method(read_only=True, completes=LIST_TREES)
    async def node_get_path(
        self, tree_id: TreeId, node_id: NodeId, lanes: Lanes = None
    ) -> AsyncIterator[events.NodePath | Encoded]:
        """Read the ids from the root to a node, in pages.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            node_id: The node: its id, or the last 4 or more digits of it.
            lanes: Which lanes to show; `main` and the node's own unless said otherwise.
        """
        found, place = await self._place(tree_id, node_id)
        common = {"tree_id": ids.text(found.id), "node_id": ids.text(place.id)}
        async for page in self._path_pages(place, lanes):
            yield encoded(events.NodePath, **common, path=[ids.text(node.id) for node in page])

    @method(
        read_only=True,
        completes=LIST_TREES,
        aliases={"start": ["from_node", "start_node"], "end": ["to_node", "end_node"]},
    )
    async def node_get_path_between(
        self, tree_id: TreeId, start: NodeId, end: NodeId, lanes: Lanes = None
    ) -> AsyncIterator[events.PathBetween | Encoded]:
        """Read the nodes from one to another, both included, in pages.

        Down, up, or up to the last node that both have on their path and down again.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            start: The first node: its id, or the last 4 or more digits of it.
            end: The last node, in the same way.
            lanes: Which lanes to show; `main` and the lanes of the two unless said otherwise.
        """
        found, first = await self._place(tree_id, start)
        last = await tree.look_up_place(self.db, found, end)
        up, down = await walk.path(self.db, first), await walk.path(self.db, last)
        depth = walk.parting(up, down)
        shown = lanes_of(lanes, first, last)
        common = {
            "tree_id": ids.text(found.id),
            "start": ids.text(first.id),
            "end": ids.text(last.id),
            "common": ids.text(await walk.id_at(self.db, down, depth)),
        }
        empty = True
        # The node in common belongs to the way up.
        way = ((walk.cut(up, depth), True), (walk.cut(down, depth + 1), False))
        for stretches, upwards in way:
            async for page in walk.nodes(self.db, stretches, shown, upwards=upwards):
                empty = False
                path = nodes_json(common["tree_id"], page)
                yield encoded(events.PathBetween, **common, path=path)
        if empty:
            yield encoded(events.PathBetween, **common, path=[])

    @method(streaming=False, completes=LIST_TREES)
    async def node_label(
        self, tree_id: TreeId, node_id: NodeId, label: Label | None = None
    ) -> AsyncIterator[events.NodeLabelled]:
        """Name a node, or take its name away.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            node_id: The node: its id, or the last 4 or more digits of it.
            label: The name; none takes it away.
        """

        def name(tx: Tx) -> tuple[TreeRow, Place]:
            found = tree.writable(tx, tree_id)
            place = tree.place(tx, found, node_id)
            tree.set_label(tx, place, label or None)
            return found, place

        found, place = await self.db.transaction(name)
        yield events.NodeLabelled(
            tree_id=ids.text(found.id), node_id=ids.text(place.id), label=label or None
        )

    @method(streaming=False, destructive=True, completes=LIST_TREES)
    async def node_delete(
        self, tree_id: TreeId, node_id: NodeId, recursive: bool = False
    ) -> AsyncIterator[events.NodeDeleted]:
        """Remove a node.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            node_id: The node: its id, or the last 4 or more digits of it.
            recursive: Remove all below it, too; without this, a node with children stays.
        """

        def delete(tx: Tx) -> tuple[TreeRow, Place, int]:
            found = tree.writable(tx, tree_id)
            place = tree.place(tx, found, node_id)
            return found, place, tree.delete(tx, place, recursive=recursive)

        found, place, count = await self.db.transaction(delete)
        yield events.NodeDeleted(
            tree_id=ids.text(found.id), node_id=ids.text(place.id), count=count
        )

    async def _create(
        self,
        tree_id: str,
        parent: NodeId | None,
        content: Callable[[Tx], tree.Content],
        shown: str,
        label: str | None,
        metadata: Metadata,
    ) -> events.NodeCreated:
        about = metadata_text(metadata)

        def create(tx: Tx) -> tuple[TreeRow, Place, Place]:
            found = tree.writable(tx, tree_id)
            above = tree.place(tx, found, parent)
            made = tree.append(tx, above, content(tx), now(), label=label or None, metadata=about)
            return found, above, made

        found, above, made = await self.db.transaction(create)
        return events.NodeCreated(
            tree_id=ids.text(found.id),
            node_id=ids.text(made.id),
            parent=ids.text(above.id),
            content=shown,
        )
