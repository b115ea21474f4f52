"""claudecode: all SQL of the plugin, behind functions. `tx` functions compose with Arbor's."""

import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from pydantic_core import from_json, to_json

from hubd.errors import Conflict
from hubd.storage import ids
from hubd.storage.arbor.tree import Place
from hubd.storage.database import Database, Tx
from hubd.storage.names import Names

_SESSION: Final = """
    SELECT s.key, s.id, s.name, s.tree, t.id, s.head, h.id, s.working_dir, s.options, s.engine,
        s.native_id, s.native_head, s.created_at, s.updated_at
    FROM claudecode_sessions AS s JOIN arbor_trees AS t ON t.key = s.tree
        JOIN arbor_nodes AS h ON h.key = s.head
"""
_NAMES: Final = Names(
    _SESSION,
    table="s",
    thing="session",
    advice="claudecode.list shows the sessions there are",
)
_BREAK_OFF: Final = (
    "UPDATE claudecode_blobs SET complete = 1, "
    "data = json_remove(json_set(data, '$.finished', json('false')), '$.growing')"
)
# Characters of a prompt that lists show.
PROMPT_LENGTH: Final = 200
_PLACE: Final = "SELECT key, id, tree, segment, depth, lane FROM arbor_nodes WHERE key = ?"


class SessionRow(NamedTuple):
    """A session: a name for a place in a tree, and how to go on from there.

    `native_id` is the program's own session, whose newest message is at the node `native_head`;
    None while a chat runs in it, and after one that did not end as it should.
    """

    key: int
    id: bytes
    name: str
    tree: int
    tree_id: bytes
    head: int
    head_id: bytes
    working_dir: str
    options: str
    engine: str | None
    native_id: str | None
    native_head: int | None
    created_at: int
    updated_at: int


class Blob(NamedTuple):
    """What a handle points at. `data` is a JSON object."""

    id: bytes
    blob_type: str
    data: dict[str, Any]
    complete: bool

    @property
    def whole(self) -> bool:
        """Whether it does not grow any more, and was not cut off either."""
        return self.complete and self.data.get("finished") is not False


def owner_of(session_id: bytes) -> str:
    """Under which name a session holds its tree."""
    return f"claudecode:{ids.text(session_id)}"


def create_session(
    tx: Tx,
    *,
    name: str,
    head: Place,
    working_dir: str,
    options: str,
    now: int,
    session_id: bytes | None = None,
    native: tuple[str | None, int | None] = (None, None),
    engine: str | None = None,
) -> SessionRow:
    """Make a session.

    Raises:
        Conflict: The name is taken.
    """
    session_id = session_id or ids.uuid4()
    if tx.raw.execute("SELECT 1 FROM claudecode_sessions WHERE name = ?", (name,)).fetchone():
        raise Conflict(f"there is a session named '{name}' already", suggestion="Choose another")
    tx.raw.execute(
        "INSERT INTO claudecode_sessions (id, name, tree, head, working_dir, options, engine, "
        "native_id, native_head, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            session_id,
            name,
            head.tree,
            head.key,
            working_dir,
            options,
            engine,
            *native,
            now,
            now,
        ),
    )
    return find_session(tx, ids.text(session_id))


def find_session(tx: Tx, named: str) -> SessionRow:
    """A session by id, name, or the beginning of its id, whichever fits first.

    Raises:
        NotFound, Ambiguous: There is none, or there are several.
    """
    return SessionRow._make(_NAMES.find(tx, named))


async def look_up_session(db: Database, named: str) -> SessionRow:
    """As `find_session`, outside a transaction."""
    return SessionRow._make(await _NAMES.look_up(db, named))


async def page_of_sessions(db: Database, after: int, limit: int = 500) -> list[SessionRow]:
    """Sessions in the order in which they were made."""
    sql = f"{_SESSION} WHERE s.key > ? ORDER BY s.key LIMIT ?"
    return [SessionRow._make(row) for row in await db.fetch_rows(sql, after, limit)]


async def heads_in(db: Database, tree: int) -> list[tuple[str, Place]]:
    """Return the names and heads of the sessions on a tree, in order of creation."""
    rows = await db.fetch_rows(
        "SELECT s.name, n.key, n.id, n.tree, n.segment, n.depth, n.lane "
        "FROM claudecode_sessions AS s JOIN arbor_nodes AS n ON n.key = s.head "
        "WHERE s.tree = ? ORDER BY s.key",
        tree,
    )
    return [(name, Place._make(place)) for name, *place in rows]


def delete_session(tx: Tx, session: SessionRow) -> None:
    """Forget a session; its tree is let go by whoever calls this."""
    tx.raw.execute("DELETE FROM claudecode_sessions WHERE key = ?", (session.key,))


def move_head(tx: Tx, session: int, head: int, now: int) -> None:
    """A session stands at another node."""
    tx.raw.execute(
        "UPDATE claudecode_sessions SET head = ?, updated_at = ? WHERE key = ?",
        (head, now, session),
    )


