"""A head: a name for a node of a tree, from which a conversation continues.

Cones and Claude sessions are heads. The rules that they share are here; the columns of a table and
its SQL stay with the plugin, behind `HeadTable`:

- A head is found by its name, its id, or the first digits of its id. Its name is unique.
- A head claims its tree when it is created, and releases the tree when it is deleted. A tree
  therefore lives as long as one of its heads.
- A fork shares the tree of its source. Nothing is copied.
- A head is busy while a chat uses it. A busy head can't be moved or deleted, but it can be forked.

All functions with a `tx` belong to the caller's transaction, so a plugin can combine them with its
own writes.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar
from weakref import WeakValueDictionary

from hubd.activation.pages import ROWS_PER_ITEM
from hubd.activation.params import Position
from hubd.errors import Conflict, InvalidParams
from hubd.storage import ids
from hubd.storage.arbor import references, tree
from hubd.storage.arbor.tree import Place
from hubd.storage.database import Database, Tx

# The most heads of one tree that a drawing names.
MAX_MARKS: Final = 1000


class Head(Protocol):
    """The columns that every table of heads has: `tree` and `head` are keys of rows."""

    @property
    def key(self) -> int: ...
    @property
    def id(self) -> bytes: ...
    @property
    def name(self) -> str: ...
    @property
    def tree(self) -> int: ...
    @property
    def tree_id(self) -> bytes: ...
    @property
    def head(self) -> int: ...
    @property
    def head_id(self) -> bytes: ...


RowT = TypeVar("RowT", bound=Head)
ColumnsT = TypeVar("ColumnsT")
ColumnsT_contra = TypeVar("ColumnsT_contra", contravariant=True)


class NewHead(NamedTuple):
    """The columns of a new row that every table of heads has."""

    id: bytes
    name: str
    place: Place
    created_at: int


class HeadTable(Protocol[RowT, ColumnsT_contra]):
    """One plugin's table of heads. `ColumnsT_contra` holds the columns that only this table has."""

    @property
    def noun(self) -> str:
        """Return the word for a head in messages, such as "cone"."""

    @property
    def owner(self) -> str:
        """Return the first part of the name under which a head claims its tree."""

    @property
    def busy_hint(self) -> str:
        """Return the suggestion for a caller that meets a busy head."""

    def find(self, tx: Tx, identifier: str) -> RowT:
        """Return the row with this name, id, or first digits of an id.

        Raises:
            NotFound, Ambiguous: No row matches, or several do.
        """

    async def look_up(self, db: Database, identifier: str) -> RowT:
        """Return the same as `find`, outside a transaction."""

    async def page(self, db: Database, after: int, limit: int) -> list[RowT]:
        """Return the rows after a key, in order of creation."""

    async def in_tree(self, db: Database, tree_id: bytes, limit: int) -> list[tuple[str, bytes]]:
        """Return the names of the rows on a tree and the ids of their nodes, the newest first."""

    def is_taken(self, tx: Tx, name: str) -> bool:
        """Return whether a row has exactly this name."""

    def insert(self, tx: Tx, new: NewHead, columns: ColumnsT_contra) -> None:
        """Add a row."""

    def set_head(self, tx: Tx, key: int, head: int, now: int) -> None:
        """Change the head and the time of the last change of a row."""

    def delete(self, tx: Tx, key: int) -> None:
        """Remove a row."""

    def is_busy(self, tx: Tx, row: RowT) -> bool:
        """Return whether the database has a chat of this row that has not ended.

        False if the plugin keeps its chats in memory; such a plugin uses `ChatLocks`.
        """


