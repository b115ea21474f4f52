"""The advice about denied tool calls."""

from typing import Any

import pytest

from hubd.plugins.claudecode.approvals.remedy import Denials


def ended(*denied: tuple[str, str]) -> dict[str, Any]:
    denials = [{"tool_name": tool, "tool_use_id": call} for tool, call in denied]
    return {"type": "complete", "result": {"permission_denials": denials}}


def resolved(by: str) -> list[dict[str, Any]]:
    asked = {
        "type": "awaiting_approval",
        "approval_id": "a",
        "tool_name": "Bash",
        "tool_use_id": "t1",
    }
    answer = {"type": "approval_resolved", "approval_id": "a", "approved": False, "by": by}
    return [asked, answer]


@pytest.mark.parametrize(
    ("events", "advice"),
    [
        ([ended()], []),
        ([{"type": "complete", "result": None}], []),
        ([ended(("Bash", "t1"), ("Bash", "t2"))], ["--allowed-tools Bash"]),
        ([*resolved("person"), ended(("Bash", "t1"))], []),
        ([*resolved("rule:12345678"), ended(("Bash", "t1"))], ["synapse loopback rules-list"]),
        ([*resolved("deadline"), ended(("Bash", "t1"))], ["rules-add --effect allow --tool Bash"]),
        ([*resolved("person"), ended(("Bash", "t1"), ("Write", "t2"))], ["--allowed-tools Write"]),
    ],
)
def test_a_denial_without_a_decision_comes_with_a_remedy(
    events: list[dict[str, Any]], advice: list[str]
) -> None:
    denials = Denials()
    for event in events:
        denials.note(event)
    assert len(denials.advice) == len(advice)
    assert all(part in text for part, text in zip(advice, denials.advice, strict=True))
