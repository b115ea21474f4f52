"""Ask the caller of a chat about its approvals, while the caller watches the chat."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hubd.activation import Host
from hubd.errors import HubError
from hubd.plugins.claudecode.approvals import store
from hubd.plugins.claudecode.approvals.actors import may_answer
from hubd.storage import ids
from hubd.storage.database import Database
from hubd.storage.streams.streams import StreamRow


class Watcher:
    """The caller of one chat: whether it is asked, and when it stops watching."""

    def __init__(self, db: Database, host: Host, *, stays: bool) -> None:
        self._db = db
        client = host.client
        self._actor = client.actor
        self._over_mcp = client.transport.startswith("mcp")
        # Whether the caller keeps watching after it declined to answer.
        self._stays = stays
        # Set when a person declined to answer.
        self._declined = False

    async def leaves(self, stream: StreamRow) -> bool:
        """Return whether the call ends now, while the chat continues in the background.

        An MCP client is not kept waiting for a person. An agent that has to answer the approval
        itself can't do so while it waits for this call.
        """
        if self._stays or stream.status != "awaiting_permission":
            return False
        if self._declined or self._over_mcp:
            return True
        if not self._actor.is_agent:
            return False
        rows = await store.read_pending_of(self._db, stream.key)
        return any(may_answer(self._actor, row) for row in rows)

    @asynccontextmanager
    async def asked(self, host: Host, stream: StreamRow) -> AsyncIterator[None]:
        """Ask a person about the approvals of a chat for as long as the block lasts."""
        if self._actor.kind != "person" or self._over_mcp:
            yield
            return
        task = asyncio.create_task(self._ask(host, stream), name="approvals of a chat")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _ask(self, host: Host, stream: StreamRow) -> None:
        try:
            async with host.call("loopback.watch", stream_id=ids.text(stream.id)) as events:
                async for event in events:
                    if event["type"] == "declined":
                        self._declined = True
                        # The follower of the chat looks again.
                        self._db.waiters.wake(stream.topic)
        except HubError:
            # The caller can't be asked. It still sees the approvals.
            self._declined = True
            self._db.waiters.wake(stream.topic)
