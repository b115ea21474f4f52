"""Remove the events of chats that have ended."""

from typing import Final

from hubd.storage.database import Database, Tx
from hubd.storage.streams.streams import EVENTS_OF_STREAM, STREAM, StreamRow, topic

# Events of an old stream that one transaction removes.
EVENTS_AT_ONCE: Final = 1000


async def ended_before(db: Database, moment: int, after: int = 0) -> list[StreamRow]:
    """Return streams with events that ended before a time, in the order of their keys.

    Args:
        db: The database.
        moment: The time in seconds.
        after: Only streams with a larger key than this.
    """
    rows = await db.fetch_rows(_ENDED, moment, after)
    return [StreamRow._make(row) for row in rows]


async def count_events(db: Database, stream: int) -> int:
    """Return the number of stored events of a stream."""
    [(number,)] = await db.fetch_rows(
        f"SELECT count(*) FROM {EVENTS_OF_STREAM} WHERE s.key = ?", stream
    )
    return int(number)


def remove_events(tx: Tx, stream: int) -> int:
    """Remove some events of a stream that has ended; return their number, 0 if none remain.

    The stream stays, so that reading a removed position fails with `cursor_expired`. The newest
    events are removed first, so that the chain below the user's message has no gap. A node with
    children stays, and so do its ancestors.
    """
    tx.raw.execute("UPDATE chat_streams SET first_seq = next_seq WHERE key = ?", (stream,))
    keys = tx.raw.execute(_NEWEST, (stream, EVENTS_AT_ONCE + 1)).fetchall()
    if len(keys) <= EVENTS_AT_ONCE:
        # SQLite may reuse the keys of removed nodes, so the stream must forget its segment.
        tx.raw.execute("UPDATE chat_streams SET segment = NULL WHERE key = ?", (stream,))
    del keys[EVENTS_AT_ONCE:]
    tx.raw.executemany("DELETE FROM chat_events WHERE key = ?", keys)
    tx.raw.executemany(_REMOVE_NODE, keys)
    tx.topics.append(topic(stream))
    return len(keys)


_ENDED: Final = f"""
    {STREAM} WHERE s.ended_at < ? AND s.key > ? AND s.segment IS NOT NULL ORDER BY s.key LIMIT 500
"""
_NEWEST: Final = f"""
    SELECT e.key FROM {EVENTS_OF_STREAM} WHERE s.key = ? ORDER BY n.depth DESC LIMIT ?
"""
_REMOVE_NODE: Final = """
    DELETE FROM arbor_nodes AS n WHERE n.key = ?
        AND NOT EXISTS (SELECT 1 FROM arbor_nodes AS b WHERE b.parent = n.key)
        AND NOT EXISTS (
            SELECT 1 FROM arbor_nodes AS f WHERE f.segment = n.segment AND f.depth = n.depth + 1)
"""
