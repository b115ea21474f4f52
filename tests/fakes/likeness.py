"""Compare the outputs of two agents: the order of their lines, and the keys in them."""

from collections import defaultdict
from typing import Any

Line = dict[str, Any]

# Lines of a tool. Its message may still be open, because claude does both at once.
_BESIDE_THE_MESSAGE = (
    "user:tool_result",
    "control_request",
    "system/permission_denied",
    "system/task_",
    "under a task:",
)


def shape(lines: list[Line]) -> list[str]:
    """Return the kinds of the lines in order, independent of timing and sizes.

    Deltas of one kind in a row count as one, the estimates between them are left out, and lines of
    a tool come after the end of the message that called it.
    """
    kinds: list[str] = []
    later: list[str] = []
    is_open = False
    for line in lines:
        kind = tag(line)
        if kind == "system/thinking_tokens" or (kinds and kinds[-1] == kind and "delta" in kind):
            continue
        if is_open and kind.startswith(_BESIDE_THE_MESSAGE):
            later.append(kind)
            continue
        kinds.append(kind)
        is_open = kind == "stream_event:message_start" or is_open
        if kind == "stream_event:message_stop":
            is_open = False
            kinds += later
            later.clear()
    return kinds + later


def tag(line: Line) -> str:
    """Return the kind of one line: its types, down to those of its blocks."""
    kind = str(line["type"])
    if kind == "stream_event":
        event = line["event"]
        inner = event.get("content_block") or event.get("delta") or {}
        return ":".join([kind, event["type"], *([inner["type"]] if "type" in inner else [])])
    if kind in ("assistant", "user"):
        content = line["message"]["content"]
        blocks = ["text"] if isinstance(content, str) else [block["type"] for block in content]
        under = "under a task:" if line.get("parent_tool_use_id") else ""
        return f"{under}{kind}:{'+'.join(blocks)}"
    if kind in ("control_request", "control_response"):
        return f"{kind}/{line['request' if kind == 'control_request' else 'response']['subtype']}"
    return f"{kind}/{line['subtype']}" if "subtype" in line else kind


def keys(lines: list[Line]) -> dict[str, set[str]]:
    """Every key that lines of a kind have, as a path of keys. Items of lists have a path too."""
    actual: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        actual[tag(line)] |= _paths(line, "")
    return actual


def _paths(value: object, prefix: str) -> set[str]:
    if isinstance(value, list):
        return {path for entry in value for path in _paths(entry, prefix)}
    if not isinstance(value, dict):
        return set()
    collected = set()
    for key, inner in value.items():
        collected |= {f"{prefix}{key}", *_paths(inner, f"{prefix}{key}.")}
    return collected
