"""A chat at a terminal: its text as it grows, and a dim line for every other event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from hubd.wire.terminal import clean
from synapse.render.human import Human
from synapse.render.lines import EventLines, fields_line
from synapse.render.nodes import short_id
from synapse.render.plain import inner_event, text_of
from synapse.render.raw import ANSWER_WORDS

if TYPE_CHECKING:
    from hubd.wire.schema import JsonSchema

# Events without a line: copies of the agent's own messages, the list of approvals that were each an
# event before, and the error that stderr reports.
_SILENT = ("passthrough", "pending", "error")


class Chat(Human):
    """A conversation as it grows: pieces of text are joined, every other event is a line.

    A piece is an event of type `x_delta`, or with an `offset` in its text. A block comes as
    `x_start`, `x_delta`… and `x_end`, then complete as `x`. A block that was shown in pieces is not
    shown again.
    """

    def __init__(self, returns: JsonSchema) -> None:
        super().__init__()
        self._lines = EventLines(returns)
        self._in_text = False
        # The type of the block that was shown in pieces, until it is complete.
        self._streamed = ""

    @property
    def at_line_start(self) -> bool:
        """Whether the next text begins a line."""
        return not self._in_text

    def event(self, content: Any) -> None:
        """Continue the text, or show a line."""
        event = inner_event(content)
        if not isinstance(event, dict):
            self.pause()
            self.show(Text(clean(str(event))))
            return
        kind = str(event.get("type", ""))
        name, _, phase = kind.rpartition("_")
        message = _message(event)
        text = None if message else text_of(event)
        if text is not None and (phase == "delta" or "offset" in event):
            # Only the terminal knows the column of the text before, so it wraps the lines.
            style = "dim" if phase == "delta" and name not in ("", "content") else ""
            self.show(Text(clean(text), style=style), end="", soft_wrap=True)
            self._in_text, self._streamed = True, name
        elif (phase in ("start", "delta") and name) or kind in _SILENT:
            return
        elif phase == "end" and name:
            self.pause()
        elif kind == self._streamed:
            self.pause()
            self._streamed = ""
        elif text is not None and ANSWER_WORDS & set(kind.split("_")):
            self.pause()
            self.show(Text(clean(text)), soft_wrap=True)
        elif message:
            self.pause()
            node = short_id(event, "node_id")
            mark = (f"{clean(node)} ", "dim") if node else ""
            self.show(Text.assemble(mark, clean(message)), soft_wrap=True)
        elif line := self._lines.line(event):
            self.pause()
            self.show(Text(f"· {line}", style="dim"))

    def pause(self) -> None:
        """End the line."""
        super().pause()
        if self._in_text:
            self.console.print()
            self._in_text = False


def _message(event: dict[str, Any]) -> str:
    """Return the role and the text of a complete message; empty for other events."""
    content = event.get("content")
    if isinstance(content, str) and "role" in event:
        return f"{event['role']}: {content}"
    if not isinstance(content, list) or "role" not in event:
        return ""
    blocks = [block for block in content if isinstance(block, dict)]
    texts = [str(block.get("text") or fields_line(block)) for block in blocks]
    return f"{event['role']}: " + "\n".join(texts)
