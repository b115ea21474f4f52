"""The SQL of blobs, turns, processes, imports and the queue. sessions.py has that of sessions."""

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from pydantic_core import from_json, to_json

from hubd.activation import Reader
from hubd.errors import NotFound
from hubd.storage import ids
from hubd.storage.arbor.tree import Place
from hubd.storage.blobs import rows as blobs
from hubd.storage.by_id import rows_by_id
from hubd.storage.database import Database, Tx
from hubd.wire.text import shorten

_BREAK_OFF: Final = (
    "UPDATE claudecode_blobs SET complete = 1, "
    "data = json_remove(json_set(data, '$.finished', json('false')), '$.growing')"
)
# Larger data, such as a long tool result, is stored once as a content of the hub.
MAX_DATA_BYTES: Final = 64 * 1024
# The only field of such a blob's data: the digest of the content.
STORED: Final = "stored_content"
# Characters of a prompt that lists show.
PROMPT_LENGTH: Final = 200
_BLOBS: Final = "SELECT id, blob_type, data, complete FROM claudecode_blobs WHERE id"
_PLACE: Final = "SELECT key, id, tree, segment, depth, lane FROM arbor_nodes WHERE key = ?"
# The search ignores larger data: tool results with pictures.
MAX_SEARCHED_BYTES: Final = 16 * 1024 * 1024
# The rows of the search sources.
SEARCHED_BLOBS: Final = """
    SELECT b.key, b.id, b.tree, b.blob_type, b.complete, b.created_at, b.session_id,
        s.name AS session, b.data, t.state
    FROM claudecode_blobs AS b LEFT JOIN claudecode_sessions AS s ON s.id = b.session_id
        LEFT JOIN arbor_trees AS t ON t.key = b.tree
"""
SEARCHED_SESSIONS: Final = "SELECT key, id, name, created_at FROM claudecode_sessions"
# The tool of a call, which is among the last blobs of the tree before its result.
TOOL_OF_CALL: Final = """
    SELECT data ->> '$.block.name' FROM (
        SELECT data, blob_type FROM claudecode_blobs WHERE tree = ? AND key < ?
        ORDER BY key DESC LIMIT 50
    ) WHERE blob_type = 'tool_use' AND data ->> '$.block.id' = ? LIMIT 1
"""


class Blob(NamedTuple):
    """The data behind a handle: a turn, a message or a block. `data` is a JSON object."""

    id: bytes
    blob_type: str
    data: dict[str, Any]
    complete: bool

    @property
    def intact(self) -> bool:
        """Whether the blob has its final content and was not cut off."""
        return self.complete and self.data.get("finished") is not False


def whole(reader: Reader, text: str) -> dict[str, Any] | None:
    """Return the data of a blob from its column; None if it is too long for the search."""
    data: dict[str, Any] = from_json(text)
    if STORED in data:
        content = reader.content(bytes.fromhex(data[STORED]), MAX_SEARCHED_BYTES)
        return from_json(content) if 0 < len(content) < MAX_SEARCHED_BYTES else None
    return data


