"""Sessions: heads in trees, with the options of the program that answers there."""

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from hubd.conversations.heads import Heads, NewHead
from hubd.storage import ids
from hubd.storage.arbor.tree import Place
from hubd.storage.database import Database, Tx
from hubd.storage.names import Names
from hubd.storage.streams import streams
from hubd.storage.streams.streams import Status

_SELECT: Final = """
    SELECT s.key, s.id, s.name, s.tree, t.id, s.head, h.id, s.working_dir, s.options, s.engine,
        s.native_id, s.native_head, s.created_at, s.updated_at, s.parent, s.turns, s.cost_usd
    FROM claudecode_sessions AS s JOIN arbor_trees AS t ON t.key = s.tree
        JOIN arbor_nodes AS h ON h.key = s.head
"""
_NAMES: Final = Names(
    _SELECT,
    table="s",
    thing="session",
    advice="List the sessions with `synapse claudecode list`",
)


class SessionRow(NamedTuple):
    """A session: a name for a place in a tree, and the options for the next chat there.

    `native_id` is the program's own session. Its newest message is at the node `native_head`.
    `native_head` is None while a chat runs in it, and after a chat that was cut off.
    """

    key: int
    id: bytes
    name: str
    tree: int
    tree_id: bytes
    head: int
    head_id: bytes
    working_dir: str
    # JSON text.
    options: str
    engine: str | None
    native_id: str | None
    native_head: int | None
    created_at: int
    updated_at: int
    # The actor that started the session, as text, if it was an agent.
    parent: str | None = None
    # The sums of its turns.
    turns: int = 0
    cost_usd: float = 0.0


class NewestChat(NamedTuple):
    """The newest chat of a session: its status, and the start of its prompt."""

    status: Status
    prompt: str | None


class Columns(NamedTuple):
    """The columns of a new session that other heads don't have."""

    working_dir: str
    # JSON text.
    options: str = "{}"
    engine: str | None = None
    parent: str | None = None


class SessionTable:
    """The table of sessions. A session is busy while one of its streams is open."""

    noun = "session"
    owner = "claudecode"
    busy_hint = "Wait for its chat to end, or cancel it with `synapse claudecode cancel`"

    def find(self, tx: Tx, identifier: str) -> SessionRow:
        """Return the session with this name, id, or first digits of an id."""
        return SessionRow._make(_NAMES.find(tx, identifier))

    async def look_up(self, db: Database, identifier: str) -> SessionRow:
        """Return the same as `find`, outside a transaction."""
        return SessionRow._make(await _NAMES.look_up(db, identifier))

    async def page(self, db: Database, after: int, limit: int) -> list[SessionRow]:
        """Return the sessions after a key, in order of creation."""
        sql = f"{_SELECT} WHERE s.key > ? ORDER BY s.key LIMIT ?"
        return [SessionRow._make(row) for row in await db.fetch_rows(sql, after, limit)]

    async def in_tree(self, db: Database, tree_id: bytes, limit: int) -> list[tuple[str, bytes]]:
        """Return the names and nodes of the sessions on a tree, the newest first."""
        # By the tree's key, so that the index of trees is used and not the order of all sessions.
        sql = (
            f"{_SELECT} WHERE s.tree = (SELECT key FROM arbor_trees WHERE id = ?) "
            "ORDER BY s.key DESC LIMIT ?"
        )
        rows = map(SessionRow._make, await db.fetch_rows(sql, tree_id, limit))
        return [(row.name, row.head_id) for row in rows]

    def is_taken(self, tx: Tx, name: str) -> bool:
        """Return whether a session has exactly this name."""
        sql = "SELECT 1 FROM claudecode_sessions WHERE name = ?"
        return tx.raw.execute(sql, (name,)).fetchone() is not None

    def insert(self, tx: Tx, new: NewHead, columns: Columns) -> None:
        """Add a session."""
        tx.raw.execute(
            "INSERT INTO claudecode_sessions (id, name, tree, head, working_dir, options, engine, "
            "parent, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                new.id,
                new.name,
                new.place.tree,
                new.place.key,
                *columns,
                new.created_at,
                new.created_at,
            ),
        )

    def set_head(self, tx: Tx, key: int, head: int, now: int) -> None:
        """Move the head of a session."""
        tx.raw.execute(
            "UPDATE claudecode_sessions SET head = ?, updated_at = ? WHERE key = ?",
            (head, now, key),
        )

    def delete(self, tx: Tx, key: int) -> None:
        """Remove a session."""
        tx.raw.execute("DELETE FROM claudecode_sessions WHERE key = ?", (key,))

    def is_busy(self, tx: Tx, row: SessionRow) -> bool:
        """Return whether a chat of the session runs or waits."""
        return streams.is_busy(tx, row.id)


