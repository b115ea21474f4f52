"""Ask for approvals, list them, answer them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from pydantic import Field

from hubd.activation import method
from hubd.activation.pages import ROWS_PER_ITEM, RowLimit
from hubd.activation.params import IdPrefix
from hubd.plugins.claudecode.approvals import actors, store
from hubd.plugins.claudecode.approvals.store import ApprovalRow
from hubd.plugins.claudecode.sessions import SESSIONS
from hubd.plugins.loopback import answering, asking
from hubd.plugins.loopback import approval_events as events
from hubd.plugins.loopback.methods.base import LIST_PENDING, LoopbackBase
from hubd.plugins.loopback.rules.rule import Remember
from hubd.storage import ids

# The message for the agent if the denial has none.
DENIED: Final = "The call was denied."
# The most seconds that one call waits for an approval.
MAX_WAIT_SECONDS = 3600


class Approvals(LoopbackBase):
    """Methods about approvals."""

    @method(read_only=True, render="table", weight=80)
    async def pending(
        self,
        session_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None,
        all: bool = False,
    ) -> events.Approvals:
        """List the approvals that wait for an answer of the caller, the oldest first.

        Args:
            session_id: The name or the id of the session to list; all sessions by default.
            all: Also those that another approver is asked about, as far as the caller may
                answer them.
        """
        rows = await self._waiting(session_id, everything=all)
        return events.Approvals(approvals=[row.public() for row in rows])

    @method(completes=LIST_PENDING)
    async def respond(
        self,
        approval_id: IdPrefix,
        approve: bool,
        message: str | None = None,
        updated_input: dict[str, Any] | None = None,
        answers: dict[str, Any] | None = None,
        remember: Remember | None = None,
    ) -> events.Responded:
        """Answer an approval. The agent continues at once.

        Repeating an answer succeeds; another answer to the same approval is a conflict.

        Args:
            approval_id: The approval: its id, or the first 8 or more digits.
            approve: Whether the tool may run.
            message: Words for the agent, such as the reason of a denial.
            updated_input: The input that replaces the tool's input.
            answers: The answers to an agent's question, by the text of each question.
            remember: Add a rule for exactly this call: for this `session`, or `always`.
        """
        row = await store.look_up(self.db, approval_id)
        reply = answering.Reply(approve, message, updated_input, answers, remember)
        answered, rule_id = await self.answering.answer(self.host.client.actor, row, reply)
        return events.Responded(
            approval_id=ids.text(answered.id), status=answered.status, rule_id=rule_id
        )

    @method(read_only=True, render="table")
    async def wait_for_approval(
        self,
        timeout_secs: Annotated[float, Field(ge=0, le=MAX_WAIT_SECONDS)] = 60,
        session_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None,
    ) -> events.Approvals:
        """Wait until an approval needs an answer of the caller, and list those that do.

        The list is empty if the time has passed.

        Args:
            timeout_secs: The longest wait, in seconds.
            session_id: The name or the id of the session to wait for; any by default.
        """
        deadline = asyncio.get_running_loop().time() + timeout_secs
        with self.db.waiters.waiting_for(store.ALL) as changed:
            while True:
                changed.clear()
                rows = await self._waiting(session_id)
                if rows:
                    break
                try:
                    async with asyncio.timeout_at(deadline):
                        await changed.wait()
                except TimeoutError:
                    break
        return events.Approvals(approvals=[row.public() for row in rows])

    @method(read_only=True, render="table")
    async def history(
        self,
        session_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None,
        status: store.Status | None = None,
        limit: RowLimit | None = None,
    ) -> AsyncIterator[events.PastApprovals]:
        """List all approvals with their answers, the newest first, in pages.

        Args:
            session_id: The name or the id of the session to list; all sessions by default.
            status: The status of the approvals that are listed; all if absent.
            limit: The maximum number of approvals; all if absent.
        """
        session = (await SESSIONS.look_up(self.db, session_id)).id if session_id else None
        before, left = None, limit
        while True:
            count = ROWS_PER_ITEM if left is None else min(left, ROWS_PER_ITEM)
            page = await store.page(self.db, before, count, session_id=session, status=status)
            if page or before is None:
                yield events.PastApprovals(approvals=[row.public() for row in page])
            left = None if left is None else left - len(page)
            if len(page) < count or left == 0:
                return
            before = page[-1].key

    @method(open_to_sessions=True, mcp={"text_only": True})
    async def permit(
        self,
        tool_name: Annotated[str, Field(min_length=1, max_length=200)],
        input: dict[str, Any],
        tool_use_id: Annotated[str, Field(max_length=200)] = "",
        agent_id: str | None = None,
    ) -> events.Allowed | events.Denied:
        """Ask whether a tool may run, and wait for the answer. Agents call this.

        Args:
            tool_name: The tool.
            input: The input of the call.
            tool_use_id: The id of the call.
            agent_id: The subagent that makes the call, if it is not the main agent.
        """
        row = await self.asking.ask(asking.Request(tool_name, input, tool_use_id, agent_id))
        approval_id = ids.text(row.id)
        if row.status == "approved":
            edited = json.loads(row.updated_input) if row.updated_input else input
            return events.Allowed(updatedInput=edited, approval_id=approval_id)
        return events.Denied(message=row.message or DENIED, approval_id=approval_id)

    async def _waiting(self, session: str | None, *, everything: bool = False) -> list[ApprovalRow]:
        wanted = (await SESSIONS.look_up(self.db, session)).id if session else None
        actor, now = self.host.client.actor, time.time()
        return [
            row
            for row in await store.all_pending(self.db)
            if (wanted is None or row.session_id == wanted)
            and (actors.may_answer(actor, row) if everything else actors.is_asked(actor, row, now))
        ]
