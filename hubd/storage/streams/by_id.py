"""Events by their ids, many in one query."""

from collections.abc import Iterable
from typing import Final

from hubd.storage.by_id import rows_by_id
from hubd.storage.database import Database
from hubd.storage.streams.streams import EventRow

_EVENTS: Final = """
    SELECT e.seq, n.id, n.created_at, e.event_type, e.event_data
    FROM arbor_nodes AS n JOIN chat_events AS e ON e.key = n.key WHERE n.id
"""


async def events_by_id(db: Database, event_ids: Iterable[bytes]) -> dict[bytes, EventRow]:
    """Return the events with these ids, by id. An id without an event is left out."""
    rows = map(EventRow._make, await rows_by_id(db, _EVENTS, event_ids))
    return {row.node_id: row for row in rows}
