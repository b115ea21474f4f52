"""Rows that changed after they were indexed, such as a node with a new label."""

from typing import Final, NamedTuple

from hubd.storage.database import Database, Tx

# Changes that the index reads at a time.
MAX_CHANGES: Final = 200


class Change(NamedTuple):
    """A changed row."""

    number: int
    source: str
    key: int


def changed(tx: Tx, source: str, key: int) -> None:
    """Let the index read a row again, after the commit.

    Args:
        tx: The transaction that changes the row.
        source: The path of the plugin and the name of its source, such as `notes.titles`.
        key: The key of the row.
    """
    tx.execute("INSERT INTO hub_search_changes (source, row_key) VALUES (?, ?)", source, key)


async def waiting(db: Database) -> list[Change]:
    """Return the oldest changes."""
    rows = await db.fetch_rows(
        "SELECT number, source, row_key FROM hub_search_changes ORDER BY number LIMIT ?",
        MAX_CHANGES,
    )
    return [Change(*row) for row in rows]


def forget(tx: Tx, last: int) -> None:
    """Remove the changes up to a number, because the index has them."""
    tx.execute("DELETE FROM hub_search_changes WHERE number <= ?", last)
