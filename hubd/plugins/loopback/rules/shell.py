"""Split a shell command into its simple commands, or give the reason why that is not certain.

The reader accepts a small part of the syntax, with the same meaning in sh, bash and zsh: words,
quotes, the operators `;`, `&`, `&&`, `||`, `|`, `|&`, line ends, plain comments, and redirections
to `/dev/null` or between stdout and stderr. All else is uncertain: the shell may then run other
commands than those that the text shows.
"""

import re
import shlex
from typing import Final

from hubd.plugins.loopback.rules.programs import DIRECTORY_CHANGERS, base_name, indirection
from hubd.wire.lazy_dataclass import dataclass
from hubd.wire.lazy_pattern import lazy_pattern

# A longer command is not read, because reading it would delay other calls.
MAX_COMMAND: Final = 64 * 1024

_UNREADABLE: Final = lazy_pattern("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_ASSIGNMENT: Final = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_ORDINARY: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:,+@%"
)
# The reasons for the other characters, if they are not quoted.
_SYNTAX: Final = {
    "$": "an expansion (`$`)",
    "`": "a command substitution (`)",
    "*": "a glob (`*`)",
    "?": "a glob (`?`)",
    "[": "a glob (`[`)",
    "]": "a glob (`]`)",
    "{": "a group or brace expansion (`{`)",
    "}": "a group or brace expansion (`}`)",
    "(": "a subshell or function (`(`)",
    ")": "a subshell or function (`)`)",
    "!": "a negation or history expansion (`!`)",
    "~": "a tilde expansion (`~`)",
    "=": "a word that begins with `=`",
    "^": "a word that begins with `^`",
    "#": "a `#` inside a word",
}
_WORD_END: Final = frozenset(" \t\n;&|<>()")
_REDIRECTION: Final = lazy_pattern(r"(?:&>>?|([0-9]*)(?:<<<|<<-?|<>|<&|<|>>|>&|>\||>))")
# `stash@{0}` and `@{upstream}`: without a comma or `..`, the braces are ordinary characters.
_REFLOG: Final = lazy_pattern(r"\{-?[A-Za-z0-9]+\}")
# A comment that would run nothing, even in a shell that does not know comments.
_PLAIN_COMMENT: Final = lazy_pattern(r"#[A-Za-z0-9_./:,+@%= #-]*(?=\n|\Z)")
_OPERATORS: Final = ("&&", "||", "|&", ";", "&", "|", "\n")
# Operators after which another command must follow, also on the next line.
_UNFINISHED: Final = frozenset(["&&", "||", "|&", "|"])
# Escapes that don't change the end of `$'…'`, also for a shell that does not know it.
_ANSI_ESCAPES: Final = {"n": "\n", "t": "\t", "\\": "\\", '"': '"'}


@dataclass(frozen=True)
class SimpleCommand:
    """One simple command, without its quotes: variables for it alone, then its words."""

    assignments: tuple[str, ...]
    words: tuple[str, ...]

    def __str__(self) -> str:
        """Return the command as a shell would accept it."""
        pairs = (word.partition("=") for word in self.assignments)
        prefix = [f"{name}={shlex.quote(value)}" for name, _, value in pairs]
        return " ".join([*prefix, *map(shlex.quote, self.words)])


@dataclass(frozen=True)
class Split:
    """The simple commands of a shell command; none if there is a doubt."""

    commands: tuple[SimpleCommand, ...]
    # The reason why the command can't be split with certainty.
    doubt: str | None = None


class _UncertainError(Exception):
    """The text has syntax that the reader does not accept."""


def split(command: str) -> Split:
    """Return the simple commands that a shell would run for a text, or the doubt."""
    try:
        return Split(tuple(_Reader(command).commands()))
    except _UncertainError as error:
        return Split((), str(error))


def loose_runs(command: str) -> list[tuple[str, ...]]:
    """Return all runs of words between shell syntax, for commands that can't be split.

    Quotes are dropped, and their content counts as words, so the runs contain the commands of
    subshells, substitutions, loops, and strings for other shells.
    """
    text = re.sub(r"\\\r?\n", "", command)
    text = re.sub(r"[\"'\\]", "", text)
    runs = re.split(r"[;&|(){}$`<>\n\r\x00]", text)
    return [words for run in runs if (words := tuple(run.split()))]


