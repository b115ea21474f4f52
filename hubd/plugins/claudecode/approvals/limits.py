"""The limits of sessions that agents start: at most what their starter has. No I/O."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from hubd.errors import PermissionDenied
from hubd.plugins.claudecode.approvals.store import Approver
from hubd.plugins.claudecode.sessions import SessionRow

# The permission modes of the program, from the strictest to the most permissive.
MODES: Final = ("plan", "dontAsk", "default", "manual", "acceptEdits", "auto", "bypassPermissions")


def default_approver(session: SessionRow) -> Approver:
    """Return the approver of a session that names none."""
    return "parent_then_human" if session.parent is not None else "human"


def check_limits(given: Mapping[str, Any], own: Mapping[str, Any] | None) -> None:
    """Check the options of a session that an agent starts.

    Args:
        given: The options of the new session.
        own: The options of the session that starts it; None for an MCP client, whose limits the
            hub does not know.

    Raises:
        PermissionDenied: The session would get more than its starter has.
    """
    if given.get("loopback_enabled") is False:
        raise PermissionDenied(
            "an agent can't start a session whose tool calls need no approval",
            suggestion="Leave out loopback_enabled",
        )
    if own is None:
        return
    for grant in given.get("grants") or ():
        if not any(_covers(own_grant, grant) for own_grant in own.get("grants") or ()):
            raise _refusal("grant", grant)
    for rule in given.get("allowed_tools") or ():
        own_rules = own.get("allowed_tools") or ()
        if rule not in own_rules and rule.partition("(")[0] not in own_rules:
            raise _refusal("tool rule", rule)
    mode = given.get("permission_mode")
    if mode is not None and _rank(mode) > _rank(own.get("permission_mode") or "default"):
        raise _refusal("permission mode", mode)


def _covers(own: str, grant: str) -> bool:
    return own == grant or fnmatchcase(grant, own) or grant.startswith(f"{own}.")


def _rank(mode: str) -> int:
    # An unknown mode counts as the most permissive one.
    return MODES.index(mode) if mode in MODES else len(MODES)


def _refusal(kind: str, name: str) -> PermissionDenied:
    return PermissionDenied(
        f"this agent can't give a session the {kind} '{name}', because it does not have it",
        suggestion="Leave it out, or ask a person to start the session",
    )
