"""A plugin whose rows the search finds: notes that can grow, change and be deleted."""

import sqlite3
from collections.abc import Sequence
from typing import Literal
from uuid import UUID, uuid4

from hubd.activation import (
    Activation,
    Document,
    Event,
    Handle,
    NotFound,
    Reader,
    SearchSource,
    Tx,
    Unfinished,
    method,
    resolver,
)


class NoteRef(Handle, method="note", kind="document", summary="{text}"):
    """A note."""

    id: UUID


class Note(Event):
    """A note."""

    ref: NoteRef
    text: str


class Searched(Activation, namespace="searched", version="1.0.0"):
    """Notes."""

    migrations = (
        """
        CREATE TABLE searched_notes (
            key INTEGER PRIMARY KEY,
            id BLOB NOT NULL,
            text TEXT NOT NULL,
            growing INTEGER NOT NULL,
            session TEXT,
            role TEXT,
            tool TEXT,
            created_at INTEGER NOT NULL
        ) STRICT
        """,
    )

    def search_sources(self) -> Sequence[SearchSource]:
        """Return the notes."""
        return (SearchSource("notes", "SELECT * FROM searched_notes", _document),)

    @method
    async def add(
        self,
        text: str,
        at: int = 0,
        growing: bool = False,
        session: str | None = None,
        role: Literal["user", "assistant"] | None = None,
        tool: str | None = None,
    ) -> Note:
        """Store a note."""
        ref = NoteRef(id=uuid4())
        await self.db.execute(
            "INSERT INTO searched_notes (id, text, growing, session, role, tool, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            ref.id.bytes,
            text,
            growing,
            session,
            role,
            tool,
            at,
        )
        return Note(ref=ref, text=text)

    @method
    async def change(self, ref: NoteRef, text: str) -> Note:
        """Replace a finished note."""

        def update(tx: Tx) -> None:
            row = tx.fetch_one("SELECT key FROM searched_notes WHERE id = ?", ref.id.bytes)
            assert row is not None
            sql = "UPDATE searched_notes SET text = ?, growing = 0 WHERE key = ?"
            tx.execute(sql, text, row["key"])
            self.search_row_changed(tx, "notes", row["key"])

        await self.db.transaction(update)
        return Note(ref=ref, text=text)

    @method
    async def finish(self, ref: NoteRef, text: str) -> Note:
        """Complete a note that grows."""
        sql = "UPDATE searched_notes SET text = ?, growing = 0 WHERE id = ?"
        await self.db.execute(sql, text, ref.id.bytes)
        return Note(ref=ref, text=text)

    @method
    async def delete(self, ref: NoteRef) -> Note:
        """Remove a note."""
        await self.db.execute("DELETE FROM searched_notes WHERE id = ?", ref.id.bytes)
        return Note(ref=ref, text="")

    @resolver
    async def note(self, ref: NoteRef) -> Note:
        """Read a note."""
        sql = "SELECT text FROM searched_notes WHERE id = ?"
        row = await self.db.fetch_one(sql, ref.id.bytes)
        if row is None:
            raise NotFound(f"no note {ref.id}")
        return Note(ref=ref, text=row["text"])


def _document(row: sqlite3.Row, reader: Reader) -> Document | Unfinished:
    if row["growing"]:
        return Unfinished()
    return Document(
        handle=str(NoteRef(id=UUID(bytes=row["id"]))),
        kind="document",
        text=row["text"],
        created_at=row["created_at"],
        session=row["session"],
        session_id=row["session"] and f"0123456789-{row['session']}",
        role=row["role"],
        tool=row["tool"],
    )
