"""The index against a search of every text, and its small parts."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.storage.search import indexing
from hubd.storage.search.index import NUMBERS_PER_SECOND, Entry, Index, index_path
from hubd.storage.search.searching import Filters, search
from hubd.storage.search.source import Document, Reader, SearchSource
from hubd.storage.search.text import fold, prepare, terms_of
from tests.support import examples

SOURCES = {
    "notes": SearchSource(
        "notes",
        "SELECT key, id, text FROM notes",
        lambda row, reader: Document(str(row["key"]), "document", row["text"], row["key"]),
    )
}
# A second in which no note was written.
LATE = 1_700_000_000
TEXTS = st.text(alphabet="abAB 中文字 é\u0301\"'*%\n", max_size=12)


class Notes:
    """A database with notes, and its index."""

    def __init__(self, directory: str) -> None:
        self._path = Path(directory, "hub.db")
        self.database = sqlite3.connect(self._path, isolation_level=None)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute("PRAGMA synchronous = OFF")
        self.database.execute(
            "CREATE TABLE notes (key INTEGER PRIMARY KEY, id BLOB DEFAULT (randomblob(16)), text)"
        )
        self.index = Index(index_path(self._path))
        self._reader = Reader(self._path)

    def add(self, text: str) -> int:
        key = self.database.execute("INSERT INTO notes (text) VALUES (?)", (text,)).lastrowid
        assert key is not None
        return key

    def texts(self) -> dict[int, str]:
        return dict(self.database.execute("SELECT key, text FROM notes"))

    def catch_up(self) -> None:
        while indexing.step(self.index, self._reader, SOURCES):
            pass

    def search(self, query: str) -> list[int]:
        path, terms = index_path(self._path), terms_of(query)
        outcome = search(path, self._path, SOURCES, terms, Filters(), 1000)
        return sorted(int(hit.document.handle) for hit in outcome.hits)

    def close(self) -> None:
        self._reader.close()
        self.index.close()
        self.database.close()


@pytest.fixture(scope="module")
def notes() -> Iterator[Notes]:
    with TemporaryDirectory() as directory, closing(Notes(directory)) as opened:
        yield opened


@examples(25)
@given(st.lists(TEXTS, max_size=12), st.lists(TEXTS.filter(terms_of), min_size=1, max_size=5))
def test_the_index_finds_the_same_as_a_search_of_every_text(
    notes: Notes, texts: list[str], queries: list[str]
) -> None:
    notes.database.execute("DELETE FROM notes")
    for text in texts:
        notes.add(text)
    notes.catch_up()
    for query in queries:
        expected = [
            key
            for key, text in notes.texts().items()
            if all(term in fold(prepare(text)) for term in terms_of(query))
        ]
        assert notes.search(query) == expected, query


@examples(40)
@given(st.lists(st.integers(-4, 4), max_size=20))
def test_rows_whose_keys_are_used_again_are_indexed_once(notes: Notes, steps: list[int]) -> None:
    """A positive number adds notes, a negative one deletes the last, zero indexes."""
    for step in steps:
        for _ in range(step):
            notes.add("needle")
        for _ in range(-step):
            notes.database.execute("DELETE FROM notes WHERE key = (SELECT max(key) FROM notes)")
        if step == 0:
            notes.catch_up()
    notes.catch_up()
    expected = [key for key, text in notes.texts().items() if "needle" in text]
    assert notes.search("needle") == expected
    assert notes.index.documents == len([text for text in notes.texts().values() if text])


def test_more_documents_than_a_second_has_numbers_go_into_the_next(notes: Notes) -> None:
    with notes.index.writing():
        notes.index._connection.execute(
            "INSERT INTO search_documents (number, source, key, id, kind)"
            " VALUES (?, 'x', 1, x'', '')",
            (LATE * NUMBERS_PER_SECOND - 1,),
        )
        notes.index.add([Entry("x", 2, b"", Document("h", "document", "text", LATE - 1))])
        sql = "SELECT number FROM search_documents WHERE source = 'x' AND key = 2"
        assert notes.index._connection.execute(sql).fetchone() == (LATE * NUMBERS_PER_SECOND,)
        notes.index.discard("x", [1, 2])
