"""Mustache templates: from text to nodes. Pure; what becomes of the nodes is template.py's."""

import re
from typing import Final, NamedTuple

from hubd.errors import InvalidParams

# Sections in sections; nobody who reads a template has counted further.
MAX_NESTING: Final = 100
MAX_NAME: Final = 200
MAX_DELIMITER: Final = 20
# How much of something that is wrong an error message repeats.
SHOWN: Final = 40

_WHITE: Final = re.compile(r"\s*")
_REST_OF_LINE: Final = re.compile(r"[ \t]*(?:\r?\n|\Z)")
_EMPTY_LINE: Final = re.compile(r"\r?\n")
# Where a line begins, unless it is empty.
_LINE: Final = re.compile(r"(?<=\n)(?!\r?\n|\Z)")

# The first character of a tag says what it is; without one of these it is a value.
_SIGILS: Final = "#^/>!=&{<$"
# Tags that write nothing themselves: alone on a line they take the whole line away.
_SILENT: Final = "#^/>!="

# A name by its parts; none for `.`, which is whatever the section is about.
Name = tuple[str, ...]


class Text(NamedTuple):
    """What is written as it stands.

    `opens`: it is at the beginning of a line. `leads`: what comes after it is. These places, and
    those behind its own line breaks, are indented together with a partial.
    """

    text: str
    opens: bool
    leads: bool

    def lines(self) -> list[str]:
        """The text, cut where an indentation belongs; empty lines stay empty."""
        cut = _LINE.split(self.text)
        if self.opens and not _EMPTY_LINE.match(self.text):
            cut.insert(0, "")
        if self.leads:
            cut.append("")
        return cut


class Value(NamedTuple):
    """`{{name}}`; or `{{{name}}}` and `{{&name}}`, which are never escaped."""

    name: Name
    escaped: bool


class Section(NamedTuple):
    """`{{#name}}…{{/name}}`; or with `^`, what is shown when the other is not."""

    name: Name
    inverted: bool
    body: tuple["Node", ...]


class Partial(NamedTuple):
    """`{{>name}}`; `indentation` is what is before it if it is alone on its line, else None."""

    name: str
    indentation: str | None


Node = Text | Value | Section | Partial


class Variable(NamedTuple):
    """A name that whoever fills a template may give.

    `section`: it decides whether something is shown, or how often. `required`: it is shown
    whatever else is given. Names inside a section may be fields of what the section is about.
    """

    name: str
    section: bool
    required: bool


class _Block(NamedTuple):
    """A section that is not closed yet, or the template itself."""

    sigil: str
    name: str
    parts: Name
    start: int
    nodes: list[Node]