def text_blocks(reader: Reader, blob_ids: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return the data of the text blocks among these blobs, in order of creation."""
    marks = ", ".join("?" * len(blob_ids))
    rows = reader.rows(
        f"SELECT data FROM claudecode_blobs WHERE id IN ({marks}) AND blob_type = 'content' "
        "ORDER BY key",
        *blob_ids,
    )
    blocks = [whole(reader, text) for (text,) in rows.fetchall()]
    return [block for block in blocks if block is not None]


def place_of(tx: Tx, key: int) -> Place:
    """Return the place of an existing node."""
    return Place._make(tx.raw.execute(_PLACE, (key,)).fetchone())


def add_blob(
    tx: Tx,
    tree: int,
    session_id: bytes,
    blob_type: str,
    data: dict[str, Any],
    now: int,
    *,
    complete: bool = True,
) -> bytes:
    """Store a blob; return its id. A large one that is complete is a stored content of the hub."""
    blob_id = ids.uuid7()
    text = to_json(data)
    if complete and len(text) > MAX_DATA_BYTES:
        text = to_json({STORED: blobs.keep(tx, tree, text).hex()})
    tx.raw.execute(
        "INSERT INTO claudecode_blobs (id, tree, session_id, blob_type, data, complete, "
        "created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (blob_id, tree, session_id, blob_type, text.decode(), int(complete), now),
    )
    return blob_id


def grow_blob(tx: Tx, blob_id: bytes, data: dict[str, Any], *, complete: bool) -> None:
    """Replace the data of a blob. A complete blob is not changed."""
    tx.raw.execute(
        "UPDATE claudecode_blobs SET data = ?, complete = ? WHERE id = ? AND complete = 0",
        (to_json(data).decode(), int(complete), blob_id),
    )


def break_off(tx: Tx, blob_id: bytes) -> None:
    """Mark a blob as cut off. A complete blob is not changed."""
    tx.raw.execute(f"{_BREAK_OFF} WHERE id = ? AND complete = 0", (blob_id,))


def growing_blocks(tx: Tx, tree: int) -> list[Blob]:
    """Return the blocks in a tree that are not complete, in order of creation."""
    rows = tx.raw.execute(
        "SELECT id, blob_type, data FROM claudecode_blobs WHERE tree = ? "
        "AND complete = 0 AND blob_type IN ('content', 'thinking', 'tool_use') ORDER BY key",
        (tree,),
    ).fetchall()
    return [Blob(blob_id, kind, from_json(data), complete=False) for blob_id, kind, data in rows]


def close_blobs(tx: Tx, tree: int) -> None:
    """Mark all blobs of a tree that are not complete as cut off."""
    tx.raw.execute(f"{_BREAK_OFF} WHERE tree = ? AND complete = 0", (tree,))


async def blob(db: Database, blob_id: bytes) -> Blob | None:
    """Return the blob with an id, if there is one."""
    rows = await rows_by_id(db, _BLOBS, [blob_id])
    return await _read(db, rows[0]) if rows else None


async def each_blob(
    db: Database, blob_ids: Sequence[UUID], *kinds: str
) -> AsyncIterator[Blob | NotFound]:
    """Yield the blob of each id, in order, or an error if no blob of these types has the id.

    One query reads all rows. Large data is read when it is its turn.
    """
    rows = await rows_by_id(db, _BLOBS, [blob_id.bytes for blob_id in blob_ids])
    by_id = {row[0]: row for row in rows}
    for blob_id in blob_ids:
        row = by_id.get(blob_id.bytes)
        if row is None or (kinds and row[1] not in kinds):
            yield _no_blob(blob_id, kinds)
        else:
            yield await _read(db, row)


def data_of(tx: Tx, blob_id: bytes) -> dict[str, Any]:
    """Return the data of an existing blob, inside a transaction."""
    sql = "SELECT data FROM claudecode_blobs WHERE id = ?"
    data: dict[str, Any] = from_json(tx.raw.execute(sql, (blob_id,)).fetchone()[0])
    if STORED in data:
        data = from_json(blobs.read(tx.raw, bytes.fromhex(data[STORED])) or b"{}")
    return data


async def look_up_blob(db: Database, blob_id: UUID, *kinds: str) -> Blob:
    """Return the blob with an id.

    Args:
        db: The database.
        blob_id: The id.
        kinds: The types that it may have; any if none is given.

    Raises:
        NotFound: No blob of these types has the id.
    """
    row = await blob(db, blob_id.bytes)
    if row is None or (kinds and row.blob_type not in kinds):
        raise _no_blob(blob_id, kinds)
    return row


async def _read(db: Database, row: tuple[Any, ...]) -> Blob:
    """Return the blob of a row, with large data from its stored content."""
    blob_id, blob_type, text, complete = row
    data = from_json(text)
    if STORED in data:
        data = from_json(await db.blobs.read(bytes.fromhex(data[STORED])))
    return Blob(blob_id, blob_type, data, bool(complete))


def _no_blob(blob_id: UUID, kinds: Sequence[str]) -> NotFound:
    return NotFound(f"no {' or '.join(kinds) or 'block'} {blob_id}")


def add_turn(tx: Tx, stream: int, blob_id: bytes, session_id: bytes, engine: str) -> None:
    """Add a turn that starts."""
    tx.raw.execute(
        "INSERT INTO claudecode_turns (stream, blob, session_id, engine) VALUES (?, ?, ?, ?)",
        (stream, blob_id, session_id, engine),
    )
    tx.raw.execute("UPDATE claudecode_sessions SET turns = turns + 1 WHERE id = ?", (session_id,))


def interrupt_turn(tx: Tx, stream: int, status: str = "interrupted") -> None:
    """End a turn without a process: its hub ended, or the chat waited for an approval."""
    tx.raw.execute(
        "UPDATE claudecode_blobs SET data = json_set(data, '$.status', ?), "
        "complete = 1 WHERE id = (SELECT blob FROM claudecode_turns WHERE stream = ?)",
        (status, stream),
    )


def note_run(tx: Tx, stream: int, pid: int, started: str) -> None:
    """Store the process of a chat, so that the next hub can end it after a crash."""
    tx.raw.execute(
        "INSERT OR REPLACE INTO claudecode_runs (stream, pid, started) VALUES (?, ?, ?)",
        (stream, pid, started),
    )


def forget_run(tx: Tx, stream: int) -> None:
    """Remove the process of a chat, because it has ended."""
    tx.raw.execute("DELETE FROM claudecode_runs WHERE stream = ?", (stream,))


async def has_open_chats(db: Database) -> bool:
    """Return whether a chat has not ended, or a process may still run."""
    sql = (
        "SELECT 1 FROM chat_streams WHERE ended_at IS NULL "
        "UNION ALL SELECT 1 FROM claudecode_runs LIMIT 1"
    )
    return bool(await db.fetch_rows(sql))


async def runs(db: Database) -> list[tuple[int, bytes, int, str]]:
    """Return the processes of an earlier hub: stream, stream id, pid and start time."""
    rows = await db.fetch_rows(
        "SELECT r.stream, s.id, r.pid, r.started FROM claudecode_runs AS r "
        "JOIN chat_streams AS s ON s.key = r.stream"
    )
    return [(stream, stream_id, pid, started) for stream, stream_id, pid, started in rows]


def imported(tx: Tx, native_id: str) -> tuple[bytes, str] | None:
    """Return the session of an import and the last imported message, if there is one."""
    sql = "SELECT session_id, last_uuid FROM claudecode_imports WHERE native_id = ?"
    row = tx.raw.execute(sql, (native_id,)).fetchone()
    return (row[0], row[1]) if row else None


def note_import(tx: Tx, native_id: str, session_id: bytes, last_uuid: str) -> None:
    """Store the last message of a native session that was imported."""
    tx.raw.execute(
        "INSERT OR REPLACE INTO claudecode_imports (native_id, session_id, last_uuid) "
        "VALUES (?, ?, ?)",
        (native_id, session_id, last_uuid),
    )


def enqueue(tx: Tx, stream: int, request: str) -> None:
    """Add a chat to the queue, and store its prompt for lists."""
    tx.raw.execute(
        "INSERT INTO claudecode_queue (stream, request) VALUES (?, ?)", (stream, request)
    )
    prompt = " ".join(from_json(request)["prompt"][: 4 * PROMPT_LENGTH].split())
    tx.raw.execute(
        "INSERT INTO claudecode_prompts (stream, prompt) VALUES (?, ?)",
        (stream, shorten(prompt, PROMPT_LENGTH)),
    )


def dequeue(tx: Tx, stream: int) -> None:
    """Remove a chat from the queue."""
    tx.raw.execute("DELETE FROM claudecode_queue WHERE stream = ?", (stream,))


def keep_request(tx: Tx, stream: int, request: str) -> None:
    """Store the request of a chat that runs, so that it can continue without its process."""
    tx.raw.execute(
        "INSERT INTO claudecode_requests (stream, request) VALUES (?, ?)", (stream, request)
    )


def set_native_file(tx: Tx, stream: int, file: str) -> None:
    """Store the native session file of a chat."""
    tx.raw.execute(
        "UPDATE claudecode_requests SET native_file = ? WHERE stream = ?", (file, stream)
    )


def forget_request(tx: Tx, stream: int) -> None:
    """Remove the request of a chat that has ended."""
    tx.raw.execute("DELETE FROM claudecode_requests WHERE stream = ?", (stream,))


def kept_request(tx: Tx, stream: int) -> tuple[str, str | None] | None:
    """Return the request of a chat as JSON, and its native session file if that is known."""
    sql = "SELECT request, native_file FROM claudecode_requests WHERE stream = ?"
    row = tx.raw.execute(sql, (stream,)).fetchone()
    return (row[0], row[1]) if row else None


async def names_and_prompts(
    db: Database, stream_keys: Iterable[int]
) -> dict[int, tuple[str | None, str | None]]:
    """Return the session name and the prompt of each stream; None if it has none."""
    rows = await db.fetch_rows(
        "SELECT s.key, n.name, p.prompt FROM chat_streams AS s "
        "LEFT JOIN claudecode_sessions AS n ON n.id = s.session_id "
        "LEFT JOIN claudecode_prompts AS p ON p.stream = s.key "
        "WHERE s.key IN (SELECT value FROM json_each(?))",
        json.dumps(list(stream_keys)),
    )
    return {key: (name, prompt) for key, name, prompt in rows}


async def first_waiting(db: Database, session_id: bytes) -> tuple[int, str] | None:
    """Return the oldest queued chat of a session: its stream and its request as JSON."""
    rows = await db.fetch_rows(
        "SELECT q.stream, q.request FROM claudecode_queue AS q "
        "JOIN chat_streams AS s ON s.key = q.stream WHERE s.session_id = ? "
        "ORDER BY q.stream LIMIT 1",
        session_id,
    )
    return (rows[0][0], rows[0][1]) if rows else None


async def waiting_streams(db: Database, session_id: bytes) -> list[int]:
    """Return the streams of the queued chats of a session, the oldest first."""
    rows = await db.fetch_rows(
        "SELECT q.stream FROM claudecode_queue AS q JOIN chat_streams AS s ON s.key = q.stream "
        "WHERE s.session_id = ? ORDER BY q.stream",
        session_id,
    )
    return [stream for (stream,) in rows]


async def waiting_sessions(db: Database) -> list[bytes]:
    """Return the sessions with queued chats, the longest waiting first."""
    rows = await db.fetch_rows(
        "SELECT s.session_id FROM claudecode_queue AS q JOIN chat_streams AS s ON s.key = q.stream "
        "GROUP BY s.session_id ORDER BY min(q.stream)"
    )
    return [session_id for (session_id,) in rows]
