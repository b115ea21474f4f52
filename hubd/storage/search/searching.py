"""Answer a query from the index, in a thread, within a bounded time.

The full-text table finds the documents with all terms, the newest first. Each is read from its
source again: so a deleted document is never shown, and the text of the snippet is the current one.
Only the newest matches are read and ranked, so the time of a search does not grow with the
number of matches. FTS5's own rank would need all of them.

A term of one or two characters becomes the tokens of three characters that begin with it. Without
a full-text table, and if there are too many such tokens, documents are read one by one, the newest
first.
"""

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from hubd.storage.errors import code_of
from hubd.storage.ids import MIN_PREFIX
from hubd.storage.search.index import (
    LAST_SECOND,
    NUMBERS_PER_SECOND,
    open_for_reading,
    token,
)
from hubd.storage.search.indexing import Sources, read_rows
from hubd.storage.search.source import Document, Reader
from hubd.storage.search.text import fold, matches, prepare, score, snippet

# The newest matches that are ranked: this many, and fewer if their texts are long. A search for
# more hits ranks as many as it returns.
MAX_RANKED: Final = 100
RANKED_CHARACTERS: Final = 512 * 1024
# Documents that are read for a query that the full-text table can't answer.
MAX_SCANNED: Final = 20_000
# Seconds after which a search ends with the hits so far.
SECONDS: Final = 3.0
# Tokens that replace a short term. A search with more reads the documents instead.
MAX_TOKENS: Final = 100
# The length of a token.
TOKEN: Final = 3
# Documents that are read at a time: few at first, because they may be long.
READ_FIRST: Final = 4
READ_AT_ONCE: Final = 16
# Seconds of rest between them. Without it, the event loop would wait for the interpreter's lock.
PAUSE_SECONDS: Final = 0.0001
# Steps of SQLite between two checks of the time.
STEPS_PER_CHECK: Final = 5_000
FIRST_CHARACTER: Final = "\x01"
LAST_CHARACTER: Final = "\U0010ffff"
# Matches nothing: a text has no line breaks, and ends with two.
NO_TEXT: Final = '"\n\n\n"'


class Filters(NamedTuple):
    """The documents to search. None means all."""

    # The name of a session, its id, or the first digits of the id.
    session: str | None = None
    role: str | None = None
    tool: str | None = None
    kind: str | None = None
    # The first and the last second.
    since: int | None = None
    until: int | None = None


class Hit(NamedTuple):
    """A document with all terms."""

    document: Document
    snippet: str
    matches: list[tuple[int, int]]
    score: float


class Outcome(NamedTuple):
    """The hits of a search, the best first."""

    hits: list[Hit]
    # The reason why there may be more hits; None if there are none.
    stopped: str | None
    # Rows of documents that are gone, to be removed from the index.
    gone: list[tuple[str, int]]


class _Candidate(NamedTuple):
    """A document that the index has."""

    source: str
    key: int
    id: bytes


def search(
    path: Path, database: Path, sources: Sources, terms: list[str], filters: Filters, limit: int
) -> Outcome:
    """Return the documents with all terms.

    Args:
        path: The index.
        database: The database.
        sources: The sources by their names.
        terms: The terms, as `terms_of` returns them.
        filters: The documents to search.
        limit: Maximum number of hits.
    """
    connection = open_for_reading(path)
    if connection is None:
        return Outcome([], None, [])
    with closing(connection), closing(Reader(database)) as reader:
        run = _Search(connection, reader, sources, terms, filters)
        return run.outcome(limit)


