"""Globs: `*` is any text, `?` one character, `[…]` one of several; anchored at both ends.

A backslash is an ordinary character. `[*]`, `[?]` and `[[]` are the characters themselves.
"""

import re
from fnmatch import translate
from functools import lru_cache
from typing import Final

from hubd.wire.lazy_pattern import lazy_pattern

_WILDCARD: Final = lazy_pattern(r"[*?[]")
_ESCAPED: Final = lazy_pattern(r"\[([*?[])\]")


def escape(text: str) -> str:
    """Return the glob that matches only this text."""
    return _WILDCARD.sub(r"[\g<0>]", text)


@lru_cache(maxsize=4096)
def literal(glob: str) -> str | None:
    """Return the only text that a glob matches; None if it has wildcards."""
    if _WILDCARD.search(_ESCAPED.sub("", glob)):
        return None
    return _ESCAPED.sub(r"\1", glob)


def matches(glob: str, text: str) -> bool:
    """Return whether a glob matches the whole text."""
    only = literal(glob)
    return text == only if only is not None else _compiled(glob).match(text) is not None


def loosely_matches(glob: str, text: str) -> bool:
    """Return the same without regard to letter case, as some file systems do."""
    return matches(glob.casefold(), text.casefold())


@lru_cache(maxsize=4096)
def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))
