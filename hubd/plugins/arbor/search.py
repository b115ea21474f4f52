"""arbor: the handles of trees and nodes, and the texts of both for the search."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from pydantic import Field

from hubd.activation import Document, Encoded, Handle, Reader, SearchSource, resolver
from hubd.plugins.arbor import events
from hubd.plugins.arbor.base import ArborBase
from hubd.plugins.arbor.encode import encoded, node_json, tree_json
from hubd.storage import ids
from hubd.storage.arbor import searched_rows, tree, walk

# The names of the sources.
TREES: Final = "trees"
NODES: Final = "nodes"
# The state of trees that are shown: not those that are imported, to be deleted or archived.
SHOWN: Final = "active"


class TreeRef(Handle, method="tree", kind="document", summary="tree {tree_id}"):
    """Points at a tree, without its nodes."""

    tree_id: UUID = Field(description="The id of the tree")


class NodeRef(Handle, method="node", kind="document", summary="node {node_id}"):
    """Points at a node of a tree."""

    tree_id: UUID = Field(description="The id of the tree")
    node_id: UUID = Field(description="The id of the node")


class Searched(ArborBase):
    """The resolvers and the search sources of trees and nodes."""

    @resolver
    async def resolve_tree(self, ref: TreeRef) -> events.TreeFound | Encoded:
        """Return a tree without its nodes."""
        row = await tree.look_up(self.db, str(ref.tree_id))
        return encoded(events.TreeFound, tree_id=str(ref.tree_id), tree=tree_json(row))

    @resolver
    async def resolve_node(self, ref: NodeRef) -> events.NodeFound | Encoded:
        """Return a node."""
        row, place = await self._place(str(ref.tree_id), str(ref.node_id))
        node = await walk.node(self.db, place)
        content = node_json(ids.text(row.id), node)
        return encoded(events.NodeFound, node_id=str(ref.node_id), node=content)

    def search_sources(self) -> Sequence[SearchSource]:
        """Return the metadata of trees, and the texts and labels of nodes."""
        return (
            SearchSource(TREES, searched_rows.TREES, _tree_document),
            SearchSource(NODES, searched_rows.NODES, _node_document),
        )


def _tree_document(row: sqlite3.Row, reader: Reader) -> Document | None:
    if row["metadata"] is None:
        return None
    return Document(
        handle=str(TreeRef(tree_id=UUID(bytes=row["id"]))),
        kind=TreeRef.kind,
        text=" ".join(_strings(json.loads(row["metadata"]))),
        created_at=row["created_at"],
        hidden=row["state"] != SHOWN,
    )


def _node_document(row: sqlite3.Row, reader: Reader) -> Document | None:
    text = " ".join(filter(None, (row["label"], row["text"])))
    if row["lane"] != tree.MAIN or row["tree_id"] is None or not text:
        return None
    return Document(
        handle=str(NodeRef(tree_id=UUID(bytes=row["tree_id"]), node_id=UUID(bytes=row["id"]))),
        kind=NodeRef.kind,
        text=text,
        created_at=row["created_at"],
        hidden=row["state"] != SHOWN,
    )


def _strings(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value, without the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
