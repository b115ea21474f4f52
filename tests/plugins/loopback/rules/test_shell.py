"""If the splitter is certain, a real bash runs exactly the commands that it returns."""

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hubd.plugins.loopback.rules.shell import SimpleCommand, split
from tests.plugins.loopback.rules.command_table import ALLOWED, ASKED
from tests.plugins.loopback.rules.real_bash import Bash, Record

# Pieces of commands. The programs don't exist, and the builtins among them are harmless.
WORDS = [
    "git",
    "log",
    "pytest",
    "foo",
    "rm",
    "-p",
    "x",
    "a=b",
    "-c",
    "HEAD~1",
    "HEAD^",
    "@{0}",
    "..",
]
BLANKS = [" ", " ", " ", "  ", "\t", "\\\n", "\n"]
OPERATORS = [";", "&", "&&", "||", "|", "|&", "\n", "&\n", "&&\n", "|\n"]
QUOTES = ["'", '"', "\\", "$'", "''", '""', "'a b'", '"a b"', "'; foo;'", '"; foo;"', "\\;", "\\ "]
EXPANSIONS = [
    "$",
    "`",
    "$(",
    "$x",
    "${x}",
    "*",
    "?",
    "[",
    "]",
    "~",
    "!",
    "{",
    "}",
    "{a,b}",
    "^",
    "=",
]
REDIRECTIONS = [
    ">",
    "<",
    ">>",
    "2>&1",
    ">/dev/null",
    "2>/dev/null",
    "&>/dev/null",
    ">&2",
    "<<",
    "1",
]
OTHERS = [
    "#",
    "# a",
    "(",
    ")",
    "A=1",
    "B='2 3'",
    "A+=x",
    "\r",
    "é",
    "\u00a0",
    "%",
    ",",
    ":",
    "@",
    "+",
]
SYNTAX = ["if", "then", "fi", "for", "in", "do", "done", "time", "function", "case", "esac"]
PIECES = [
    *WORDS * 4, *BLANKS * 8, *OPERATORS * 2, *QUOTES * 2, *EXPANSIONS, *REDIRECTIONS, *OTHERS,
    *SYNTAX,
]  # fmt: skip


def generated(seed: int) -> Iterator[str]:
    """Yield commands: random pieces, and commands of the table with random changes."""
    source = random.Random(seed)
    while True:
        yield "".join(source.choices(PIECES, k=source.randint(1, 14)))
        text = source.choice([*ALLOWED, *ASKED])
        if len(text) < 200:
            at = source.randint(0, len(text))
            cut = source.randint(0, 2)
            yield text[:at] + source.choice(PIECES) + text[at + cut :]


def expected(command: SimpleCommand) -> Record:
    """Return the record of a command in bash."""
    variables = {"A": "", "B": ""}
    for assignment in command.assignments:
        name, _, value = assignment.partition("=")
        if name.endswith("+"):
            name, value = name[:-1], variables.get(name[:-1], "") + value
        variables[name] = value
    return (f"A={variables['A']}", f"B={variables['B']}", *command.words)


def is_recorded(command: SimpleCommand) -> bool:
    """Return whether bash records a command: a program that it looks up on the PATH."""
    name = command.words[0]
    if any(assignment.startswith("PATH") for assignment in command.assignments):
        return False
    return "/" not in name and name not in BUILTINS and not name.startswith("%")


# Builtins that the pieces, and changed commands of the table, can form.
BUILTINS = {":", "[", "cd", "echo", "printf", "true", "pushd", "test", "type", "wait", "fg"}


def compare(bash: Bash, command: str) -> str | None:
    """Return the difference between the splitter and bash."""
    parts = split(command).commands
    if not all(map(is_recorded, parts)):
        return None
    wanted = Counter(expected(part) for part in parts)
    runs = [bash.run(command, 0), bash.run(command, 1)]
    # With status 0 all commands after `&&` run, with status 1 all after `||`.
    everything = set(runs[0]) | set(runs[1])
    if everything != set(wanted) or any(run - wanted for run in runs):
        return f"{command!r}: {wanted} but bash runs {runs}"
    return None


def certain_commands(seed: int, count: int) -> Iterator[str]:
    seen: set[str] = set()
    for command in generated(seed):
        if len(seen) == count:
            return
        if command not in seen and split(command).doubt is None:
            seen.add(command)
            yield command


def assert_agrees(directory: Path, commands: Iterator[str]) -> None:
    bash = Bash(directory)
    differences = [text for command in commands if (text := compare(bash, command))]
    assert not differences, "\n".join(differences[:20])
    assert bash.left_files() == []


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.soak)])
def test_bash_runs_the_commands_of_the_table(tmp_path: Path, every: int) -> None:
    assert_agrees(tmp_path, iter(ALLOWED[::every]))


def test_bash_runs_generated_commands_as_they_are_split(tmp_path: Path) -> None:
    assert_agrees(tmp_path, certain_commands(1, 25))


@pytest.mark.soak
def test_bash_runs_many_generated_commands_as_they_are_split(tmp_path: Path) -> None:
    assert_agrees(tmp_path, certain_commands(2, 5_000))


def test_the_splitter_never_fails_and_gives_either_commands_or_a_doubt() -> None:
    for _, command in zip(range(5_000), generated(3), strict=False):
        result = split(command)
        assert bool(result.commands) != bool(result.doubt), command
        assert all(part.words for part in result.commands)


def test_a_certain_command_is_read_the_same_when_it_is_written_again() -> None:
    for command in certain_commands(4, 500):
        for part in split(command).commands:
            text = re.sub(r"^(\w+)\+='?", r"\1+=", str(part))
            assert split(text).commands in [(part,), ()], command
