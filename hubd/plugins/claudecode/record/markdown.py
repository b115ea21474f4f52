"""A message as Markdown, for people. Pure."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hubd.plugins.claudecode.protocol.messages import output_text

_TICKS: Final = re.compile(r"`{3,}")


def message(role: str, blocks: Iterable[Mapping[str, Any]]) -> str:
    """A heading, and the blocks below it."""
    parts = [part for block in blocks if (part := _block(block))]
    # What tools gave comes as a user's message, which no user has said.
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
    """In a fence that nothing in the text can close."""
    longest = max((len(found) for found in _TICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _only_results(blocks: Iterable[Mapping[str, Any]]) -> bool:
    kinds = {block.get("type") for block in blocks}
    return kinds == {"tool_result"}
