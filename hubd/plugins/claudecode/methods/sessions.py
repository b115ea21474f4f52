"""List, create and delete sessions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Unpack

from hubd.activation import Unavailable, method
from hubd.activation.pages import RowLimit, limited
from hubd.activation.params import NodeId, TreeId
from hubd.activation.working_directory import working_directory
from hubd.conversations import heads
from hubd.plugins.claudecode import events
from hubd.plugins.claudecode import options as session_options
from hubd.plugins.claudecode.methods.base import LIST_NAMES, ClaudeBase, session_ref
from hubd.plugins.claudecode.methods.parameters import SESSION, AgentOptions, Name, SessionAddress
from hubd.plugins.claudecode.sessions import SESSIONS, Columns
from hubd.storage import ids


class Sessions(ClaudeBase):
    """Methods about sessions."""

    @method(name="list", read_only=True, render="table")
    async def list_sessions(
        self, limit: RowLimit | None = None
    ) -> AsyncIterator[events.SessionList]:
        """List all sessions in order of creation, in pages.

        Args:
            limit: The maximum number of sessions; all if absent.
        """
        async for page in limited(SESSIONS.pages(self.db, limit), limit):
            infos = await self.session_infos(page)
            await asyncio.sleep(0)
            yield events.SessionList(sessions=infos)

    @method(read_only=True, one_of=SESSION, completes=LIST_NAMES)
    async def get(
        self,
        **where: Unpack[SessionAddress],
    ) -> events.SessionData:
        """Show a session and its options."""
        session = await self.session_named(where)
        [info] = await self.session_infos([session])
        return events.SessionData(
            session=info,
            options=session_options.public(session_options.stored_options(session)),
            handle=session_ref(session),
        )

    @method(needs_context=True)
    async def create(
        self,
        name: Name,
        loopback_enabled: bool = True,
        tree_id: TreeId | None = None,
        node_id: NodeId | None = None,
        **options: Unpack[AgentOptions],
    ) -> events.Created:
        """Create a session on a new tree, or at a node of an existing tree.

        Args:
            name: The session's name.
            loopback_enabled: Send the agent's approvals to an approver. If false, the agent's
                own rules decide.
            tree_id: The tree to start on; a new one by default.
            node_id: The node of that tree to start at: its id, or the last 4 or more digits;
                the root by default.
        """
        stored = session_options.given_options({**options, "loopback_enabled": loopback_enabled})
        parent = await self.check_starter(stored)
        directory = working_directory(self.host, options.get("working_dir"))
        columns = Columns(directory, json.dumps(stored), parent=parent)
        session = await self.db.transaction(
            lambda tx: SESSIONS.create(
                tx, name, columns, heads.now(), tree_id=tree_id, node_id=node_id
            )
        )
        return events.Created(
            id=ids.text(session.id),
            name=session.name,
            head=heads.position(session),
            handle=session_ref(session),
        )

    @method(destructive=True, one_of=SESSION, completes=LIST_NAMES)
    async def delete(
        self,
        **where: Unpack[SessionAddress],
    ) -> events.Deleted:
        """Delete a session. Its tree stays while something else references it."""
        session = await self.session_named(where)
        if self.queue.waits_for_disk(session.id):
            raise Unavailable(
                f"the disk refuses the end of the chat of session '{session.name}'",
                suggestion="Free space or check the disk. The hub retries until the end is written",
            )

        await self.db.transaction(lambda tx: SESSIONS.delete(tx, session, heads.now()))
        return events.Deleted(id=ids.text(session.id), name=session.name)
