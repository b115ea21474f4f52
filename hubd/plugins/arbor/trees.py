"""arbor: the methods for whole trees: create, list, draw, read, search, export and import."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, Final, Unpack

from pydantic import Field

from hubd.activation import Encoded, NotFound, Progress, Style, method
from hubd.activation.pages import RowLimit
from hubd.activation.params import TreeId
from hubd.plugins.arbor import events, import_export
from hubd.plugins.arbor.base import (
    LIST_TREES,
    ArborBase,
    Lanes,
    Metadata,
    OwnerId,
    TreePages,
    lanes_of,
    metadata_text,
    now,
)
from hubd.plugins.arbor.box_drawing import DEPTH, WIDTH
from hubd.plugins.arbor.encode import encoded, nodes_json, skeleton_json, tree_json
from hubd.plugins.arbor.rendering import MAX_DEPTH, MAX_NODES, Limits, render
from hubd.plugins.arbor.search import TREES
from hubd.storage import ids
from hubd.storage.arbor import tree, walk
from hubd.storage.arbor.tree import TreeRow
from hubd.storage.arbor.walk import Node
from hubd.storage.database import Tx

EVERY_LANE: Final = frozenset(range(len(tree.LANES)))


class Trees(ArborBase):
    """Methods for whole trees."""

    @method(read_only=True, render="table", weight=60)
    async def tree_list(
        self, owner_id: OwnerId | None = None, limit: RowLimit | None = None
    ) -> AsyncIterator[events.TreeList | Encoded]:
        """List the active trees in order of creation, in pages.

        Args:
            owner_id: The owner of the trees; all owners by default.
            limit: The maximum number of trees; all by default.
        """

        def matches(entry: dict[str, Any]) -> bool:
            return owner_id is None or owner_id in entry["owners"]

        async for trees in self._tree_pages("active", limit, matches):
            yield encoded(events.TreeList, trees=trees)

    @method
    async def tree_create(
        self, metadata: Metadata = None, owner_id: OwnerId = "system"
    ) -> events.TreeCreated:
        """Create a tree with an empty root.

        Args:
            metadata: A JSON object with more about the tree.
            owner_id: The owner of the first reference to the tree.
        """
        text = metadata_text(metadata)
        row = await self.db.transaction(lambda tx: tree.create(tx, owner_id, now(), metadata=text))
        return events.TreeCreated(
            tree_id=ids.text(row.id),
            owner_id=owner_id,
            metadata=metadata,
            root=ids.text(row.root_id),
        )

    @method(
        read_only=True,
        render="tree",
        completes=LIST_TREES,
        mcp={"resource": {"tree": "tree_id"}},
    )
    async def tree_render(
        self,
        tree_id: TreeId,
        resolve: bool = False,
        style: Style | None = None,
        depth: Annotated[int, Field(ge=0, le=MAX_DEPTH)] = DEPTH,
        lanes: Lanes = None,
        limit: Annotated[int, Field(ge=1, le=MAX_NODES)] = MAX_NODES,
        width: Annotated[int, Field(ge=1, le=1000)] = WIDTH,
    ) -> events.TreeRender | Encoded:
        """Draw a tree as text.

        Args:
            tree_id: The id of the tree, or its first 8 or more digits.
            resolve: Show one line of the data behind each handle instead of the handle.
            style: Show the data in this style, by the templates of the handle types: `default`,
                `compact` or `verbose`.
            depth: The deepest level of `nodes`. The text always ends at level 200.
            lanes: The lanes to show; `main` by default.
            limit: The maximum number of nodes; the oldest are drawn.
            width: The maximum width of a node's text, in columns.
        """
        row = await tree.look_up(self.db, tree_id)
        limits = Limits(depth=depth, nodes=limit, width=width)
        host = self.host if resolve or style is not None else None
        marks = await self.host.marks(ids.text(row.id))
        rendering = await render(self.db, host, row, lanes_of(lanes), limits, marks, style)
        return encoded(
            events.TreeRender,
            tree_id=ids.text(row.id),
            title=next((names[0] for names in marks.values() if names), None),
            render=rendering.text,
            nodes=rendering.nodes,
            more=rendering.more,
        )

    @method(read_only=True, render="tree", completes=LIST_TREES)
    async def tree_get(
        self, **pages: Unpack[TreePages]
    ) -> AsyncIterator[events.TreeData | Encoded]:
        """Read a tree as a flat list of nodes in order of creation, in pages."""
        async for row, nodes, last in self._node_pages(pages):
            content = {**tree_json(row), "nodes": nodes_json(ids.text(row.id), nodes)}
            yield encoded(events.TreeData, tree=content, next=last)

    @method(read_only=True, render="tree", completes=LIST_TREES)
    async def tree_get_skeleton(
        self, **pages: Unpack[TreePages]
    ) -> AsyncIterator[events.TreeSkeleton | Encoded]:
        """Read the structure of a tree without its content, in order of creation, in pages."""
        async for row, nodes, last in self._node_pages(pages):
            content = {**tree_json(row), "nodes": list(map(skeleton_json, nodes))}
            yield encoded(events.TreeSkeleton, tree=content, next=last)

    @method(read_only=True, render="table")
    async def tree_query(
        self, metadata: dict[str, Any], limit: RowLimit | None = None
    ) -> AsyncIterator[events.TreeList | Encoded]:
        """Find the active trees whose metadata contains the given values, in pages.

        An object matches if each of its fields matches. Any other value must be equal.

        Args:
            metadata: The values to search for.
            limit: The maximum number of trees; all by default.
        """

        def matches(entry: dict[str, Any]) -> bool:
            return _contains(entry["metadata"], metadata)

        async for trees in self._tree_pages("active", limit, matches):
            yield encoded(events.TreeList, trees=trees)

    @method(completes=LIST_TREES)
    async def tree_update_metadata(
        self, tree_id: TreeId, metadata: Metadata = None
    ) -> events.TreeUpdated:
        """Replace the metadata of a tree.

        Args:
            tree_id: The id of the tree, or its first 8 or more digits.
            metadata: The new metadata, a JSON object; by default the metadata is removed.
        """
        text = metadata_text(metadata)

        def update(tx: Tx) -> TreeRow:
            row = tree.writable(tx, tree_id)
            tree.set_metadata(tx, row, text)
            self.search_row_changed(tx, TREES, row.key)
            return row

        row = await self.db.transaction(update)
        return events.TreeUpdated(tree_id=ids.text(row.id), metadata=metadata)

    @method(read_only=True, completes=LIST_TREES)
    async def tree_export(
        self, tree_id: TreeId
    ) -> AsyncIterator[events.ExportedTree | events.ExportedNode | Encoded]:
        """Write a tree with all lanes as JSON lines, for `tree_import`.

        Args:
            tree_id: The id of the tree, or its first 8 or more digits.
        """
        row = await tree.look_up(self.db, tree_id)
        total = await walk.count(self.db, row, EVERY_LANE) - 1
        progress = Progress(self.host, "exporting nodes")
        # The first line is the tree itself.
        number = -1
        async for line in import_export.export(self.db, row):
            yield line
            number += 1
            await progress.update(number, total)

    @method(needs_context=True, one_of=("data", "file"))
    async def tree_import(
        self,
        data: Annotated[str, Field(examples=[import_export.EXAMPLE])] | None = None,
        file: str | None = None,
        owner_id: OwnerId | None = None,
        new_ids: bool = False,
    ) -> events.TreeImported:
        """Read a tree from the output of `tree_export`.

        Args:
            data: The exported lines.
            file: The path of a file with the exported lines, for large trees.
            owner_id: The owner of the imported tree; the exported owner by default.
            new_ids: Give the tree and its nodes new ids, so that a copy can exist beside the
                original.
        """
        progress = Progress(self.host, "importing nodes")
        if data is not None:
            lines, total = import_export.lines_of(data), data.count("\n") + 1
        else:
            path = self._path_of(file or "")
            lines, total = (
                import_export.lines_in(path),
                await self.host.in_thread(import_export.count_lines, path),
            )
        work = import_export.Import(self.db, owner=owner_id, new_ids=new_ids, now=now())
        try:
            row, count = await work.run(lines, lambda done: progress.update(done, total))
        finally:
            self.removal_due.set()
        return events.TreeImported(tree_id=ids.text(row.id), owner_id=row.owner, nodes=count)

    async def _node_pages(
        self, pages: TreePages
    ) -> AsyncIterator[tuple[TreeRow, list[Node], str | None]]:
        """Yield at least one page of a tree, each with the id for `after`, None for the last."""
        row = await tree.look_up(self.db, pages["tree_id"])
        after, lanes = pages.get("after"), lanes_of(pages.get("lanes"))
        place = await tree.look_up_place(self.db, row, after) if after else None
        # Each page waits for the next one, which tells whether it is the last.
        previous: list[Node] = []
        async for page in walk.whole(self.db, row, lanes, after=place, depth=pages.get("depth")):
            if previous:
                yield row, previous, ids.text(previous[-1].id)
            previous = page
        yield row, previous, None

    def _path_of(self, file: str) -> Path:
        """Return the path of a file, relative to the caller's directory.

        Raises:
            NotFound: The path names the home of an unknown user.
        """
        try:
            return Path(self.host.context.cwd or Path.home()) / Path(file).expanduser()
        except RuntimeError as error:
            raise NotFound(f"{file}: {error}") from None


def _contains(value: Any, pattern: Any) -> bool:
    """Return whether a value has all fields of a pattern. `True` does not match `1`."""
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(
            name in value and _contains(value[name], part) for name, part in pattern.items()
        )
    # As JSON, because `[True] == [1]` in Python.
    return json.dumps(value, sort_keys=True) == json.dumps(pattern, sort_keys=True)
