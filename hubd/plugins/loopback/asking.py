"""Ask for an approval: by the rules if they decide, else by waiting for an answer."""

import asyncio
import json
import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from hubd.activation import Actor, Host, NotFound
from hubd.plugins.claudecode import options as session_options
from hubd.plugins.claudecode import sessions
from hubd.plugins.claudecode.approvals import store
from hubd.plugins.claudecode.approvals.actors import actor_text
from hubd.plugins.claudecode.approvals.limits import default_approver
from hubd.plugins.claudecode.approvals.store import ApprovalRow, NewApproval, Resolution
from hubd.plugins.claudecode.record.disk import until_written
from hubd.plugins.claudecode.sessions import SESSIONS, SessionRow
from hubd.plugins.loopback import rule_store
from hubd.plugins.loopback.rules.decide import decide
from hubd.plugins.loopback.rules.rule import ToolCall
from hubd.plugins.loopback.rules.subject import Subject, prepare
from hubd.plugins.loopback.settings import Settings
from hubd.storage import ids
from hubd.storage.database import Database, Tx
from hubd.storage.streams import streams


class Request(NamedTuple):
    """A tool call that an agent asks about."""

    tool_name: str
    input: Mapping[str, Any]
    tool_use_id: str
    agent_id: str | None


class Asking:
    """Records questions of agents, and waits for their answers."""

    def __init__(self, db: Database, host: Host, settings: Settings) -> None:
        self._db = db
        self._host = host
        self._settings = settings

    async def ask(self, request: Request) -> ApprovalRow:
        """Record a question and return its approval when it is decided.

        A chat's approval stays pending if this call is cancelled: the hub may be stopping. Any
        other approval is withdrawn, because its agent does not wait any more.
        """
        actor = self._host.client.actor
        session = await self._session(actor)
        row = await self._record(actor, session, request)
        try:
            return await self._decided(row)
        except asyncio.CancelledError:
            if row.stream is None:
                withdrawal = Resolution("withdrawn", "hub", "the agent does not wait any more")
                now = int(time.time())
                await asyncio.shield(
                    self._db.transaction(lambda tx: store.resolve(tx, row, withdrawal, now))
                )
            raise

    async def _session(self, actor: Actor) -> SessionRow | None:
        if actor.kind != "session":
            return None
        try:
            return await SESSIONS.look_up(self._db, actor.id)
        except NotFound:
            return None

    async def _record(
        self, actor: Actor, session: SessionRow | None, request: Request
    ) -> ApprovalRow:
        """Store the question, with its answer if a rule decides; retry until the disk takes it."""
        new = await self._new(actor, session, request)
        call = ToolCall(request.tool_name, request.input)
        if session is not None:
            call = replace(
                call,
                cwd=session.working_dir,
                session_id=ids.text(session.id),
                session_name=session.name,
            )
        # Paths are looked up on the disk.
        subject = await asyncio.to_thread(prepare, call)
        now = int(time.time())
        # The agent waits meanwhile.
        return await until_written(self._db, lambda tx: _store(tx, new, subject, now))

    async def _new(self, actor: Actor, session: SessionRow | None, request: Request) -> NewApproval:
        # Rounded up: a deadline of a second must not pass at once.
        now = math.ceil(time.time())
        new = NewApproval(
            asker=actor_text(actor),
            tool_name=request.tool_name,
            tool_use_id=request.tool_use_id,
            input=json.dumps(request.input),
            agent_id=request.agent_id,
            deadline_at=now + self._settings.deadline_secs,
        )
        if session is None:
            return new
        options = session_options.stored_options(session)
        approver: store.Approver = options.get("approver") or default_approver(session)
        stream = await streams.running(self._db, session.id)
        escalate = options.get("escalate_secs")
        escalate = self._settings.escalate_secs if escalate is None else escalate
        return new._replace(
            approver=approver,
            ancestors=await sessions.ancestors(self._db, session),
            escalate_at=now + escalate if approver == "parent_then_human" else None,
            deadline_at=now + (options.get("deadline_secs") or self._settings.deadline_secs),
            session_id=session.id,
            session_name=session.name,
            stream=stream.key if stream else None,
            working_dir=session.working_dir,
        )

    async def _decided(self, row: ApprovalRow) -> ApprovalRow:
        with self._db.waiters.waiting_for(row.topic) as changed:
            while True:
                changed.clear()
                row = await store.reread(self._db, row.key)
                if row.status != "pending":
                    return row
                await changed.wait()


def _store(tx: Tx, new: NewApproval, subject: Subject, now: int) -> ApprovalRow:
    """Store a question, and the answer of the rules if there is one."""
    if new.stream is not None:
        before = store.newest_of_call(tx, new.stream, new.tool_use_id)
        if before is not None and not store.is_new_call(tx, new.stream, new.tool_use_id):
            # The agent asks again after a restart.
            return before
    decision = decide(subject, rule_store.usable(tx, now), now)
    row = store.ask(tx, new, now)
    if decision.effect == "ask" or decision.rule is None:
        return row
    for rule in decision.rules:
        rule_store.use(tx, rule.id, now)
    rule_id = ids.text(decision.rule.id)
    if decision.effect == "allow":
        return store.resolve(tx, row, Resolution("approved", f"rule:{rule_id}"), now)
    reason = f"A rule of this hub denies this call: {decision.rule}"
    return store.resolve(tx, row, Resolution("denied", f"rule:{rule_id}", reason), now)
