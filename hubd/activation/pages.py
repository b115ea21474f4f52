"""Lists that are sent in pages, so that a long list does not delay other clients."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Final, TypeVar

from pydantic import Field

# Rows in one item: few enough to be read, encoded and sent in a few milliseconds.
ROWS_PER_ITEM: Final = 100

# The type of a `limit` parameter: the maximum number of rows.
RowLimit = Annotated[int, Field(ge=1, le=1_000_000, examples=[20])]

T = TypeVar("T")


async def limited(
    pages: AsyncIterator[list[T]], limit: int | None = None
) -> AsyncIterator[list[T]]:
    """Yield pages of at most `limit` rows in all; one empty page if the list is empty.

    Other tasks run after each page, because reading and sending may never wait.
    """
    left = limit
    empty = True
    async for page in pages:
        rows = page if left is None else page[:left]
        if rows:
            empty = False
            yield rows
        if left is not None:
            left -= len(rows)
            if left == 0:
                return
        await asyncio.sleep(0)
    if empty:
        yield []
