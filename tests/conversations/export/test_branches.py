"""The branches of a tree: every step is on exactly one of them."""

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from hubd.conversations.export.branches import Outline, forks_of
from hubd.conversations.export.entries import Type, Types
from hubd.storage.arbor.walk import Node

KINDS = ("turn", "message", "block", "output", "")


class TypesByLabel:
    """The type of a node is its label."""

    def of(self, node: Node) -> Type:
        return Type("p", node.label) if node.label else Type()


def tree_of(parts: list[tuple[int, str]]) -> list[Node]:
    """Return nodes with these parents, as distances, and kinds."""
    nodes = [Node(None, 0, b"root", 0, 0, 0, "", None, "", None, 0)]
    for key, (distance, kind) in enumerate(parts, 1):
        parent = nodes[max(0, key - distance)].id
        nodes.append(Node(parent, key, str(key).encode(), 0, 0, 0, "", None, kind, None, 0))
    return nodes


def outline_of(nodes: list[Node]) -> Outline:
    outline = Outline(cast("Types", TypesByLabel()))
    for node in nodes:
        outline.add(node)
    return outline


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from(KINDS)), max_size=30), st.data())
def test_every_step_is_on_exactly_one_branch(parts: list[tuple[int, str]], data: Any) -> None:
    nodes = tree_of(parts)
    outline = outline_of(nodes)
    end = data.draw(st.sampled_from(nodes))
    branches = outline.branches(end.id)
    steps = [step for branch in branches for step in branch.steps]
    assert len(steps) == len(set(steps))
    assert set(steps) == {outline.step(node.id) for node in nodes}
    assert branches[0].steps[-1] == outline.step(end.id)
    assert branches[0].fork is None
    earlier: set[int] = set()
    for branch in branches:
        assert branch.steps == sorted(branch.steps)
        assert branch.fork is None or branch.fork in earlier
        earlier.update(branch.steps)
    assert sum(map(len, forks_of(branches).values())) == len(branches) - 1


def test_the_messages_of_a_turn_are_one_line() -> None:
    # A turn with two messages, each with a block, and the next turn below the last message.
    parts = [(1, "turn"), (1, "message"), (1, "block"), (3, "message"), (1, "block"), (2, "turn")]
    nodes = tree_of(parts)
    [branch] = outline_of(nodes).branches(nodes[-1].id)
    assert branch.steps == [0, 1, 2, 4, 6]


def test_a_fork_at_an_earlier_message_of_a_turn_is_a_branch() -> None:
    parts = [(1, "turn"), (1, "message"), (2, "message"), (2, "turn"), (2, "turn")]
    nodes = tree_of(parts)
    first, second = outline_of(nodes).branches(nodes[4].id)
    assert (first.steps, first.fork) == ([0, 1, 2, 4], None)
    assert (second.steps, second.fork) == ([3, 5], 2)
