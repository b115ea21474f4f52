"""Find rows by name, by id, or by the first digits of an id."""

from typing import Any

from hubd.errors import Ambiguous, NotFound
from hubd.storage import ids
from hubd.storage.database import Database, Tx


class Names:
    """Finds the rows of one table."""

    def __init__(self, select: str, *, table: str, thing: str, advice: str) -> None:
        """Prepare the statements.

        Args:
            select: The statement that reads the rows, without conditions. The first columns are
                key, id and name.
            table: The alias of the table with these columns.
            thing: The word for a row in messages, such as "session".
            advice: The suggestion if no row matches.
        """
        # An id takes precedence over a name with the same text.
        self._exact = (
            f"{select} WHERE {table}.name = ?1 OR {table}.id = ?2 "
            f"ORDER BY {table}.id = ?2 DESC LIMIT 1"
        )
        self._by_prefix = f"{select} WHERE {table}.id BETWEEN ? AND ? LIMIT 2"
        self._thing = thing
        self._advice = advice

    def find(self, tx: Tx, named: str) -> tuple[Any, ...]:
        """Return the row with this name, id, or first digits of an id.

        Raises:
            NotFound, Ambiguous: No row matches, or several do.
        """
        span = ids.span(named)
        rows = tx.raw.execute(self._exact, (named, span[0] if span else None)).fetchall()
        if not rows and span is not None:
            rows = tx.raw.execute(self._by_prefix, span).fetchall()
        return self._only(rows, named)

    async def look_up(self, db: Database, named: str) -> tuple[Any, ...]:
        """Return the same as `find`, outside a transaction."""
        span = ids.span(named)
        rows = await db.fetch_rows(self._exact, named, span[0] if span else None)
        if not rows and span is not None:
            rows = await db.fetch_rows(self._by_prefix, *span)
        return self._only(rows, named)

    def _only(self, rows: list[tuple[Any, ...]], named: str) -> tuple[Any, ...]:
        if not rows:
            raise NotFound(f"no {self._thing} '{named[:80]}'", suggestion=self._advice)
        if len(rows) > 1:
            raise Ambiguous(
                f"more than one {self._thing} has an id that starts with {named}",
                available=[row[2] for row in rows],
            )
        return rows[0]