class _Reader:
    """Reads a command from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def commands(self) -> list[SimpleCommand]:
        if len(self.text) > MAX_COMMAND:
            raise _UncertainError(f"it has more than {MAX_COMMAND:,} characters")
        if unreadable := _UNREADABLE.search(self.text):
            raise _UncertainError(f"it has the control character U+{ord(unreadable[0]):04X}")
        commands: list[SimpleCommand] = []
        waits_for_command = False
        while True:
            command = self._simple_command()
            operator = self._operator()
            if command is not None:
                commands.append(command)
                waits_for_command = operator in _UNFINISHED
            elif operator not in ("\n", ""):
                raise _UncertainError(f"there is no command before `{operator}`")
            if not operator:
                break
        if waits_for_command:
            raise _UncertainError("the last operator has no command after it")
        if not commands:
            raise _UncertainError("it has no command")
        return commands

    def _simple_command(self) -> SimpleCommand | None:
        """Read to the next operator. Return None if there is nothing before it."""
        assignments: list[str] = []
        words: list[str] = []
        is_redirected = False
        while True:
            self._skip_blanks()
            if redirection := _REDIRECTION.match(self.text, self.at):
                self._redirection(redirection)
                is_redirected = True
            elif self._next in ("", "\n", ";", "&", "|"):
                break
            else:
                word, quoted_from = self._word()
                assignment = _ASSIGNMENT.match(word)
                if not words and assignment and assignment.end() <= quoted_from:
                    assignments.append(word)
                else:
                    words.append(word)
        if words:
            if reason := indirection(tuple(words)):
                raise _UncertainError(reason)
            return SimpleCommand(tuple(assignments), tuple(words))
        if assignments:
            raise _UncertainError(
                f"`{assignments[0].partition('=')[0]}=` sets a variable for later commands"
            )
        if is_redirected:
            raise _UncertainError("there is a redirection without a command")
        return None

    @property
    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _skip_blanks(self) -> None:
        while True:
            if self._next and self._next in " \t":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            else:
                break
        if self._next == "#":
            comment = _PLAIN_COMMENT.match(self.text, self.at)
            if comment is None:
                raise _UncertainError("a comment has shell syntax in it")
            self.at = comment.end()

    def _operator(self) -> str:
        """Read an operator; return an empty text at the end."""
        for operator in _OPERATORS:
            if self.text.startswith(operator, self.at):
                self.at += len(operator)
                return operator
        return ""

    def _redirection(self, match: re.Match[str]) -> None:
        """Read a redirection that writes and reads nothing but /dev/null, stdout and stderr."""
        operator = match[0].lstrip("0123456789")
        self.at = match.end()
        if operator.startswith("<<"):
            raise _UncertainError("it has a here-document")
        self._skip_blanks()
        start = self.at
        target = self._word()[0] if self._next and self._next not in _WORD_END else ""
        is_literal = self.text[start : self.at] == target
        if operator in (">&", "<&"):
            is_harmless = operator == ">&" and target in ("1", "2")
        else:
            is_harmless = target == "/dev/null" and operator != "<>"
        if not (is_harmless and is_literal and match[1] in (None, "", "0", "1", "2")):
            raise _UncertainError(f"it has a redirection (`{match[0]}`)")

    def _word(self) -> tuple[str, int]:
        """Read a word. Return it without quotes, and the place of its first quoted character."""
        start = self.at
        pieces: list[str] = []
        quoted_from: int | None = None
        while self._next and self._next not in _WORD_END:
            char = self._next
            is_first = self.at == start
            if self.text.startswith("\\\n", self.at):
                # The shell joins the lines, so more of the word may follow.
                if self.text[self.at + 2 : self.at + 3] not in (" ", "\t"):
                    raise _UncertainError("a line continues inside a word")
                break
            if char in "'\"\\" or self.text.startswith("$'", self.at):
                if quoted_from is None:
                    quoted_from = sum(map(len, pieces))
                pieces.append(self._quoted())
            elif char in _ORDINARY or (not is_first and self._is_ordinary_inside(char)):
                pieces.append(char)
                self.at += 1
            elif (
                char == "{"
                and self.text[self.at - 1 : self.at] == "@"
                and (reflog := _REFLOG.match(self.text, self.at))
            ):
                pieces.append(reflog[0])
                self.at = reflog.end()
            elif char in _SYNTAX:
                raise _UncertainError(f"it has {_SYNTAX[char]}")
            else:
                raise _UncertainError(f"it has U+{ord(char):04X} outside of quotes")
        if self._next and self._next in "()":
            raise _UncertainError(f"it has {_SYNTAX[self._next]}")
        word = "".join(pieces)
        return word, len(word) if quoted_from is None else quoted_from

    def _is_ordinary_inside(self, char: str) -> bool:
        """Return whether a character is special at the beginning of a word only."""
        return char in "=^" or (char == "~" and self.text[self.at - 1] not in "=:")

    def _quoted(self) -> str:
        """Read a quoted text, or a character after a backslash."""
        char = self._next
        if char == "'":
            end = self.text.find("'", self.at + 1)
            if end < 0:
                raise _UncertainError("a quote is not closed")
            text = self.text[self.at + 1 : end]
            self.at = end + 1
            return text
        if char == '"':
            return self._double_quoted()
        if char == "$":
            return self._ansi_quoted()
        escaped = self.text[self.at + 1 : self.at + 2]
        if not escaped or not escaped.isascii():
            raise _UncertainError("a backslash has no ASCII character after it")
        self.at += 2
        return escaped

    def _double_quoted(self) -> str:
        pieces: list[str] = []
        self.at += 1
        while (char := self._next) != '"':
            following = self.text[self.at + 1 : self.at + 2]
            if not char:
                raise _UncertainError("a quote is not closed")
            if char == "`" or (char == "$" and following not in ('"', " ")):
                raise _UncertainError(f"it has {_SYNTAX[char]}")
            if char == "!" and following not in ('"', " ", "\n", "="):
                raise _UncertainError(f"it has {_SYNTAX[char]}")
            if char == "\\" and following and following in '$`"\\\n':
                pieces.append("" if following == "\n" else following)
                self.at += 2
            else:
                pieces.append(char)
                self.at += 1
        self.at += 1
        return "".join(pieces)

    def _ansi_quoted(self) -> str:
        pieces: list[str] = []
        self.at += 2
        while (char := self._next) != "'":
            if not char:
                raise _UncertainError("a quote is not closed")
            if char == "\\":
                escaped = self.text[self.at + 1 : self.at + 2]
                if escaped not in _ANSI_ESCAPES:
                    raise _UncertainError(f"it has an escape (`\\{escaped}`) in $'…'")
                char = _ANSI_ESCAPES[escaped]
                self.at += 1
            pieces.append(char)
            self.at += 1
        self.at += 1
        return "".join(pieces)


def changes_directory(command: SimpleCommand) -> bool:
    """Return whether the commands after this one may run in another directory."""
    return base_name(command.words[0]) in DIRECTORY_CHANGERS
