"""file: the texts of snapshots for the search."""

import sqlite3
from pathlib import PurePath
from uuid import UUID

from hubd.activation import Document, Reader, SearchSource
from hubd.plugins.file import store
from hubd.plugins.file.handles import SnapshotRef


def source() -> SearchSource:
    """Return the snapshots: the path of each, and its content if that is text."""
    return SearchSource("snapshots", store.SEARCHED_SNAPSHOTS, _document)


def _document(row: sqlite3.Row, reader: Reader) -> Document:
    path = row["path"]
    ref = SnapshotRef(snapshot_id=UUID(bytes=row["id"]), name=PurePath(path).name)
    text = f"{path}\n{reader.text(row['digest'])}" if row["is_text"] else path
    return Document(str(ref), ref.kind if row["is_text"] else "binary", text, row["created_at"])
