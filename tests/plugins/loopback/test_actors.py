"""Random families of sessions: an answer counts only if the right actor gives it."""

import json
import random
from typing import get_args
from uuid import UUID

import pytest

from hubd.activation import Actor
from hubd.plugins.claudecode.approvals.actors import actor_text, is_asked, may_answer
from hubd.plugins.claudecode.approvals.store import ApprovalRow, Approver

CLIENT = Actor("client", "process:7@boot/1")
PERSON = Actor("person")
UNKNOWN = Actor("unknown")
NOW = 1_700_000_000


def approval_of(
    session: int, ancestors: list[str], approver: Approver, escalate_at: int | None
) -> ApprovalRow:
    return ApprovalRow(
        key=1,
        id=bytes(16),
        asker=f"session:{UUID(int=session)}",
        session_id=UUID(int=session).bytes,
        session_name=None,
        stream=1,
        tool_use_id="toolu_1",
        agent_id=None,
        tool_name="Bash",
        input="{}",
        working_dir=None,
        approver=approver,
        ancestors=json.dumps(ancestors),
        escalate_at=escalate_at,
        deadline_at=NOW + 1,
        status="pending",
        call_state="waiting",
        message=None,
        updated_input=None,
        decided_by=None,
        created_at=NOW,
        resolved_at=None,
    )


@pytest.mark.parametrize("count", [5_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_only_people_and_ancestors_answer_and_no_session_answers_for_itself(count: int) -> None:
    source = random.Random(7)
    for _ in range(count):
        # Each session was started by a person, a client or an earlier session.
        size = source.randint(1, 6)
        starters: list[Actor] = []
        for number in range(size):
            earlier = [Actor("session", str(UUID(int=each))) for each in range(number)]
            starters.append(source.choice([PERSON, CLIENT, *earlier]))
        asking = source.randrange(size)
        chain: list[str] = []
        starter = starters[asking]
        while starter.kind != "person":
            chain.append(actor_text(starter))
            starter = starters[UUID(starter.id).int] if starter.kind == "session" else PERSON
        approver: Approver = source.choice(get_args(Approver))
        escalate_at = source.choice([None, NOW - 1, NOW + 1])
        row = approval_of(asking, chain, approver, escalate_at)

        for number in range(size):
            actor = Actor("session", str(UUID(int=number)), ("*",))
            is_ancestor = actor_text(actor) in chain
            assert may_answer(actor, row) == (is_ancestor and approver != "human")
            assert not (number == asking and may_answer(actor, row))
            assert is_asked(actor, row, NOW) == may_answer(actor, row)
        assert may_answer(CLIENT, row) == (actor_text(CLIENT) in chain and approver != "human")
        assert not may_answer(UNKNOWN, row)
        assert may_answer(PERSON, row)
        escalated = approver == "parent_then_human" and escalate_at == NOW - 1
        assert is_asked(PERSON, row, NOW) == (approver == "human" or escalated)
