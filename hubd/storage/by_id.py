"""Read the rows of several ids in one query."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from hubd.storage.database import Database

# The numbers of ids in one query. A few lengths keep the number of prepared statements small.
_LENGTHS: Final = (1, 10, 100)


async def rows_by_id(db: Database, select: str, ids: Iterable[bytes]) -> list[tuple[Any, ...]]:
    """Return the rows with these ids, in any order. An id without a row is left out.

    Args:
        db: The database.
        select: The statement up to the column of the ids: `SELECT … WHERE id`.
        ids: The ids.
    """
    wanted = list(dict.fromkeys(ids))
    rows: list[tuple[Any, ...]] = []
    for start in range(0, len(wanted), _LENGTHS[-1]):
        part = wanted[start : start + _LENGTHS[-1]]
        length = next(length for length in _LENGTHS if length >= len(part))
        # Repeating an id does not repeat its row.
        part += part[:1] * (length - len(part))
        rows += await db.fetch_rows(_statement(select, length), *part)
    return rows


@lru_cache(maxsize=256)
def _statement(select: str, length: int) -> str:
    return f"{select} = ?" if length == 1 else f"{select} IN ({', '.join('?' * length)})"
