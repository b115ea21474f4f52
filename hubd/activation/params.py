"""What the parameters and events of several plugins have in common."""

from typing import Annotated, Self

from pydantic import BaseModel, Field

from hubd.storage import ids

# Named by its id or the beginning of it: storage/tree.py reads it.
TreeId = Annotated[
    str,
    Field(min_length=1, max_length=64, examples=["550e8400-e29b-41d4-a716-446655440000"]),
]


class Position(BaseModel, defer_build=True):
    """A place in a tree."""

    tree_id: str
    node_id: str

    @classmethod
    def at(cls, tree_id: bytes, node_id: bytes) -> Self:
        """A place by the ids as they are stored."""
        return cls(tree_id=ids.text(tree_id), node_id=ids.text(node_id))
