"""Cursors: the node of an event, by its id or by the last digits of it."""

from typing import Final

from hubd.errors import Ambiguous, InvalidParams, NotFound
from hubd.storage import ids
from hubd.storage.arbor.tree import MAX_CANDIDATES
from hubd.storage.database import Database
from hubd.storage.streams.streams import EVENTS_OF_STREAM, StreamRow, expired


async def node_id(db: Database, stream: StreamRow, written: str) -> bytes:
    """Return the id of the node of a cursor.

    Args:
        db: The database.
        stream: The stream.
        written: A whole id, not necessarily of this stream; or last digits that only one event of
            the stream has.

    Raises:
        InvalidParams, NotFound, Ambiguous: The text is not an id, or no event or several match.
        CursorExpired: No event matches, and events of the stream were removed.
    """
    digits = ids.ending(written)
    if digits is None:
        raise InvalidParams(
            f"'{written[:80]}' is not the id of a node",
            suggestion=f"Give a UUID, or at least its last {ids.MIN_ENDING} hex digits",
        )
    if len(digits) == 32:
        return bytes.fromhex(digits)
    # These digits have no index, because it would slow down the write of every event.
    rows = await db.fetch_rows(_ENDING, stream.key, digits[-ids.MIN_ENDING :].upper())
    matches: list[bytes] = [event_id for (event_id,) in rows if event_id.hex().endswith(digits)]
    if len(matches) > 1:
        raise Ambiguous(
            f"{len(matches)} events of stream {ids.text(stream.id)} end with {written}",
            suggestion="Give more digits",
            available=[ids.text(match) for match in matches[:MAX_CANDIDATES]],
        )
    if matches:
        return matches[0]
    if stream.first_seq:
        raise expired(stream)
    raise NotFound(f"no event of stream {ids.text(stream.id)} ends with {written}")


_ENDING: Final = f"""
    SELECT n.id FROM {EVENTS_OF_STREAM}
    WHERE s.key = ? AND substr(hex(n.id), 29) = ? ORDER BY n.depth
"""