class Heads(Generic[RowT, ColumnsT]):
    """The heads of one plugin."""

    def __init__(self, table: HeadTable[RowT, ColumnsT]) -> None:
        self._table = table

    def find(self, tx: Tx, identifier: str) -> RowT:
        """Return the head with this name, id, or first digits of an id.

        Raises:
            NotFound, Ambiguous: No head matches, or several do.
        """
        return self._table.find(tx, identifier)

    async def look_up(self, db: Database, identifier: str) -> RowT:
        """Return the same as `find`, outside a transaction."""
        return await self._table.look_up(db, identifier)

    def reread(self, tx: Tx, head: RowT) -> RowT:
        """Return the row of a head as it is now.

        Raises:
            NotFound: The head was deleted.
        """
        return self._table.find(tx, ids.text(head.id))

    async def pages(self, db: Database, limit: int | None = None) -> AsyncIterator[list[RowT]]:
        """Yield all heads in order of creation, in pages of at most `limit` rows."""
        rows_per_page = min(limit or ROWS_PER_ITEM, ROWS_PER_ITEM)
        after = 0
        while page := await self._table.page(db, after, rows_per_page):
            yield page
            after = page[-1].key

    async def marks(self, db: Database, tree_id: str) -> dict[str, list[str]]:
        """Return the names of the heads on a tree, by the ids of their nodes."""
        span = ids.span(tree_id)
        rows = await self._table.in_tree(db, span[0], MAX_MARKS) if span else []
        marks: dict[str, list[str]] = {}
        # Names are in order of creation.
        for name, node_id in reversed(rows):
            marks.setdefault(ids.text(node_id), []).append(name)
        return marks

    def create(
        self,
        tx: Tx,
        name: str,
        columns: ColumnsT,
        now: int,
        *,
        tree_id: str | None = None,
        node_id: str | None = None,
    ) -> RowT:
        """Create a head.

        Args:
            tx: The running transaction.
            name: The name of the head.
            columns: The columns that only this plugin's table has.
            now: The time in seconds.
            tree_id: The tree, or the first digits of its id; by default a new tree.
            node_id: A node of that tree, or the last digits of its id; by default the root.

        Raises:
            InvalidParams: There is a node without a tree.
            Conflict: The name is taken, or the tree is archived.
            NotFound, Ambiguous: No tree or no node of it matches, or several do.
        """
        head_id = ids.uuid4()
        owner = self.owner_of(head_id)
        if tree_id is not None:
            row = tree.writable(tx, tree_id)
            references.claim(tx, row, owner, 1, now)
        elif node_id is None:
            row = tree.create(tx, owner, now)
        else:
            raise InvalidParams("node_id needs tree_id")
        return self._insert(tx, NewHead(head_id, name, tree.place(tx, row, node_id), now), columns)

    def fork(
        self,
        tx: Tx,
        source: RowT,
        name: str,
        columns: ColumnsT,
        now: int,
        *,
        at: str | None = None,
    ) -> RowT:
        """Create a head on the tree of another one.

        Args:
            tx: The running transaction.
            source: The head to fork, as `reread` returns it.
            name: The name of the new head.
            columns: The columns that only this plugin's table has.
            now: The time in seconds.
            at: A node of the tree, or the last digits of its id; by default the source's node.

        Raises:
            Conflict: The name is taken, or the tree is archived.
            NotFound, Ambiguous: No node of the tree matches, or several do.
        """
        head_id = ids.uuid4()
        row = tree.find(tx, ids.text(source.tree_id))
        place = tree.place(tx, row, at or source.head_id)
        fork = self._insert(tx, NewHead(head_id, name, place, now), columns)
        references.claim(tx, row, self.owner_of(head_id), 1, now)
        return fork

    def move(self, tx: Tx, head: RowT, node_id: str, now: int) -> Position:
        """Move a head to another node of its tree. Return the new position.

        Raises:
            Conflict: The head is busy.
            NotFound, Ambiguous: The head was deleted; no node of its tree matches, or several do.
        """
        current = self.reread(tx, head)
        self.check_idle(tx, current)
        row = tree.find(tx, ids.text(current.tree_id))
        place = tree.place(tx, row, node_id)
        self._table.set_head(tx, current.key, place.key, now)
        return Position.at(row.id, place.id)

    def delete(self, tx: Tx, head: RowT, now: int) -> None:
        """Delete a head, and release its tree.

        Raises:
            Conflict: The head is busy.
            NotFound: The head was deleted already.
        """
        current = self.reread(tx, head)
        self.check_idle(tx, current)
        self._table.delete(tx, current.key)
        row = tree.find(tx, ids.text(current.tree_id))
        references.let_go(tx, row, self.owner_of(current.id), now)

    def check_idle(self, tx: Tx, head: RowT) -> None:
        """Refuse a change of a busy head.

        Raises:
            Conflict: The head is busy.
        """
        if self._table.is_busy(tx, head):
            raise self.busy(head)

    def busy(self, head: RowT) -> Conflict:
        """Return the error of a head that a chat uses."""
        return Conflict(
            f"{self._table.noun} '{head.name}' is busy", suggestion=self._table.busy_hint
        )

    def owner_of(self, head_id: bytes) -> str:
        """Return the name under which a head claims its tree."""
        return f"{self._table.owner}:{ids.text(head_id)}"

    def _insert(self, tx: Tx, new: NewHead, columns: ColumnsT) -> RowT:
        if self._table.is_taken(tx, new.name):
            raise Conflict(
                f"there is a {self._table.noun} named '{new.name}' already",
                suggestion="Choose another name",
            )
        self._table.insert(tx, new, columns)
        return self._table.find(tx, ids.text(new.id))


class ChatLocks(Generic[RowT]):
    """One lock for each head that is in use, for a plugin whose chats live in memory."""

    def __init__(self, heads: Heads[RowT, Any]) -> None:
        self._busy = heads.busy
        # By the id of a head; each lock is there while a call holds it or waits for it.
        self._locks: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()

    def lock(self, head: RowT) -> asyncio.Lock:
        """Return the lock that a chat holds until the head has moved."""
        return self._locks.setdefault(head.id, asyncio.Lock())

    @asynccontextmanager
    async def idle(self, head: RowT) -> AsyncIterator[None]:
        """Keep chats from starting while the block runs.

        Raises:
            Conflict: A chat uses the head, or waits for it.
        """
        lock = self.lock(head)
        try:
            # `locked()` does not tell whether another call waits for the lock.
            async with asyncio.timeout(0):
                await lock.acquire()
        except TimeoutError:
            raise self._busy(head) from None
        try:
            yield
        finally:
            lock.release()


def position(head: Head) -> Position:
    """Return the tree and the node of a head."""
    return Position.at(head.tree_id, head.head_id)


def now() -> int:
    """Return the time in seconds."""
    return int(time.time())
