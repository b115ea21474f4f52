"""file: the texts of snapshots for the search."""

import sqlite3
from pathlib import PurePath
from typing import Final
from uuid import UUID

from hubd.activation import Document, Reader, SearchSource
from hubd.plugins.file import store
from hubd.plugins.file.handles import SnapshotRef

# The first bytes of a content that are searched.
SEARCHED_BYTES: Final = 1024 * 1024


def source() -> SearchSource:
    """Return the snapshots: the path of each, and its content if that is text."""
    return SearchSource("snapshots", store.SEARCHED_SNAPSHOTS, _document)


def _document(row: sqlite3.Row, reader: Reader) -> Document:
    path = row["path"]
    ref = SnapshotRef(snapshot_id=UUID(bytes=row["id"]), name=PurePath(path).name)
    content = reader.content(row["digest"], SEARCHED_BYTES) if row["is_text"] else b""
    # The end may divide a character.
    text = f"{path} {content.decode(errors='ignore')}"
    return Document(str(ref), ref.kind if row["is_text"] else "binary", text, row["created_at"])
