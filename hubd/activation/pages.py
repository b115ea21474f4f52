"""Lists that are sent in pages, so that a long one holds up no other client."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Final, TypeVar

from pydantic import Field

# Rows in one item: as many as can be read, encoded and sent in a few milliseconds.
ROWS_PER_ITEM: Final = 100

# The maximum number of rows that a caller wants.
RowLimit = Annotated[int, Field(ge=1, le=1_000_000, examples=[20])]

T = TypeVar("T")


async def limited(
    pages: AsyncIterator[list[T]], limit: int | None = None
) -> AsyncIterator[list[T]]:
    """Yield the rows of these pages, at most `limit`; one empty page if there are none.

    The event loop gets a turn after each page, because reading and sending may need none.
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