class Parser:
    """Reads one text, once, with a stack of its own: deep nesting is a message and no crash."""

    def __init__(self, text: str) -> None:
        self._text = text
        # Changed by `{{=<% %>=}}`.
        self._open, self._close = "{{", "}}"
        # The template and the sections that are open, the innermost last.
        self._blocks = [_Block("", "", (), 0, [])]
        # In the order in which they came first.
        self.variables: dict[str, Variable] = {}
        self.partials: dict[str, None] = {}

    def parse(self) -> tuple[Node, ...]:
        """All nodes.

        Raises:
            InvalidParams: Names the line and the mistake.
        """
        text, position = self._text, 0
        # Whether `position` is at the beginning of a line.
        opens = True
        while (start := text.find(self._open, position)) >= 0:
            sigil, content, end = self._tag(start)
            # Looked for behind the tag before this one only, so that long lines cost nothing.
            line = text.rfind("\n", position, start) + 1 or (position if opens else None)
            alone = None
            if sigil in _SILENT and line is not None and not text[line:start].strip(" \t"):
                alone = _REST_OF_LINE.match(text, end)
            if alone:
                self._add_text(position, line or 0, opens, followed=False)
                self._add_tag(sigil, content, start, text[line:start])
                position, opens = alone.end(), True
            else:
                self._add_text(position, start, opens, followed=True)
                self._add_tag(sigil, content, start, None)
                position, opens = end, False
        self._add_text(position, len(text), opens, followed=False)
        unclosed = self._blocks[-1]
        if unclosed.sigil:
            raise self._mistake(
                unclosed.start,
                f"section '{unclosed.name}' is not closed",
                f"Close it with {self._written('/' + unclosed.name)}",
            )
        return tuple(unclosed.nodes)

    def _tag(self, start: int) -> tuple[str, str, int]:
        """The tag that begins here: its sigil, or a space; its content; and where it ends."""
        text = self._text
        white = _WHITE.match(text, start + len(self._open))
        begin = white.end() if white else start
        sigil = text[begin : begin + 1] or " "
        if sigil in _SIGILS:
            begin += 1
        else:
            sigil = " "
        close = {"{": "}", "=": "="}.get(sigil, "") + self._close
        end = text.find(close, begin)
        if end < 0:
            opened = self._open + sigil.strip()
            raise self._mistake(start, f"'{opened}' is not closed", f"It ends with {close}")
        return sigil, text[begin:end], end + len(close)

    def _add_text(self, start: int, end: int, opens: bool, *, followed: bool) -> None:
        """The text between two tags; the second of them is on the same line if `followed`."""
        text = self._text[start:end]
        leads = followed and text.endswith("\n")
        if text or (opens and followed):
            self._blocks[-1].nodes.append(Text(text, opens, leads))

    def _add_tag(self, sigil: str, content: str, start: int, indentation: str | None) -> None:
        nodes = self._blocks[-1].nodes
        if sigil == "!":
            return
        if sigil == "=":
            self._set_delimiters(content, start)
        elif sigil in "<$":
            raise self._mistake(
                start,
                f"{self._written(sigil + content)} is inheritance, which there is not here",
                "Use a partial, {{>name}}",
            )
        elif sigil == ">":
            name = self._name(content, start)
            if name.startswith("*"):
                raise self._mistake(
                    start,
                    f"{self._written(sigil + content)} is a dynamic name, which there is not here",
                    "Name the partial itself",
                )
            self.partials[name] = None
            nodes.append(Partial(name, indentation))
        elif sigil == "/":
            self._close_section(self._name(content, start), start)
        elif sigil in "#^":
            self._open_section(sigil, self._name(content, start), start)
        else:
            name = self._name(content, start)
            nodes.append(Value(self._parts(name, start), escaped=sigil == " "))
            self._note(name, section=False)

    def _open_section(self, sigil: str, name: str, start: int) -> None:
        if len(self._blocks) > MAX_NESTING:
            raise self._mistake(
                start, f"sections are nested more than {MAX_NESTING} deep", "Use partials"
            )
        parts = self._parts(name, start)
        self._note(name, section=True)
        self._blocks.append(_Block(sigil, name, parts, start, []))

    def _close_section(self, name: str, start: int) -> None:
        block = self._blocks.pop()
        if not block.sigil:
            raise self._mistake(
                start, f"section '{name}' is closed but not open", "Open it before, or remove this"
            )
        if block.name != name:
            raise self._mistake(
                start,
                f"section '{name}' is closed, but '{block.name}' of line "
                f"{self._line_of(block.start)} is open",
                f"Close that first, with {self._written('/' + block.name)}",
            )
        made = Section(block.parts, block.sigil == "^", tuple(block.nodes))
        self._blocks[-1].nodes.append(made)

    def _set_delimiters(self, content: str, start: int) -> None:
        found = content.split()
        if len(found) != 2 or "=" in content or max(map(len, found)) > MAX_DELIMITER:
            raise self._mistake(
                start,
                f"{self._written(f'={_clipped(content)}=')} does not set two delimiters",
                "Write them with a space between, such as {{=<% %>=}}; without '='",
            )
        self._open, self._close = found

    def _name(self, content: str, start: int) -> str:
        """What a tag names."""
        words = content.split()
        if not words:
            raise self._mistake(start, "a tag is empty", "Write a name into it, or remove it")
        if len(words) > 1:
            raise self._mistake(
                start, f"'{_clipped(content)}' is not a name", "A name has no spaces in it"
            )
        if len(words[0]) > MAX_NAME:
            raise self._mistake(
                start, f"the name '{_clipped(words[0])}' is too long", f"{MAX_NAME} characters"
            )
        return words[0]

    def _parts(self, name: str, start: int) -> Name:
        parts = () if name == "." else tuple(name.split("."))
        if not all(parts):
            raise self._mistake(
                start, f"'{_clipped(name)}' is not a name", "Between dots there is a name each"
            )
        return parts

    def _note(self, name: str, *, section: bool) -> None:
        """Remember a variable."""
        if name == ".":
            return
        required = len(self._blocks) == 1 and not section
        known = self.variables.get(name)
        if known is not None:
            section, required = known.section or section, known.required or required
            if (section, required) == (known.section, known.required):
                return
        self.variables[name] = Variable(name, section, required)

    def _written(self, content: str) -> str:
        """A tag as it would be written here."""
        return f"{self._open}{_clipped(content)}{self._close}"

    def _mistake(self, start: int, message: str, suggestion: str) -> InvalidParams:
        return InvalidParams(f"line {self._line_of(start)}: {message}", suggestion=suggestion)

    def _line_of(self, position: int) -> int:
        return self._text.count("\n", 0, position) + 1


def _clipped(text: str) -> str:
    """One line of a text that may be anything."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"
