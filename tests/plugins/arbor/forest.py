"""Arbor in plain Python: what trees must look like after any sequence of steps."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

SCHEDULED_DAYS = 7
ARCHIVED_DAYS = 30

MAIN = frozenset({"main"})
EVENTS = frozenset({"events"})
BOTH = MAIN | EVENTS


class Content(NamedTuple):
    """The content of a node: `text` or `external`, and the text or the handle."""

    kind: str
    value: str


class View(NamedTuple):
    """A node as clients see it."""

    id: str
    parent: str | None
    depth: int
    lane: str
    content: Content
    label: str | None = None


@dataclass
class Tree:
    """One tree: its nodes in the order in which they were made."""

    id: str
    root: str
    owner: str
    metadata: dict[str, Any] | None
    owners: dict[str, int]
    history: list[str]
    state: str = "active"
    # Days since the state began.
    age: int = 0
    nodes: dict[str, View] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = {self.root: View(self.root, None, 0, "main", Content("text", ""))}

    @property
    def holder(self) -> str | None:
        """The owner that made the tree, or the first one that still holds it."""
        return self.owner if self.owner in self.owners else min(self.owners, default=None)

    def add(
        self, node: str, parent: str, lane: str, content: Content, label: str | None = None
    ) -> None:
        self.nodes[node] = View(node, parent, self.nodes[parent].depth + 1, lane, content, label)

    def enter(self, state: str, step: str) -> None:
        self.state, self.age = state, 0
        self.history.append(step)

    def seen(self, lanes: frozenset[str]) -> list[View]:
        return [node for node in self.nodes.values() if node.lane in lanes]

    def children(self, node: str, lanes: frozenset[str] = BOTH) -> list[str]:
        return [entry.id for entry in self.seen(lanes) if entry.parent == node]

    def below(self, node: str, lanes: frozenset[str] = BOTH) -> list[str]:
        """All below a node that chains of these lanes lead to."""
        children = self.children(node, lanes)
        for entry in children:
            children += self.children(entry, lanes)
        return children

    def path(self, node: str) -> list[str]:
        way = [node]
        while (above := self.nodes[way[-1]].parent) is not None:
            way.append(above)
        return way[::-1]

    def common(self, one: str, other: str) -> str:
        pairs = zip(self.path(one), self.path(other), strict=False)
        return [left for left, right in pairs if left == right][-1]

    def between(self, one: str, other: str) -> list[str]:
        shared = len(self.path(self.common(one, other)))
        up, down = self.path(one)[shared - 1 :], self.path(other)[shared:]
        return up[::-1] + down

    def shown(self, way: Iterable[str], lanes: frozenset[str]) -> list[str]:
        return [node for node in way if self.nodes[node].lane in lanes]

    def leaves(self, lanes: frozenset[str]) -> set[str]:
        return {node.id for node in self.seen(lanes) if not self.children(node.id, lanes)}

    def handles(self, nodes: Iterable[str]) -> list[str]:
        contents = [self.nodes[node].content for node in nodes]
        return [content.value for content in contents if content.kind == "external"]

    def left_out(self, last: str, depth: int, lanes: frozenset[str]) -> dict[str, int]:
        """How many nodes created after `last`, or deeper, count at each node that is neither."""
        order = list(self.nodes)
        visible = {
            node for node in order[: order.index(last) + 1] if self.nodes[node].depth <= depth
        }
        counts: dict[str, int] = {}
        for view in self.seen(lanes):
            if view.id in visible:
                continue
            above = view
            while above.id not in visible and above.parent is not None:
                above = self.nodes[above.parent]
                if above.lane not in lanes:
                    above = self.nodes[self.root]
            counts[above.id] = counts.get(above.id, 0) + 1
        return counts

    def drawing(self, lanes: frozenset[str], depth: int) -> str:
        """The tree as text. What hangs at a node that is not shown hangs at the root."""
        visible = {node.id: node for node in self.seen(lanes) if node.depth <= depth}
        hidden = {
            node.id: len(self.below(node.id, lanes))
            for node in visible.values()
            if node.depth == depth
        }
        rest = len(self.seen(lanes)) - len(visible) - sum(hidden.values())
        hidden[self.root] = hidden.get(self.root, 0) + rest
        hangs: dict[str, list[str]] = {}
        for node in visible.values():
            if node.id != self.root:
                above = node.parent if node.parent in visible else self.root
                hangs.setdefault(above or "", []).append(node.id)

        def draw(node: str, before: str, branch: str, inner: str) -> list[str]:
            lines = [f"{before}{branch}{_line(self.nodes[node].content)}".rstrip()]
            entries = hangs.get(node, [])
            more = hidden.get(node, 0)
            for number, entry in enumerate(entries):
                is_last = number == len(entries) - 1 and not more
                strokes = ("└── ", "    ") if is_last else ("├── ", "│   ")
                lines += draw(entry, before + inner, *strokes)
            if more:
                lines.append(f"{before}{inner}└── … {more} more")
            return lines

        return "\n".join(draw(self.root, "", "└── ", "    "))


class Forest:
    """All trees there ever were; one that is gone has the state `gone`."""

    def __init__(self) -> None:
        self.trees: dict[str, Tree] = {}

    def create(
        self, tree: str, root: str, owner: str, metadata: dict[str, Any] | None, step: str
    ) -> Tree:
        before = self.trees[tree].history if tree in self.trees else []
        created = Tree(tree, root, owner, metadata, {owner: 1}, [*before, step])
        # One that comes back is the newest of all.
        self.trees.pop(tree, None)
        self.trees[tree] = created
        return created

    def there(self) -> list[Tree]:
        return [tree for tree in self.trees.values() if tree.state != "gone"]

    def jump(self, days: int) -> None:
        for tree in self.trees.values():
            tree.age += days

    def due(self) -> list[tuple[str, str]]:
        steps = []
        for tree in self.there():
            if tree.state == "scheduled" and tree.age >= SCHEDULED_DAYS:
                steps.append((tree.id, "archived"))
            elif tree.state == "archived" and tree.age >= ARCHIVED_DAYS:
                steps.append((tree.id, "purged"))
        return steps

    def clean_up(self) -> None:
        for tree, step in self.due():
            self.trees[tree].enter("gone" if step == "purged" else step, step)


def _line(content: Content) -> str:
    if content.kind == "text":
        return content.value.replace("\n", "↵")
    plugin, _, rest = content.value.partition("@")
    _, _, meta = rest.partition("::")[2].partition(":")
    return f"[{plugin}:{meta}]" if meta else f"[{plugin}]"
