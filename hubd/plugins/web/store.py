"""All SQL of the plugin. A row refers to its contents in the hub's store of contents."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from hubd.activation.pages import ROWS_PER_ITEM
from hubd.errors import NotFound
from hubd.storage.blobs import rows as blobs
from hubd.storage.blobs.rows import Blob
from hubd.storage.database import Database, Tx
from hubd.storage.id_lookup import IdLookup


class Fetch(NamedTuple):
    """One fetched page, without its content."""

    # The position in the list; 0 before the row is stored.
    key: int
    id: bytes
    url: str
    final_url: str
    redirects: int
    status: int
    mime_type: str
    # None if the content is not text.
    charset: str | None
    title: str | None
    size: int
    truncated: bool
    # The digest of the content, and of the readable text.
    digest: bytes
    readable: bytes | None
    fetched_at: int
    duration_ms: int


_COLUMNS: Final = ", ".join(Fetch._fields[1:])
_SELECT: Final = f"SELECT key, {_COLUMNS} FROM web_fetches"
# The rows of the search source.
SEARCHED_FETCHES: Final = (
    "SELECT key, id, final_url, status, title, readable, fetched_at FROM web_fetches"
)
_IDS: Final = IdLookup(
    _SELECT, thing="fetched page", advice="List the fetched pages with `synapse web list`"
)


def add(tx: Tx, fetch: Fetch, content: Blob, readable: Blob | None) -> None:
    """Store a fetch and its references."""
    blobs.refer(tx, content)
    if readable is not None:
        blobs.refer(tx, readable)
    tx.execute(
        f"INSERT INTO web_fetches ({_COLUMNS}) VALUES ({', '.join('?' * (len(fetch) - 1))})",
        *fetch[1:],
    )


def delete(tx: Tx, written: str) -> Fetch:
    """Remove the fetch with this id, or with these first digits of an id, and return it.

    Raises:
        NotFound, Ambiguous: No fetch matches, or several do.
    """
    fetch = _fetch(_IDS.find(tx, written))
    tx.execute("DELETE FROM web_fetches WHERE key = ?", fetch.key)
    blobs.release(tx, fetch.digest)
    if fetch.readable is not None:
        blobs.release(tx, fetch.readable)
    return fetch


async def find(db: Database, written: str) -> Fetch:
    """Return the fetch with this id, or with these first digits of an id.

    Raises:
        NotFound, Ambiguous: No fetch matches, or several do.
    """
    return _fetch(await _IDS.look_up(db, written))


async def look_up_each(db: Database, fetch_ids: Sequence[UUID]) -> list[Fetch | NotFound]:
    """Return the fetch of each id, in order, or an error for an unknown id."""
    rows = await _IDS.look_up_each(db, fetch_ids)
    return [row if isinstance(row, NotFound) else _fetch(row) for row in rows]


async def page(db: Database, before: int) -> list[Fetch]:
    """Return fetches with a smaller key, the newest first."""
    rows = await db.fetch_rows(
        f"{_SELECT} WHERE key < ? ORDER BY key DESC LIMIT ?", before, ROWS_PER_ITEM
    )
    return list(map(_fetch, rows))


def _fetch(row: tuple[Any, ...]) -> Fetch:
    fetch = Fetch(*row)
    return fetch._replace(truncated=bool(fetch.truncated))
