"""Durable event streams: the log of a chat.

An event is a row, a node in lane `events`, and the moved head of its stream, in one transaction.
Functions with `tx` compose with other writes of a plugin.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

from hubd.errors import Ambiguous, CursorExpired, InvalidParams, NotFound
from hubd.storage import ids
from hubd.storage.arbor.tree import EVENTS, Place
from hubd.storage.database import Database, Tx

Status = Literal[
    "queued", "running", "awaiting_permission", "complete", "failed", "cancelled", "interrupted"
]
# The statuses of a chat that runs or waits.
OPEN: Final = frozenset(("queued", "running", "awaiting_permission"))


class StreamRow(NamedTuple):
    """A stream. `root` and `head` are the ids of the nodes of its first and its newest event."""

    key: int
    id: bytes
    session_id: bytes
    tree: int
    tree_id: bytes
    status: Status
    root: bytes | None
    head: bytes | None
    first_seq: int
    next_seq: int
    created_at: int
    started_at: int | None
    ended_at: int | None
    error: str | None

    @property
    def topic(self) -> tuple[str, int]:
        """The topic of new events and of the end of the chat."""
        return topic(self.key)


class EventRow(NamedTuple):
    """An event. `data` is its JSON text."""

    seq: int
    node_id: bytes
    timestamp: int
    event_type: str
    data: str


class Page(NamedTuple):
    """Some events, and the sequence number after them."""

    events: Sequence[EventRow]
    next_seq: int


def topic(stream: int) -> tuple[str, int]:
    """Return the topic of a stream by its key."""
    return ("stream", stream)


def create(
    tx: Tx, session_id: bytes, tree: int, now: int, *, stream_id: bytes | None = None
) -> StreamRow:
    """Create the stream of a chat that has not started."""
    # A key is never reused, because events outlive their stream until their tree is purged.
    tx.raw.execute("UPDATE chat_stream_keys SET newest = newest + 1")
    [key] = tx.raw.execute("SELECT newest FROM chat_stream_keys").fetchone()
    tx.raw.execute(
        "INSERT INTO chat_streams (key, id, session_id, tree, status, created_at) "
        "VALUES (?, ?, ?, ?, 'queued', ?)",
        (key, stream_id or ids.uuid4(), session_id, tree, now),
    )
    return by_key(tx, key)


def start(tx: Tx, stream: int, anchor: Place, now: int) -> None:
    """Start a stream. Its events become nodes below `anchor`, the user's message."""
    tx.raw.execute(
        "UPDATE chat_streams SET status = 'running', started_at = ?, anchor = ?, depth = ? "
        "WHERE key = ?",
        (now, anchor.key, anchor.depth, stream),
    )
    tx.topics.append(topic(stream))


def push(
    tx: Tx,
    stream: int,
    origin: int,
    event_type: str,
    data: str,
    now: int,
    after: tuple[Place, int] | None = None,
) -> Place:
    """Add an event: its row, its node, and the head of the stream.

    Args:
        tx: The running transaction.
        stream: The key of a started stream.
        origin: The origin of the handles of its events (`tree.origin`).
        event_type: The type of the event.
        data: The event as JSON text.
        now: The time in seconds.
        after: The caller's guess of the place and sequence number of the newest event. A right
            guess saves a read.
    """
    execute = tx.cursor.execute
    node_id = ids.uuid7()
    meta = f"{ids.text(node_id)}:{event_type}"
    place, seq = after or (None, -1)
    seq += 1
    if (
        place is not None
        and execute(_MOVE_FROM, (place.depth + 1, seq + 1, stream, seq, place.segment)).rowcount
    ):
        tree, segment, depth = place.tree, place.segment, place.depth + 1
    else:
        tree, anchor, segment, depth, seq = execute(_HEAD, (stream,)).fetchone()
        depth += 1
        # Two statements, because UPDATE … RETURNING takes three times as long as both.
        execute(_MOVE, (depth, seq + 1, stream))
        if segment is None:
            # The first event starts a segment below the user's message.
            [segment] = execute("SELECT coalesce(max(key), 0) + 1 FROM arbor_nodes").fetchone()
            execute("UPDATE chat_streams SET segment = ? WHERE key = ?", (segment, stream))
            first = (segment, node_id, tree, segment, depth, EVENTS, anchor, origin, meta, now)
            execute(_FIRST_NODE, first)
            execute(_EVENT, (segment, stream, seq, event_type, data))
            _announce(tx, stream, (EventRow(seq, node_id, now, event_type, data),))
            return Place(segment, node_id, tree, segment, depth, EVENTS)
    key = execute(_NODE, (node_id, tree, segment, depth, EVENTS, origin, meta, now)).lastrowid
    assert key is not None
    execute(_EVENT, (key, stream, seq, event_type, data))
    _announce(tx, stream, (EventRow(seq, node_id, now, event_type, data),))
    return Place(key, node_id, tree, segment, depth, EVENTS)


