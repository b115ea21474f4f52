"""`-o raw`: the text of the answer, and nothing else."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from hubd.wire.terminal import clean
from synapse.render.plain import Lines, inner_event, text_of

if TYPE_CHECKING:
    from synapse.render.fields import Fields

# The fields that hold the text of an answer. A `message` describes an event instead.
_TEXT_FIELDS = ("render", "text", "content", "line")
# The words in an event's type that mark the answer, and those that mark other text.
ANSWER_WORDS = {"content", "text", "answer"}
_OTHER_WORDS = {"thinking", "reasoning", "tool", "user", "system", "input", "error"}
_ASSISTANTS = ("assistant", "model")


class Raw(Lines):
    """The text of each event; JSON for an event without text, unless text came before.

    An event with an `offset` is a piece of a text; pieces are joined.
    """

    def __init__(self, fields: Fields | None = None) -> None:
        super().__init__(fields)
        # Whether the last line is not complete.
        self._in_line = False
        self._has_text = False

    @property
    def at_line_start(self) -> bool:
        """Whether the next text begins a line."""
        return not self._in_line

    def event(self, content: Any) -> None:
        """Write the text of one event."""
        is_piece = isinstance(content, dict) and "offset" in content
        if self._fields is not None:
            rows = self._fields.pick(content)
            self._show(rows, is_piece=is_piece and len(rows) == 1)
            return
        text = text_of(content, _TEXT_FIELDS)
        self._has_text = self._has_text or text is not None
        if text is None and not self._has_text:
            text = text_of(content)
        if not is_piece:
            self._end_line()
        if text is not None:
            self._write(text)
            if not is_piece:
                self._end_line()
        elif not self._has_text:
            self._line(content)

    def pause(self) -> None:
        """End the line before a question."""
        self._end_line()
        super().pause()

    def close(self) -> None:
        """End the last line."""
        self._end_line()
        super().close()

    def _show(self, rows: list[dict[str, Any]], *, is_piece: bool = False) -> None:
        """Write the values of the fields, one row per line."""
        for row in rows:
            if not is_piece:
                self._end_line()
            values = (
                value if isinstance(value, str) else self._json(value)
                for value in row.values()
                if value is not None
            )
            if line := "\t".join(values):
                self._write(line)
            if not is_piece:
                self._end_line()

    def _write(self, text: str) -> None:
        if text:
            text = clean(text) if sys.stdout.isatty() else text
            sys.stdout.write(text)
            sys.stdout.flush()
            self._in_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._in_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._in_line = False


class RawChat(Raw):
    """The assistant's text of a chat, once.

    Text comes in pieces (a `…_delta`, or an event with `offset`), complete, or both in this order.
    Thinking, tools and the user's messages are not the answer. A method that reads a conversation
    returns complete messages with a `role`; there the text of every message is written.
    """

    def __init__(self, *, all_roles: bool) -> None:
        super().__init__()
        self._all_roles = all_roles
        # The text of the current block that was written so far; None between blocks.
        self._written: str | None = None
        self._block: tuple[Any, ...] = ()

    def event(self, content: Any) -> None:
        """Write the next part of the answer."""
        event = inner_event(content)
        text = self._answer(event) if isinstance(event, dict) else None
        if text is None:
            return
        if is_piece(event):
            self._add(event, text)
        else:
            self._complete(text)

    def _add(self, event: dict[str, Any], text: str) -> None:
        block = (event.get("message_id"), event.get("block_index"))
        offset = event.get("offset")
        if self._written is None or block != self._block or (offset == 0 and self._written):
            self._end_line()
            self._written, self._block = "", block
        if isinstance(offset, int) and offset < len(self._written):
            text = text[len(self._written) - offset :]
        self._write(text)
        self._written += text

    def _complete(self, text: str) -> None:
        written, self._written = self._written or "", None
        if text.startswith(written):
            self._write(text[len(written) :])
        else:
            self._end_line()
            self._write(text)
        self._end_line()

    def _answer(self, event: dict[str, Any]) -> str | None:
        """Return the text of an event that belongs to the answer."""
        role = event.get("role")
        if isinstance(role, str):
            return message_text(event) if self._all_roles or role in _ASSISTANTS else None
        words = set(str(event.get("type", "")).split("_"))
        if words & _OTHER_WORDS or event.get("parent_tool_use_id"):
            return None
        if not is_piece(event) and not words & ANSWER_WORDS:
            return None
        return next((event[name] for name in ("text", "content") if _is_str(event, name)), None)


def is_piece(event: dict[str, Any]) -> bool:
    """Return whether an event is a piece of a text."""
    return "offset" in event or str(event.get("type", "")).endswith("_delta")


def message_text(event: dict[str, Any]) -> str | None:
    """Return the text of a complete message, without tool calls, tool results and thinking."""
    content = event.get("content", event.get("text"))
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    texts = [
        block["text"]
        for block in content
        if isinstance(block, dict) and block.get("type") == "text" and _is_str(block, "text")
    ]
    return "\n".join(texts) or None


def _is_str(event: dict[str, Any], name: str) -> bool:
    return isinstance(event.get(name), str)
