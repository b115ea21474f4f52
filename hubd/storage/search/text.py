"""The text of a document and of a query, in the form in which they are compared. No I/O.

A query matches a document if all its terms occur in the document's text. Case, the form of
composed characters and the kind of white space do not count.
"""

import re
import unicodedata
from typing import Final, NamedTuple

from hubd.wire.lazy_pattern import lazy_pattern

# Characters of a document that are searched; the rest of a longer text is ignored.
MAX_CHARACTERS: Final = 1024 * 1024
MAX_TERMS: Final = 32
# Characters of a snippet, and those of them in front of the match.
SNIPPET_CHARACTERS: Final = 160
SNIPPET_BEFORE: Final = 50
CUT: Final = "…"
# The length of a text that is neither long nor short.
USUAL_CHARACTERS: Final = 500
# Places of a term that are checked for being a whole word.
CHECKED_PLACES: Final = 20

_TERM: Final = lazy_pattern(r'"([^"]*)"|(\S+)')


class Snippet(NamedTuple):
    """A part of a text with a match."""

    text: str
    # The places of the terms in the text: first character, and the one after the last.
    matches: list[tuple[int, int]]


def prepare(text: str) -> str:
    """Return the searched text: composed characters, and single spaces as white space."""
    text = text[:MAX_CHARACTERS].replace("\0", " ")
    if not text.isascii():
        # SQLite stores no lone surrogates.
        text = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode())
    return " ".join(text.split())


def fold(text: str) -> str:
    """Return the text without the difference of case. Every character keeps its place."""
    folded = text.lower()
    if len(folded) != len(text):
        # The only letter with a longer lower case.
        folded = text.replace("İ", "i").lower()
    return folded.replace("ς", "σ")


def terms_of(query: str) -> list[str]:
    """Return the terms of a query: words, and phrases in double quotes.

    A quote without a partner is an ordinary character.
    """
    prepared = fold(prepare(query))
    # A space at the end of a phrase would not match at the end of a text.
    written = ((phrase or word).strip() for phrase, word in _TERM.findall(prepared))
    return list(dict.fromkeys(term for term in written if term))


def matches(folded: str, terms: list[str]) -> bool:
    """Return whether a folded text has all terms."""
    return all(term in folded for term in terms)


def score(folded: str, terms: list[str]) -> float:
    """Return the rank of a text that has all terms; a larger one is better.

    A term counts more if it occurs often, if it is a whole word, and if the text is short. More
    than a few occurrences add little, as in BM25.
    """
    length = 0.25 + 0.75 * len(folded) / USUAL_CHARACTERS
    total = 0.0
    for term in terms:
        count = folded.count(term) * (2 if _has_word(folded, term) else 1)
        total += 2.2 * count / (count + 1.2 * length)
    return total / len(terms)


def _has_word(folded: str, term: str) -> bool:
    """Return whether one of the first places of a term is a whole word."""
    start = -1
    for _ in range(CHECKED_PLACES):
        start = folded.find(term, start + 1)
        if start < 0:
            return False
        end = start + len(term)
        around = folded[max(start - 1, 0) : start] + folded[end : end + 1]
        if not any(character.isalnum() or character == "_" for character in around):
            return True
    return False


def snippet(prepared: str, folded: str, terms: list[str]) -> Snippet:
    """Return the part of a text around the first place of the longest term."""
    first = max(folded.find(max(terms, key=len)), 0)
    start = max(first - SNIPPET_BEFORE, 0)
    end = start + SNIPPET_CHARACTERS
    if end >= len(prepared):
        end = len(prepared)
        start = max(end - SNIPPET_CHARACTERS, 0)
    before = CUT if start else ""
    after = CUT if end < len(prepared) else ""
    part = folded[start:end]
    places = sorted(
        (match.start() + len(before), match.end() + len(before))
        for term in terms
        for match in re.finditer(re.escape(term), part)
    )
    return Snippet(f"{before}{prepared[start:end]}{after}", _without_overlaps(places))


def _without_overlaps(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join places that overlap."""
    joined: list[tuple[int, int]] = []
    for start, end in places:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