def push_many(
    tx: Tx,
    stream: int,
    origin: int,
    events: Sequence[tuple[str, str]],
    now: int,
    after: tuple[Place, int] | None = None,
) -> tuple[Place, int]:
    """Add several events, much faster than one by one.

    Args:
        tx: The running transaction.
        stream: The key of a started stream.
        origin: The origin of the handles of the events (`tree.origin`).
        events: The type and the JSON text of each event; at least one.
        now: The time in seconds.
        after: As in `push`.

    Returns:
        The place and the sequence number of the last event.
    """
    (first_type, first_data), *others = events
    first = push(tx, stream, origin, first_type, first_data, now, after)
    [(next_seq,)] = tx.raw.execute("SELECT next_seq FROM chat_streams WHERE key = ?", (stream,))
    if not others:
        return first, next_seq - 1
    nodes: list[tuple[Any, ...]] = []
    contents: list[tuple[Any, ...]] = []
    rows: list[EventRow] = []
    # The newest node has the largest key, and no other connection writes.
    key, node_id, tree, segment, depth, lane = first
    for seq, (event_type, data) in enumerate(others, next_seq):
        key, depth, node_id = key + 1, depth + 1, ids.uuid7()
        meta = f"{ids.text(node_id)}:{event_type}"
        nodes.append((key, node_id, tree, segment, depth, lane, origin, meta, now))
        contents.append((key, stream, seq, event_type, data))
        rows.append(EventRow(seq, node_id, now, event_type, data))
    tx.raw.executemany(_NODE_WITH_KEY, nodes)
    tx.raw.executemany(_EVENT, contents)
    last_seq = next_seq + len(others) - 1
    tx.raw.execute(_MOVE, (depth, last_seq + 1, stream))
    _announce(tx, stream, rows)
    return Place(key, node_id, tree, segment, depth, lane), last_seq


def _announce(tx: Tx, stream: int, rows: Sequence[EventRow]) -> None:
    """Pass new events to the followers of the stream when the transaction is on disk."""
    name = ("stream", stream)
    tx.topics.append(name)
    tx.news.append((name, rows))


def set_status(tx: Tx, stream: int, status: Status, now: int, error: str | None = None) -> None:
    """Set the status of a chat; a final status ends its stream."""
    ended = None if status in OPEN else now
    tx.raw.execute(
        "UPDATE chat_streams SET status = ?, ended_at = ?, error = ? WHERE key = ?",
        (status, ended, error, stream),
    )
    tx.topics.append(topic(stream))


def left_open(tx: Tx) -> list[StreamRow]:
    """Return the chats that ran or waited for an approval when the hub died."""
    sql = f"{STREAM} WHERE s.ended_at IS NULL AND s.status IN ('running', 'awaiting_permission')"
    return [StreamRow._make(row) for row in tx.raw.execute(sql).fetchall()]


