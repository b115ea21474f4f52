"""Renderers: lines and JSON for programs, Rich for terminals."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol
else:
    # `typing` takes longer to import than the pipe's help takes to print.
    Protocol = object


class Renderer(Protocol):
    """Shows the events of a call."""

    # Whether the view shows the end of a chat that failed or had a tool call denied.
    reports_end: bool

    @property
    def at_line_start(self) -> bool:
        """Whether the next text begins a line."""

    @property
    def activity(self) -> str:
        """The words for a silence, such as `waiting`."""

    def item(self, item: dict[str, Any]) -> None:
        """Take any item before it is handled."""

    def event(self, content: Any) -> None:
        """Show an event, the content of a data item."""

    def progress(self, message: str, percentage: float | None) -> None:
        """Show the progress of the method."""

    def warn(self, text: str) -> None:
        """Show a warning, such as the hub's guidance without an error."""

    def idle(self) -> None:
        """Show the events that wait, because no item has come for a moment."""

    def pause(self) -> None:
        """Leave the terminal to a question."""

    def close(self) -> None:
        """Show the rest; no event follows."""
