"""Random rule sets and calls: restrictions always win, and remembered rules are exact."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import pytest

from hubd.plugins.loopback.rules.decide import decide
from hubd.plugins.loopback.rules.remember import remembered
from hubd.plugins.loopback.rules.rule import Decision, Effect, NewRule, Remember, Rule, ToolCall
from hubd.plugins.loopback.rules.subject import Subject, prepare
from hubd.plugins.loopback.rules.words import InvalidPatternError

NOW = 1_700_000_000
EFFECTS: tuple[Effect, ...] = get_args(Effect)
SESSIONS = [(None, None), ("11111111-1111-4111-8111-111111111111", "one"), (None, "two")]
DIRECTORIES = ["/", "/nowhere", "/nowhere/src", ""]
SCOPES = [
    "global", "global", "global", "dir:/", "dir:/nowhere", "dir:/nowhere/src", "session:one",
    "session:two", "session:11111111-1111-4111-8111-111111111111",
]  # fmt: skip
TOOLS = ["Bash", "Bash", "Bash", "Read", "Edit", "WebFetch", "mcp__a__run", "mcp__b__find"]
TOOL_GLOBS = [*TOOLS, "*", "mcp__*", "mcp__a__*", "[BR]*"]
COMMAND_PIECES = [
    "git", "log", "push", "rm", "-rf", "-c", "a=b", "x", "pytest", " ", " ", " ", " ", ";", "&&",
    "|", "\n", "$(", ")", "`", "'", '"', ">", ">/dev/null", "*", "?", "[a]", "A=1", "sudo", "/bin/",
]  # fmt: skip
PATHS = [
    "/nowhere/a",
    "/nowhere/src/b.py",
    "../etc/x",
    "src/b.py",
    "a",
    "~/x",
    "/",
    " /a",
    "*",
    "[a]",
]
URLS = [
    "https://a.org/", "https://a.org/x", "http://a.org", "https://b.a.org/x?y=*", "https://a.org@b/",
    "https://a.org/../x", "ftp://a.org", "https://a.org:444/",
]  # fmt: skip
PATTERNS = [
    "*", "**", "git *", "git log *", "git push *", "rm *", "rm", "* -rf *", "*rm*", "pytest **",
    "x", "A=1 git *", "command=git log", "command=rm *", "/nowhere/*", "src/*", "*.py", "~/*",
    "a", "https://a.org/*", "a.org", "https://*.a.org/*", "url=https://a.org/x", "query=*",
    "query=a*", "input=*", "command=*", "path=/nowhere/a", "[a]", "?",
]  # fmt: skip


class Random:
    """Random rules and calls."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        # Few commands, so that rules often match them.
        self.commands = ["".join(self.source.choices(COMMAND_PIECES, k=k % 9)) for k in range(300)]
        self.number = 0

    def call(self) -> ToolCall:
        choice = self.source.choice
        tool = choice(TOOLS)
        value: Any = choice(self.commands)
        data: dict[str, Any] = {
            "Bash": {"command": value},
            "Read": {"file_path": choice(PATHS)},
            "Edit": {"file_path": choice(PATHS), "new_string": value},
            "WebFetch": {"url": choice(URLS), "prompt": value},
            "mcp__a__run": {"command": value, "query": choice(PATHS)},
            "mcp__b__find": {"query": choice(PATHS), "limit": 3},
        }[tool]
        if self.source.random() < 0.02:
            data = {name: choice([None, 1, ["rm"], {"a": "b"}]) for name in data}
        if self.source.random() < 0.02:
            data = {}
        session_id, session_name = choice(SESSIONS)
        return ToolCall(tool, data, choice(DIRECTORIES), session_id, session_name)

    def rule(self, effect: Effect | None = None) -> Rule:
        choice, chance = self.source.choice, self.source.random
        self.number += 1
        new = NewRule(
            effect=choice(EFFECTS) if effect is None else effect,
            tool=choice(TOOL_GLOBS),
            pattern=None if chance() < 0.2 else choice(PATTERNS),
            scope=choice(SCOPES),
            expires_at=choice([NOW - 1, NOW, NOW + 1]) if chance() < 0.1 else None,
            uses_left=choice([0, 1, 5]) if chance() < 0.1 else None,
        )
        return stored(new, self.number)

    def rules(self) -> list[Rule]:
        return [self.rule() for _ in range(self.source.randint(0, 6))]


