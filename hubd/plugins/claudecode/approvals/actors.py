"""The actors that may answer an approval, and those that are asked. No I/O."""

import json

from hubd.activation import Actor
from hubd.plugins.claudecode.approvals.store import ApprovalRow


def may_answer(actor: Actor, approval: ApprovalRow) -> bool:
    """Return whether an actor may answer an approval.

    A person may answer any. An agent may answer those of sessions that it started, directly or
    through others, if their approver includes the parent; never one that it asked itself.
    """
    if actor.kind in ("hub", "person"):
        return True
    name = actor_text(actor)
    if actor.kind == "unknown" or name == approval.asker or approval.approver == "human":
        return False
    return name in json.loads(approval.ancestors)


def is_asked(actor: Actor, approval: ApprovalRow, now: float) -> bool:
    """Return whether an approval is put to an actor now.

    People are asked if the approver is `human`, or when `parent_then_human` has escalated.
    """
    if actor.kind != "person":
        return may_answer(actor, approval)
    if approval.approver == "parent_then_human":
        return approval.escalate_at is not None and now >= approval.escalate_at
    return approval.approver == "human"


def actor_text(actor: Actor) -> str:
    """Return an actor as it is stored and shown."""
    return f"{actor.kind}:{actor.id}" if actor.id else actor.kind
