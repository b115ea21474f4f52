"""Conversations in a tree, folded into prompts and their answers."""

from typing import Any

import pytest

from synapse.render.exchanges import Conversation


def node(name: str, parent: str | None, **fields: Any) -> dict[str, Any]:
    return {"id": name, "parent": parent, "short_id": name, "summary": "", **fields}


def drawn(nodes: list[dict[str, Any]]) -> list[str]:
    """Return the prompt of the only exchange, and the lines below it."""
    [exchange] = Conversation(nodes).exchanges
    return [exchange.node()["summary"], *(detail(80) for detail in exchange.details())]


def test_texts_of_the_chosen_style_replace_those_of_the_nodes() -> None:
    turn = node("t", None, kind="turn", text="fix it")
    answer = node("a", "t", kind="message", role="assistant", text="done")
    call = node("c", "a", kind="block", tool_name="Bash", text="pytest -q", tool_use_id="1")
    result = node("r", "a", kind="output", tool_use_id="1", is_error=True)
    text = node("b", "a", kind="block", text="done")
    assert drawn([turn, answer, call, result, text]) == ["fix it", "⏺ Bash pytest -q ✗", "done"]
    styled = [
        {**turn, "styled": "Fix it!"},
        answer,
        {**call, "styled": "ran a command with a rather long text"},
        result,
        {**text, "styled": "DONE"},
    ]
    assert drawn(styled) == ["Fix it!", "⏺ ran a command with a rather long text ✗", "DONE"]


@pytest.mark.parametrize(
    ("inputs", "width", "line"),
    [
        (["a" * 40], 60, f"⏺ Bash {'a' * 40}"),
        (["a" * 80], 60, f"⏺ Bash {'a' * 51}…"),
        (["a" * 40, "ls"], 52, f"⏺ Bash {'a' * 27}…  ⏺ Bash ls"),
        (["a" * 40, "b" * 40], 40, f"⏺ Bash {'a' * 15}…  … +1 tool"),
        (["a" * 40] * 9, 60, f"⏺ Bash {'a' * 23}…  … +8 tools"),
        (["ls"] * 2000, 40, "⏺ Bash ls  ⏺ Bash ls  … +1998 tools"),
        (["a" * 80], 12, "⏺ Bash aaaa…"),
        (["a" * 80, "ls"], 15, "⏺ B…  … +1 tool"),
        (["ls"] * 2000, 8, "… +2000…"),
    ],
)
def test_tools_share_a_line_and_are_counted(inputs: list[str], width: int, line: str) -> None:
    turn = node("t", None, kind="turn", text="fix it")
    answer = node("a", "t", kind="message", role="assistant", text="")
    calls = [
        node(f"c{number}", "a", kind="block", tool_name="Bash", text=text, tool_use_id=str(number))
        for number, text in enumerate(inputs)
    ]
    [exchange] = Conversation([turn, answer, *calls]).exchanges
    drawn_line = exchange.details()[0](width)
    assert drawn_line == line