def is_busy(tx: Tx, session_id: bytes) -> bool:
    """Return whether a chat of a session runs or waits."""
    sql = (
        "SELECT 1 FROM chat_streams WHERE session_id = ? AND ended_at IS NULL "
        "AND status IN ('queued', 'running', 'awaiting_permission')"
    )
    return tx.raw.execute(sql, (session_id,)).fetchone() is not None


def by_key(tx: Tx, key: int) -> StreamRow:
    """Return a stream that exists."""
    return StreamRow._make(tx.raw.execute(f"{STREAM} WHERE s.key = ?", (key,)).fetchone())


async def reread(db: Database, key: int) -> StreamRow:
    """Return the same as `by_key`, outside a transaction.

    Raises:
        NotFound: The stream was deleted.
    """
    rows = await db.fetch_rows(f"{STREAM} WHERE s.key = ?", key)
    if not rows:
        raise NotFound("the stream was deleted")
    return StreamRow._make(rows[0])


async def with_status(db: Database, keys: Sequence[int], status: Status) -> list[StreamRow]:
    """Return the streams among some that have a status, the oldest first."""
    sql = (
        f"{STREAM} WHERE s.key IN (SELECT value FROM json_each(?)) AND s.status = ? ORDER BY s.key"
    )
    rows = await db.fetch_rows(sql, json.dumps(list(keys)), status)
    return [StreamRow._make(row) for row in rows]


async def look_up(db: Database, written: str) -> StreamRow:
    """Return the stream with this id, or with these first digits of an id.

    Raises:
        InvalidParams, NotFound, Ambiguous: The text is not an id, or no stream or several match.
    """
    span = ids.span(written)
    if span is None:
        raise InvalidParams(f"'{written[:80]}' is not the id of a stream")
    rows = await db.fetch_rows(f"{STREAM} WHERE s.id BETWEEN ? AND ? LIMIT 2", *span)
    if not rows:
        raise NotFound(f"no stream {written}")
    if len(rows) > 1:
        raise Ambiguous(
            f"more than one stream has an id that starts with {written}",
            suggestion="Give more digits",
            available=[ids.text(row[1]) for row in rows],
        )
    return StreamRow._make(rows[0])


async def newest(db: Database, session_id: bytes) -> StreamRow | None:
    """Return the newest stream of a session, or None."""
    sql = f"{STREAM} WHERE s.session_id = ? ORDER BY s.key DESC LIMIT 1"
    rows = await db.fetch_rows(sql, session_id)
    return StreamRow._make(rows[0]) if rows else None


async def running(db: Database, session_id: bytes) -> StreamRow | None:
    """Return the stream of a session's chat that runs or waits for an approval, or None."""
    sql = (
        f"{STREAM} WHERE s.session_id = ? AND s.ended_at IS NULL "
        "AND s.status IN ('running', 'awaiting_permission') ORDER BY s.key DESC LIMIT 1"
    )
    rows = await db.fetch_rows(sql, session_id)
    return StreamRow._make(rows[0]) if rows else None


async def page(
    db: Database,
    session_id: bytes | None,
    before: int | None = None,
    limit: int = 500,
    status: Status | None = None,
) -> list[StreamRow]:
    """Return streams, the newest first; optionally of one session and one status."""
    sql = (
        f"{STREAM} WHERE s.key < ?1 AND (?2 IS NULL OR s.session_id = ?2) "
        "AND (?3 IS NULL OR s.status = ?3) ORDER BY s.key DESC LIMIT ?4"
    )
    key = 2**62 if before is None else before
    rows = await db.fetch_rows(sql, key, session_id, status, limit)
    return [StreamRow._make(row) for row in rows]


async def events(db: Database, stream: int, from_seq: int, limit: int) -> list[EventRow]:
    """Return events from a sequence number on."""
    # SQLite's integers end at 2**63.
    rows = await db.fetch_rows(_EVENTS, stream, min(from_seq, 2**62), limit)
    return [EventRow._make(row) for row in rows]


