"""Mustache templates: text with blanks, and sections that are repeated or left out.

Our own engine, because work and output must be bounded and the variables of a template listed.
Standard library only, no I/O. It has all of the specification's core: values, sections, inverted
sections, comments, partials and other delimiters, with the rules about lines that hold only a tag.
It has no lambdas, no inheritance and no dynamic names; they are errors.

Data is JSON. False are `false`, `null`, `0`, `""`, `[]` and what is missing, as in mustache.js; an
empty object is true. As text, `null` is nothing, and lists and objects are compact JSON.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hubd.errors import InvalidParams
from hubd.mustache.parser import Name, Node, Parser, Partial, Section, Value, Variable

# In characters, for whoever takes templates from outside.
MAX_TEMPLATE: Final = 256 * 1024
# In bytes.
MAX_OUTPUT: Final = 1024 * 1024
# One for a node, one for an item of a list: about a tenth of a second.
MAX_STEPS: Final = 100_000
# Partials in partials. One that contains itself is fine as long as the data ends.
MAX_DEPTH: Final = 100
# Looking through so many contexts takes as long as a step.
CONTEXTS_A_STEP: Final = 16

FEWER: Final = "Give less data, or make the template smaller"

# By hand: the module html brings a large table of names along.
_ESCAPES: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}
)

_compact: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":")
).encode


@dataclass(frozen=True, slots=True)
class Template:
    """A template that was read. `variables` and `partials` are in order of first appearance."""

    nodes: tuple[Node, ...]
    variables: tuple[Variable, ...]
    partials: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "Template":
        """Read a template.

        Raises:
            InvalidParams: Names the line and the mistake.
        """
        parser = Parser(text)
        nodes = parser.parse()
        return cls(nodes, tuple(parser.variables.values()), tuple(parser.partials))

    def render(self, data: Any, partials: "Partials | None" = None, *, escape: bool = True) -> str:
        """Fill the template.

        Args:
            data: Whatever JSON can hold; normally an object.
            partials: Other templates by name. One that is not there is nothing.
            escape: Whether `{{x}}` is escaped for HTML.

        Raises:
            InvalidParams: A limit is exceeded, which is named, or a value is not JSON.
        """
        find = partials.get if isinstance(partials, Mapping) else partials
        return _Rendering(data, find or (lambda name: None), escape).run(self)


Find = Callable[[str], Template | None]
Partials = Mapping[str, Template] | Find


@dataclass(slots=True)
class _Running:
    """A template or section that is being rendered."""

    body: tuple[Node, ...]
    # Where it stands; begun anew for every item.
    nodes: Iterator[Node]
    # What comes before each line.
    indent: str
    # How many partials it is in.
    depth: int
    # What else a section is rendered with; None if it has no context of its own.
    items: Iterator[Any] | None = None


class _Rendering:
    """Renders one template, once, with a stack of its own: no data is too deep for Python's."""

    def __init__(self, data: Any, find: Find, escape: bool) -> None:
        self._find = find
        self._escape = escape
        # What names are looked up in, the last one first.
        self._contexts = [data]
        self._written: list[str] = []
        # Both only shrink.
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
        """What is to be rendered of a section."""
        value = self._look_up(node.name)
        if callable(value):
            raise InvalidParams(
                f"'{_shown(node.name)}' is a function, and there are no lambdas here",
                suggestion="Give it a value",
            )
        if _is_true(value) is node.inverted:
            return None
        inner = _Running(node.body, iter(node.body), outer.indent, outer.depth)
        if not node.inverted:
            inner.items = iter(value) if isinstance(value, list | tuple) else iter((value,))
            self._contexts.append(next(inner.items))
        return inner

    def _partial(self, node: Partial, outer: _Running) -> _Running | None:
        template = self._find(node.name)
        if template is None:
            return None
        if outer.depth == MAX_DEPTH:
            raise InvalidParams(
                f"partial '{node.name}': partials are nested more than {MAX_DEPTH} deep",
                suggestion="A partial that contains itself needs a section that ends it",
            )
        # One that is not alone on its line is not indented, whatever is around it.
        indent = outer.indent + node.indentation if node.indentation is not None else ""
        self._check_room(len(indent))
        return _Running(template.nodes, iter(template.nodes), indent, outer.depth + 1)

    def _again(self, running: _Running) -> bool:
        """Begin anew with the next item, if there is one."""
        if running.items is None:
            return False
        for item in running.items:
            self._spend(1)
            self._contexts[-1] = item
            running.nodes = iter(running.body)
            return True
        self._contexts.pop()
        return False

    def _look_up(self, name: Name) -> Any:
        """A value; None if it is missing.

        Only the first part is looked for in all contexts: a missing `b` of the nearest `a` is
        missing, even where an `a` farther out has one.
        """
        contexts = self._contexts
        if not name:
            return contexts[-1]
        for position in range(len(contexts) - 1, -1, -1):
            value = contexts[position]
            if isinstance(value, dict) and name[0] in value:
                break
        else:
            self._spend(len(contexts) // CONTEXTS_A_STEP)
            return None
        self._spend((len(contexts) - position + len(name)) // CONTEXTS_A_STEP)
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
        """Refuse what would be too much before it is made."""
        if size > self._room:
            raise InvalidParams(
                f"the text would be longer than {MAX_OUTPUT:,} bytes", suggestion=FEWER
            )

    def _spend(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise InvalidParams(
                f"rendering would take more than {MAX_STEPS:,} steps", suggestion=FEWER
            )


def _is_true(value: Any) -> bool:
    return isinstance(value, dict) or bool(value)


def _text(value: Any, name: Name) -> str:
    """A value as JSON writes it."""
    try:
        return _compact(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidParams(
            f"'{_shown(name)}' cannot be written as JSON: {error}",
            suggestion="Values are what JSON can hold; there are no lambdas here",
        ) from None


def _shown(name: Name) -> str:
    return ".".join(name) or "."
