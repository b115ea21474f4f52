"""The exit status of a command that a method runs, for --exit-code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from synapse.errors import CommandError, UsageError

if TYPE_CHECKING:
    from hubd.wire.schema import MethodSchema


class ExitStatus:
    """Notes the `code` of the event `exit`."""

    def __init__(self) -> None:
        self._code: int | None = None

    def note(self, item: dict[str, Any]) -> None:
        """Note one item of the call."""
        content = item.get("content")
        if isinstance(content, dict) and content.get("type") == "exit":
            code = content.get("code")
            self._code = code if isinstance(code, int) else None

    def value(self) -> int:
        """Return the status.

        Raises:
            CommandError: The call ended without one.
        """
        if self._code is None:
            raise CommandError("the exit status of the command is unknown")
        # The system keeps one byte; a failure must not become a success.
        return self._code if 0 <= self._code <= 255 else 1


def check_runs_command(schema: MethodSchema, words: str) -> None:
    """Refuse --exit-code for a method that runs no command.

    Raises:
        UsageError: The method has no exit status.
    """
    if schema.get("annotations", {}).get("render") != "process":
        raise UsageError(f"--exit-code: `{words}` runs no command")
