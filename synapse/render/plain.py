"""Output for programs: JSON on stdout and nothing else; progress, if anybody watches, on stderr."""

from __future__ import annotations

import json
import sys
from typing import Any

from synapse.render.safe import clean, one_line

# JSON leaves these as they are, and some terminals obey them.
_ESCAPED = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}


class Lines:
    """One compact JSON object an event, one event a line."""

    def __init__(self, fields: list[str] | None = None) -> None:
        self._fields = fields

    def item(self, item: dict[str, Any]) -> None:
        """Only the events are shown."""

    def event(self, content: Any) -> None:
        """A line."""
        self._line(pick(content, self._fields) if self._fields else content)

    def progress(self, message: str, percentage: float | None) -> None:
        """A line on stderr."""
        progress_line(message, percentage)

    def idle(self) -> None:
        """Nothing is held back."""

    def pause(self) -> None:
        """What was written so far must be seen before the question."""
        sys.stdout.flush()

    def close(self) -> None:
        """Everything is written."""
        sys.stdout.flush()

    def _line(self, value: Any) -> None:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        sys.stdout.write(text.translate(_ESCAPED) + "\n")
        sys.stdout.flush()


class Items(Lines):
    """Whole stream items, one a line."""

    def __init__(self) -> None:
        super().__init__()
        # How a call ends is held back: it may be made again, because the hub has changed.
        self._end: list[dict[str, Any]] = []

    def item(self, item: dict[str, Any]) -> None:
        """A line."""
        self._end.append(item)
        if item["type"] not in ("guidance", "error", "done"):
            self._write()

    def close(self) -> None:
        """The end."""
        self._write()

    def _write(self) -> None:
        for item in self._end:
            self._line(item)
        self._end = []

    def event(self, content: Any) -> None:
        """Shown already."""

    def progress(self, message: str, percentage: float | None) -> None:
        """Shown already."""


class Document(Lines):
    """One JSON document: the object of a method with one event, the array of a stream."""

    def __init__(self, *, streaming: bool, fields: list[str] | None = None) -> None:
        super().__init__(fields)
        self._streaming = streaming
        self._events: list[Any] = []
        self._failed = False

    def item(self, item: dict[str, Any]) -> None:
        """Only the end matters here."""
        self._failed = self._failed or item["type"] == "error"

    def event(self, content: Any) -> None:
        """Kept until the end."""
        self._events.append(pick(content, self._fields) if self._fields else content)

    def close(self) -> None:
        """The document; none where all there is to say is an error."""
        if self._streaming and (self._events or not self._failed):
            self._line(self._events)
        elif self._events:
            self._line(self._events[0])


class Raw(Lines):
    """The text of each event as it is, for events that have one; pieces of a text join up.

    A piece says by `offset` where in its text it begins.
    """

    def __init__(self, fields: list[str] | None = None) -> None:
        super().__init__(fields)
        # Set while a piece has not ended its line.
        self._in_text = False

    def event(self, content: Any) -> None:
        """The text, or the event as JSON."""
        placed = isinstance(content, dict) and "offset" in content
        content = pick(content, self._fields) if self._fields else content
        text = text_of(content)
        if text is None or not placed:
            self._end_line()
        if text is None:
            self._line(content)
            return
        text = clean(text) if sys.stdout.isatty() else text
        if placed:
            sys.stdout.write(text)
            self._in_text = not text.endswith("\n") if text else self._in_text
        else:
            sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()

    def pause(self) -> None:
        """A question begins on a line of its own."""
        self._end_line()
        super().pause()

    def close(self) -> None:
        """End the line."""
        self._end_line()
        super().close()

    def _end_line(self) -> None:
        if self._in_text:
            sys.stdout.write("\n")
            self._in_text = False


def progress_line(message: str, percentage: float | None) -> None:
    """How far a method is, for whoever reads stderr."""
    share = "" if percentage is None else f" {percentage:.0f} %"
    sys.stderr.write(f"{one_line(message)}{share}\n")


def text_of(content: Any) -> str | None:
    """The one text that an event is about."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        for name in ("render", "text", "content", "line", "message", "value", "handle"):
            if isinstance(content.get(name), str):
                return str(content[name])
    return None


def pick(content: Any, fields: list[str]) -> dict[str, Any]:
    """Some fields of an event; dots reach inside, what is not there is null."""
    picked: dict[str, Any] = {}
    for field in fields:
        value = content
        for part in field.split("."):
            if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
                value = value[int(part)]
            else:
                value = value.get(part) if isinstance(value, dict) else None
        picked[field] = value
    return picked
