"""cone: all SQL of the plugin, behind functions. `tx` functions compose with Arbor's."""

from typing import Final, NamedTuple

from hubd.activation.pages import ROWS_PER_ITEM
from hubd.errors import Conflict
from hubd.storage import ids
from hubd.storage.arbor.tree import Place
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
    advice="cone.list shows the cones there are, cone.create makes one",
)


class ConeRow(NamedTuple):
    """A cone: a name for a place in a tree, and which model answers there.

    `system_message` is the id of the message that holds its system prompt, if it has one.
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


def owner_of(cone_id: bytes) -> str:
    """Under which name a cone holds its tree."""
    return f"cone:{ids.text(cone_id)}"


def create(
    tx: Tx,
    *,
    cone_id: bytes,
    name: str,
    head: Place,
    model_id: str,
    system_message: bytes | None,
    now: int,
) -> ConeRow:
    """Make a cone.

    Raises:
        Conflict: The name is taken.
    """
    if tx.raw.execute("SELECT 1 FROM cone_cones WHERE name = ?", (name,)).fetchone():
        raise Conflict(f"there is a cone named '{name}' already", suggestion="Choose another")
    tx.raw.execute(
        "INSERT INTO cone_cones (id, name, tree, head, model_id, system_message, created_at, "
        "updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (cone_id, name, head.tree, head.key, model_id, system_message, now, now),
    )
    return find(tx, ids.text(cone_id))


def find(tx: Tx, named: str) -> ConeRow:
    """A cone by id, name, or the beginning of its id, whichever fits first.

    Raises:
        NotFound, Ambiguous: There is none, or there are several.
    """
    return ConeRow._make(_NAMES.find(tx, named))


async def look_up(db: Database, named: str) -> ConeRow:
    """As `find`, outside a transaction."""
    return ConeRow._make(await _NAMES.look_up(db, named))


async def page(db: Database, after: int) -> list[ConeRow]:
    """Cones in the order in which they were made."""
    sql = f"{_CONE} WHERE c.key > ? ORDER BY c.key LIMIT ?"
    return [ConeRow._make(row) for row in await db.fetch_rows(sql, after, ROWS_PER_ITEM)]


async def with_system_prompts(db: Database) -> list[tuple[str, str]]:
    """The names and models of the cones that have one."""
    sql = "SELECT name, model_id FROM cone_cones WHERE system_message IS NOT NULL ORDER BY name"
    return [(name, model_id) for name, model_id in await db.fetch_rows(sql)]


async def system_prompt(db: Database, name: str) -> str | None:
    """The system prompt of the cone of exactly this name."""
    rows = await db.fetch_rows(
        "SELECT m.content FROM cone_cones AS c JOIN cone_messages AS m ON m.id = c.system_message "
        "WHERE c.name = ?",
        name,
    )
    return rows[0][0] if rows else None


def delete(tx: Tx, cone: ConeRow) -> None:
    """Forget a cone; its tree is let go by whoever calls this."""
    tx.raw.execute("DELETE FROM cone_cones WHERE key = ?", (cone.key,))


def move_head(tx: Tx, cone: ConeRow, head: Place, now: int) -> None:
    """A cone stands at another node."""
    tx.raw.execute(
        "UPDATE cone_cones SET head = ?, updated_at = ? WHERE key = ?", (head.key, now, cone.key)
    )


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
    """Keep what was said; returns its id, for the handle."""
    message_id = ids.uuid7()
    tx.raw.execute(
        "INSERT INTO cone_messages (id, tree, role, name, content, model, usage, created_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (message_id, tree, role, name, content, model, usage, now),
    )
    return message_id


async def message(db: Database, message_id: bytes) -> MessageRow | None:
    """What a handle points at."""
    rows = await db.fetch_rows(
        "SELECT id, role, name, content, model, usage, created_at FROM cone_messages WHERE id = ?",
        message_id,
    )
    return MessageRow._make(rows[0]) if rows else None