def stored(new: NewRule, number: int) -> Rule:
    # Without symlinks, an absolute pattern is resolved already.
    is_absolute = new.pattern is not None and new.pattern.startswith("/")
    values = {**vars(new), "resolved": new.pattern if is_absolute else new.resolved}
    return Rule(**values, id=number.to_bytes(16), key=number)


def check(subject: Subject, rules: list[Rule], source: Random) -> Decision:
    """Check one call under one set of rules."""
    decision = decide(subject, rules, NOW)
    alone = [decide(subject, [rule], NOW).effect for rule in rules]
    # The most restrictive rule wins, and nothing is allowed without an allow rule.
    assert (decision.effect == "deny") == ("deny" in alone)
    for rule, effect in zip(rules, alone, strict=True):
        assert effect in (rule.effect, "ask")
    if decision.effect == "allow":
        assert decision.rules
        assert all(rule in rules and rule.effect == "allow" for rule in decision.rules)
        assert not any(
            rule.effect == "ask" and decide(subject, [rule], NOW).rules for rule in rules
        )
        # The deciding rules suffice.
        assert decide(subject, decision.rules, NOW).effect == "allow"
    # The order of the rules does not matter.
    shuffled = source.source.sample(rules, len(rules))
    assert decide(subject, shuffled, NOW).effect == decision.effect
    check_more_rules(subject, rules, decision.effect, source)
    return decision


def check_more_rules(subject: Subject, rules: list[Rule], effect: Effect, source: Random) -> None:
    """Check that another rule changes a decision only in its own direction."""
    denied = decide(subject, [*rules, source.rule("deny")], NOW).effect
    assert denied in (effect, "deny", "ask")
    assert not (denied == "ask" and effect == "deny")
    asked = decide(subject, [*rules, source.rule("ask")], NOW).effect
    assert asked == effect or (asked, effect) == ("ask", "allow")
    allowed = decide(subject, [*rules, source.rule("allow")], NOW).effect
    assert allowed == effect or (allowed, effect) == ("allow", "ask")
    # Removing an allow rule never allows more; removing another rule never allows less.
    for rule in rules:
        fewer = decide(subject, [other for other in rules if other is not rule], NOW).effect
        if rule.effect == "allow":
            assert fewer == effect or (fewer, effect) == ("ask", "allow")
        else:
            assert fewer == "allow" or effect != "allow"


def check_remembered(subject: Subject, other: Subject, source: Random) -> None:
    """Check that a remembered answer decides this very call, and no other value."""
    effect: Effect = source.source.choice(("allow", "deny"))
    remember: Remember = source.source.choice(get_args(Remember))
    try:
        new = remembered(subject, effect, remember)
    except InvalidPatternError:
        return
    rule = stored(new, 1)
    assert decide(subject, [rule], NOW).effect == effect
    decision = decide(other, [rule], NOW)
    if decision.effect != "ask":
        assert decision.effect == effect
        assert same_value(subject, other)
        if remember == "session":
            assert subject.call.session_id == other.call.session_id
    # Another session without the same id does not profit.
    stranger = replace(other.call, session_id=None)
    if remember == "session":
        assert decide(stranger, [rule], NOW).effect == "ask"


def same_value(one: Subject, other: Subject) -> bool:
    """Return whether two calls have the same tool and the same principal value."""
    if one.call.tool_name != other.call.tool_name:
        return False
    if one.paths and other.paths:
        return one.paths[0].resolved == other.paths[0].resolved or (
            one.paths[0].written == other.paths[0].written
        )
    if one.url and other.url:
        return one.url.written == other.url.written
    if one.kind == other.kind == "command" and one.command is not None:
        return one.command == other.command
    return one.call.input == other.call.input


def subjects(source: Random, count: int) -> Iterator[Subject]:
    prepared = [prepare(source.call()) for _ in range(min(count, 3000))]
    return (source.source.choice(prepared) for _ in range(count))


def run(seed: int, count: int) -> dict[str, int]:
    """Check random calls under random rules. Return the number of each decision."""
    source = Random(seed)
    seen = {"allow": 0, "deny": 0, "ask": 0}
    previous: Subject | None = None
    for subject in subjects(source, count):
        seen[check(subject, source.rules(), source).effect] += 1
        check_remembered(subject, previous or subject, source)
        check_remembered(subject, subject, source)
        previous = subject
    return seen


def test_restrictions_win_in_random_rule_sets() -> None:
    seen = run(1, 5_000)
    assert min(seen.values()) > 100, seen


@pytest.mark.soak
def test_restrictions_win_in_very_many_random_rule_sets() -> None:
    seen = run(2, 100_000)
    assert min(seen.values()) > 2_000, seen
