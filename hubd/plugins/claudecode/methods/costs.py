"""Tokens and costs of chats."""

from __future__ import annotations

from typing import Any, Unpack

from pydantic_core import to_json

from hubd.activation import Encoded, InvalidParams, method
from hubd.plugins.claudecode import sessions
from hubd.plugins.claudecode.costs import events, usage
from hubd.plugins.claudecode.methods.base import LIST_NAMES, ClaudeBase
from hubd.plugins.claudecode.methods.parameters import Grouping, SessionAddress
from hubd.plugins.claudecode.sessions import SessionRow
from hubd.storage import ids
from hubd.storage.arbor import walk
from hubd.storage.arbor.tree import Place
from hubd.storage.arbor.walk import MAIN_ONLY


class Costs(ClaudeBase):
    """The method that sums up the costs of chats."""

    @method(read_only=True, render="table", completes=LIST_NAMES)
    async def usage(
        self, by: Grouping = "session", **where: Unpack[SessionAddress]
    ) -> events.Usage | Encoded:
        """Show the tokens and costs of one session, or of all, with their sums.

        Costs are those that the agent reports; the hub estimates none.

        Args:
            by: One row for each session, branch, model or day. A branch is the path to the head
                of a session in the same tree, so a turn before a fork is in several.
        """
        session = None
        if any(value is not None for value in where.values()):
            session = await self.session_named(where)
        if by == "branch":
            return await self._by_branch(session)
        session_id = session.id if session else None
        rows = await usage.grouped(self.db, by, session_id)
        total = await usage.total(self.db, session_id)
        return _encoded(by, rows, total)

    async def _by_branch(self, session: SessionRow | None) -> Encoded:
        if session is None:
            raise InvalidParams(
                "a branch belongs to a session", suggestion="Give name, or another value of by"
            )
        branches = await self._branches(session)
        rows = [
            {"label": name, **await usage.of_turns(self.db, turns)}
            for name, turns in branches.items()
        ]
        total = await usage.of_turns(self.db, set().union(*branches.values()))
        return _encoded("branch", rows, total)

    async def _branches(self, session: SessionRow) -> dict[str, set[bytes]]:
        """Return the turns on the path to each session's head in the tree of a session."""
        return {
            name: await self._turns_above(head)
            for name, head in await sessions.heads_in(self.db, session.tree)
        }

    async def _turns_above(self, head: Place) -> set[bytes]:
        turns: set[bytes] = set()
        async for page in walk.nodes(self.db, await walk.path(self.db, head), MAIN_ONLY):
            for node in page:
                handle = self.queue.context.own(node)
                if handle is not None and handle.method == "turn":
                    turns.add(bytes.fromhex(handle.meta[0].replace("-", "")))
        return turns


def _encoded(by: Grouping, rows: list[dict[str, Any]], total: dict[str, Any]) -> Encoded:
    """Return a `Usage`. A thousand rows as models would delay other clients."""
    listed = [_row(row, by) for row in rows]
    sums = {name: total[name] for name in usage.COLUMNS}
    return Encoded(to_json({"type": events.Usage.tag, "by": by, "rows": listed, **sums}))


def _row(row: dict[str, Any], by: Grouping) -> dict[str, Any]:
    """Return a `UsageRow`."""
    label, session_id = row["label"], None
    if by == "session":
        session_id = ids.text(label)
        # The session may be deleted.
        label = row["name"] or session_id
    return {
        "label": label,
        "session_id": session_id,
        **{name: row[name] for name in usage.COLUMNS},
    }
