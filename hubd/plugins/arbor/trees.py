"""arbor: making, reading, finding, drawing and exchanging whole trees."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from hubd.activation import Encoded, NotFound, Progress, method
from hubd.activation.pages import RowLimit
from hubd.activation.params import NodeId, TreeId
from hubd.plugins.arbor import events
from hubd.plugins.arbor.base import (
    LIST_TREES,
    VERSION,
    ArborBase,
    Lanes,
    Metadata,
    OwnerId,
    lanes_of,
    metadata_text,
    now,
)
from hubd.plugins.arbor.drawing import MAX_DEPTH, MAX_NODES, Limits, drawing
from hubd.plugins.arbor.encode import encoded, nodes_json, skeleton_json, tree_json
from hubd.plugins.arbor.exchange import (
    EXAMPLE,
    Import,
    count_lines,
    export,
    lines_in,
    lines_of,
)
from hubd.plugins.arbor.render import DEPTH, WIDTH
from hubd.storage import ids
from hubd.storage.arbor import tree, walk
from hubd.storage.arbor.tree import TreeRow
from hubd.storage.arbor.walk import Node
from hubd.storage.database import Tx

EVERY_LANE: Final = frozenset(range(len(tree.LANES)))


class Trees(ArborBase, version=VERSION):
    """Methods about whole trees."""

    @method(streaming=False)
    async def tree_create(
        self, metadata: Metadata = None, owner_id: OwnerId = "system"
    ) -> AsyncIterator[events.TreeCreated]:
        """Make a tree with an empty root.

        Args:
            metadata: What to know about it.
            owner_id: Who holds the first reference to it.
        """
        about = metadata_text(metadata)
        made = await self.db.transaction(
            lambda tx: tree.create(tx, owner_id, now(), metadata=about)
        )
        yield events.TreeCreated(
            tree_id=ids.text(made.id),
            owner_id=owner_id,
            metadata=metadata,
            root=ids.text(made.root_id),
        )

    @method(read_only=True, completes=LIST_TREES)
    async def tree_get(
        self,
        tree_id: TreeId,
        depth: Annotated[int, Field(ge=0)] | None = None,
        lanes: Lanes = None,
        after: NodeId | None = None,
    ) -> AsyncIterator[events.TreeData | Encoded]:
        """Read a whole tree: flat nodes in pages, in order of creation.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            depth: Leave out what lies deeper.
            lanes: Which lanes to show; `main` unless said otherwise.
            after: Continue after this node: the `next` of an earlier page.
        """
        pages = self._whole(tree_id, depth, lanes, after)
        async for found, nodes, last in pages:
            shown = ids.text(found.id)
            content = {**tree_json(found), "nodes": nodes_json(shown, nodes)}
            yield encoded(events.TreeData, tree=content, next=last)

    @method(read_only=True, completes=LIST_TREES)
    async def tree_get_skeleton(
        self,
        tree_id: TreeId,
        depth: Annotated[int, Field(ge=0)] | None = None,
        lanes: Lanes = None,
        after: NodeId | None = None,
    ) -> AsyncIterator[events.TreeSkeleton | Encoded]:
        """Read the structure of a tree without its contents, in pages, in order of creation.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            depth: Leave out what lies deeper.
            lanes: Which lanes to show; `main` unless said otherwise.
            after: Continue after this node: the `next` of an earlier page.
        """
        async for found, nodes, last in self._whole(tree_id, depth, lanes, after):
            content = {**tree_json(found), "nodes": list(map(skeleton_json, nodes))}
            yield encoded(events.TreeSkeleton, tree=content, next=last)

    @method(read_only=True, render="table")
    async def tree_list(
        self, owner_id: OwnerId | None = None, limit: RowLimit | None = None
    ) -> AsyncIterator[events.TreeList | Encoded]:
        """List the active trees in order of creation, in pages.

        Args:
            owner_id: Only the trees that this owner holds.
            limit: The maximum number of trees; all by default.
        """

        def wanted(entry: dict[str, Any]) -> bool:
            return owner_id is None or owner_id in entry["owners"]

        async for trees in self._trees("active", limit, wanted):
            yield encoded(events.TreeList, trees=trees)

    @method(streaming=False, completes=LIST_TREES)
    async def tree_update_metadata(
        self, tree_id: TreeId, metadata: Metadata = None
    ) -> AsyncIterator[events.TreeUpdated]:
        """Replace what is known about a tree.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            metadata: What to know about it from now on.
        """
        about = metadata_text(metadata)

        def update(tx: Tx) -> TreeRow:
            found = tree.writable(tx, tree_id)
            tree.set_metadata(tx, found, about)
            return found

        found = await self.db.transaction(update)
        yield events.TreeUpdated(tree_id=ids.text(found.id), metadata=metadata)

    @method(read_only=True, render="table")
    async def tree_query(
        self, metadata: dict[str, Any], limit: RowLimit | None = None
    ) -> AsyncIterator[events.TreeList | Encoded]:
        """Find active trees whose metadata contains what is given, in pages.

        Objects are contained when each of their fields is; everything else when it is equal.

        Args:
            metadata: What the trees' metadata must contain.
            limit: The maximum number of trees; all by default.
        """

        def wanted(entry: dict[str, Any]) -> bool:
            return _contains(entry["metadata"], metadata)

        async for trees in self._trees("active", limit, wanted):
            yield encoded(events.TreeList, trees=trees)

    @method(
        streaming=False,
        read_only=True,
        render="tree",
        completes=LIST_TREES,
        mcp={"resource": {"tree": "tree_id"}},
    )
    async def tree_render(
        self,
        tree_id: TreeId,
        resolve: bool = False,
        depth: Annotated[int, Field(ge=0, le=MAX_DEPTH)] = DEPTH,
        lanes: Lanes = None,
        limit: Annotated[int, Field(ge=1, le=MAX_NODES)] = MAX_NODES,
        width: Annotated[int, Field(ge=1, le=1000)] = WIDTH,
    ) -> AsyncIterator[events.TreeRender | Encoded]:
        """Draw a tree as text.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
            resolve: Show what handles point at, one line each, instead of the handles.
            depth: The deepest level of `nodes`; the text stops at level 200 in any case.
            lanes: The lanes to show; `main` by default.
            limit: The maximum number of nodes; the oldest are drawn.
            width: Columns after which a text is cut.
        """
        found = await tree.look_up(self.db, tree_id)
        limits = Limits(depth=depth, nodes=limit, width=width)
        drawn = await drawing(
            self.db, self.host if resolve else None, found, lanes_of(lanes), limits
        )
        yield encoded(
            events.TreeRender,
            tree_id=ids.text(found.id),
            render=drawn.text,
            nodes=drawn.nodes,
            more=drawn.more,
        )

    @method(read_only=True, completes=LIST_TREES)
    async def tree_export(
        self, tree_id: TreeId
    ) -> AsyncIterator[events.ExportedTree | events.ExportedNode | Encoded]:
        """Write a whole tree as JSON lines, every lane of it, for `tree_import`.

        Args:
            tree_id: The tree: its id, or the first 8 or more digits of it.
        """
        found = await tree.look_up(self.db, tree_id)
        total = await walk.count(self.db, found, EVERY_LANE) - 1
        progress = Progress(self.host, "exporting nodes")
        # The first line is the tree itself.
        number = -1
        async for line in export(self.db, found):
            yield line
            number += 1
            await progress.update(number, total)

    @method(streaming=False, needs_context=True, one_of=("data", "file"))
    async def tree_import(
        self,
        data: Annotated[str, Field(examples=[EXAMPLE])] | None = None,
        file: str | None = None,
        owner_id: OwnerId | None = None,
        new_ids: bool = False,
    ) -> AsyncIterator[events.TreeImported]:
        """Read a tree that `tree_export` has written.

        Args:
            data: The lines.
            file: A file with the lines, instead; for large trees.
            owner_id: Who holds the tree; the exported owner unless said otherwise.
            new_ids: Make a copy with ids of its own, also where the tree itself exists.
        """
        progress = Progress(self.host, "importing nodes")
        if data is not None:
            lines, total = lines_of(data), data.count("\n") + 1
        else:
            path = self._path_of(file or "")
            lines, total = lines_in(path), await asyncio.to_thread(count_lines, path)
        work = Import(self.db, owner=owner_id, new_ids=new_ids, now=now())
        try:
            found, count = await work.run(lines, lambda done: progress.update(done, total))
        finally:
            self.removal_due.set()
        yield events.TreeImported(tree_id=ids.text(found.id), owner_id=found.owner, nodes=count)

    async def _whole(
        self, tree_id: str, depth: int | None, lanes: Lanes, after: NodeId | None
    ) -> AsyncIterator[tuple[TreeRow, list[Node], str | None]]:
        """Pages of a tree, each with what comes after it; at least one page."""
        found = await tree.look_up(self.db, tree_id)
        place = await tree.look_up_place(self.db, found, after) if after else None
        # A page is held back until it is known whether it is the last.
        held: list[Node] = []
        async for page in walk.whole(self.db, found, lanes_of(lanes), after=place, depth=depth):
            if held:
                yield found, held, ids.text(held[-1].id)
            held = page
        yield found, held, None

    def _path_of(self, file: str) -> Path:
        """A file as the caller names it.

        Raises:
            NotFound: It lies in the home of a user that there is not.
        """
        try:
            return Path(self.host.context.cwd or Path.home()) / Path(file).expanduser()
        except RuntimeError as error:
            raise NotFound(f"{file}: {error}") from None


def _contains(found: Any, wanted: Any) -> bool:
    """Whether `found` has all that `wanted` has. `True` is not `1`."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            name in found and _contains(found[name], value) for name, value in wanted.items()
        )
    # As JSON, because to Python `[True] == [1]`.
    return json.dumps(found, sort_keys=True) == json.dumps(wanted, sort_keys=True)
