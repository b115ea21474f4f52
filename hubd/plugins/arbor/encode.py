"""Rows as JSON. Lists of nodes are long, so they are written without a model for each node."""

import json
from collections.abc import Iterable
from typing import Any

from pydantic_core import to_json

from hubd.activation import Encoded, Event
from hubd.storage import ids
from hubd.storage.arbor.tree import LANES, TreeRow
from hubd.storage.arbor.walk import Node


def encoded(event: type[Event], **fields: Any) -> Encoded:
    """Return an event of plain values that fit its model, without the fields that are None."""
    present = {name: value for name, value in fields.items() if value is not None}
    return Encoded(to_json({"type": event.tag, **present}))


def node_json(tree_id: str, node: Node) -> dict[str, Any]:
    """Return a node as clients see it."""
    parent, _, node_id, _, depth, lane, text, handle, label, metadata, created_at = node
    fields: dict[str, Any] = {
        "id": ids.text(node_id),
        "tree_id": tree_id,
        "parent": ids.text(parent) if parent is not None else None,
        "depth": depth,
        "lane": LANES[lane],
        "data": {"type": "external", "handle": handle}
        if text is None
        else {"type": "text", "content": text},
    }
    if label is not None:
        fields["label"] = label
    if metadata is not None:
        fields["metadata"] = json.loads(metadata)
    fields["created_at"] = created_at
    return fields


def nodes_json(tree_id: str, nodes: Iterable[Node]) -> list[dict[str, Any]]:
    """Return nodes as clients see them."""
    return [node_json(tree_id, node) for node in nodes]


def skeleton_json(node: Node) -> dict[str, Any]:
    """Return a node without its content."""
    fields: dict[str, Any] = {
        "id": ids.text(node.id),
        "parent": ids.text(node.parent) if node.parent is not None else None,
        "depth": node.depth,
        "lane": LANES[node.lane],
        "kind": "external" if node.text is None else "text",
    }
    if node.label is not None:
        fields["label"] = node.label
    return fields


def tree_json(tree: TreeRow) -> dict[str, Any]:
    """Return a tree as clients see it."""
    owners: dict[str, int] = json.loads(tree.owners)
    return {
        "tree_id": ids.text(tree.id),
        # The owner that created the tree may have released it.
        "owner_id": tree.owner if tree.owner in owners else next(iter(owners), None),
        "ref_count": tree.ref_count,
        "owners": owners,
        "metadata": json.loads(tree.metadata) if tree.metadata else None,
        "state": tree.state,
        "state_since": tree.state_since,
        "root": ids.text(tree.root_id),
        "created_at": tree.created_at,
    }
