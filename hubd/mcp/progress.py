"""The timing, numbers and texts of progress notifications. Pure.

MCP requires that progress grows with every notification, also if a method repeats itself.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic_core import from_json, to_json

from hubd.wire.lazy_dataclass import dataclass
from hubd.wire.summary import event_line

# Seconds between two reports.
PAUSE_SECONDS: Final = 0.1
# Characters of an event's line.
MAX_LINE: Final = 100
# Characters of a progress message of a method.
MAX_MESSAGE: Final = 1000
# Larger events are not parsed for one line; their type is shown.
_MAX_PARSED_BYTES: Final = 16 * 1024
# The step of a report without a new percentage: too small to be visible.
_STEP: Final = 0.001
ALIVE: Final = "still running"

# A function, because most texts are replaced before they are reported.
Message = Callable[[], str]


@dataclass(frozen=True)
class Report:
    """One notification. `total` is 100 for a method that reports percentages."""

    progress: float
    total: float | None
    message: str


class Meter:
    """Turns events and progress of a call into reports."""

    def __init__(self, now: float, heartbeat_seconds: float) -> None:
        self._heartbeat = heartbeat_seconds
        self._progress = -1.0
        self._total: float | None = None
        self._reported_at = float("-inf")
        # The time of the last report, or of the start.
        self._seen_at = now
        # The latest event or progress that is not reported yet.
        self._news: tuple[Message, float | None] | None = None

    @property
    def has_news(self) -> bool:
        """Whether there is something to report."""
        return self._news is not None

    def note(self, message: Message, percentage: float | None = None) -> None:
        """Record an event or progress; it replaces the one that is not reported yet."""
        if percentage is None and self._news is not None:
            percentage = self._news[1]
        self._news = (message, percentage)

    def wait(self, now: float) -> float:
        """Return the seconds until the next report; 0 if it is due."""
        if self._news is not None:
            return max(0.0, self._reported_at + PAUSE_SECONDS - now)
        return max(0.0, self._seen_at + self._heartbeat - now)

    def take(self, now: float) -> Report:
        """Return the next report: the latest news, or that the call is still running."""
        message, percentage = self._news or (lambda: ALIVE, None)
        self._news = None
        self._reported_at = self._seen_at = now
        if percentage is not None:
            self._total = 100.0
        least = self._progress + (_STEP if self._total is not None else 1.0)
        self._progress = max(least, percentage if percentage is not None else least)
        return Report(self._progress, self._total, message())


def encode_report(token: str | int, report: Report) -> bytes:
    """Return a notification as JSON, equal to the notification that the SDK sends.

    Args:
        token: The token of the request that wants progress.
        report: The report.
    """
    params: dict[str, Any] = {"progressToken": token, "progress": report.progress}
    if report.total is not None:
        params["total"] = report.total
    params["message"] = report.message
    return to_json({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


def one_line(content: bytes, content_type: str, summaries: Mapping[str, str]) -> str:
    """Return an encoded event in one line.

    Args:
        content: The event as JSON.
        content_type: The text for an event that has no other.
        summaries: Templates by the type of the event.
    """
    if len(content) > _MAX_PARSED_BYTES:
        return content_type
    try:
        event = from_json(content)
    except ValueError:
        return content_type  # JSON with a lone surrogate
    fields = event if isinstance(event, dict) else {"text": event}
    template = summaries.get(str(fields.get("type")))
    return event_line(fields, template, MAX_LINE) or content_type
