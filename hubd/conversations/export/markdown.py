"""Entries of a conversation as Markdown. No I/O."""

import json
from collections.abc import Mapping
from typing import Any, Final

from hubd.conversations.export.blocks import other_line, result_parts, text_of
from hubd.conversations.export.entries import Entry
from hubd.wire.lazy_pattern import lazy_pattern

_TICKS: Final = lazy_pattern(r"`{3,}")
# Blocks whose whole data is in the document; others, such as images, are named in a line.
_TEXTS: Final = ("text", "content", "attachment")


def heading(title: str) -> str:
    """Return the heading of a document."""
    return f"# {' '.join(title.split())}"


def entry(entry: Entry) -> str:
    """Return a heading with the speaker, and the blocks below it."""
    speaker: str = entry.speaker
    if entry.name and entry.name != speaker:
        speaker = f"{speaker} ({' '.join(entry.name.split())})"
    parts = [part for block in entry.blocks if (part := _block(block))]
    return "\n\n".join((f"## {speaker}", *parts))


def _block(block: Mapping[str, Any]) -> str:
    kind = block.get("type")
    if kind in _TEXTS:
        return text_of(block).strip()
    if kind == "thinking":
        lines = text_of(block).strip().splitlines()
        return "\n".join(f"> {line}".rstrip() for line in lines)
    if kind == "tool_use":
        called = json.dumps(block.get("input", block.get("text")), ensure_ascii=False, indent=2)
        return f"Calls **{block.get('name') or 'a tool'}**:\n\n{_fenced(called, 'json')}"
    if kind == "tool_result":
        title = "The tool failed" if block.get("is_error") else "The tool returned"
        parts = (
            part if isinstance(part, str) else other_line(part) for part in result_parts(block)
        )
        return f"{title}:\n\n{_fenced(chr(10).join(parts))}"
    return other_line(block)


def _fenced(text: str, language: str = "") -> str:
    """Return the text in a fence that is longer than each row of backticks in it."""
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
