"""Random steps in the life of trees, taken by a model and by the real thing at once."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import strategies as st

from hubd.errors import HubError
from tests.plugins.arbor.forest import Content, Forest, Tree
from tests.plugins.arbor.system import System

T = TypeVar("T")

OWNERS = ("system", "ann", 'b"o\\bü')
HANDLES = (
    "echo@1.0.0::once:hi",
    "cone@1.0.0::chat:msg-aaa:system:init",
    "solar.earth@1.0.0::info:earth",
    "bare@2.0.0::nothing",
    "x@1.0.0::y:%3A::50%25",
)
JUMPS = (1, 6, 7, 8, 30, 40, -3)
METADATA: tuple[dict[str, Any] | None, ...] = (None, {}, {"a": {"b": [1, True, "ü"]}}, {"n": 1.5})

# Nothing happens. A failing example shrinks to few steps and many of these.
REST = "rest"
# Growing is what happens most; the others are there often enough to meet each other.
GROWING = (*("text", "event") * 5, *("external", "side", "delete_node") * 3, "create")
CHANGING = ("label", "describe", "copy", "move")
HOLDING = ("claim", "release", "release", "archive", "delete")
CLEANING = ("jump", "clean_up")


@dataclass(frozen=True)
class Step:
    """One step. Its numbers choose among the trees and nodes that exist."""

    name: str
    tree: int = 0
    node: int = 0
    choice: int = 0
    flag: bool = False
    text: str = ""


def steps(*names: str) -> st.SearchStrategy[Step]:
    small = st.integers(0, 40)
    # Often the newest, so that some branches grow long.
    node = st.just(-1) | small
    words = st.text("ab\n", max_size=4)
    return st.builds(Step, st.sampled_from(names), small, node, small, st.booleans(), words)


class Walker:
    """Takes steps in the model and in the system, and compares their errors."""

    def __init__(self, forest: Forest, system: System) -> None:
        self.forest = forest
        self.system = system

    async def take(self, step: Step) -> None:
        """One step; the first one always makes a tree."""
        name = step.name if self.forest.trees else "create"
        await getattr(self, f"_{name}")(step)

    async def _create(self, step: Step) -> None:
        owner, metadata = _one(OWNERS, step.choice), _one(METADATA, step.node)
        tree_id, root = await self.system.create(owner, metadata)
        self.forest.create(tree_id, root, owner, metadata, "created")

    async def _text(self, step: Step) -> None:
        await self._append(step, Content("text", step.text), "main", side=False)

    async def _external(self, step: Step) -> None:
        content = Content("external", _one(HANDLES, step.choice))
        await self._append(step, content, "main", side=False)

    async def _side(self, step: Step) -> None:
        await self._append(step, Content("text", step.text), "main", side=True)

    async def _event(self, step: Step) -> None:
        content = Content("external", _one(HANDLES, step.choice))
        await self._append(step, content, "events", side=step.flag)

    async def _append(self, step: Step, content: Content, lane: str, *, side: bool) -> None:
        tree, parent = self._chosen(step)
        label = (_label(step) or None) if step.flag else None
        created = await self._try(
            _closed(tree), self.system.append(tree.id, parent, content, lane, side, label)
        )
        if created is not None:
            tree.add(created, parent, lane, content, label)

    async def _label(self, step: Step) -> None:
        tree, node = self._chosen(step)
        label = _label(step) or None
        refused = _closed(tree)
        await self._try(refused, self.system.label(tree.id, node, label))
        if refused is None:
            tree.nodes[node] = tree.nodes[node]._replace(label=label)

    async def _describe(self, step: Step) -> None:
        tree, _ = self._chosen(step)
        metadata = _one(METADATA, step.choice)
        refused = _closed(tree)
        await self._try(refused, self.system.describe(tree.id, metadata))
        if refused is None:
            tree.metadata = metadata

    async def _delete_node(self, step: Step) -> None:
        tree, node = self._chosen(step)
        doomed = [node, *tree.below(node)]
        refused = _closed(tree)
        if refused is None and (node == tree.root or (len(doomed) > 1 and not step.flag)):
            refused = "conflict"
        count = await self._try(refused, self.system.delete_node(tree.id, node, step.flag))
        if count is not None:
            assert count == len(doomed)
            for entry in doomed:
                del tree.nodes[entry]

    async def _claim(self, step: Step) -> None:
        tree, _ = self._chosen(step)
        owner, count = _one(OWNERS, step.choice), 1 + step.node % 3
        references = await self._try(_closed(tree), self.system.claim(tree.id, owner, count))
        if references is not None:
            tree.owners[owner] = tree.owners.get(owner, 0) + count
            tree.history.append("claimed")
            if tree.state == "scheduled":
                tree.enter("active", "revived")
            assert references == (tree.owners[owner], sum(tree.owners.values()))

    async def _release(self, step: Step) -> None:
        tree, _ = self._chosen(step)
        # Usually a current owner.
        owner, count = _one((*tree.owners, *tree.owners, *OWNERS), step.choice), 1 + step.node % 2
        refused = "not_found" if tree.state == "gone" else None
        if refused is None and tree.owners.get(owner, 0) < count:
            refused = "conflict"
        references = await self._try(refused, self.system.release(tree.id, owner, count))
        if references is not None:
            left = tree.owners.pop(owner) - count
            if left:
                tree.owners[owner] = left
            tree.history.append("released")
            if not tree.owners:
                tree.enter("scheduled", "scheduled")
            assert references == (left, sum(tree.owners.values()))

    async def _archive(self, step: Step) -> None:
        tree, _ = self._chosen(step)
        owner = _one(OWNERS, step.choice)
        refused = _closed(tree) or _held(tree, owner, step)
        await self._try(refused, self.system.archive(tree.id, owner, step.flag))
        if refused is None:
            tree.owners = {}
            tree.enter("archived", "archived")

    async def _delete(self, step: Step) -> None:
        tree, _ = self._chosen(step)
        owner = _one(OWNERS, step.choice)
        refused = "not_found" if tree.state == "gone" else _held(tree, owner, step)
        await self._try(refused, self.system.delete(tree.id, owner, step.flag))
        if refused is None:
            tree.owners = {}
            tree.enter("gone", "purged")

    async def _jump(self, step: Step) -> None:
        days = _one(JUMPS, step.choice)
        await self.system.jump(days)
        self.forest.jump(days)

    async def _clean_up(self, step: Step) -> None:
        expected = sorted(self.forest.due())
        assert sorted(await self.system.due()) == expected
        assert sorted(await self.system.clean_up()) == expected
        self.forest.clean_up()

    async def _copy(self, step: Step) -> None:
        """Export a tree, and import it with new ids."""
        tree, _ = self._chosen(step)
        refused = "not_found" if tree.state == "gone" else None
        lines = await self._try(refused, self.system.export(tree.id))
        if lines is not None:
            loaded = await self.system.load(lines, True)
            copied = await self.system.export(loaded)
            await self._loaded(tree, loaded, copied)
            existing = {line["id"] for line in lines[1:]} | {tree.root}
            assert existing.isdisjoint(self.forest.trees[loaded].nodes)
            # The order of the ids is the order of the old ones.
            pairs = list(zip(lines[1:], copied[1:], strict=True))
            by_old = sorted(pairs, key=lambda pair: str(pair[0]["id"]))
            by_new = sorted(pairs, key=lambda pair: str(pair[1]["id"]))
            assert by_old == by_new

    async def _move(self, step: Step) -> None:
        """Export a tree, remove it for good, and import it again; first while it is there."""
        tree, _ = self._chosen(step)
        refused = "not_found" if tree.state == "gone" else None
        lines = await self._try(refused, self.system.export(tree.id))
        if lines is not None:
            await self._try("conflict", self.system.load(lines, False))
            await self.system.delete(tree.id, "nobody", True)
            tree.enter("gone", "purged")
            await self._clean_up(step)
            assert await self.system.load(lines, False) == tree.id
            assert await self.system.export(tree.id) == lines
            await self._loaded(tree, tree.id, lines)

    async def _loaded(self, origin: Tree, tree_id: str, lines: list[dict[str, Any]]) -> None:
        """Return the model of the imported tree: the nodes of the original, in order."""
        header, *rest = lines
        assert header["tree_id"] == tree_id
        old = [node for node in origin.nodes if node != origin.root]
        new = dict(zip(old, (line["id"] for line in rest), strict=True))
        imported = self.forest.create(
            tree_id, header["root"], origin.owner, origin.metadata, "imported"
        )
        new[origin.root] = imported.root
        for node in old:
            view = origin.nodes[node]
            assert view.parent is not None
            imported.add(new[node], new[view.parent], view.lane, view.content, view.label)

    def _chosen(self, step: Step) -> tuple[Tree, str]:
        tree = _one(tuple(self.forest.trees.values()), step.tree)
        return tree, _one(tuple(tree.nodes), step.node)

    async def _try(self, refused: str | None, work: Awaitable[T]) -> T | None:
        try:
            result = await work
        except HubError as error:
            if error.code != refused:
                raise
            return None
        assert refused is None, f"this had to fail with {refused}"
        return result


def _closed(tree: Tree) -> str | None:
    """Why nothing can be written to a tree."""
    return {"gone": "not_found", "archived": "conflict"}.get(tree.state)


def _held(tree: Tree, owner: str, step: Step) -> str | None:
    return "conflict" if tree.owners.keys() - {owner} and not step.flag else None


def _one(of: tuple[T, ...], number: int) -> T:
    return of[number % len(of)]


def _label(step: Step) -> str:
    """A label is one line."""
    return step.text.replace("\n", " ")
