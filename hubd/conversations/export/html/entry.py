"""One entry of a conversation as HTML. Tools and thinking are folded. No I/O."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from hubd.conversations.export.blocks import image, other_line, result_parts, text_of
from hubd.conversations.export.entries import Entry
from hubd.conversations.export.html.markdown_html import markdown_html, plain_html
from hubd.conversations.export.html.safe_text import one_line, safe

# Characters of the line of a folded block.
LINE_LENGTH: Final = 120
# The last second that a date can have.
_LAST_SECOND: Final = 253_402_300_799


def entry_html(entry: Entry, anchor: str | None, heads: list[str]) -> str:
    """Return an entry as an article.

    Args:
        entry: The entry.
        anchor: The name of its node in the page; None if an earlier entry has it.
        heads: The names of heads at its node.
    """
    parts = [f"<strong>{safe(entry.speaker)}</strong>"]
    if entry.name and entry.name != entry.speaker:
        parts.append(one_line(entry.name, LINE_LENGTH))
    if entry.model:
        parts.append(one_line(entry.model, LINE_LENGTH))
    parts.append(time_html(entry.node.created_at))
    parts += (f'<mark title="a head">{one_line(name, LINE_LENGTH)}</mark>' for name in heads)
    if anchor:
        parts.append(f'<a href="#{anchor}" title="link to this message">#</a>')
    identity = f' id="{anchor}"' if anchor else ""
    body = "".join(map(block_html, entry.blocks))
    heading = " · ".join(part for part in parts if part)
    return f'<article class="{entry.speaker}"{identity}><header>{heading}</header>{body}</article>'


def time_html(seconds: int) -> str:
    """Return a time in UTC."""
    if not 0 <= seconds <= _LAST_SECOND:
        return ""
    moment = datetime.fromtimestamp(seconds, UTC)
    return f'<time datetime="{moment:%Y-%m-%dT%H:%M:%SZ}">{moment:%Y-%m-%d %H:%M} UTC</time>'


def block_html(block: Mapping[str, Any]) -> str:
    """Return a block of a message."""
    kind = block.get("type")
    if kind in ("text", "content"):
        return f'<div class="text">{markdown_html(text_of(block))}</div>'
    if kind == "attachment":
        label = f"<strong>{safe(str(block.get('kind')))}</strong> "
        return f'<div class="text">{label}{safe(text_of(block))}</div>'
    if kind in ("thinking", "redacted_thinking"):
        return _folded("thinking", "Thinking", plain_html(text_of(block)))
    if kind == "tool_use":
        return _call(block)
    if kind == "tool_result":
        return _result(block)
    if kind == "image":
        return _image(block)
    return _folded("other", safe(other_line(block)), _code(_json(block)))


def _call(block: Mapping[str, Any]) -> str:
    tool_input = block.get("input", block.get("text"))
    values = tool_input.values() if isinstance(tool_input, dict) else (tool_input,)
    # The first text is mostly the subject of the call: a command, a path or an address.
    subject = next((value for value in values if isinstance(value, str) and value.strip()), "")
    name = one_line(str(block.get("name") or "a tool"), LINE_LENGTH)
    line = f"<strong>{name}</strong> <code>{one_line(subject, LINE_LENGTH)}</code>"
    return _folded("call", line, _code(_json(tool_input)))


def _result(block: Mapping[str, Any]) -> str:
    parts = list(result_parts(block))
    first = next((part for part in parts if isinstance(part, str) and part.strip()), "")
    failed = bool(block.get("is_error"))
    label = "Error" if failed else "Result"
    line = f"<strong>{label}</strong> <code>{one_line(first, LINE_LENGTH)}</code>"
    body = "".join(_code(part) if isinstance(part, str) else block_html(part) for part in parts)
    return _folded("failed result" if failed else "result", line, body)


def _image(block: Mapping[str, Any]) -> str:
    picture = image(block)
    if picture is None:
        return f'<p class="note">{safe(other_line(block))}</p>'
    return f'<img alt="image" src="data:{picture.mime_type};base64,{picture.data}">'


def _folded(kind: str, line: str, body: str) -> str:
    return f'<details class="{kind}"><summary>{line}</summary>{body}</details>'


def _code(text: str) -> str:
    return f"<pre>{safe(text)}</pre>"


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
