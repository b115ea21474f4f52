"""The drawing of a tree is complete at any width and for any shape."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from synapse.render.exchanges import Conversation
from synapse.render.nodes import TEXT_COLUMNS, lines, short_id


@st.composite
def trees(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Nodes in any order, each below an earlier one; most go on where the last one ended."""
    count = draw(st.integers(1, 60))
    nodes: list[dict[str, Any]] = [{"id": "n0", "parent": None, "summary": "top"}]
    for number in range(1, count):
        parent = number - 1 if draw(st.booleans()) else draw(st.integers(0, number - 1))
        nodes.append({"id": f"n{number}", "parent": f"n{parent}", "summary": f"text {number}"})
    return draw(st.permutations(nodes))


@given(trees(), st.integers(20, 200))
def test_every_node_has_one_line_after_its_parents(nodes: list[dict[str, Any]], width: int) -> None:
    drawn = lines(nodes, width)
    order = [line.id for line in drawn]
    assert sorted(order) == sorted(node["id"] for node in nodes)
    for node in nodes:
        assert node["parent"] is None or order.index(node["parent"]) < order.index(node["id"])
    # The branch and the mark come on top of the indentation.
    limit = max(width - TEXT_COLUMNS, 0) + len("├─● ")
    assert all(len(line.prefix) <= limit for line in drawn)


def test_a_path_of_any_length_is_flat() -> None:
    nodes = [
        {"id": number, "parent": number - 1 if number else None, "summary": "x"}
        for number in range(10_000)
    ]
    assert {line.prefix for line in lines(nodes, 40)} == {"● "}


def test_every_node_of_a_long_conversation_belongs_to_one_entry() -> None:
    nodes: list[dict[str, Any]] = [{"id": "root", "parent": None, "summary": ""}]
    head = "root"
    for number in range(2500):
        prompt, answer = f"u{number}", f"a{number}"
        message = {"kind": "message", "text": "x"}
        nodes += [
            {"id": prompt, "parent": head, "role": "user", **message},
            {"id": answer, "parent": prompt, "role": "assistant", **message},
            {"id": f"b{number}", "parent": answer, "kind": "block", "text": "done"},
            {"id": f"t{number}", "parent": answer, "summary": "a note"},
        ]
        head = answer
    conversation = Conversation(nodes)
    entries = [exchange.node() for exchange in conversation.exchanges]
    assert sum(len(exchange.nodes) for exchange in conversation.exchanges) == 10_001
    assert (conversation.prompts, conversation.branches) == (2500, 2500)
    details = {each.id: each.details() for each in conversation.exchanges}
    drawn = lines(entries, 40, details)
    # The empty root is the heading.
    assert sum(line.node is not None for line in drawn) == len(entries) - 1 == 5000
    assert sum(line.text == "done" for line in drawn) == 2500


def test_nodes_that_are_their_own_ancestors_are_drawn() -> None:
    nodes = [
        {"id": "a", "parent": "b", "summary": "x"},
        {"id": "b", "parent": "a", "summary": "x"},
        {"id": "c", "parent": "c", "summary": "x"},
        {"id": "d", "parent": "gone", "summary": "x"},
    ]
    assert sorted(line.id for line in lines(nodes, 80)) == ["a", "b", "c", "d"]


def test_a_short_id_is_the_hubs_own_or_the_end_of_a_uuid() -> None:
    uuid = "01a1eaf9-fefe-752f-82e7-7629c9f8cc71"
    assert short_id({"id": uuid}) == "c9f8cc71"
    assert short_id({"id": uuid, "short_id": "cc71"}) == "cc71"
    assert short_id({"id": "any-other-id"}) == "any-other-id"
