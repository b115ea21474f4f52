"""The events of file's methods. Times are in seconds, sizes in bytes."""

from typing import Annotated

from pydantic import BaseModel, Field

from hubd.activation import Event, columns
from hubd.plugins.file.handles import SnapshotRef

Digest = Annotated[str, Field(description="The SHA-256 of the content, in hex digits")]
Modified = Annotated[int, Field(description="The time of the file's last change")]
Changed = Annotated[
    bool, Field(description="Whether the file changed while it was read, in three attempts")
]
Truncated = Annotated[
    bool, Field(description="Whether the content is longer; `get` reads all of it")
]


class Snapshot(Event, summary="{path} ({size} bytes)"):
    """A copy of a file."""

    handle: SnapshotRef
    snapshot_id: str
    path: str
    name: str
    size: int
    digest: Digest
    mime_type: str
    is_text: bool = Field(description="Whether the content is UTF-8 without NUL")
    modified_at: Modified
    changed: Changed
    created_at: int


class Text(Event, summary="{text}"):
    """A piece of a text. Pieces end between two characters."""

    offset: int = Field(description="The position of the first byte")
    text: str


class Bytes(Event, summary="bytes from {offset}"):
    """A piece of a content that is not text."""

    offset: int = Field(description="The position of the first byte")
    base64: str


class SnapshotEntry(BaseModel, defer_build=True):
    """A snapshot in a list."""

    snapshot_id: str
    path: str
    name: str
    size: int
    mime_type: str
    digest: Digest
    created_at: int
    handle: SnapshotRef


class Snapshots(Event):
    """A page of snapshots, the newest first."""

    snapshots: list[SnapshotEntry] = Field(
        json_schema_extra=columns(
            id="{snapshot_id:.8}",
            path="{path}",
            size="{size}",
            type="{mime_type}",
            created="{created_at}",
        )
    )


class Diff(Event, summary="+{added} -{removed}"):
    """The difference of two contents."""

    identical: bool
    text: str | None = Field(
        description="A unified diff; null if the contents are identical, not text, or too large"
    )
    added: int | None = Field(description="Lines that only the second text has")
    removed: int | None = Field(description="Lines that only the first text has")
    truncated: bool = Field(description="Whether lines of the diff were left out")
    first: str = Field(description="The first content: the path and the snapshot's id")
    second: str = Field(description="The second content: the path, and the id of a snapshot")
    sizes: tuple[int, int]


class Restored(Event, summary="restored {path} ({size} bytes)"):
    """A file that was written."""

    path: str
    size: int
    digest: Digest
    handle: SnapshotRef


class SnapshotDeleted(Event, summary="deleted {snapshot_id}"):
    """A deleted snapshot."""

    snapshot_id: str
    path: str


class Document(Event, summary="{path} ({size} bytes)"):
    """The text of a snapshot."""

    handle: SnapshotRef
    path: str
    name: str
    size: int
    digest: Digest
    mime_type: str
    modified_at: Modified
    changed: Changed
    created_at: int
    truncated: Truncated
    text: str


class Binary(Event, summary="{path} ({size} bytes)", kind="binary"):
    """The content of a snapshot that is not text."""

    handle: SnapshotRef
    path: str
    name: str
    size: int
    digest: Digest
    mime_type: str
    modified_at: Modified
    changed: Changed
    created_at: int
    truncated: Truncated
    base64: str