def set_options(tx: Tx, session: int, options: str, now: int) -> None:
    """Replace what a session tells the program."""
    tx.raw.execute(
        "UPDATE claudecode_sessions SET options = ?, updated_at = ? WHERE key = ?",
        (options, now, session),
    )


def set_engine(tx: Tx, session: int, engine: str) -> None:
    """A program answers in a session. One that `claude` ever answered in stays `claude`'s."""
    tx.raw.execute(
        "UPDATE claudecode_sessions SET engine = ? WHERE key = ? AND engine IS NOT 'claude'",
        (engine, session),
    )


def unset_native_head(tx: Tx, session: int) -> None:
    """The program's own session goes on, and nobody knows yet what will stand at its end."""
    tx.raw.execute("UPDATE claudecode_sessions SET native_head = NULL WHERE key = ?", (session,))


def set_native(tx: Tx, session: int, native_id: str, head: int, now: int) -> None:
    """The program's own session has its newest message at this node, and nothing after it."""
    tx.raw.execute(
        "UPDATE claudecode_sessions SET native_id = ?, native_head = ?, updated_at = ? "
        "WHERE key = ?",
        (native_id, head, now, session),
    )


def place_of(tx: Tx, key: int) -> Place:
    """Where a node lies that is known to be there."""
    return Place._make(tx.raw.execute(_PLACE, (key,)).fetchone())


def add_blob(
    tx: Tx, tree: int, blob_type: str, data: dict[str, Any], now: int, *, complete: bool = True
) -> bytes:
    """Keep something a handle will point at; returns its id."""
    blob_id = ids.uuid7()
    tx.raw.execute(
        "INSERT INTO claudecode_blobs (id, tree, blob_type, data, complete, created_at) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (blob_id, tree, blob_type, to_json(data).decode(), int(complete), now),
    )
    return blob_id


def grow_blob(tx: Tx, blob_id: bytes, data: dict[str, Any], *, complete: bool) -> None:
    """Replace what is known so far; what is complete stays as it is."""
    tx.raw.execute(
        "UPDATE claudecode_blobs SET data = ?, complete = ? WHERE id = ? AND complete = 0",
        (to_json(data).decode(), int(complete), blob_id),
    )


def break_off(tx: Tx, blob_id: bytes) -> None:
    """What was growing grows no more; what is complete stays as it is."""
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
    """Nothing in a tree grows any more; what was growing broke off."""
    tx.raw.execute(f"{_BREAK_OFF} WHERE tree = ? AND complete = 0", (tree,))


async def blob(db: Database, blob_id: bytes) -> Blob | None:
    """What a handle points at."""
    rows = await db.fetch_rows(
        "SELECT id, blob_type, data, complete FROM claudecode_blobs WHERE id = ?", blob_id
    )
    if not rows:
        return None
    found_id, blob_type, data, complete = rows[0]
    return Blob(found_id, blob_type, from_json(data), bool(complete))


def add_turn(tx: Tx, stream: int, blob_id: bytes, session_id: bytes, engine: str) -> None:
    """A turn begins."""
    tx.raw.execute(
        "INSERT INTO claudecode_turns (stream, blob, session_id, engine) VALUES (?, ?, ?, ?)",
        (stream, blob_id, session_id, engine),
    )


def end_turn(tx: Tx, stream: int, usage: dict[str, Any], cost_usd: float | None) -> None:
    """What a turn has cost."""
    tx.raw.execute(
        "UPDATE claudecode_turns SET usage = ?, cost_usd = ? WHERE stream = ?",
        (to_json(usage).decode(), cost_usd, stream),
    )


def interrupt_turn(tx: Tx, stream: int) -> None:
    """A turn ended with the hub in which it ran."""
    tx.raw.execute(
        "UPDATE claudecode_blobs SET data = json_set(data, '$.status', 'interrupted'), "
        "complete = 1 WHERE id = (SELECT blob FROM claudecode_turns WHERE stream = ?)",
        (stream,),
    )


async def turns(db: Database, session_id: bytes | None) -> list[dict[str, Any]]:
    """What the turns of a session, or of all, have cost."""
    return await db.fetch_all(
        "SELECT session_id, engine, count(*) AS turns, sum(cost_usd) AS cost_usd, "
        "sum(usage ->> 'input_tokens') AS input_tokens, "
        "sum(usage ->> 'output_tokens') AS output_tokens, "
        "sum(usage ->> 'cache_read_input_tokens') AS cache_read_input_tokens, "
        "sum(usage ->> 'cache_creation_input_tokens') AS cache_creation_input_tokens "
        "FROM claudecode_turns WHERE ?1 IS NULL OR session_id = ?1 GROUP BY session_id, engine",
        session_id,
    )


