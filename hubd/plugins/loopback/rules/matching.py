"""Compare one rule with one call: strictly for allow rules, generously for deny and ask rules."""

from enum import Enum
from itertools import islice
from typing import Final

from hubd.plugins.loopback.rules import globs, paths, patterns, urls, words
from hubd.plugins.loopback.rules.programs import base_name
from hubd.plugins.loopback.rules.rule import Rule
from hubd.plugins.loopback.rules.shell import SimpleCommand
from hubd.plugins.loopback.rules.subject import Subject
from hubd.wire.lazy_dataclass import dataclass

# For a command that can't be split: the places at which a rule is compared, and the words at each.
# If there are more, the rule can't be excluded.
_MAX_PLACES: Final = 1000
_MAX_WORDS: Final = 50


class Match(Enum):
    """The outcome of comparing a deny or ask rule with a call."""

    NO = "no"
    YES = "yes"
    # The rule can't be excluded, because the call can't be read with certainty.
    UNSURE = "unsure"


@dataclass(frozen=True)
class Refusal:
    """The reason why an allow rule does not cover a call; empty if the call just differs."""

    reason: str = ""


def forbids(rule: Rule, subject: Subject) -> Match:
    """Compare a deny or ask rule with a call, generously."""
    if rule.pattern is None:
        return Match.YES
    pattern = patterns.read(rule.pattern)
    compared = patterns.compared_as(pattern, subject.kind)
    if compared is None:
        return _yes(_touches_field(pattern, subject))
    if (exact := patterns.exact_text(pattern)) is not None:
        return _yes(_is_exactly(exact, compared, rule, subject))
    if subject.problem is not None:
        # Without a field `command`, a tool that is not known runs no command.
        return Match.NO if subject.kind is None else Match.UNSURE
    if compared == "url":
        assert subject.url is not None
        is_match = urls.touches(pattern.glob, subject.url)
        is_clear = subject.url.parts is not None
    elif compared == "path":
        is_match = any(paths.touches(rule.resolved, pattern.glob, path) for path in subject.paths)
        is_clear = all(path.resolved is not None for path in subject.paths)
    else:
        assert subject.split is not None
        is_match = _touches_command(pattern.glob, subject)
        is_clear = subject.split.doubt is None
    if is_match:
        return Match.YES
    return Match.NO if is_clear else Match.UNSURE


def covers_call(rule: Rule, subject: Subject) -> Refusal | None:
    """Return None if an allow rule covers the whole call, else the reason."""
    if rule.pattern is None:
        return None
    pattern = patterns.read(rule.pattern)
    compared = patterns.compared_as(pattern, subject.kind)
    if compared is None:
        return None if _covers_field(pattern, subject) else Refusal()
    if subject.problem is not None:
        return Refusal(subject.problem)
    if compared == "command" and subject.leaves_sandbox:
        return Refusal("the call turns the agent's sandbox off")
    if (exact := patterns.exact_text(pattern)) is not None and compared != "path":
        return None if _is_exactly(exact, compared, rule, subject) else Refusal()
    if compared == "url":
        assert subject.url is not None
        if subject.url.parts is None:
            return Refusal("programs may read the URL differently")
        return None if urls.covers(pattern.glob, subject.url) else Refusal()
    if compared == "path":
        return _covers_paths(rule, pattern, subject)
    # `covers_command` compares the parts of a command.
    return Refusal()


def covers_command(
    rule: Rule, command: SimpleCommand, kind: patterns.Kind | None, *, moved: bool
) -> Refusal | None:
    """Return None if an allow rule covers one simple command, else the reason.

    Args:
        rule: The rule.
        command: The command.
        kind: The kind of the tool.
        moved: Whether a command before it may have changed the directory.
    """
    if rule.pattern is None:
        return None
    pattern = patterns.read(rule.pattern)
    is_about_command = patterns.compared_as(pattern, kind) == "command"
    if not is_about_command or patterns.exact_text(pattern) is not None:
        return Refusal()
    try:
        parsed = words.parse(pattern.glob)
    except words.InvalidPatternError:
        return Refusal()
    reason = words.objection(parsed, command)
    if reason is not None:
        return Refusal(reason)
    if moved and rule.scope.startswith("dir:"):
        return Refusal("a command before it may leave the directory of the rule")
    if moved and "/" in command.words[0] and not command.words[0].startswith("/"):
        return Refusal("a command before it may leave the directory of this program")
    return None


def _yes(is_match: bool) -> Match:
    return Match.YES if is_match else Match.NO


def _is_exactly(exact: str, compared: patterns.Kind, rule: Rule, subject: Subject) -> bool:
    """Return whether `field=TEXT` is the value of a call. A path may have either form."""
    if compared == "command":
        return exact == subject.command
    if compared == "url":
        return subject.url is not None and exact == subject.url.written
    resolved = globs.literal(rule.resolved) if rule.resolved is not None else exact
    return any(
        path.written == paths.expand_home(exact) or path.resolved == resolved
        for path in subject.paths
    )


def _touches_field(pattern: patterns.Pattern, subject: Subject) -> bool:
    """Compare a deny or ask rule with another field than the principal one."""
    if pattern.field is None:
        # A glob for tools of any kind, and this one has no principal field.
        return any(globs.loosely_matches(pattern.glob, text) for text in subject.texts)
    text = subject.field(pattern.field)
    if text is None:
        return False
    exact = patterns.exact_text(pattern)
    return text == exact if exact is not None else globs.loosely_matches(pattern.glob, text)


def _covers_field(pattern: patterns.Pattern, subject: Subject) -> bool:
    """Compare an allow rule with another field than the principal one."""
    if pattern.field is None:
        return False
    if subject.kind is not None and pattern.field != patterns.WHOLE_INPUT:
        # The agent may write anything there.
        return False
    text = subject.field(pattern.field)
    return text is not None and globs.matches(pattern.glob, text)


def _touches_command(glob: str, subject: Subject) -> bool:
    """Compare a deny or ask rule with a command and all of its parts."""
    assert subject.split is not None
    assert subject.command is not None
    texts = [subject.command, *map(str, subject.split.commands)]
    if any(globs.loosely_matches(glob, text) for text in texts):
        return True
    try:
        parsed = words.parse(glob)
    except words.InvalidPatternError:
        return False
    if subject.split.doubt is None:
        return any(
            words.resembles(parsed, (*command.assignments, *command.words))
            for command in subject.split.commands
        )
    name = words.first_word(parsed)
    if name is not None and name not in subject.names:
        return False
    places = (
        run[start : start + _MAX_WORDS]
        for run in subject.runs
        for start, word in enumerate(run)
        if name is None or name in (word.casefold(), base_name(word.casefold()))
    )
    return any(words.resembles(parsed, place) for place in islice(places, _MAX_PLACES))


def _covers_paths(rule: Rule, pattern: patterns.Pattern, subject: Subject) -> Refusal | None:
    if any(path.resolved is None for path in subject.paths):
        return Refusal("the path can't be resolved with certainty")
    is_covered = all(
        paths.covers(rule.resolved, pattern.glob, path, subject.directory) for path in subject.paths
    )
    return None if is_covered else Refusal()
