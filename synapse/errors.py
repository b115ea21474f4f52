"""What can go wrong before, during and after a call, each with its exit status."""

from __future__ import annotations


class CommandError(Exception):
    """Ends the command: one line for the user, perhaps a hint below it, and the exit status."""

    def __init__(self, message: str, *, hint: str = "", status: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.status = status


class UsageError(CommandError):
    """The command line is wrong, and nothing was sent."""

    def __init__(self, message: str, *, hint: str = "", show_usage: bool = False) -> None:
        super().__init__(message, hint=hint, status=2)
        # Set for a missing parameter: the hint is the usage line of the method.
        self.show_usage = show_usage


class UnknownCommand(UsageError):
    """There is no such namespace or method, as far as the cached schema knows."""

    def __init__(self, message: str, *, hint: str = "", namespace: str = "") -> None:
        super().__init__(message, hint=hint)
        # The word, where a namespace of the hub was expected.
        self.namespace = namespace


class NoDaemon(CommandError):
    """Nobody answers."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, status=5)


def did_you_mean(word: str, names: list[str]) -> str:
    """A sentence with the closest name, or with all of them if there are few, or nothing."""
    from difflib import get_close_matches

    folded = {name.lower().replace("_", "-"): name for name in names}
    close = get_close_matches(word[:100].lower().replace("_", "-"), folded, n=3, cutoff=0.5)
    if close:
        return f"Did you mean {' or '.join(folded[name] for name in close)}?"
    return f"There is: {', '.join(names)}" if 0 < len(names) <= 40 else ""
