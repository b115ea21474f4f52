"""bash: the commands and their outputs for the search."""

import sqlite3
from typing import Final
from uuid import UUID

from hubd.activation import Document, Reader, SearchSource, Unfinished
from hubd.plugins.bash import store
from hubd.plugins.bash.handles import ExecutionRef

# The first characters of stderr that are searched, so that a long one leaves room for stdout.
STDERR_CHARACTERS: Final = 256 * 1024


def source() -> SearchSource:
    """Return the executions that have ended."""
    return SearchSource("executions", store.SEARCHED_EXECUTIONS, _document)


def _document(row: sqlite3.Row, reader: Reader) -> Document | Unfinished:
    if row["status"] == "running":
        return Unfinished()
    ref = ExecutionRef(execution_id=UUID(bytes=row["id"]), exit_code=row["exit_code"])
    stdout, stderr = (
        reader.text(row[name]) if row[name] is not None else "" for name in ("stdout", "stderr")
    )
    text = f"{row['command']}\n{stderr[:STDERR_CHARACTERS]}\n{stdout}"
    return Document(str(ref), ref.kind, text, row["started_at"])
