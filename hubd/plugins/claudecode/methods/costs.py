"""Tokens and costs of chats."""

from typing import Unpack

from hubd.activation import method
from hubd.plugins.claudecode import events, store
from hubd.plugins.claudecode.methods.base import LIST_NAMES, ClaudeBase
from hubd.plugins.claudecode.methods.parameters import SessionAddress
from hubd.storage import ids


class Costs(ClaudeBase):
    """The method that sums up the costs of chats."""

    @method(read_only=True, completes=LIST_NAMES)
    async def usage(
        self,
        **where: Unpack[SessionAddress],
    ) -> events.Usage:
        """Show the tokens and costs of one session, or of all."""
        session = None
        if any(value is not None for value in where.values()):
            session = (await self.session_named(where)).id
        rows = [
            events.UsageRow(**{**row, "session_id": ids.text(row["session_id"])})
            for row in await store.turns(self.db, session)
        ]
        return events.Usage(
            sessions=rows,
            cost_usd=sum(row.cost_usd or 0.0 for row in rows),
            turns=sum(row.turns for row in rows),
        )
