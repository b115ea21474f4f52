"""web: the texts of fetched pages for the search."""

import sqlite3
from typing import Final
from uuid import UUID

from pydantic_core import from_json

from hubd.activation import Document, Reader, SearchSource
from hubd.plugins.web import store
from hubd.plugins.web.handles import FetchRef

# The stored text of a page has its links too. It is at most a few times as long as the page.
MAX_READABLE_BYTES: Final = 64 * 1024 * 1024


def source() -> SearchSource:
    """Return the pages: address, title, and the text if they have one."""
    return SearchSource("fetches", store.SEARCHED_FETCHES, _document)


def _document(row: sqlite3.Row, reader: Reader) -> Document:
    ref = FetchRef(fetch_id=UUID(bytes=row["id"]), status=row["status"])
    is_text = row["readable"] is not None
    content = reader.content(row["readable"], MAX_READABLE_BYTES) if is_text else b""
    text = from_json(content)["text"] if content else ""
    return Document(
        handle=str(ref),
        kind=ref.kind if is_text else "binary",
        text="\n".join((row["title"] or "", row["final_url"], text)),
        created_at=row["fetched_at"],
    )
