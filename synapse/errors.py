"""The errors that end a command, each with its exit status."""

# The most names in a hint.
MAX_NAMES = 40


class CommandError(Exception):
    """Ends the command with a message, an optional hint below it, and an exit status."""

    def __init__(self, message: str, *, hint: str = "", status: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.status = status


class UsageError(CommandError):
    """The command line is wrong; nothing was sent."""

    def __init__(self, message: str, *, hint: str = "", show_usage: bool = False) -> None:
        super().__init__(message, hint=hint, status=2)
        # True for a missing parameter: the hint becomes the method's usage line.
        self.show_usage = show_usage


class UnknownCommand(UsageError):
    """The cached schema has no such namespace or method."""

    def __init__(self, message: str, *, hint: str = "", namespace: str = "") -> None:
        super().__init__(message, hint=hint)
        # The word in the place of a namespace; empty in the place of a method.
        self.namespace = namespace


class EndOfChat(CommandError):
    """A chat failed, or had a tool call denied."""

    # True if the view of the chat has shown it.
    is_reported = False


class NoDaemon(CommandError):
    """No hub answers."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, status=5)


def suggestion(word: str, names: list[str]) -> str:
    """Return a hint with the nearest names, else with all names if there are few."""
    from hubd.wire.text import did_you_mean

    verb = "is" if len(names) == 1 else "are"
    few = f"There {verb}: {', '.join(names)}" if 0 < len(names) <= MAX_NAMES else ""
    return did_you_mean(word, names, most=3) or few
