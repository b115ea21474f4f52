"""How often and with which numbers a running call is reported to its client. Pure.

MCP wants every number larger than the one before, whatever methods say of themselves.
"""

from dataclasses import dataclass
from typing import Final

from pydantic_core import from_json

# At most ten reports a second.
PAUSE_SECONDS: Final = 0.1
MAX_MESSAGE: Final = 100
# The fields of an event that may say in one line what happened.
_TELLING: Final = ("message", "text", "line", "content", "summary", "render")
# Beyond this an event is not parsed only to show a line of it.
_SMALL: Final = 16 * 1024


@dataclass(frozen=True)
class Report:
    """One notification. `total` is 100 for a method that tells percentages."""

    progress: float
    total: float | None
    message: str


class Meter:
    """Turns what a call does into reports."""

    def __init__(self) -> None:
        self._progress = -1.0
        self._total: float | None = None
        self._reported_at = float("-inf")
        # What was held back because the last report was too recent.
        self._held: tuple[str, float | None] | None = None

    def offer(self, now: float, message: str, percentage: float | None = None) -> Report | None:
        """Something happened; the report to send, unless the last one was just now."""
        if now - self._reported_at < PAUSE_SECONDS:
            self._held = (message, percentage)
            return None
        return self._report(now, message, percentage)

    def last(self, now: float) -> Report | None:
        """The call is over: what was held back, if anything."""
        return self._report(now, *self._held) if self._held is not None else None

    def _report(self, now: float, message: str, percentage: float | None) -> Report:
        self._held = None
        self._reported_at = now
        if percentage is not None:
            self._total = 100.0
        # Heartbeats and repeated percentages take a step too small to be seen.
        least = self._progress + (0.001 if self._total is not None else 1.0)
        self._progress = max(least, percentage if percentage is not None else least)
        return Report(self._progress, self._total, message)


def one_line(content: bytes, content_type: str) -> str:
    """An event in one line."""
    if len(content) > _SMALL:
        return content_type
    event = from_json(content)
    fields = event if isinstance(event, dict) else {"text": event}
    for name in _TELLING:
        text = fields.get(name)
        if isinstance(text, str) and text.strip():
            line = " ".join(text[: 4 * MAX_MESSAGE].split())
            return line if len(line) <= MAX_MESSAGE else line[: MAX_MESSAGE - 1] + "…"
    return str(fields.get("type", content_type))