class _Search:
    """One search."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        reader: Reader,
        sources: Sources,
        terms: list[str],
        filters: Filters,
    ) -> None:
        self._connection = connection
        self._reader = reader
        self._sources = sources
        self._terms = terms
        self._filters = filters
        self._until = time.monotonic() + SECONDS
        self._stopped: str | None = None
        self._gone: list[tuple[str, int]] = []
        sql = "SELECT 1 FROM sqlite_schema WHERE name = 'search_text'"
        self._has_full_text = connection.execute(sql).fetchone() is not None
        connection.set_progress_handler(self._is_late, STEPS_PER_CHECK)

    def outcome(self, limit: int) -> Outcome:
        """Return the best of the newest hits."""
        expression = self._expression() if self._has_full_text else None
        if expression is None:
            hits = self._hits(self._newest(), limit, 0)
        else:
            hits = self._hits(self._matching(expression), max(limit, MAX_RANKED), limit)
            # The sort is stable: of equal hits, the newest is first.
            hits.sort(key=lambda hit: -hit.score)
        return Outcome(hits[:limit], self._stopped, self._gone)

    def _hits(self, candidates: Iterator[_Candidate], count: int, enough: int) -> list[Hit]:
        """Return the first hits among the candidates.

        Args:
            candidates: The documents to read.
            count: Maximum number of hits.
            enough: Number of hits that is enough if their texts are long. 0: ranks are not needed.
        """
        hits: list[Hit] = []
        characters = read = 0
        size = min(READ_FIRST, MAX_SCANNED)
        while page := tuple(islice(candidates, size)):
            time.sleep(PAUSE_SECONDS)
            read += len(page)
            size = min(2 * size, READ_AT_ONCE, MAX_SCANNED - read)
            for document in self._read(page):
                characters += len(document.text)
                if (hit := self._hit(document, ranked=enough > 0)) is not None:
                    hits.append(hit)
            is_enough = 0 < enough <= len(hits) and characters >= RANKED_CHARACTERS
            if len(hits) >= count or is_enough:
                del hits[count:]
                if enough and next(candidates, None) is not None:
                    self._stopped = f"only the newest {len(hits):,} were ranked"
                return hits
            if self._is_late():
                self._stop_late()
                break
            if size == 0:
                if next(candidates, None) is not None:
                    self._stopped = f"only the newest {MAX_SCANNED:,} documents were read"
                break
        return hits

    def _expression(self) -> str | None:
        """Return the query of the full-text table; None if it can't answer."""
        alternatives = []
        for term in self._terms:
            tokens = [term] if len(term) >= TOKEN else self._tokens(term)
            if len(tokens) > MAX_TOKENS:
                continue  # The documents are read anyway, which checks the term.
            alternatives.append(_any("text", tokens))
        alternatives += self._filter_expressions()
        return " AND ".join(alternatives) or None

    def _tokens(self, term: str) -> list[str]:
        """Return the tokens that begin with a short term."""
        tokens: list[str] = []
        after = term
        while len(tokens) <= MAX_TOKENS:
            # One by one, because a query for all would read all places of each token.
            rows = self._rows(
                "SELECT term FROM search_terms WHERE term >= ? AND term <= ? LIMIT 1",
                [after, term + LAST_CHARACTER * TOKEN],
            )
            if (row := next(rows, None)) is None:
                break
            tokens.append(row[0])
            after = row[0] + FIRST_CHARACTER
        return tokens

    def _filter_expressions(self) -> Iterator[str]:
        """Yield the expressions of the filters, which the tags of the documents fulfil."""
        for field in ("kind", "role", "tool"):
            if (value := getattr(self._filters, field)) is not None:
                yield self._tagged(field, value, value)
        if (session := self._filters.session) is not None:
            first = last = session.lower()
            if len(session) >= MIN_PREFIX:
                last += LAST_CHARACTER
            named = self._tagged("session", session, session)
            yield f"({named} OR {self._tagged('session_id', first, last)})"

    def _tagged(self, field: str, first: str, last: str) -> str:
        """Return the expression for documents with one of these values in a field."""
        tags = self._rows(
            "SELECT number FROM search_tags WHERE field = ? AND value >= ? AND value <= ?",
            [field, first, last],
        )
        return _any(field, [token(tag) for (tag,) in tags])

    def _matching(self, expression: str) -> Iterator[_Candidate]:
        """Yield the documents that match, the newest first."""
        # The time limits the full-text table too, which reads its last numbers first.
        conditions, values = _conditions(self._filters, "search_text.rowid")
        rows = self._rows(
            "SELECT d.source, d.key, d.id"
            " FROM search_text CROSS JOIN search_documents AS d ON d.number = search_text.rowid"
            f" WHERE search_text MATCH ? AND {conditions} ORDER BY search_text.rowid DESC",
            [expression, *values],
        )
        yield from map(_Candidate._make, rows)

    def _newest(self) -> Iterator[_Candidate]:
        """Yield all documents, the newest first."""
        conditions, values = _conditions(self._filters, "d.number")
        rows = self._rows(
            "SELECT d.source, d.key, d.id FROM search_documents AS d"
            f" WHERE {conditions} ORDER BY d.number DESC",
            values,
        )
        yield from map(_Candidate._make, rows)

    def _read(self, page: tuple[_Candidate, ...]) -> Iterator[Document]:
        """Yield the documents of a page that still exist, in the order of the page."""
        keys: dict[str, list[int]] = {}
        for candidate in page:
            keys.setdefault(candidate.source, []).append(candidate.key)
        rows = {
            name: read_rows(self._reader, self._sources[name], wanted)
            for name, wanted in keys.items()
            # The plugin of a source may be missing today.
            if name in self._sources
        }
        for candidate in page:
            if candidate.source not in rows:
                continue
            row_id, document = rows[candidate.source].get(candidate.key, (None, None))
            if row_id != candidate.id:
                self._gone.append((candidate.source, candidate.key))
            elif isinstance(document, Document) and not document.hidden:
                yield document

    def _hit(self, document: Document, *, ranked: bool) -> Hit | None:
        text = prepare(document.text)
        folded = fold(text)
        # The document may have changed since it was indexed.
        if not matches(folded, self._terms):
            return None
        part = snippet(text, folded, self._terms)
        rank = score(folded, self._terms) if ranked else 0.0
        # A thousand long texts would fill the memory.
        return Hit(document._replace(text=""), part.text, part.matches, rank)

    def _rows(self, sql: str, values: list[str | int]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query until the time is over."""
        try:
            yield from self._connection.execute(sql, values)
        except sqlite3.OperationalError as error:
            if code_of(error) != sqlite3.SQLITE_INTERRUPT:
                raise
            self._stop_late()

    def _is_late(self) -> bool:
        return time.monotonic() > self._until

    def _stop_late(self) -> None:
        self._stopped = f"the search ended after {SECONDS:g} s"


def _conditions(filters: Filters, number: str) -> tuple[str, list[str | int]]:
    """Return the SQL conditions of filters, and their values.

    Args:
        filters: The filters.
        number: The column with the number of the document.
    """
    first = min(max(filters.since or 0, 0), LAST_SECOND + 1)
    last = LAST_SECOND if filters.until is None else min(max(filters.until, -1), LAST_SECOND)
    conditions = [f"{number} >= ?", f"{number} < ?", "d.source IS NOT NULL"]
    values: list[str | int] = [first * NUMBERS_PER_SECOND, (last + 1) * NUMBERS_PER_SECOND]
    for name in ("role", "tool", "kind"):
        if (value := getattr(filters, name)) is not None:
            conditions.append(f"d.{name} = ?")
            values.append(value)
    if filters.session is not None:
        session = filters.session
        conditions.append("(d.session = ? OR d.session_id = ? OR substr(d.session_id, 1, ?) = ?)")
        length = len(session) if len(session) >= MIN_PREFIX else -1
        values += [session, session.lower(), length, session.lower()]
    return " AND ".join(conditions), values


def _any(column: str, texts: Iterable[str]) -> str:
    """Return FTS5's expression for documents with at least one of the texts in a column."""
    quoted = ('"' + text.replace('"', '""') + '"' for text in texts)
    return f"{column} : ({' OR '.join(quoted) or NO_TEXT})"
