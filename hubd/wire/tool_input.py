"""The part of a tool call's input that tells most, for lines about the call."""

from collections.abc import Mapping
from typing import Any, Final

# The field that says most about a call; the first one that is a text.
PRINCIPAL: Final = (
    *("command", "file_path", "notebook_path", "path", "url", "query", "pattern"),
    *("plan", "prompt", "description"),
)


def principal(tool_input: Mapping[str, Any]) -> str | None:
    """Return the most telling field of an input; None if it has none of the usual ones."""
    for name in PRINCIPAL:
        if isinstance(text := tool_input.get(name), str):
            return text
    return None
