"""Consumers: named positions in a stream, kept for readers that come back."""

from typing import Final, NamedTuple

from hubd.storage.database import Database, Tx

# The consumer of a poll that names none.
DEFAULT_CONSUMER: Final = "default"


class Consumer(NamedTuple):
    """A consumer. `position` is the sequence number of the next event that it reads."""

    name: str
    position: int
    updated_at: int


async def all_of(db: Database, stream: int) -> list[Consumer]:
    """Return the consumers of a stream, by name."""
    sql = "SELECT name, position, updated_at FROM chat_consumers WHERE stream = ? ORDER BY name"
    return [Consumer._make(row) for row in await db.fetch_rows(sql, stream)]


def position(tx: Tx, stream: int, consumer: str) -> int:
    """Return the position of a consumer; 0 for a new one."""
    row = tx.raw.execute(
        "SELECT position FROM chat_consumers WHERE stream = ? AND name = ?", (stream, consumer)
    ).fetchone()
    return int(row[0]) if row else 0


async def position_of(db: Database, stream: int, consumer: str) -> int:
    """Return the same as `position`, outside a transaction."""
    rows = await db.fetch_rows(
        "SELECT position FROM chat_consumers WHERE stream = ? AND name = ?", stream, consumer
    )
    return int(rows[0][0]) if rows else 0


def set_position(tx: Tx, stream: int, consumer: str, seq: int, now: int) -> None:
    """Move a consumer to a sequence number; create it if necessary."""
    tx.raw.execute(
        "INSERT INTO chat_consumers (stream, name, position, updated_at) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (stream, name) DO UPDATE SET position = excluded.position, "
        "updated_at = excluded.updated_at",
        (stream, consumer, seq, now),
    )


def advance(tx: Tx, stream: int, consumer: str, seq: int, now: int) -> int:
    """Move a consumer forward to `seq`, never back; return its position."""
    reached = max(position(tx, stream, consumer), seq)
    set_position(tx, stream, consumer, reached, now)
    return reached


def delete(tx: Tx, stream: int, consumer: str) -> bool:
    """Delete a consumer; return whether it existed."""
    sql = "DELETE FROM chat_consumers WHERE stream = ? AND name = ?"
    return tx.raw.execute(sql, (stream, consumer)).rowcount > 0
