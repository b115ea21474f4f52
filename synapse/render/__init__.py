"""How events are shown: plain lines for programs, Rich for people."""

from __future__ import annotations

from typing import Any, Protocol


class Renderer(Protocol):
    """Takes what a call yields."""

    @property
    def at_line_start(self) -> bool:
        """Whether the next text begins a line."""

    def item(self, item: dict[str, Any]) -> None:
        """Every item, before it is looked at."""

    def event(self, content: Any) -> None:
        """The content of a data item."""

    def progress(self, message: str, percentage: float | None) -> None:
        """How far the method is."""

    def idle(self) -> None:
        """Nothing has come for a moment: show what was held back."""

    def pause(self) -> None:
        """A question follows: leave the terminal alone."""

    def close(self) -> None:
        """Nothing follows."""
