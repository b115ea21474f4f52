"""Cursors as a client writes them: the node of an event, by its id or by the end of it."""

from typing import Final

from hubd.errors import Ambiguous, InvalidParams, NotFound
from hubd.storage import ids
from hubd.storage.arbor.tree import MAX_CANDIDATES
from hubd.storage.database import Database
from hubd.storage.streams.streams import StreamRow, expired


async def node_id(db: Database, stream: StreamRow, written: str) -> bytes:
    """Return the id of the node that a cursor means.

    Args:
        db: The database.
        stream: The stream that is read.
        written: A whole id, which need not be one of this stream; or the last digits of an id
            that only one event of the stream has.

    Raises:
        InvalidParams, NotFound, Ambiguous: It is not an id, or means no event, or several.
        CursorExpired: It means no event, and events of the stream were removed.
    """
    digits = ids.ending(written)
    if digits is None:
        raise InvalidParams(
            f"'{written[:80]}' is not the id of a node",
            suggestion=f"Give a UUID, or its last {ids.MIN_ENDING} hex digits or more",
        )
    if len(digits) == 32:
        return bytes.fromhex(digits)
    # Events have no index of these digits, because every event of every chat would pay for it.
    rows = await db.fetch_rows(_ENDING, stream.key, digits[-ids.MIN_ENDING :].upper())
    matches: list[bytes] = [found for (found,) in rows if found.hex().endswith(digits)]
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


_ENDING: Final = """
    SELECT n.id FROM chat_events AS e CROSS JOIN arbor_nodes AS n ON n.key = e.key
    WHERE e.stream = ? AND substr(hex(n.id), 29) = ? ORDER BY e.seq
"""
