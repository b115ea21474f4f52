"""How often and with which numbers a running call is reported to its client. Pure.

MCP wants every number larger than the one before, whatever methods say of themselves.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pydantic_core import from_json

# At most ten reports a second.
PAUSE_SECONDS: Final = 0.1
# Of an event, which is only shown to tell that there was one.
MAX_LINE: Final = 100
# Of what a method says of itself.
MAX_MESSAGE: Final = 1000
# The fields of an event that may say in one line what happened.
_TELLING: Final = ("message", "text", "line", "content", "summary", "render")
# Beyond this an event is not parsed only to show a line of it.
_SMALL: Final = 16 * 1024
# A report that brings no new percentage takes a step too small to be seen.
_STEP: Final = 0.001
ALIVE: Final = "still running"

# Made only for what is reported in the end, which is a small part of what happens.
Message = Callable[[], str]


@dataclass(frozen=True)
class Report:
    """One notification. `total` is 100 for a method that tells percentages."""

    progress: float
    total: float | None
    message: str


class Meter:
    """Turns what a call does into reports."""

    def __init__(self, now: float, heartbeat_seconds: float) -> None:
        self._heartbeat = heartbeat_seconds
        self._progress = -1.0
        self._total: float | None = None
        self._reported_at = float("-inf")
        # When the client last had a sign of life.
        self._seen_at = now
        # What happened last and was not reported yet.
        self._news: tuple[Message, float | None] | None = None

    @property
    def has_news(self) -> bool:
        """Whether something happened since the last report."""
        return self._news is not None

    def note(self, message: Message, percentage: float | None = None) -> None:
        """Something happened; it replaces what was not reported yet."""
        if percentage is None and self._news is not None:
            percentage = self._news[1]
        self._news = (message, percentage)

    def wait(self, now: float) -> float:
        """How many seconds there are until the next report; 0 if it is due."""
        if self._news is not None:
            return max(0.0, self._reported_at + PAUSE_SECONDS - now)
        return max(0.0, self._seen_at + self._heartbeat - now)

    def take(self, now: float) -> Report:
        """The next report: what happened last, or that the call is alive."""
        message, percentage = self._news or (lambda: ALIVE, None)
        self._news = None
        self._reported_at = self._seen_at = now
        if percentage is not None:
            self._total = 100.0
        least = self._progress + (_STEP if self._total is not None else 1.0)
        self._progress = max(least, percentage if percentage is not None else least)
        return Report(self._progress, self._total, message())


def one_line(content: bytes, content_type: str) -> str:
    """An event in one line."""
    if len(content) > _SMALL:
        return content_type
    try:
        event = from_json(content)
    except ValueError:
        return content_type  # JSON, but with half a character in it
    fields = event if isinstance(event, dict) else {"text": event}
    for name in _TELLING:
        text = fields.get(name)
        if isinstance(text, str) and text.strip():
            line = " ".join(text[: 4 * MAX_LINE].split())
            return line if len(line) <= MAX_LINE else line[: MAX_LINE - 1] + "…"
    return str(fields.get("type", content_type))
