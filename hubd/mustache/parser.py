"""Mustache templates: from text to nodes. `template.py` renders the nodes."""

from typing import Final, NamedTuple

from hubd.errors import InvalidParams
from hubd.wire.lazy_pattern import lazy_pattern
from hubd.wire.text import shorten

# Sections in sections.
MAX_NESTING: Final = 100
MAX_NAME: Final = 200
MAX_DELIMITER: Final = 20
# Characters of a wrong text that an error message repeats.
QUOTED: Final = 40

_WHITE: Final = lazy_pattern(r"\s*")
_REST_OF_LINE: Final = lazy_pattern(r"[ \t]*(?:\r?\n|\Z)")
_EMPTY_LINE: Final = lazy_pattern(r"\r?\n")
# The start of a line that is not empty.
_LINE: Final = lazy_pattern(r"(?<=\n)(?!\r?\n|\Z)")

# The first character of a tag gives its kind; a tag without one of these is a value.
_SIGILS: Final = "#^/>!=&{<$"
# Tags without output: alone on a line, they remove the line.
_SILENT: Final = "#^/>!="

# The parts of a name; empty for `.`, which is the current value of the section.
Name = tuple[str, ...]


class Text(NamedTuple):
    """Literal text.

    `opens`: it is at the start of a line. `leads`: the next node is at the start of a line. An
    indented partial indents these places, and each place after a line break.
    """

    text: str
    opens: bool
    leads: bool

    def lines(self) -> list[str]:
        """Return the text, cut at each place to indent. Empty lines stay empty."""
        parts = _LINE.split(self.text)
        if self.opens and not _EMPTY_LINE.match(self.text):
            parts.insert(0, "")
        if self.leads:
            parts.append("")
        return parts


class Value(NamedTuple):
    """`{{name}}`; or `{{{name}}}` and `{{&name}}`, which are not escaped."""

    name: Name
    escaped: bool


class Section(NamedTuple):
    """`{{#name}}…{{/name}}`; or `{{^name}}…{{/name}}`, shown if the value is false."""

    name: Name
    inverted: bool
    body: tuple["Node", ...]


class Partial(NamedTuple):
    """`{{>name}}`. `indentation` is the space before it if it is alone on its line, else None."""

    name: str
    indentation: str | None


Node = Text | Value | Section | Partial


class Variable(NamedTuple):
    """A name that data can define.

    `section`: the value decides whether a section is shown, and how often. `required`: the value is
    outside of all sections. Names inside a section may be fields of the section's value.
    """

    name: str
    section: bool
    required: bool


class _Block(NamedTuple):
    """An open section, or the template itself."""

    sigil: str
    name: str
    parts: Name
    start: int
    nodes: list[Node]


