"""Parameters that several plugins have in common."""

from typing import Annotated

from pydantic import Field

# Named by its id or the beginning of it: storage/tree.py reads it.
TreeId = Annotated[
    str,
    Field(min_length=1, max_length=64, examples=["550e8400-e29b-41d4-a716-446655440000"]),
]
