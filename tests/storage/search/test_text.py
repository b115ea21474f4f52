"""The text of documents and queries, and snippets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.errors import InvalidParams
from hubd.storage.search import times
from hubd.storage.search.text import (
    CUT,
    SNIPPET_CHARACTERS,
    fold,
    matches,
    prepare,
    snippet,
    terms_of,
)


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("one Two", ["one", "two"]),
        ('say "hello  World" now', ["say", "hello world", "now"]),
        ('an "open quote', ["an", '"open', "quote"]),
        ('"" " " \0', []),
        ("same SAME same", ["same"]),
        ("ΟΔΟΣ ὀδός İ", ["οδοσ", "ὀδόσ", "i"]),
        ("cafe\u0301", ["café"]),
        ("\ud800", ["?"]),
    ],
)
def test_a_query_is_words_and_quoted_phrases(query: str, terms: list[str]) -> None:
    assert terms_of(query) == terms


@given(st.text())
def test_folding_keeps_the_place_of_every_character(text: str) -> None:
    prepared = prepare(text)
    assert len(fold(prepared)) == len(prepared)
    assert fold(fold(prepared)) == fold(prepared)


@given(st.text(min_size=1), st.text(), st.text())
def test_a_snippet_shows_the_term_and_its_place(term: str, before: str, after: str) -> None:
    text = prepare(f"{before} {term} {after}")
    terms = terms_of(f'"{term}"') or ["e"]
    if not matches(fold(text), terms):
        return
    part = snippet(text, fold(text), terms)
    assert len(part.text) <= SNIPPET_CHARACTERS + 2 * len(CUT)
    assert part.text.strip(CUT) in text
    if len(terms[0]) < SNIPPET_CHARACTERS // 2:
        # Places that touch each other are one.
        assert any(terms[0] in fold(part.text[start:end]) for start, end in part.matches)


def test_times_are_seconds_dates_or_ages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000_000.0)
    assert times.first_second(5, "since") == 5
    assert times.first_second("1767000000", "since") == 1767000000
    assert times.first_second("2d", "since") == 1_000_000 - 2 * 86400
    assert times.first_second("1970-01-02T00:00:00+00:00", "since") == 86400
    first, last = (read("2026-01-31", "since") for read in (times.first_second, times.last_second))
    assert first is not None
    assert last == first + 86400 - 1
    assert times.first_second(None, "since") is times.last_second(None, "until") is None
    for wrong in ("soon", "9999999999999999999d", "2026-13-01", "-"):
        with pytest.raises(InvalidParams, match="is not a time"):
            times.first_second(wrong, "since")
