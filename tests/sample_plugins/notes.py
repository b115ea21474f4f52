"""notes: short notes that outlive the session. A plugin as a third party writes it."""

from collections.abc import AsyncIterator
from uuid import UUID, uuid4

from hubd.activation import Activation, Event, Handle, NotFound, method, resolver


class NoteRef(Handle, method="add", kind="document", summary="{text}"):
    """A note."""

    id: UUID


class Added(Event, summary="added {ref}"):
    ref: NoteRef


class Note(Event, summary="{text}"):
    ref: NoteRef
    text: str


class Notes(Activation, namespace="notes", version="1.0.0", requires_api="1.0"):
    """Short notes that outlive the session."""

    migrations = ("CREATE TABLE notes_note (id TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT",)

    @method
    async def add(self, text: str) -> Added:
        """Store a note and return a handle to it.

        Args:
            text: The note's text.
        """
        ref = NoteRef(id=uuid4())
        await self.db.execute("INSERT INTO notes_note (id, text) VALUES (?, ?)", ref.id.hex, text)
        return Added(ref=ref)

    @method(read_only=True)
    async def latest(self, limit: int = 20) -> AsyncIterator[Note]:
        """Stream the newest notes first.

        Args:
            limit: Maximum number of notes.
        """
        sql = "SELECT id, text FROM notes_note ORDER BY rowid DESC LIMIT ?"
        async for row in self.db.iterate(sql, limit):
            yield Note(ref=NoteRef(id=UUID(row["id"])), text=row["text"])

    @resolver
    async def note(self, ref: NoteRef) -> Note:
        """Read the note that a handle points at."""
        row = await self.db.fetch_one("SELECT text FROM notes_note WHERE id = ?", ref.id.hex)
        if row is None:
            raise NotFound(f"there is no note {ref.id}")
        return Note(ref=ref, text=row["text"])
