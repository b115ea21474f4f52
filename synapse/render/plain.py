"""Output for programs: JSON on stdout and nothing else; progress on stderr."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from hubd.wire.summary import TEXT_FIELDS
from hubd.wire.terminal import escape_json, one_line

if TYPE_CHECKING:
    from synapse.render.fields import Fields

# Control characters that JSON allows and some terminals obey.
_ESCAPED = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}
# The shortest time between two progress lines.
PROGRESS_SECONDS = 1.0

# The fields that may hold the text of an event, in order of preference.
_TEXTS = (*TEXT_FIELDS, "value", "handle")


class Lines:
    """One compact JSON object per event, one event per line."""

    reports_end = False
    activity = "waiting"

    def __init__(self, fields: Fields | None = None) -> None:
        self._fields = fields
        self._progress = ProgressLines()

    @property
    def at_line_start(self) -> bool:
        """Whether the next text begins a line."""
        return True

    def item(self, item: dict[str, Any]) -> None:
        """Ignore the item: only events are shown."""

    def event(self, content: Any) -> None:
        """Write a line."""
        self._show(self._fields.pick(content) if self._fields else [content])

    def progress(self, message: str, percentage: float | None) -> None:
        """Write a line to stderr, at most one a second."""
        self._progress.add(message, percentage)

    def warn(self, text: str) -> None:
        """Write a line to stderr."""
        warn(text)

    def idle(self) -> None:
        """Show the rows and the progress that wait."""
        self._progress.show_late()
        if self._fields:
            self._show(self._fields.flush())

    def pause(self) -> None:
        """Flush the output before a question."""
        sys.stdout.flush()

    def close(self) -> None:
        """Write the rest.

        Raises:
            CommandError: No event has one of the fields.
        """
        if self._fields:
            self._show(self._fields.finish())
        sys.stdout.flush()

    def _show(self, rows: list[Any]) -> None:
        for row in rows:
            self._line(row)

    def _line(self, value: Any) -> None:
        sys.stdout.write(self._json(value) + "\n")
        sys.stdout.flush()

    def _json(self, value: Any) -> str:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPED)
        return escape_json(text) if sys.stdout.isatty() else text


class Items(Lines):
    """Whole stream items, one per line."""

    def __init__(self) -> None:
        super().__init__()
        # The last items wait, because the call is repeated if the hub has changed.
        self._end: list[dict[str, Any]] = []

    def item(self, item: dict[str, Any]) -> None:
        """Write a line."""
        self._end.append(item)
        if item.get("type") not in ("guidance", "error", "done"):
            self._write()

    def close(self) -> None:
        """Write the last items."""
        self._write()

    def _write(self) -> None:
        for item in self._end:
            self._line(item)
        self._end = []

    def event(self, content: Any) -> None:
        """Ignore the event: `item` has written it."""

    def progress(self, message: str, percentage: float | None) -> None:
        """Ignore the event: `item` has written it."""


class Document(Lines):
    """One JSON document: the object of a method with one event, the array of a stream."""

    def __init__(self, *, streaming: bool, fields: Fields | None = None) -> None:
        super().__init__(fields)
        self._streaming = streaming
        self._rows: list[Any] = []
        self._failed = False

    def item(self, item: dict[str, Any]) -> None:
        """Note whether the call has failed."""
        self._failed = self._failed or item.get("type") == "error"

    def idle(self) -> None:
        """Show the progress that waits; the document waits until the end."""
        self._progress.show_late()

    def close(self) -> None:
        """Write the document, unless the call failed before its first event."""
        super().close()
        if (self._streaming and not self._failed) or len(self._rows) > 1:
            self._line(self._rows)
        elif self._rows:
            self._line(self._rows if self._streaming else self._rows[0])

    def _show(self, rows: list[Any]) -> None:
        self._rows += rows


class ProgressLines:
    """Progress as lines on stderr: the newest message, at most one line per second."""

    def __init__(self) -> None:
        self._waiting = ""
        self._shown_at = 0.0

    def add(self, message: str, percentage: float | None) -> None:
        """Show a message now, or when a second has passed."""
        share = "" if percentage is None else f" {percentage:.0f} %"
        self._waiting = f"{one_line(message)}{share}"
        self.show_late()

    def show_late(self) -> None:
        """Show the message that waits, if a second has passed."""
        now = time.monotonic()
        if self._waiting and now - self._shown_at >= PROGRESS_SECONDS:
            sys.stderr.write(self._waiting + "\n")
            sys.stderr.flush()
            self._waiting, self._shown_at = "", now


def warn(text: str) -> None:
    """Print a warning to stderr."""
    sys.stderr.write(f"synapse: warning: {one_line(text)}\n")


def inner_event(content: Any) -> Any:
    """Return the event inside an event of a log, else the event itself."""
    wrapped = content.get("event") if isinstance(content, dict) else None
    return wrapped if isinstance(wrapped, dict) else content


def text_of(content: Any, names: tuple[str, ...] = _TEXTS) -> str | None:
    """Return the text of an event or of its `data`; None if it has none."""
    if isinstance(content, str):
        return content
    if not isinstance(content, dict):
        return None
    places = [content, content["data"]] if isinstance(content.get("data"), dict) else [content]
    for name in names:
        for place in places:
            if isinstance(place.get(name), str):
                return str(place[name])
    return None


def write_json(value: object) -> None:
    """Write a JSON document, on a terminal with escapes for invisible characters."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    sys.stdout.write((escape_json(text) if sys.stdout.isatty() else text) + "\n")