TABLE: Final = SessionTable()
SESSIONS: Final[Heads[SessionRow, Columns]] = Heads(TABLE)


async def heads_in(db: Database, tree: int) -> list[tuple[str, Place]]:
    """Return the names and heads of the sessions on a tree, in order of creation."""
    rows = await db.fetch_rows(
        "SELECT s.name, n.key, n.id, n.tree, n.segment, n.depth, n.lane "
        "FROM claudecode_sessions AS s JOIN arbor_nodes AS n ON n.key = s.head "
        "WHERE s.tree = ? ORDER BY s.key",
        tree,
    )
    return [(name, Place._make(place)) for name, *place in rows]


async def ancestors(db: Database, session: SessionRow) -> list[str]:
    """Return the actors that started a session, directly or through others, the nearest first."""
    chain: list[str] = []
    parent = session.parent
    while parent is not None and parent not in chain:
        chain.append(parent)
        kind, _, name = parent.partition(":")
        span = ids.span(name) if kind == "session" else None
        if span is None:
            break
        rows = await db.fetch_rows("SELECT parent FROM claudecode_sessions WHERE id = ?", span[0])
        parent = rows[0][0] if rows else None
    return chain


def set_options(tx: Tx, session: int, options: str, now: int) -> None:
    """Replace the options of a session."""
    tx.raw.execute(
        "UPDATE claudecode_sessions SET options = ?, updated_at = ? WHERE key = ?",
        (options, now, session),
    )


def set_engine(tx: Tx, session: int, engine: str) -> None:
    """Store the program that answers in a session. `claude` is never replaced by another one."""
    tx.raw.execute(
        "UPDATE claudecode_sessions SET engine = ? WHERE key = ? AND engine IS NOT 'claude'",
        (engine, session),
    )


def unset_native_head(tx: Tx, session: int) -> None:
    """Clear `native_head`: a chat runs in the program's own session and adds messages to it."""
    tx.raw.execute("UPDATE claudecode_sessions SET native_head = NULL WHERE key = ?", (session,))


def set_native(tx: Tx, session: int, native_id: str, head: int, now: int) -> None:
    """Store the program's own session, and the node of its newest message."""
    tx.raw.execute(
        "UPDATE claudecode_sessions SET native_id = ?, native_head = ?, updated_at = ? "
        "WHERE key = ?",
        (native_id, head, now, session),
    )


async def newest_chats(db: Database, keys: Iterable[int]) -> dict[int, NewestChat]:
    """Return the newest chat of each session that has one, by the key of the session."""
    rows = await db.fetch_rows(
        "SELECT s.key, c.status, p.prompt FROM claudecode_sessions AS s "
        "JOIN chat_streams AS c "
        "ON c.key = (SELECT max(n.key) FROM chat_streams AS n WHERE n.session_id = s.id) "
        "LEFT JOIN claudecode_prompts AS p ON p.stream = c.key "
        "WHERE s.key IN (SELECT value FROM json_each(?))",
        json.dumps(list(keys)),
    )
    return {key: NewestChat(status, prompt) for key, status, prompt in rows}


async def reported_models(db: Database, keys: Iterable[int]) -> dict[int, str | None]:
    """Return the model that the agent named in the newest turn of each session, by its key."""
    rows = await db.fetch_rows(
        "SELECT s.key, (SELECT b.data ->> 'model' FROM claudecode_turns AS t "
        "JOIN claudecode_blobs AS b ON b.id = t.blob WHERE t.session_id = s.id "
        "AND b.data ->> 'model' IS NOT NULL ORDER BY t.stream DESC LIMIT 1) "
        "FROM claudecode_sessions AS s WHERE s.key IN (SELECT value FROM json_each(?))",
        json.dumps(list(keys)),
    )
    return dict(rows)