async def seq_of(db: Database, stream: StreamRow, node_id: bytes) -> int:
    """Return the sequence number of the event of a node.

    Raises:
        CursorExpired: The event was removed.
        NotFound: The node is not an event of this stream.
    """
    rows = await db.fetch_rows(
        "SELECT e.seq FROM arbor_nodes AS n JOIN chat_events AS e ON e.key = n.key "
        "WHERE n.id = ? AND e.stream = ?",
        node_id,
        stream.key,
    )
    if rows:
        return int(rows[0][0])
    if stream.first_seq:
        raise expired(stream)
    raise NotFound(f"node {ids.text(node_id)} is not an event of stream {ids.text(stream.id)}")


def expired(stream: StreamRow) -> CursorExpired:
    """Return the error for a reader at a removed position."""
    return CursorExpired(
        f"the events before {stream.first_seq} of stream {ids.text(stream.id)} were removed",
        suggestion=f"Continue with from_seq {stream.first_seq}",
    )


def page_of(rows: Sequence[EventRow], start: int) -> Page:
    """Return the page of events that were read from a sequence number on."""
    return Page(rows, rows[-1].seq + 1 if rows else start)


async def node_of(db: Database, stream: int, seq: int) -> bytes | None:
    """Return the node of the event with a sequence number; None if the event does not exist."""
    rows = await db.fetch_rows(_NODE_OF, stream, seq)
    return bytes(rows[0][0]) if rows else None


STREAM: Final = """
    SELECT s.key, s.id, s.session_id, s.tree, t.id, s.status, r.id, h.id, s.first_seq, s.next_seq,
        s.created_at, s.started_at, s.ended_at, s.error
    FROM chat_streams AS s JOIN arbor_trees AS t ON t.key = s.tree
        LEFT JOIN arbor_nodes AS r ON r.key = s.segment
        LEFT JOIN arbor_nodes AS h ON h.segment = s.segment AND h.depth = s.depth
"""
# The events of a stream are found by the places of their nodes, so they need no index. After the
# nodes were removed, the segment may be that of other nodes, so the stream is compared too.
EVENTS_OF_STREAM: Final = """
    chat_streams AS s JOIN arbor_nodes AS n ON n.segment = s.segment
        JOIN chat_events AS e ON e.key = n.key AND e.stream = s.key
"""
# The depth of the node of the first event.
_FIRST_DEPTH: Final = "s.depth - s.next_seq + 1"
_HEAD: Final = "SELECT tree, anchor, segment, depth, next_seq FROM chat_streams WHERE key = ?"
_MOVE: Final = "UPDATE chat_streams SET depth = ?, next_seq = ? WHERE key = ?"
_MOVE_FROM: Final = f"{_MOVE} AND next_seq = ? AND segment = ?"
_NODE: Final = """
    INSERT INTO arbor_nodes (id, tree, segment, depth, lane, origin, meta, created_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_NODE_WITH_KEY: Final = """
    INSERT INTO arbor_nodes (key, id, tree, segment, depth, lane, origin, meta, created_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_FIRST_NODE: Final = """
    INSERT INTO arbor_nodes
        (key, id, tree, segment, depth, lane, parent, origin, meta, created_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_EVENT: Final = (
    "INSERT INTO chat_events (key, stream, seq, event_type, event_data) VALUES (?, ?, ?, ?, ?)"
)
_EVENTS: Final = f"""
    SELECT e.seq, n.id, n.created_at, e.event_type, e.event_data FROM {EVENTS_OF_STREAM}
    WHERE s.key = ? AND n.depth >= {_FIRST_DEPTH} + ? ORDER BY n.depth LIMIT ?
"""
_NODE_OF: Final = f"""
    SELECT n.id FROM {EVENTS_OF_STREAM} WHERE s.key = ? AND n.depth = {_FIRST_DEPTH} + ?
"""
