"""Rows that people call by a name, by an id, or by the beginning of one: finding the one meant."""

from typing import Any

from hubd.errors import Ambiguous, NotFound
from hubd.storage import ids
from hubd.storage.database import Database, Tx


class Names:
    """How the rows of one table are found."""

    def __init__(self, select: str, *, table: str, thing: str, advice: str) -> None:
        """Prepare the statements.

        Args:
            select: The statement that reads the rows, without conditions; they begin with key,
                id and name.
            table: What it calls the table that has these columns.
            thing: What a row is to people, such as "session".
            advice: What to tell whoever names one that is not there.
        """
        # A name that is the id of another row does not mean this one.
        self._exact = (
            f"{select} WHERE {table}.name = ?1 OR {table}.id = ?2 "
            f"ORDER BY {table}.id = ?2 DESC LIMIT 1"
        )
        self._begins = f"{select} WHERE {table}.id BETWEEN ? AND ? LIMIT 2"
        self._thing = thing
        self._advice = advice

    def find(self, tx: Tx, named: str) -> tuple[Any, ...]:
        """The row that is meant.

        Raises:
            NotFound, Ambiguous: There is none, or there are several.
        """
        span = ids.span(named)
        rows = tx.raw.execute(self._exact, (named, span[0] if span else None)).fetchall()
        if not rows and span is not None:
            rows = tx.raw.execute(self._begins, span).fetchall()
        return self._only(rows, named)

    async def look_up(self, db: Database, named: str) -> tuple[Any, ...]:
        """As `find`, outside a transaction."""
        span = ids.span(named)
        rows = await db.fetch_rows(self._exact, named, span[0] if span else None)
        if not rows and span is not None:
            rows = await db.fetch_rows(self._begins, *span)
        return self._only(rows, named)

    def _only(self, rows: list[tuple[Any, ...]], named: str) -> tuple[Any, ...]:
        if not rows:
            raise NotFound(f"no {self._thing} '{named[:80]}'", suggestion=self._advice)
        if len(rows) > 1:
            raise Ambiguous(
                f"more than one {self._thing} begins with {named}",
                available=[row[2] for row in rows],
            )
        return rows[0]
