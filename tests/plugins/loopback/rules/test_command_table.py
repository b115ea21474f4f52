"""The table of shell commands under `allow git *` and `allow pytest *`."""

import pytest

from hubd.plugins.loopback.rules import words
from hubd.plugins.loopback.rules.decide import decide
from hubd.plugins.loopback.rules.rule import Effect, Rule, ToolCall
from hubd.plugins.loopback.rules.shell import SimpleCommand, split
from tests.plugins.loopback.rules.command_table import ALLOWED, ASKED


def rule(effect: Effect, pattern: str | None, number: int = 1, **others: object) -> Rule:
    return Rule(effect, "Bash", pattern, id=bytes([number] * 16), key=number, **others)  # type: ignore[arg-type]


RULES = [rule("allow", "git *", 1), rule("allow", "pytest *", 2)]


def effect_of(command: str, *rules: Rule) -> str:
    return decide(ToolCall("Bash", {"command": command}, "/"), rules, 0).effect


def test_the_table_has_enough_commands() -> None:
    assert len(set(ALLOWED)) == len(ALLOWED)
    assert len(set(ASKED)) == len(ASKED)
    assert not set(ALLOWED) & set(ASKED)
    assert len(ALLOWED) + len(ASKED) >= 150


def test_only_git_and_pytest_are_allowed() -> None:
    wrong = [command for command in ASKED if effect_of(command, *RULES) != "ask"]
    assert wrong == []


def test_plain_uses_of_git_and_pytest_are_allowed() -> None:
    wrong = [command for command in ALLOWED if effect_of(command, *RULES) != "allow"]
    assert wrong == []


def test_every_decision_is_explained() -> None:
    for command in [*ALLOWED, *ASKED]:
        decision = decide(ToolCall("Bash", {"command": command}, "/"), RULES, 0)
        assert decision.explanation, command
        assert all(sentence.endswith(".") for sentence in decision.explanation)
        assert bool(decision.rules) == (decision.effect == "allow")


def test_a_deny_rule_for_one_program_is_not_evaded() -> None:
    deny = rule("deny", "rm *", 3)
    anything = rule("allow", None, 4)
    for command in [
        "rm x",
        "/bin/rm x",
        "\\rm x",
        "r''m x",
        "RM x",
        "git log; rm x",
        "A=1 rm x",
        "(rm x)",
        "git log $(rm x)",
        'git log "`rm x`"',
        "for f in a; do rm $f; done",
        "if true; then rm x; fi",
        "sudo rm x",
        "sudo -u root rm x",
        "env A=1 rm x",
        "ls | xargs rm",
        "sh -c 'rm x'",
        'bash -c "git log; rm x"',
        "find . -exec rm {} +",
        "timeout 5 rm x",
        "rm${IFS}x",
        "rm>f x",
        "git log\nrm x > f",
        "eval rm x",
        "f() { rm x; }; f",
        "cat <<EOF | sh\nrm x\nEOF",
    ]:
        assert effect_of(command, deny, anything) == "deny", command
        assert effect_of(command, deny, *RULES) == "deny", command


def test_a_deny_rule_that_cannot_be_excluded_asks() -> None:
    deny, anything = rule("deny", "rm *", 3), rule("allow", None, 4)
    for command in ["$x y", "$(echo r)m x", "x=rm; $x y", "a\x00b", "x" * 70_000]:
        assert effect_of(command, anything) == "allow"
        assert effect_of(command, deny, anything) == "ask", command
        assert effect_of(command, rule("ask", "rm *", 3), anything) == "ask", command


def test_deny_rules_find_the_subcommand_behind_options() -> None:
    deny, anything = rule("deny", "git push *", 3), rule("allow", None, 4)
    for command in [
        "git push",
        "git -C x push",
        "git -c a=b --no-pager push -f",
        "GIT_X=1 git push",
    ]:
        assert effect_of(command, deny, anything) == "deny", command
    for command in ["git log push", "git stash push", "git log", "echo git push"]:
        assert effect_of(command, deny, anything) == "allow", command
    forced = rule("deny", "git push --force*", 3)
    assert effect_of("git push origin --force-with-lease", forced, anything) == "deny"
    assert effect_of("git push origin", forced, anything) == "allow"


@pytest.mark.parametrize(
    ("pattern", "command", "is_covered"),
    [
        ("git log", "git log", True),
        ("git log", "git log -p", False),
        ("git log *", "git log", True),
        ("git log *", "git log -p x", True),
        ("git log*", "git logx", True),
        ("git log*", "git log x", False),
        ("git **", "git -c a=b log", True),
        ("git * *", "git log -p", True),
        ("git * *", "git -p log", False),
        ("git -C * *", "git -C x log", True),
        ("git -C * *", "git -C x -c a=b log", False),
        ("git -C * log *", "git -C x log -p", True),
        ("git -C /x *", "git -C /x -c a=b log", False),
        ("npm run test *", "npm run test -- -v", True),
        ("mytool *", "mytool -v", False),
        ("mytool **", "mytool -v", True),
        ("ls *", "ls -la", True),
        ("*", "ls -la", True),
        ("*", "git log", True),
        ("*", "git -c a=b log", False),
        ("*", "A=1 ls", False),
        ("A=1 ls", "A=1 ls", True),
        ("A=* ls *", "A=2 ls -l", True),
        ("A=1 ls", "A=1 B=2 ls", False),
        ("A=1 ls", "ls", False),
        ('git commit -m "a b"', "git commit -m 'a b'", True),
        ("git commit -m '*'", "git commit -m x", False),
        ("python -m pytest *", "python -m pytest -q", True),
    ],
)
def test_patterns_are_compared_word_by_word(pattern: str, command: str, is_covered: bool) -> None:
    assert (effect_of(command, rule("allow", pattern)) == "allow") is is_covered


def test_a_command_after_cd_does_not_match_rules_for_a_directory() -> None:
    cd = rule("allow", "cd *", 1)
    for pattern, scope, effect in [
        ("git *", "global", "allow"),
        ("git *", "dir:/", "ask"),
        ("./run *", "global", "ask"),
        ("/opt/run *", "global", "allow"),
    ]:
        program = pattern.split()[0]
        assert (
            effect_of(f"cd /x && {program} y", cd, rule("allow", pattern, 2, scope=scope)) == effect
        )
        assert (
            effect_of(f"{program} y; cd /x", cd, rule("allow", pattern, 2, scope=scope)) == "allow"
        )


@pytest.mark.parametrize("pattern", ["", "a 'b", "a | b", "a > b", "a $b", "** a", "a ** b", "a;"])
def test_patterns_that_are_not_one_command_are_invalid(pattern: str) -> None:
    with pytest.raises(words.InvalidPatternError):
        words.parse(pattern)


def test_a_simple_command_is_printed_as_a_shell_would_read_it() -> None:
    command = SimpleCommand(("A=a b",), ("git", "log", "a'b", "*"))
    assert split(str(command)).commands == (command,)
