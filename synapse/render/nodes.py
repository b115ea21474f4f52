"""Draw a tree of nodes, at least one line per node at any width.

Only a fork indents: an only child follows its parent at the same level. If one child continues and
the others are short (a message's blocks beside the next turn), the short ones are drawn first,
indented, and the long one follows at the same level. Otherwise all children are branches. The
indentation stops growing when it leaves no space for text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hubd.wire.terminal import clean
from hubd.wire.text import shorten
from synapse.render.plain import text_of
from synapse.render.values import MAX_CELL, SHORT_DIGITS, flat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Detail = Callable[[int], str]

# The columns reserved for the id and the text of a node.
TEXT_COLUMNS = 30
# The greatest height of a subtree that is part of a message.
SHORT_HEIGHT = 1


class Line(NamedTuple):
    """One line of the drawing: a node, or a text that belongs to the node above it."""

    prefix: str
    id: str
    text: str
    # None for a line that is not a node's own.
    node: Mapping[str, Any] | None = None


def tree_of(content: Any) -> dict[str, Any] | None:
    """Return the part of an event that has `nodes` with ids and parents; None if there is none."""
    for place in (content, content.get("tree")) if isinstance(content, dict) else ():
        nodes = place.get("nodes") if isinstance(place, dict) else None
        if isinstance(nodes, list) and all(map(_is_node, nodes)):
            return place
    return None


def short_id(entry: Mapping[str, Any], name: str = "id") -> str:
    """Return the short form of an id: the hub's own, or the end of a UUID."""
    if isinstance(entry.get("short_id"), str):
        return str(entry["short_id"])
    text = str(entry.get(name) or "")
    digits = text.replace("-", "")
    is_uuid = len(digits) == 32 and all(digit in "0123456789abcdef" for digit in digits.lower())
    return digits[-SHORT_DIGITS:] if is_uuid else text


def node_text(node: Mapping[str, Any]) -> str:
    """Return the text of a node on one line."""
    text = node.get("summary") or text_of(node.get("data")) or ""
    label = node.get("label")
    text = f"[{label}] {text}" if label else str(text)
    return clean(shorten(text, MAX_CELL)).replace("\n", "↵").replace("\t", " ").strip()


def lines(
    nodes: Sequence[Mapping[str, Any]],
    width: int,
    details: Mapping[str, Sequence[Detail]] | None = None,
) -> list[Line]:
    """Draw the nodes, parents before their children.

    Args:
        nodes: The nodes, in any order.
        width: The width of the terminal.
        details: Further lines below a node, by its id, each as a function of its width.
    """
    return _Drawing(nodes, width, details or {}).lines()


class _Drawing:
    def __init__(
        self,
        nodes: Sequence[Mapping[str, Any]],
        width: int,
        details: Mapping[str, Sequence[Detail]],
    ) -> None:
        self._nodes = {str(node["id"]): node for node in nodes}
        self._details = details
        self._width = width
        self._room = max(width - TEXT_COLUMNS, 0)
        self._below: dict[str, list[str]] = {}
        tops: list[str] = []
        for name, node in self._nodes.items():
            parent = node.get("parent")
            is_top = parent is None or str(parent) not in self._nodes or str(parent) == name
            (tops if is_top else self._below.setdefault(str(parent), [])).append(name)
        # Every node, each after its parent.
        self._order: dict[str, None] = {}
        self._visit(tops)
        # Nodes that are their own ancestors are an error of the hub, but they are shown.
        for name, node in self._nodes.items():
            if name not in self._order:
                self._below[str(node["parent"])].remove(name)
                tops.append(name)
                self._visit([name])
        self._tops = tops
        self._sizes: dict[str, int] = {}
        self._heights: dict[str, int] = {}
        for name in reversed(self._order):
            children = self._below.get(name, ())
            self._sizes[name] = 1 + sum(self._sizes[child] for child in children)
            self._heights[name] = max((1 + self._heights[child] for child in children), default=0)

    def _visit(self, tops: list[str]) -> None:
        """Add some nodes, and the nodes below them, to the order."""
        waiting = list(reversed(tops))
        while waiting:
            name = waiting.pop()
            if name not in self._order:
                self._order[name] = None
                waiting += reversed(self._below.get(name, ()))

    def lines(self) -> list[Line]:
        drawn: list[Line] = []
        tops = self._tops
        # A root without text is the tree itself, which has a heading.
        if len(tops) == 1 and not node_text(self._nodes[tops[0]]):
            waiting = self._children(tops[0], "")
            drawn += self._left_out(tops[0], "")
        else:
            waiting = [(top, "", "") for top in reversed(tops)]
        while waiting:
            name, prefix, branch = waiting.pop()
            node = self._nodes[name]
            drawn.append(Line(f"{prefix}{branch}● ", flat(short_id(node)), node_text(node), node))
            inner = prefix + {"├─": "│ ", "└─": "  "}.get(branch, "")
            # A line down to the next node of this level, if there is one.
            bar = "│ " if self._below.get(name) else "  "
            room = max(self._width - len(inner) - 4, TEXT_COLUMNS // 2)
            for detail in self._details.get(name, ()):
                drawn.append(Line(f"{inner}{bar}  ", "", detail(room)))
            drawn += self._left_out(name, inner)
            waiting += self._children(name, inner)
        return drawn

    def _left_out(self, name: str, prefix: str) -> list[Line]:
        more = self._nodes[name].get("more")
        return (
            [Line(f"{prefix}  ", "", f"… {more:,} more")] if isinstance(more, int) and more else []
        )

    def _children(self, name: str, prefix: str) -> list[tuple[str, str, str]]:
        """Return the children of a node with their prefixes, in reverse order."""
        children = self._below.get(name, [])
        if len(children) < 2:
            return [(child, prefix, "") for child in children]
        longest = max(reversed(children), key=self._sizes.__getitem__)
        others = [child for child in children if child != longest]
        goes_on = self._heights[longest] > SHORT_HEIGHT
        is_fork = any(self._heights[child] > SHORT_HEIGHT for child in others)
        if len(prefix) + 2 > self._room:
            branches = [(child, prefix, "↳ ") for child in others]
            return [(longest, prefix, ""), *reversed(branches)]
        if goes_on and not is_fork:
            branches = [(child, prefix, "├─") for child in others]
            return [(longest, prefix, ""), *reversed(branches)]
        branches = [(child, prefix, "├─") for child in children[:-1]]
        return [(children[-1], prefix, "└─"), *reversed(branches)]


def _is_node(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("id") is not None and "parent" in entry
