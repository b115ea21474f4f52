"""Compare a pattern with the words of a simple command.

A pattern is compared word by word. A word matches one word by its glob. `*` alone is one word that
is not an option; at the end it is any number of words. A final `*` matches no option before a
subcommand; a final `**` matches any words.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal

from hubd.plugins.loopback.rules import globs
from hubd.plugins.loopback.rules.programs import PLAIN_PROGRAMS, base_name
from hubd.plugins.loopback.rules.shell import SimpleCommand
from hubd.wire.lazy_dataclass import dataclass
from hubd.wire.lazy_pattern import lazy_pattern

# The words before a subcommand that a deny rule looks at.
_MAX_OPTIONS: Final = 100
_ASSIGNMENT: Final = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_OPERATORS: Final = frozenset(";&|<>()$`\\\n\r")


class InvalidPatternError(ValueError):
    """A pattern that can't match anything, or means something else than it seems."""


@dataclass(frozen=True)
class WordPattern:
    """The globs of a pattern: variables, words, and the rest of the command."""

    assignments: tuple[str, ...]
    words: tuple[str, ...]
    # Whether the pattern ends there, with `*`, or with `**`.
    rest: Literal["none", "words", "anything"]

    @property
    def has_subcommand(self) -> bool:
        """Whether a word of the pattern is surely a subcommand and not an option's value."""
        return any(
            not _is_option(word) and (before == 0 or not _is_option(self.words[before]))
            for before, word in enumerate(self.words[1:])
        )


@lru_cache(maxsize=4096)
def parse(text: str) -> WordPattern:
    """Read a pattern.

    Raises:
        InvalidPatternError: It is empty, has an open quote, or has shell syntax.
    """
    words = _split(text)
    if not words:
        raise InvalidPatternError("the pattern is empty")
    rest: Literal["none", "words", "anything"] = "none"
    if words[-1] in ("*", "**"):
        rest = "words" if words.pop() == "*" else "anything"
    if "**" in words:
        raise InvalidPatternError("`**` can only be the last word of a pattern")
    count = 0
    while count < len(words) and _ASSIGNMENT.match(words[count]):
        count += 1
    return WordPattern(tuple(words[:count]), tuple(words[count:]), rest)


def objection(pattern: WordPattern, command: SimpleCommand) -> str | None:
    """Return None if a pattern covers a command, else the reason; empty if it just differs."""
    words = command.words
    count = len(pattern.words)
    if len(words) < count or (pattern.rest == "none" and len(words) > count):
        return ""
    pairs = zip(pattern.words, words, strict=False)
    if not all(_matches_one(glob, word) for glob, word in pairs):
        return ""
    if len(pattern.assignments) != len(command.assignments):
        return "the command sets variables that the pattern does not have"
    both = zip(pattern.assignments, command.assignments, strict=True)
    if not all(globs.matches(glob, word) for glob, word in both):
        return "the command sets other variables than the pattern"
    # The first word that a final `*` stands for; the command itself is not an option.
    first = words[max(count, 1) :][:1]
    if pattern.rest == "words" and first and _is_option(first[0]):
        program = base_name(words[0])
        if program not in PLAIN_PROGRAMS and not pattern.has_subcommand:
            return f"`*` matches no option before a subcommand (`{first[0]}`)"
    return None


def resembles(pattern: WordPattern, words: Sequence[str]) -> bool:
    """Return whether a command contains the words of a pattern in order.

    For deny and ask rules: letter case, the program's directory, variables and options before the
    subcommand don't matter, and words may follow.
    """
    count = 0
    while count < len(words) and _ASSIGNMENT.match(words[count]):
        count += 1
    variables, words = words[:count], words[count:]
    for glob in pattern.assignments:
        if not any(globs.loosely_matches(glob, variable) for variable in variables):
            return False
    if not pattern.words:
        return bool(words) or bool(pattern.assignments)
    if not words:
        return False
    program, *wanted = pattern.words
    if not any(globs.loosely_matches(program, name) for name in (words[0], base_name(words[0]))):
        return False
    rest = words[1:]
    if not wanted or _is_option(wanted[0]):
        return _contains_in_order(wanted, rest)
    return any(
        start < len(rest)
        and globs.loosely_matches(wanted[0], rest[start])
        and _contains_in_order(wanted[1:], rest[start + 1 :])
        for start in _after_options(rest)
    )


def first_word(pattern: WordPattern) -> str | None:
    """Return the program that a pattern names, in lower case; None if it has wildcards."""
    if not pattern.words or pattern.assignments:
        return None
    name = globs.literal(pattern.words[0])
    return name.casefold() if name is not None else None


def _matches_one(glob: str, word: str) -> bool:
    return not _is_option(word) if glob == "*" else globs.matches(glob, word)


def _is_option(word: str) -> bool:
    return word.startswith("-")


def _contains_in_order(wanted: Sequence[str], words: Sequence[str]) -> bool:
    remaining = iter(words)
    return all(any(globs.loosely_matches(glob, word) for word in remaining) for glob in wanted)


def _after_options(words: Sequence[str]) -> list[int]:
    """Return where a subcommand may be: after options, each with or without a value."""
    places = {0}
    for place in range(min(len(words), _MAX_OPTIONS)):
        if place in places and _is_option(words[place]):
            places |= {place + 1, place + 2}
    return sorted(places)


def _split(text: str) -> list[str]:
    """Split a pattern at blanks. Text in quotes is literal."""
    words: list[str] = []
    current: list[str] = []
    is_word = False
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char in " \t":
            if is_word:
                words.append("".join(current))
            current, is_word = [], False
            continue
        is_word = True
        if char in "'\"":
            end = text.find(char, at)
            if end < 0:
                raise InvalidPatternError("a quote in the pattern is not closed")
            current.append(globs.escape(text[at:end]))
            at = end + 1
        elif char in _OPERATORS:
            raise InvalidPatternError(f"a pattern is one simple command, so it can't have {char!r}")
        else:
            current.append(char)
    if is_word:
        words.append("".join(current))
    return words
