"""The branches of a tree, for a page that shows all of them.

The first branch is the path of the document. Each other one begins where it leaves an earlier one,
so every step is on exactly one branch.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from hubd.conversations.export.entries import Type, Types
from hubd.storage.arbor import walk
from hubd.storage.arbor.tree import TreeRow
from hubd.storage.arbor.walk import MAIN_ONLY, Node
from hubd.storage.database import Database

# The nodes of a tree whose branches are shown; about 50 MB of memory.
MAX_NODES: Final = 200_000


class Branch(NamedTuple):
    """A branch: the keys of its steps, and the key of the step before the first one."""

    steps: list[int]
    fork: int | None


class Outline:
    """The steps of a tree. Nodes are added in order of creation."""

    def __init__(self, types: Types) -> None:
        self._types = types
        # By the id of a node: its type, its key, and the key of its step. A part has the step of
        # its message.
        self._nodes: dict[bytes, tuple[Type, int, int]] = {}
        # The step before a step, and the steps after it.
        self._before: dict[int, int] = {}
        self._after: dict[int, list[int]] = {}
        # The last message of a turn, by the key of the turn.
        self._last: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def add(self, node: Node) -> None:
        """Add a node. Its parent was added before."""
        own = self._types.of(node)
        above = self._nodes.get(node.parent) if node.parent is not None else None
        if above is None:
            self._nodes[node.id] = (own, node.key, node.key)
            return
        type_above, key_above, before = above
        if type_above.has_part(own):
            self._nodes[node.id] = (own, node.key, before)
            return
        if type_above.has_message(own):
            before = self._last.get(key_above, before)
            self._last[key_above] = node.key
        self._nodes[node.id] = (own, node.key, node.key)
        self._before[node.key] = before
        self._after.setdefault(before, []).append(node.key)

    def step(self, node_id: bytes) -> int | None:
        """Return the key of the step of a node; None if the node was not added."""
        entry = self._nodes.get(node_id)
        return entry[2] if entry else None

    def branches(self, end: bytes) -> list[Branch]:
        """Return all branches: first the one to a node, then the others in order of their forks."""
        path: list[int] = []
        step = self.step(end)
        while step is not None:
            path.append(step)
            step = self._before.get(step)
        path.reverse()
        branches = [Branch(path, None)]
        # A branch of the document ends at the given node, so all that follows is another branch.
        for branch in branches:
            followed = set(branch.steps)
            for fork in branch.steps:
                branches += (
                    Branch(self._line(first), fork)
                    for first in self._after.get(fork, ())
                    if first not in followed
                )
        return branches

    def _line(self, first: int) -> list[int]:
        """Return a step and the steps after it, always the oldest one."""
        steps = [first]
        while after := self._after.get(steps[-1]):
            steps.append(after[0])
        return steps


async def read_outline(db: Database, tree: TreeRow, types: Types) -> Outline | None:
    """Read the steps of a tree; None if it has too many nodes."""
    outline = Outline(types)
    async for page in walk.whole(db, tree, MAIN_ONLY):
        for node in page:
            outline.add(node)
        if len(outline) > MAX_NODES:
            return None
    return outline


def forks_of(branches: Sequence[Branch]) -> dict[int, list[int]]:
    """Return the numbers of the branches that begin after a step, from 2, by its key."""
    forks: dict[int, list[int]] = {}
    for number, branch in enumerate(branches, 1):
        if branch.fork is not None:
            forks.setdefault(branch.fork, []).append(number)
    return forks
