"""Messages as Markdown. No I/O."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hubd.plugins.claudecode.protocol.messages import output_text

_TICKS: Final = re.compile(r"`{3,}")


def message(role: str, blocks: Iterable[Mapping[str, Any]]) -> str:
    """Return a heading with the role, and the blocks below it."""
    parts = [part for block in blocks if (part := _block(block))]
    # The results of tools have the role `user`, but they are not the user's words.
    speaker = "tool" if role == "user" and _only_results(blocks) else role
    return "\n\n".join((f"## {speaker}", *parts))


def _block(block: Mapping[str, Any]) -> str:
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", "")).strip()
    if kind == "thinking":
        lines = str(block.get("thinking", "")).strip().splitlines()
        return "\n".join(f"> {line}".rstrip() for line in lines)
    if kind == "tool_use":
        called = json.dumps(block.get("input"), ensure_ascii=False, indent=2)
        return f"Calls **{block.get('name')}**:\n\n{_fenced(called, 'json')}"
    if kind == "tool_result":
        failed = ", which failed" if block.get("is_error") else ""
        return f"The tool gave{failed}:\n\n{_fenced(output_text(block.get('content')))}"
    return _fenced(json.dumps(block, ensure_ascii=False, indent=2), "json")


def _fenced(text: str, language: str = "") -> str:
    """Return the text in a fence that is longer than each row of backticks in it."""
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _only_results(blocks: Iterable[Mapping[str, Any]]) -> bool:
    kinds = {block.get("type") for block in blocks}
    return kinds == {"tool_result"}
