"""Trees of nodes at a terminal, collected from the pages of a method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from hubd.wire.terminal import clean
from synapse.render.human import Human
from synapse.render.nodes import lines, tree_of
from synapse.render.plain import text_of

if TYPE_CHECKING:
    from synapse.render.values import Values


class Trees:
    """The trees of a call, by their ids."""

    def __init__(self, human: Human, options: str = "") -> None:
        self._human = human
        # The method's options that show more of a tree, for the hint.
        self._options = options
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
        show, width = self._human.show, self._human.console.width
        for fields, nodes in trees.values():
            self._show_fields(fields)
            for line in lines(nodes, width):
                node = f"{clean(line.id)}  " if line.id else ""
                text = Text.assemble(line.prefix, (node, "cyan"), line.text)
                show(text, no_wrap=True, overflow="ellipsis")
            more = fields.get("more")
            if isinstance(more, int) and more:
                hint = f" (see {self._options})" if self._options else ""
                show(Text(f"… {more:,} more nodes{hint}", style="dim"))

    def _show_fields(self, fields: dict[str, Any]) -> None:
        hidden = ("type", "render", "more", "tree_id")
        self._human.show(Text(clean(str(fields.get("tree_id", ""))), style="bold"))
        rest = {name: value for name, value in fields.items() if name not in hidden}
        if rest:
            self._human.show_fields(rest)


class Branches(Human):
    """A tree of nodes by their parents; other events by their text."""

    def __init__(self, options: str = "", values: Values | None = None) -> None:
        super().__init__(values)
        self._trees = Trees(self, options)

    def event(self, content: Any) -> None:
        """Keep the nodes, because a tree may come in pages."""
        if not self._trees.take(content):
            text = text_of(content)
            if text is None:
                self.show_fields(content)
            else:
                self.show(Text(clean(text)))

    def pause(self) -> None:
        """Draw the trees so far before a question."""
        super().pause()
        self._trees.draw()

    def close(self) -> None:
        """Draw the trees."""
        self.pause()
