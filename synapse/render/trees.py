"""Trees of nodes at a terminal, collected from the pages of a method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from hubd.wire.terminal import clean
from synapse.render.exchanges import Conversation, is_conversation
from synapse.render.human import Human
from synapse.render.nodes import lines, node_text, tree_of
from synapse.render.plain import text_of
from synapse.render.tables import cut
from synapse.render.values import flat, short_uuid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from synapse.render.nodes import Line
    from synapse.render.values import Values

# The part of the width that marks may take.
MARKS_SHARE = 3


class Trees:
    """The trees of a call, by their ids."""

    def __init__(self, human: Human, hint: str = "") -> None:
        self._human = human
        # The options that show more of a tree.
        self._hint = hint
        # For each tree the fields besides its nodes, and its nodes.
        self._trees: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {}

    def take(self, content: Any) -> bool:
        """Keep the nodes of an event; return whether it has any."""
        tree = tree_of(content)
        if tree is None:
            return False
        fields, nodes = self._trees.setdefault(str(tree.get("tree_id")), ({}, []))
        fields |= {name: value for name, value in tree.items() if name != "nodes"}
        nodes += tree["nodes"]
        return True

    def draw(self) -> None:
        """Show every tree."""
        trees, self._trees = self._trees, {}
        for fields, nodes in trees.values():
            self._draw(fields, nodes)

    def _draw(self, fields: dict[str, Any], nodes: list[dict[str, Any]]) -> None:
        width = self._human.console.width
        parts = [short_uuid(fields.get("tree_id")) or flat(str(fields.get("tree_id", "")))]
        names = [name for node in nodes for name in node.get("marks") or ()]
        title = fields.get("title") or next(iter(names), "")
        parts = [*filter(None, [flat(str(title))]), *parts]
        more = fields.get("more")
        more = more if isinstance(more, int) else 0
        if is_conversation(nodes):
            conversation = Conversation(nodes)
            entries = [exchange.node() for exchange in conversation.exchanges]
            details = {each.id: each.details() for each in conversation.exchanges}
            parts.append(
                ", ".join(
                    (
                        _count(conversation.prompts, "turn"),
                        _count(conversation.branches, "branch", "branches"),
                        _count(_drawn(nodes) + more, "node"),
                    )
                )
            )
            drawn = lines(entries, width, details)
        else:
            parts.append(_count(_drawn(nodes) + more, "node"))
            drawn = lines(nodes, width)
        heading = " · ".join(parts)
        if cell_len(heading) > width:
            heading = f"{' · '.join(parts[:-1])}\n{parts[-1]}"
        self._human.show(Text(heading, style="bold"))
        self._show_fields(fields)
        self._human.show_lines(self._texts(drawn, width))
        if more:
            hint = f" ({self._hint})" if self._hint else ""
            self._human.show(Text(f"… {_count(more, 'more node')}{hint}", style="dim"))

    def _texts(self, drawn: list[Line], width: int) -> list[Text]:
        """Return the lines with the times and marks of their nodes at the right."""
        times = [self._time(line.node) for line in drawn]
        marks = [_marks(line.node, width // MARKS_SHARE) for line in drawn]
        time_width = max(map(cell_len, times), default=0)
        mark_width = max(map(cell_len, marks), default=0)
        used = (time_width and time_width + 2) + (mark_width and mark_width + 2)
        texts = []
        for line, moment, mark in zip(drawn, times, marks, strict=True):
            start = f"{line.id}  " if line.id else ""
            if line.node is None:
                body = cut(line.text, max(width - cell_len(line.prefix), 8))
                text = Text.assemble(line.prefix, (body, "dim"))
                text.highlight_words(["✗"], "red")
            else:
                room = width - cell_len(line.prefix) - cell_len(start) - used
                body = cut(line.text, max(room, 4))
                text = Text.assemble(line.prefix, (start, "cyan"), body)
                if moment or mark:
                    text.append(" " * (max(room, 4) - cell_len(body)))
                if time_width:
                    text.append(f"  {moment:>{time_width}}", style="dim")
                if mark:
                    text.append(f"  {mark}", style="green")
                text.rstrip()
            text.no_wrap, text.overflow = True, "ellipsis"
            texts.append(text)
        return texts

    def _time(self, node: Mapping[str, Any] | None) -> str:
        if node is None or not isinstance(node.get("created_at"), int):
            return ""
        return self._human.values.cell("created_at", node["created_at"]).text.removesuffix(" ago")

    def _show_fields(self, fields: dict[str, Any]) -> None:
        hidden = ("type", "render", "more", "tree_id", "title")
        rest = {name: value for name, value in fields.items() if name not in hidden}
        if rest:
            self._human.show_fields(rest)


class Branches(Human):
    """A tree of nodes by their parents; other events by their text."""

    def __init__(self, hint: str = "", values: Values | None = None) -> None:
        super().__init__(values)
        self._trees = Trees(self, hint)

    def event(self, content: Any) -> None:
        """Keep the nodes, because a tree may come in pages."""
        if self._trees.take(content):
            return
        text = text_of(content)
        if text is None:
            self.show_fields(content)
        else:
            self.show_text(clean(text))

    def idle(self) -> None:
        """Wait for the rest of a tree."""

    def pause(self) -> None:
        """Draw the trees so far before a question."""
        self._trees.draw()
        super().pause()

    def close(self) -> None:
        """Draw the trees."""
        self._trees.draw()
        super().close()


def _marks(node: Mapping[str, Any] | None, room: int) -> str:
    """Return the names at a node; those without room are counted."""
    names = [flat(str(name)) for name in (node or {}).get("marks") or ()]
    if not names:
        return ""
    for count in range(len(names), 0, -1):
        more = f" +{len(names) - count}" if count < len(names) else ""
        text = f"← {', '.join(names[:count])}{more}"
        if cell_len(text) <= room or count == 1:
            break
    return cut(text, max(room, 8))


def _drawn(nodes: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of nodes, without an empty root."""
    return sum(
        node.get("parent") is not None or bool(node.get("text") or node_text(node))
        for node in nodes
    )


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