async def reported_model(db: Database, session_id: bytes) -> str | None:
    """Return the model that the agent named in the newest turn of a session."""
    rows = await db.fetch_rows(
        "SELECT b.data ->> 'model' FROM claudecode_turns AS t "
        "JOIN claudecode_blobs AS b ON b.id = t.blob WHERE t.session_id = ? "
        "AND b.data ->> 'model' IS NOT NULL ORDER BY t.stream DESC LIMIT 1",
        session_id,
    )
    return rows[0][0] if rows else None


def note_run(tx: Tx, stream: int, pid: int, started: str) -> None:
    """Which process runs a chat, should the hub die before it."""
    tx.raw.execute(
        "INSERT OR REPLACE INTO claudecode_runs (stream, pid, started) VALUES (?, ?, ?)",
        (stream, pid, started),
    )


def forget_run(tx: Tx, stream: int) -> None:
    """Its process is gone."""
    tx.raw.execute("DELETE FROM claudecode_runs WHERE stream = ?", (stream,))


async def runs(db: Database) -> list[tuple[int, bytes, int, str]]:
    """What ran when the hub died: stream, its id, process, its start."""
    rows = await db.fetch_rows(
        "SELECT r.stream, s.id, r.pid, r.started FROM claudecode_runs AS r "
        "JOIN chat_streams AS s ON s.key = r.stream"
    )
    return [(stream, stream_id, pid, started) for stream, stream_id, pid, started in rows]


def imported(tx: Tx, native_id: str) -> tuple[bytes, str] | None:
    """The session that a native one was imported to, and how far."""
    sql = "SELECT session_id, last_uuid FROM claudecode_imports WHERE native_id = ?"
    found = tx.raw.execute(sql, (native_id,)).fetchone()
    return (found[0], found[1]) if found else None


def note_import(tx: Tx, native_id: str, session_id: bytes, last_uuid: str) -> None:
    """A native session was imported as far as this message."""
    tx.raw.execute(
        "INSERT OR REPLACE INTO claudecode_imports (native_id, session_id, last_uuid) "
        "VALUES (?, ?, ?)",
        (native_id, session_id, last_uuid),
    )


def enqueue(tx: Tx, stream: int, request: str) -> None:
    """Keep what a chat that waits was asked."""
    tx.raw.execute(
        "INSERT INTO claudecode_queue (stream, request) VALUES (?, ?)", (stream, request)
    )
    prompt = " ".join(from_json(request)["prompt"][: 4 * PROMPT_LENGTH].split())
    shown = prompt if len(prompt) <= PROMPT_LENGTH else f"{prompt[: PROMPT_LENGTH - 1]}…"
    tx.raw.execute("INSERT INTO claudecode_prompts (stream, prompt) VALUES (?, ?)", (stream, shown))


def dequeue(tx: Tx, stream: int) -> None:
    """It waits no longer."""
    tx.raw.execute("DELETE FROM claudecode_queue WHERE stream = ?", (stream,))


async def names_and_prompts(
    db: Database, stream_keys: Iterable[int]
) -> dict[int, tuple[str | None, str | None]]:
    """Return the session name and the prompt of streams; None where they are not known."""
    rows = await db.fetch_rows(
        "SELECT s.key, n.name, p.prompt FROM chat_streams AS s "
        "LEFT JOIN claudecode_sessions AS n ON n.id = s.session_id "
        "LEFT JOIN claudecode_prompts AS p ON p.stream = s.key "
        "WHERE s.key IN (SELECT value FROM json_each(?))",
        json.dumps(list(stream_keys)),
    )
    return {key: (name, prompt) for key, name, prompt in rows}


async def first_waiting(db: Database, session_id: bytes) -> tuple[int, str] | None:
    """The chat of a session whose turn is next: its stream, and what was asked."""
    rows = await db.fetch_rows(
        "SELECT q.stream, q.request FROM claudecode_queue AS q "
        "JOIN chat_streams AS s ON s.key = q.stream WHERE s.session_id = ? "
        "ORDER BY q.stream LIMIT 1",
        session_id,
    )
    return (rows[0][0], rows[0][1]) if rows else None


async def waiting_streams(db: Database, session_id: bytes) -> list[int]:
    """Return the chats of a session that wait, in the order of their turns."""
    rows = await db.fetch_rows(
        "SELECT q.stream FROM claudecode_queue AS q JOIN chat_streams AS s ON s.key = q.stream "
        "WHERE s.session_id = ? ORDER BY q.stream",
        session_id,
    )
    return [stream for (stream,) in rows]


async def waiting_sessions(db: Database) -> list[bytes]:
    """The sessions with chats that wait, whoever has waited longest first."""
    rows = await db.fetch_rows(
        "SELECT s.session_id FROM claudecode_queue AS q JOIN chat_streams AS s ON s.key = q.stream "
        "GROUP BY s.session_id ORDER BY min(q.stream)"
    )
    return [session_id for (session_id,) in rows]
