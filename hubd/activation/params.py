"""What the parameters and events of several plugins have in common."""

from typing import Annotated, Final, Self
from uuid import UUID

from pydantic import BaseModel, Field, WithJsonSchema
from pydantic.config import JsonDict

from hubd.storage import ids

# Only in the schema: the code that reads an id refuses other strings in words of its own.
_PREFIX: Final[JsonDict] = {"pattern": "^[0-9A-Fa-f-]{8,36}$"}
_ENDING: Final[JsonDict] = {"pattern": "^[0-9A-Fa-f-]{4,36}$"}

# The id of a tree, a session or a stream, or the beginning of it: 8 or more hex digits.
IdPrefix = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        examples=["550e8400-e29b-41d4-a716-446655440000"],
        json_schema_extra=_PREFIX,
    ),
]
TreeId = IdPrefix
# The id of a node in a tree that the call names too, or the end of it: 4 or more hex digits.
NodeId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        examples=["01890a5d-ac96-774b-bcce-b302099a8057"],
        json_schema_extra=_ENDING,
    ),
]
# An id that can't be shortened, because nothing says among which ids it must be unique.
WholeId = Annotated[UUID, WithJsonSchema({"type": "string", "pattern": "^[0-9A-Fa-f-]{32,36}$"})]


class Position(BaseModel, defer_build=True):
    """A place in a tree."""

    tree_id: str
    node_id: str

    @classmethod
    def at(cls, tree_id: bytes, node_id: bytes) -> Self:
        """A place by the ids as they are stored."""
        return cls(tree_id=ids.text(tree_id), node_id=ids.text(node_id))