class Parser:
    """A parser of one text. It has an explicit stack, so deep nesting can't crash it."""

    def __init__(self, text: str) -> None:
        self._text = text
        # Changed by `{{=<% %>=}}`.
        self._open, self._close = "{{", "}}"
        # The template and the open sections, the innermost last.
        self._blocks = [_Block("", "", (), 0, [])]
        # In order of first appearance.
        self.variables: dict[str, Variable] = {}
        self.partials: dict[str, None] = {}

    def parse(self) -> tuple[Node, ...]:
        """Return all nodes.

        Raises:
            InvalidParams: The template is invalid; the message names the line.
        """
        text, position = self._text, 0
        # Whether `position` is at the start of a line.
        opens = True
        while (start := text.find(self._open, position)) >= 0:
            sigil, content, end = self._tag(start)
            # Searched only after the previous tag, so that long lines stay cheap.
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
                f"Close it with {self._tag_text('/' + unclosed.name)}",
            )
        return tuple(unclosed.nodes)

    def _tag(self, start: int) -> tuple[str, str, int]:
        """Return the sigil of the tag at `start` (or a space), its content, and its end."""
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
            raise self._mistake(start, f"'{opened}' is not closed", f"Close it with {close}")
        return sigil, text[begin:end], end + len(close)

    def _add_text(self, start: int, end: int, opens: bool, *, followed: bool) -> None:
        """Add the text between two tags. With `followed`, the second is on the same line."""
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
                f"{self._tag_text(sigil + content)} is inheritance, which is not supported",
                "Use a partial: {{>name}}",
            )
        elif sigil == ">":
            name = self._name(content, start)
            if name.startswith("*"):
                raise self._mistake(
                    start,
                    f"{self._tag_text(sigil + content)} is a dynamic name, which is not supported",
                    "Write the name of the partial",
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
            self._add_variable(name, section=False)

    def _open_section(self, sigil: str, name: str, start: int) -> None:
        if len(self._blocks) > MAX_NESTING:
            raise self._mistake(
                start, f"sections are nested more than {MAX_NESTING} deep", "Use partials"
            )
        parts = self._parts(name, start)
        self._add_variable(name, section=True)
        self._blocks.append(_Block(sigil, name, parts, start, []))

    def _close_section(self, name: str, start: int) -> None:
        block = self._blocks.pop()
        if not block.sigil:
            raise self._mistake(
                start,
                f"section '{name}' is closed but not open",
                "Open it first, or remove the tag",
            )
        if block.name != name:
            raise self._mistake(
                start,
                f"section '{name}' is closed, but '{block.name}' of line "
                f"{self._line_of(block.start)} is open",
                f"Close that first, with {self._tag_text('/' + block.name)}",
            )
        section = Section(block.parts, block.sigil == "^", tuple(block.nodes))
        self._blocks[-1].nodes.append(section)

    def _set_delimiters(self, content: str, start: int) -> None:
        delimiters = content.split()
        if len(delimiters) != 2 or "=" in content or max(map(len, delimiters)) > MAX_DELIMITER:
            raise self._mistake(
                start,
                f"{self._tag_text(f'={_quote(content)}=')} does not set two delimiters",
                "Write two delimiters without '=', with a space between, such as {{=<% %>=}}",
            )
        self._open, self._close = delimiters

    def _name(self, content: str, start: int) -> str:
        """Return the name in a tag."""
        words = content.split()
        if not words:
            raise self._mistake(start, "a tag is empty", "Add a name, or remove the tag")
        if len(words) > 1:
            raise self._mistake(
                start, f"'{_quote(content)}' is not a name", "Write a name without spaces"
            )
        if len(words[0]) > MAX_NAME:
            raise self._mistake(
                start,
                f"the name '{_quote(words[0])}' is too long",
                f"Use at most {MAX_NAME} characters",
            )
        return words[0]

    def _parts(self, name: str, start: int) -> Name:
        parts = () if name == "." else tuple(name.split("."))
        if not all(parts):
            raise self._mistake(
                start, f"'{_quote(name)}' is not a name", "Write a name before and after each dot"
            )
        return parts

    def _add_variable(self, name: str, *, section: bool) -> None:
        """Add a variable."""
        if name == ".":
            return
        required = len(self._blocks) == 1 and not section
        earlier = self.variables.get(name)
        if earlier is not None:
            section, required = earlier.section or section, earlier.required or required
            if (section, required) == (earlier.section, earlier.required):
                return
        self.variables[name] = Variable(name, section, required)

    def _tag_text(self, content: str) -> str:
        """Return a tag with the current delimiters."""
        return f"{self._open}{_quote(content)}{self._close}"

    def _mistake(self, start: int, message: str, suggestion: str) -> InvalidParams:
        return InvalidParams(f"line {self._line_of(start)}: {message}", suggestion=suggestion)

    def _line_of(self, position: int) -> int:
        return self._text.count("\n", 0, position) + 1


def _quote(text: str) -> str:
    """Return a text on one short line."""
    return shorten(" ".join(text.split()), QUOTED)
