"""The scope of a rule: `global`, `dir:PATH` (a directory and below) or `session:NAME`."""

from uuid import UUID

from hubd.plugins.loopback.rules import paths
from hubd.plugins.loopback.rules.rule import Effect, ToolCall


class InvalidScopeError(ValueError):
    """A text that is not a scope."""


def normalized(scope: str, cwd: str) -> str:
    """Return a scope as it is stored: a directory is absolute and resolved.

    Raises:
        InvalidScopeError: The text is not a scope.
    """
    kind, _, name = scope.partition(":")
    if scope == "global" or (kind == "session" and name):
        return scope
    if kind == "dir" and name and "\0" not in name:
        return f"dir:{paths.absolute(name, cwd)}"
    raise InvalidScopeError(f"'{scope[:200]}' is not a scope")


def is_in_scope(scope: str, effect: Effect, call: ToolCall, directory: str | None) -> bool:
    """Return whether a rule applies to the session of a call.

    Args:
        scope: The stored scope.
        effect: The effect of the rule. A restriction also applies if the directory is not known.
        call: The call.
        directory: The session's resolved directory; None if it is not known.
    """
    if scope == "global":
        return True
    kind, _, name = scope.partition(":")
    if kind == "session":
        return name == (call.session_id if _is_id(name) else call.session_name)
    if kind != "dir":
        return False
    if directory is None:
        return effect != "allow"
    if paths.is_below(directory, name):
        return True
    return effect != "allow" and paths.is_below(call.cwd, name)


def _is_id(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False
