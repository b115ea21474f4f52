"""A tool call in one line, for lists of approvals. No I/O."""

import json
from collections.abc import Mapping
from typing import Any, Final

from hubd.wire.summary import principal
from hubd.wire.terminal import reveal
from hubd.wire.text import shorten

# The longest summary, in characters.
MAX_SUMMARY: Final = 200


def summary(tool_input: Mapping[str, Any]) -> str:
    """Return the most telling field of an input, on one line."""
    text = principal(tool_input)
    if text is None:
        questions = tool_input.get("questions")
        first = questions[0] if isinstance(questions, list) and questions else None
        text = str(first.get("question")) if isinstance(first, dict) else None
    if text is None:
        text = json.dumps(tool_input, ensure_ascii=False)[: 4 * MAX_SUMMARY] if tool_input else ""
    lines = text[: 4 * MAX_SUMMARY].strip().split("\n")
    return shorten(reveal(" ↵ ".join(line.strip() for line in lines)), MAX_SUMMARY)


def decider(by: str) -> str:
    """Return the words for the actor or the rule that decided an approval."""
    kind, _, name = by.partition(":")
    words = {
        "person": "a person",
        "client": "an MCP client",
        "deadline": "the deadline",
        "hub": "the hub",
        "session": f"the agent of session {name[:8]}",
        "rule": f"rule {name[:8]}",
    }
    return words.get(kind, by)
