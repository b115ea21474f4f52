"""Mustache templates: text with values, and sections that are repeated or left out.

This engine bounds its work and its output, and lists the variables of a template. It does no I/O.
It implements the core of the specification: values, sections, inverted sections, comments, partials
and other delimiters, with the rules for lines that hold only a tag. Lambdas, inheritance and
dynamic names are errors.

Data is JSON. `false`, `null`, `0`, `""`, `[]` and missing values are false, as in mustache.js; an
empty object is true. As text, `null` is empty, and lists and objects are compact JSON.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hubd.errors import InvalidParams
from hubd.mustache.parser import Name, Node, Parser, Partial, Section, Value, Variable

# Bytes.
MAX_OUTPUT: Final = 1024 * 1024
# Nodes and items of lists: about a tenth of a second.
MAX_STEPS: Final = 100_000
# Partials in partials. A recursive partial ends with its data.
MAX_DEPTH: Final = 100
# Objects that can be searched in the time of one step.
LOOKUPS_PER_STEP: Final = 16

REDUCE: Final = "Use less data, or a smaller template"

# The module html would import a large table of names.
_ESCAPES: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}
)

_compact: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":")
).encode


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template. `variables` and `partials` are in order of first appearance."""

    nodes: tuple[Node, ...]
    variables: tuple[Variable, ...]
    partials: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "Template":
        """Parse a template.

        Raises:
            InvalidParams: The template is invalid; the message names the line.
        """
        parser = Parser(text)
        nodes = parser.parse()
        return cls(nodes, tuple(parser.variables.values()), tuple(parser.partials))

    def render(self, data: Any, partials: "Partials | None" = None, *, escape: bool = True) -> str:
        """Render the template.

        Args:
            data: A JSON value; normally an object.
            partials: Other templates by name. A missing partial is empty.
            escape: Whether `{{x}}` is escaped for HTML.

        Raises:
            InvalidParams: A limit is exceeded, or a value is not JSON.
        """
        find = partials.get if isinstance(partials, Mapping) else partials
        return _Rendering(data, find or (lambda name: None), escape).run(self)


Find = Callable[[str], Template | None]
Partials = Mapping[str, Template] | Find


@dataclass(slots=True)
class _Running:
    """A template or section during its rendering."""

    body: tuple[Node, ...]
    # The remaining nodes; started again for every item.
    nodes: Iterator[Node]
    # The indentation of each line.
    indent: str
    # The number of partials around it.
    depth: int
    # The remaining items of a section; None without a value to look names up in.
    items: Iterator[Any] | None = None


class _Rendering:
    """One rendering of a template. It has an explicit stack, so deep data can't crash it."""

    def __init__(self, data: Any, find: Find, escape: bool) -> None:
        self._find = find
        self._escape = escape
        # The values to look names up in, the last one first.
        self._scopes = [data]
        self._written: list[str] = []
        # The remaining bytes and steps.
        self._room = MAX_OUTPUT
        self._steps = MAX_STEPS

    def run(self, template: Template) -> str:
        stack = [_Running(template.nodes, iter(template.nodes), "", 0)]
        while stack:
            running = stack[-1]
            for node in running.nodes:
                self._spend(1)
                if isinstance(node, Value):
                    self._write_value(node)
                elif isinstance(node, Section):
                    if inner := self._section(node, running):
                        stack.append(inner)
                        break
                elif isinstance(node, Partial):
                    if inner := self._partial(node, running):
                        stack.append(inner)
                        break
                elif running.indent:
                    self._write_lines(node.lines(), running.indent)
                else:
                    self._write(node.text)
            else:
                if not self._again(running):
                    stack.pop()
        return "".join(self._written)

    def _section(self, node: Section, outer: _Running) -> _Running | None:
        """Return the section to render, or None if it is left out."""
        value = self._look_up(node.name)
        if callable(value):
            raise InvalidParams(
                f"'{_dotted(node.name)}' is a function; lambdas are not supported",
                suggestion="Use a JSON value",
            )
        if _is_true(value) is node.inverted:
            return None
        inner = _Running(node.body, iter(node.body), outer.indent, outer.depth)
        if not node.inverted:
            inner.items = iter(value) if isinstance(value, list | tuple) else iter((value,))
            self._scopes.append(next(inner.items))
        return inner

    def _partial(self, node: Partial, outer: _Running) -> _Running | None:
        template = self._find(node.name)
        if template is None:
            return None
        if outer.depth == MAX_DEPTH:
            raise InvalidParams(
                f"partial '{node.name}': partials are nested more than {MAX_DEPTH} deep",
                suggestion="Put a section around a recursive partial, so that it ends",
            )
        # Only a partial that is alone on its line is indented.
        indent = outer.indent + node.indentation if node.indentation is not None else ""
        self._check_room(len(indent))
        return _Running(template.nodes, iter(template.nodes), indent, outer.depth + 1)

    def _again(self, running: _Running) -> bool:
        """Start again with the next item. Return False if there is none."""
        if running.items is None:
            return False
        for item in running.items:
            self._spend(1)
            self._scopes[-1] = item
            running.nodes = iter(running.body)
            return True
        self._scopes.pop()
        return False

    def _look_up(self, name: Name) -> Any:
        """Return a value, or None if it is missing.

        Only the first part of a name is searched in all scopes: if the nearest `a` has no `b`,
        `a.b` is missing, even if an outer `a` has one.
        """
        scopes = self._scopes
        if not name:
            return scopes[-1]
        for position in range(len(scopes) - 1, -1, -1):
            value = scopes[position]
            if isinstance(value, dict) and name[0] in value:
                break
        else:
            self._spend(len(scopes) // LOOKUPS_PER_STEP)
            return None
        self._spend((len(scopes) - position + len(name)) // LOOKUPS_PER_STEP)
        for part in name:
            if not isinstance(value, dict) or part not in value:
                return None
            value = value[part]
        return value

    def _write_value(self, node: Value) -> None:
        value = self._look_up(node.name)
        if value is None:
            return
        text = value if isinstance(value, str) else _text(value, node.name)
        self._check_room(len(text))
        self._write(text.translate(_ESCAPES) if self._escape and node.escaped else text)

    def _write_lines(self, lines: list[str], indent: str) -> None:
        self._check_room(len(indent) * (len(lines) - 1))
        self._write(indent.join(lines))

    def _write(self, text: str) -> None:
        size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
        self._check_room(size)
        self._room -= size
        self._written.append(text)

    def _check_room(self, size: int) -> None:
        """Refuse an output that exceeds the limit, before it is built."""
        if size > self._room:
            raise InvalidParams(
                f"the text would be longer than {MAX_OUTPUT:,} bytes", suggestion=REDUCE
            )

    def _spend(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise InvalidParams(
                f"rendering would take more than {MAX_STEPS:,} steps", suggestion=REDUCE
            )


def _is_true(value: Any) -> bool:
    return isinstance(value, dict) or bool(value)


def _text(value: Any, name: Name) -> str:
    """Return a value as JSON."""
    try:
        return _compact(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidParams(
            f"'{_dotted(name)}' cannot be written as JSON: {error}",
            suggestion="Use JSON values",
        ) from None


def _dotted(name: Name) -> str:
    return ".".join(name) or "."
