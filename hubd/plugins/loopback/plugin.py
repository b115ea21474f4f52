"""The plugin loopback: its parts in the order of its help, and its life with the hub."""

import asyncio
from collections.abc import AsyncIterator

from hubd.plugins.loopback.clock import Clock
from hubd.plugins.loopback.methods.approvals import Approvals
from hubd.plugins.loopback.methods.base import NAMESPACE
from hubd.plugins.loopback.methods.configuration import Configuration
from hubd.plugins.loopback.methods.rules import Rules
from hubd.plugins.loopback.methods.watching import Watching
from hubd.plugins.loopback.settings import Settings
from hubd.plugins.loopback.tables import MIGRATIONS


class Loopback(
    Approvals,
    Watching,
    Rules,
    Configuration,
    namespace=NAMESPACE,
    version="1.0.0",
):
    """Approvals: tool calls of agents, decided by a person, a parent agent or a rule.

    A tool call that an agent may not make by itself waits here. It waits without a process if
    need be, and it is carried out once, also after a restart.
    """

    migrations = MIGRATIONS
    settings_model = Settings

    async def lifespan(self) -> AsyncIterator[None]:
        """Accept the tokens of earlier configurations, and watch deadlines while the hub runs."""
        await self.host.in_thread(self.register_tokens)
        clock = Clock(self.db, self.host, self.settings(Settings).notify_command)
        task = asyncio.create_task(clock.run(), name="approvals' times")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
