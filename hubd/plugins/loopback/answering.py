"""Answer an approval: check the actor and the rules, then record the answer."""

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from hubd.activation import Actor, Conflict, InvalidParams, PermissionDenied
from hubd.plugins.claudecode.approvals import store
from hubd.plugins.claudecode.approvals.actors import actor_text, may_answer
from hubd.plugins.claudecode.approvals.store import ApprovalRow, Resolution
from hubd.plugins.claudecode.approvals.summary import decider
from hubd.plugins.loopback import rule_store
from hubd.plugins.loopback.question import ASK_USER
from hubd.plugins.loopback.rules.decide import decide
from hubd.plugins.loopback.rules.remember import remembered
from hubd.plugins.loopback.rules.rule import Effect, Remember, ToolCall
from hubd.plugins.loopback.rules.subject import Subject, prepare
from hubd.plugins.loopback.rules.words import InvalidPatternError
from hubd.storage import ids
from hubd.storage.database import Database, Tx


class Reply(NamedTuple):
    """The answer of a person or an agent."""

    approve: bool
    message: str | None = None
    updated_input: Mapping[str, Any] | None = None
    # The answers to an agent's questions, by question.
    answers: Mapping[str, Any] | None = None
    remember: Remember | None = None


class Answering:
    """Records answers. The first one wins."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def answer(
        self, actor: Actor, row: ApprovalRow, reply: Reply
    ) -> tuple[ApprovalRow, str | None]:
        """Record an answer. The agent gets it at once.

        Returns:
            The approval, and the id of the rule that the answer added, if any.

        Raises:
            PermissionDenied: The actor may not answer, or a rule denies the call.
            Conflict: Another answer was first, or the chat has ended.
            InvalidParams: The reply contradicts itself.
        """
        if not may_answer(actor, row):
            raise PermissionDenied(
                f"this caller may not answer approval {ids.text(row.id)}",
                suggestion="A person can answer it, or the agent that started the session if "
                "its approver includes the parent",
            )
        if actor.is_agent and reply.remember == "always":
            raise PermissionDenied(
                "an agent can't add a rule for all sessions, because it decides its own calls too",
                suggestion="Use remember=session, or let a person answer",
            )
        if not reply.approve and (reply.updated_input is not None or reply.answers is not None):
            raise InvalidParams("a denied call has no input: leave out updated_input and answers")
        tool_input = dict(json.loads(row.input))
        given = dict(reply.updated_input) if reply.updated_input is not None else tool_input
        if reply.answers is not None:
            given = {**given, "answers": dict(reply.answers)}
        call = ToolCall(
            row.tool_name,
            given,
            row.working_dir or "",
            ids.text(row.session_id) if row.session_id else None,
            row.session_name,
        )
        subject = await asyncio.to_thread(prepare, call)
        resolution = Resolution(
            "approved" if reply.approve else "denied",
            actor_text(actor),
            reply.message or None,
            json.dumps(given) if given != tool_input else None,
        )
        now = int(time.time())
        return await self._db.transaction(
            lambda tx: _answer(tx, row.key, resolution, subject, reply.remember, now)
        )


def _answer(
    tx: Tx,
    key: int,
    resolution: Resolution,
    subject: Subject,
    remember: Remember | None,
    now: int,
) -> tuple[ApprovalRow, str | None]:
    row = store.by_key(tx, key)
    if row.status != "pending":
        if _is_same(row, resolution):
            return row, None
        raise Conflict(_taken(row), suggestion="List the pending ones: `synapse loopback pending`")
    if resolution.approved:
        decision = decide(subject, rule_store.usable(tx, now), now)
        if decision.effect == "deny":
            raise PermissionDenied(
                f"{decision.rule} denies this call",
                suggestion="A person can remove the rule with `synapse loopback rules-remove`",
            )
    answered = store.resolve(tx, row, resolution, now)
    if remember is None:
        return answered, None
    effect: Effect = "allow" if resolution.approved else "deny"
    try:
        new = remembered(subject, effect, remember, resolution.by)
    except InvalidPatternError as error:
        raise InvalidParams(f"this call can't be remembered: {error}") from error
    return answered, ids.text(rule_store.add(tx, new, now).id)


def _is_same(row: ApprovalRow, resolution: Resolution) -> bool:
    """Return whether an approval has the same answer already, from any actor."""
    edited = row.updated_input and json.loads(row.updated_input)
    return (row.status, row.message, edited) == (
        resolution.status,
        resolution.message,
        resolution.updated_input and json.loads(resolution.updated_input),
    )


def outcome(row: ApprovalRow) -> str:
    """Return how an approval has ended, in words."""
    if row.status in ("withdrawn", "lost"):
        return f"{row.status}: {row.message}"
    if row.status == "timed_out":
        return "denied at its deadline"
    is_answer = row.tool_name == ASK_USER
    verb = ("answered" if is_answer else "allowed") if row.status == "approved" else "denied"
    words = f"{verb} by {decider(row.decided_by or '')}"
    if row.updated_input and not is_answer:
        words += " with another input"
    return words if row.message is None else f"{words}: {row.message}"


def _taken(row: ApprovalRow) -> str:
    name = f"approval {ids.text(row.id)}"
    if row.status in ("withdrawn", "lost"):
        return f"{name} needs no answer any more: {row.message}"
    if row.status == "timed_out":
        return f"{name} was denied at its deadline"
    return f"{name} was {row.status} by {row.decided_by} already"
