"""The meaning of a chat's events: the only place that knows their types.

A plugin with `render: chat` needs no more than events of these shapes. A block of text, of thinking
or a tool call comes as `x_start`, `x_delta`… and `x_end`, then complete as `x`; or only in pieces
with an `offset`; or only complete.

| event | meaning |
|---|---|
| `user_message {prompt}` | the prompt |
| `content {text}`, `chat_content {content}` and others with `content`, `text` or `answer` | text |
| `thinking {text}`, `reasoning {text}` | thinking |
| `tool_use {tool_name, input, tool_use_id}` | a tool call |
| `tool_result {output, is_error, tool_use_id}` | its result |
| `awaiting_approval {approval_id, tool_name, input}` | a question whether a tool may run |
| `approval_resolved {approval_id, approved, message, by}` | its answer |
| `message {role, content}` | a complete message, as text or as a list of blocks |
| `start {engine}`, `chat_start {model_id}` | the start of a turn |
| `complete {usage, result}`, `chat_complete {usage}` | its end |
| `error {message}` | its failure |

Every other event is one line: by the summary in its schema, else by its fields.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from synapse.render.plain import inner_event
from synapse.render.raw import ANSWER_WORDS, is_piece

# Copies of the agent's own messages, and the list of approvals that were each an event before.
_SILENT = ("passthrough", "pending")
_PHASES = ("start", "delta", "end")
_THINKING = {"thinking", "reasoning"}


class Part(NamedTuple):
    """One event of a chat."""

    # text, thinking, tool, result, prompt, message, question, decision, start, end, failure, other;
    # empty for an event that is not shown.
    kind: str
    event: dict[str, Any]
    # start, delta or end of a block; empty for a complete one.
    phase: str = ""
    text: str = ""
    # The block that a piece belongs to.
    block: tuple[Any, ...] = ()
    # The time of a recorded event, in Unix seconds; None for a live one.
    recorded_at: int | None = None

    @property
    def is_nested(self) -> bool:
        """Whether a subagent sent the event."""
        return bool(self.event.get("parent_tool_use_id"))

    def field(self, name: str) -> str:
        """Return a field as text; empty if it is absent."""
        value = self.event.get(name)
        return "" if value is None else str(value)

    def object(self, name: str) -> dict[str, Any]:
        """Return a field that is an object; empty if it is not."""
        value = self.event.get(name)
        return value if isinstance(value, dict) else {}


def read(content: Any) -> Part:
    """Return the meaning of an event."""
    event = inner_event(content)
    if not isinstance(event, dict):
        return Part("text", {}, text=str(event))
    kind, phase = _kind(event)
    time = content.get("timestamp") if event is not content else None
    return Part(
        kind,
        event,
        phase,
        _text(kind, event),
        (kind, event.get("message_id"), event.get("block_index"), event.get("parent_tool_use_id")),
        time if isinstance(time, int) else None,
    )


def blocks(message: Part) -> list[Part]:
    """Return the parts of a complete message."""
    content = message.event.get("content", message.event.get("text"))
    asks = message.field("role") in ("user", "system")
    if isinstance(content, str):
        return [Part("prompt" if asks else "text", message.event, text=content)]
    parts = []
    for block in content if isinstance(content, list) else []:
        if not isinstance(block, dict):
            continue
        if block.get("type") == "tool_use":
            block = {"tool_name": block.get("name"), "tool_use_id": block.get("id"), **block}
        elif block.get("type") == "tool_result":
            block = {"output": _joined(block.get("content")), **block}
        part = read(block)
        if part.kind == "thinking" and not part.text:
            part = part._replace(text=part.field("thinking"))
        parts.append(part._replace(kind="prompt") if asks and part.kind == "text" else part)
    return parts


def _kind(event: dict[str, Any]) -> tuple[str, str]:
    """Return the kind and the phase of an event."""
    name = str(event.get("type", ""))
    words = set(name.split("_"))
    last = name.rpartition("_")[2]
    phase = last if last in _PHASES else ""
    if "role" in event:
        return "message", ""
    if name in _SILENT:
        return "", ""
    if name in ("awaiting_approval", "approval_resolved"):
        return ("question" if name == "awaiting_approval" else "decision"), ""
    if "tool" in words and "result" in words:
        return "result", ""
    if "tool" in words and words & {"use", "call"}:
        return "tool", phase
    if words & _THINKING:
        return "thinking", phase or ("delta" if is_piece(event) else "")
    if "user" in words:
        return "prompt", ""
    if is_piece(event) or words & ANSWER_WORDS:
        return "text", "delta" if is_piece(event) else phase
    if name == "error":
        return "failure", ""
    if last == "complete":
        return "end", ""
    if last in ("start", "started"):
        return "start", ""
    return "other", ""


def _text(kind: str, event: dict[str, Any]) -> str:
    """Return the text of a block, a prompt, a result or a failure."""
    names = {
        "text": ("text", "content"),
        "thinking": ("text", "content"),
        "prompt": ("prompt", "text", "content"),
        "result": ("output", "text", "content"),
        "failure": ("message",),
    }.get(kind, ())
    return next((event[name] for name in names if isinstance(event.get(name), str)), "")


def _joined(content: Any) -> str:
    """Return the text of a tool result in a message: a text, or a list of blocks."""
    if isinstance(content, list):
        texts = (block.get("text") for block in content if isinstance(block, dict))
        return "\n".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""
