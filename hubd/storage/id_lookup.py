"""Find rows that have no name: by id, or by the first digits of an id."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from hubd.errors import Ambiguous, NotFound
from hubd.storage import ids
from hubd.storage.by_id import rows_by_id
from hubd.storage.database import Database, Tx


class IdLookup:
    """Finds the rows of one table."""

    def __init__(self, select: str, *, thing: str, advice: str) -> None:
        """Prepare the statement.

        Args:
            select: The statement that reads the rows, without conditions. The second column is
                `id`.
            thing: The word for a row in messages, such as "snapshot".
            advice: The suggestion if no row matches.
        """
        self._select = f"{select} WHERE id BETWEEN ? AND ? LIMIT 2"
        self._by_id = f"{select} WHERE id"
        self._thing = thing
        self._advice = advice

    def find(self, tx: Tx, written: str) -> tuple[Any, ...]:
        """Return the row with this id, or these first digits of it.

        Raises:
            NotFound, Ambiguous: No row matches, or several do.
        """
        span = ids.span(written)
        rows = [] if span is None else tx.raw.execute(self._select, span).fetchall()
        return self._only(rows, written)

    async def look_up(self, db: Database, written: str) -> tuple[Any, ...]:
        """Return the same as `find`, outside a transaction."""
        span = ids.span(written)
        rows = [] if span is None else await db.fetch_rows(self._select, *span)
        return self._only(rows, written)

    async def look_up_each(
        self, db: Database, row_ids: Sequence[UUID]
    ) -> list[tuple[Any, ...] | NotFound]:
        """Return the row of each id, in order, or an error for an id without a row. One query."""
        rows = await rows_by_id(db, self._by_id, [row_id.bytes for row_id in row_ids])
        by_id = {row[1]: row for row in rows}
        return [by_id.get(row_id.bytes) or self._missing(str(row_id)) for row_id in row_ids]

    def _missing(self, written: str) -> NotFound:
        return NotFound(f"no {self._thing} '{written[:80]}'", suggestion=self._advice)

    def _only(self, rows: list[tuple[Any, ...]], written: str) -> tuple[Any, ...]:
        if not rows:
            raise self._missing(written)
        if len(rows) > 1:
            raise Ambiguous(
                f"more than one {self._thing} has an id that starts with {written}",
                available=[ids.text(row[1]) for row in rows],
            )
        return rows[0]
