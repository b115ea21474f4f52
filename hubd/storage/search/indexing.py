"""Bring the index up to date with the sources, in small steps that a thread runs.

Keys of a table ascend, but the key of its last row is used again after the row was deleted. So the
index compares the id of the last row that it has seen. If the row is gone, it goes back to the
newest document that still exists: no key before that one can have been used again.
"""

import json
import logging
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Final

from hubd.storage.search.changes import Change
from hubd.storage.search.index import Cursor, Entry, Index
from hubd.storage.search.source import Document, Reader, SearchSource, Unfinished

log = logging.getLogger(__name__)

# Rows and characters of one step. A step is one transaction of the index.
STEP_ROWS: Final = 200
STEP_CHARACTERS: Final = 128 * 1024
# Rows that are checked at a time for their existence.
CHECKED_ROWS: Final = 500

Sources = Mapping[str, SearchSource]


def step(index: Index, reader: Reader, sources: Sources) -> bool:
    """Index the next rows of every source. Return whether there may be more."""
    more = [_advance(index, reader, name, source) for name, source in sources.items()]
    return any(more)


def finish(index: Index, reader: Reader, sources: Sources) -> None:
    """Read the rows with unfinished texts again."""
    for name, source in sources.items():
        keys = index.unfinished(name)
        for start in range(0, len(keys), CHECKED_ROWS):
            _index_again(index, reader, name, source, keys[start : start + CHECKED_ROWS])


def apply_changes(
    index: Index, reader: Reader, sources: Sources, changes: Iterable[Change]
) -> None:
    """Read changed rows again."""
    keys: dict[str, list[int]] = {}
    for change in changes:
        keys.setdefault(change.source, []).append(change.key)
    for name in keys.keys() & sources.keys():
        _index_again(index, reader, name, sources[name], keys[name])


def sweep(index: Index, reader: Reader, name: str, source: SearchSource, before: int) -> int | None:
    """Remove documents without a row, before a key. Return the next key, None at the end."""
    positions = index.positions(name, before=before, limit=CHECKED_ROWS)
    if not positions:
        return None
    ids = _ids(reader, source, [position.key for position in positions])
    gone = [key for key, row_id in positions if ids.get(key) != row_id]
    with index.writing():
        index.discard(name, gone)
    return positions[-1].key


def rows_waiting(index: Index, reader: Reader, sources: Sources) -> int:
    """Return how many keys of all sources are not indexed yet."""
    total = 0
    for name, source in sources.items():
        # Unlike max(), this reads only the last row of a join.
        for (last,) in reader.rows(f"SELECT key FROM ({source.rows}) ORDER BY key DESC LIMIT 1"):
            total += max(last - index.cursor(name).key, 0)
    return total


def read_rows(
    reader: Reader, source: SearchSource, keys: Sequence[int]
) -> dict[int, tuple[bytes, Document | Unfinished | None]]:
    """Return the id and the document of each row that exists."""
    rows = reader.rows(
        f"SELECT * FROM ({source.rows}) WHERE key IN (SELECT value FROM json_each(?))",
        json.dumps(list(keys)),
    )
    return {row["key"]: (row["id"], _read(reader, source, row)) for row in rows}


def _advance(index: Index, reader: Reader, name: str, source: SearchSource) -> bool:
    """Index the next rows of a source. Return whether there may be more."""
    cursor = _verified(index, reader, name, source)
    entries: list[Entry] = []
    unfinished: list[int] = []
    last, count, characters = cursor, 0, 0
    sql = f"SELECT * FROM ({source.rows}) WHERE key > ? ORDER BY key LIMIT ?"
    with closing(reader.rows(sql, cursor.key, STEP_ROWS)) as rows:
        # One by one, because a page of long texts would fill the memory.
        for row in rows:
            last, count = Cursor(row["key"], row["id"]), count + 1
            document = _read(reader, source, row)
            if isinstance(document, Unfinished):
                unfinished.append(last.key)
            elif isinstance(document, Document) and document.text:
                entries.append(Entry(name, last.key, row["id"], document))
                characters += len(document.text)
                if characters >= STEP_CHARACTERS:
                    break
    if last == cursor:
        return False
    with index.writing():
        index.add(entries)
        for key in unfinished:
            index.set_unfinished(name, key, unfinished=True)
        index.set_cursor(name, last)
    return count == STEP_ROWS or characters >= STEP_CHARACTERS


def _verified(index: Index, reader: Reader, name: str, source: SearchSource) -> Cursor:
    """Return the position of a source; go back if its row was deleted."""
    cursor = index.cursor(name)
    if cursor.id is None or _ids(reader, source, [cursor.key]).get(cursor.key) == cursor.id:
        return cursor
    before, back = cursor.key + 1, Cursor(0, None)
    while positions := index.positions(name, before=before, limit=CHECKED_ROWS):
        ids = _ids(reader, source, [position.key for position in positions])
        kept = next((each for each in positions if ids.get(each.key) == each.id), None)
        if kept is not None:
            back = Cursor(*kept)
            break
        before = positions[-1].key
    with index.writing():
        index.discard_after(name, back.key)
        index.set_cursor(name, back)
    return back


def _index_again(
    index: Index, reader: Reader, name: str, source: SearchSource, keys: Sequence[int]
) -> None:
    """Replace the documents of rows that the index has passed."""
    passed = [key for key in keys if key <= index.cursor(name).key]
    rows = read_rows(reader, source, passed)
    with index.writing():
        for key in passed:
            row_id, document = rows.get(key, (b"", None))
            if isinstance(document, Unfinished):
                continue
            index.set_unfinished(name, key, unfinished=False)
            index.discard(name, [key])
            if isinstance(document, Document) and document.text:
                index.add([Entry(name, key, row_id, document)])


def _ids(reader: Reader, source: SearchSource, keys: Sequence[int]) -> dict[int, bytes]:
    """Return the ids of the rows that exist."""
    rows = reader.rows(
        f"SELECT key, id FROM ({source.rows}) WHERE key IN (SELECT value FROM json_each(?))",
        json.dumps(list(keys)),
    )
    return {row["key"]: row["id"] for row in rows}


def _read(reader: Reader, source: SearchSource, row: sqlite3.Row) -> Document | Unfinished | None:
    try:
        return source.read(row, reader)
    except sqlite3.Error:
        raise
    except Exception:
        log.exception("the source %s can't read its row %s", source.name, row["key"])
        return None
