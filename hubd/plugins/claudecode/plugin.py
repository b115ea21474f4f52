"""The plugin claudecode: its parts in the order of its help, and its life with the hub."""

from collections.abc import AsyncIterator, Mapping, Sequence

from hubd.activation import Finding, SearchSource
from hubd.plugins.claudecode import search, store
from hubd.plugins.claudecode.handles import NAMESPACE, VERSION
from hubd.plugins.claudecode.methods.branches import Branches
from hubd.plugins.claudecode.methods.chats import Chats
from hubd.plugins.claudecode.methods.consumers import Consumers
from hubd.plugins.claudecode.methods.conversations import Conversations
from hubd.plugins.claudecode.methods.costs import Costs
from hubd.plugins.claudecode.methods.native_sessions import NativeSessions
from hubd.plugins.claudecode.methods.reading import Reading
from hubd.plugins.claudecode.methods.resolvers import Resolvers
from hubd.plugins.claudecode.methods.retention import Retention
from hubd.plugins.claudecode.methods.sessions import Sessions
from hubd.plugins.claudecode.methods.streams import Streams
from hubd.plugins.claudecode.program import examination
from hubd.plugins.claudecode.program.engine import Settings
from hubd.plugins.claudecode.program.private_files import private_files
from hubd.plugins.claudecode.sessions import SESSIONS
from hubd.plugins.claudecode.tables import MIGRATIONS


class ClaudeCode(
    Chats,
    Reading,
    Streams,
    Sessions,
    Branches,
    Conversations,
    Costs,
    NativeSessions,
    Consumers,
    Retention,
    Resolvers,
    namespace=NAMESPACE,
    version=VERSION,
):
    """Claude Code sessions: every chat a durable stream, every conversation a branching tree.

    A chat runs in the background and outlives its caller. Any number of readers follow it, each
    at its own pace. Sessions fork without copying, at their end or at any message.
    """

    migrations = MIGRATIONS
    settings_model = Settings

    def search_sources(self) -> Sequence[SearchSource]:
        """Return the messages, blocks and names of all sessions."""
        return search.sources()

    async def examine(self) -> list[Finding]:
        """Check the `claude` program, and whether it can continue a call that waits."""
        return [await examination.examine_program(self.settings(Settings).program)]

    async def marks(self, tree_id: str) -> Mapping[str, Sequence[str]]:
        """Return the sessions whose heads are on a tree."""
        return await SESSIONS.marks(self.db, tree_id)

    async def lifespan(self) -> AsyncIterator[None]:
        """Recover the chats of an earlier hub, and interrupt running chats when this one stops."""
        self._is_running = True
        if await store.has_open_chats(self.db) or private_files(self.db).exists():
            self._queue = self.new_queue()
            await self._queue.recover()
        try:
            async with self.removing_old_events(self.settings(Settings).retention_days):
                yield
        finally:
            self._is_running = False
            if self._queue is not None:
                await self._queue.close()
                self._queue = None
