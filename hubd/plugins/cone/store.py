"""cone: all SQL of the plugin. Functions with a `tx` belong to the caller's transaction."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from hubd.conversations.heads import Heads, NewHead
from hubd.storage import ids
from hubd.storage.by_id import rows_by_id
from hubd.storage.database import Database, Tx
from hubd.storage.names import Names

_CONE: Final = """
    SELECT c.key, c.id, c.name, c.tree, t.id, c.head, h.id, c.model_id, c.system_message,
        c.created_at, c.updated_at
    FROM cone_cones AS c JOIN arbor_trees AS t ON t.key = c.tree
        JOIN arbor_nodes AS h ON h.key = c.head
"""
_NAMES: Final = Names(
    _CONE,
    table="c",
    thing="cone",
    advice="List the cones with `synapse cone list`, or create one with `synapse cone create`",
)
_MESSAGES: Final = """
    SELECT id, role, name, content, model, usage, created_at FROM cone_messages WHERE id
"""
# The rows of the search sources.
SEARCHED_MESSAGES: Final = """
    SELECT m.key, m.id, m.role, m.name, m.content, m.created_at, t.state
    FROM cone_messages AS m JOIN arbor_trees AS t ON t.key = m.tree
"""


class ConeRow(NamedTuple):
    """A cone: a head, and the model that answers there.

    `system_message` is the id of the message that holds the system prompt, or None.
    """

    key: int
    id: bytes
    name: str
    tree: int
    tree_id: bytes
    head: int
    head_id: bytes
    model_id: str
    system_message: bytes | None
    created_at: int
    updated_at: int


class MessageRow(NamedTuple):
    """One message. `usage` is JSON text."""

    id: bytes
    role: str
    name: str
    content: str
    model: str | None
    usage: str | None
    created_at: int


class Columns(NamedTuple):
    """The columns of a cone that other heads don't have."""

    model_id: str
    system_message: bytes | None = None


class ConeTable:
    """The table of cones. A cone's chats live in memory, in locks of the plugin."""

    noun = "cone"
    owner = "cone"
    busy_hint = "Wait for its chat to end"

    def find(self, tx: Tx, identifier: str) -> ConeRow:
        """Return the cone with this name, id, or first digits of an id."""
        return ConeRow._make(_NAMES.find(tx, identifier))

    async def look_up(self, db: Database, identifier: str) -> ConeRow:
        """Return the same as `find`, outside a transaction."""
        return ConeRow._make(await _NAMES.look_up(db, identifier))

    async def page(self, db: Database, after: int, limit: int) -> list[ConeRow]:
        """Return the cones after a key, in order of creation."""
        sql = f"{_CONE} WHERE c.key > ? ORDER BY c.key LIMIT ?"
        return [ConeRow._make(row) for row in await db.fetch_rows(sql, after, limit)]

    async def in_tree(self, db: Database, tree_id: bytes, limit: int) -> list[tuple[str, bytes]]:
        """Return the names and nodes of the cones on a tree, the newest first."""
        # By the tree's key, so that the index of trees is used and not the order of all cones.
        sql = (
            f"{_CONE} WHERE c.tree = (SELECT key FROM arbor_trees WHERE id = ?) "
            "ORDER BY c.key DESC LIMIT ?"
        )
        rows = map(ConeRow._make, await db.fetch_rows(sql, tree_id, limit))
        return [(row.name, row.head_id) for row in rows]

    def is_taken(self, tx: Tx, name: str) -> bool:
        """Return whether a cone has exactly this name."""
        sql = "SELECT 1 FROM cone_cones WHERE name = ?"
        return tx.raw.execute(sql, (name,)).fetchone() is not None

    def insert(self, tx: Tx, new: NewHead, columns: Columns) -> None:
        """Add a cone."""
        tx.raw.execute(
            "INSERT INTO cone_cones (id, name, tree, head, model_id, system_message, created_at, "
            "updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
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
        """Move the head of a cone."""
        tx.raw.execute(
            "UPDATE cone_cones SET head = ?, updated_at = ? WHERE key = ?", (head, now, key)
        )

    def delete(self, tx: Tx, key: int) -> None:
        """Remove a cone."""
        tx.raw.execute("DELETE FROM cone_cones WHERE key = ?", (key,))

    def is_busy(self, tx: Tx, row: ConeRow) -> bool:
        """Return False, because the database has no chats of cones."""
        return False


TABLE: Final = ConeTable()
HEADS: Final[Heads[ConeRow, Columns]] = Heads(TABLE)


async def heads_in(db: Database, tree: int) -> list[tuple[str, bytes]]:
    """Return the names of the cones on a tree, and the ids of their heads."""
    rows = await db.fetch_rows(
        "SELECT c.name, n.id FROM cone_cones AS c JOIN arbor_nodes AS n ON n.key = c.head "
        "WHERE c.tree = ? ORDER BY c.key",
        tree,
    )
    return [(name, node_id) for name, node_id in rows]


def set_system_message(tx: Tx, key: int, message_id: bytes) -> None:
    """Store the message that holds the system prompt of a cone."""
    tx.raw.execute("UPDATE cone_cones SET system_message = ? WHERE key = ?", (message_id, key))


async def with_system_prompts(db: Database) -> list[tuple[str, str]]:
    """Return the names and models of cones with a system prompt."""
    sql = "SELECT name, model_id FROM cone_cones WHERE system_message IS NOT NULL ORDER BY name"
    return [(name, model_id) for name, model_id in await db.fetch_rows(sql)]


async def system_prompt(db: Database, name: str) -> str | None:
    """Return the system prompt of the cone with exactly this name."""
    rows = await db.fetch_rows(
        "SELECT m.content FROM cone_cones AS c JOIN cone_messages AS m ON m.id = c.system_message "
        "WHERE c.name = ?",
        name,
    )
    return rows[0][0] if rows else None


def add_message(
    tx: Tx,
    tree: int,
    *,
    role: str,
    name: str,
    content: str,
    now: int,
    model: str | None = None,
    usage: str | None = None,
) -> bytes:
    """Store a message. Return its id."""
    message_id = ids.uuid7()
    tx.raw.execute(
        "INSERT INTO cone_messages (id, tree, role, name, content, model, usage, created_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (message_id, tree, role, name, content, model, usage, now),
    )
    return message_id


async def messages(db: Database, message_ids: Iterable[bytes]) -> dict[bytes, MessageRow]:
    """Return the messages with these ids, by id. An id without a message is left out."""
    rows = map(MessageRow._make, await rows_by_id(db, _MESSAGES, message_ids))
    return {row.id: row for row in rows}
