"""health: is the hub well?"""

import time
from collections.abc import AsyncIterator
from typing import Literal

from pydantic import BaseModel

from hubd import __version__
from hubd.activation import Activation, Event, Unavailable, method


class FailedPlugin(BaseModel, defer_build=True):
    """A plugin that could not be loaded, or whose background work ended with an error."""

    plugin: str
    reason: str


class Health(Event):
    """How the hub is doing."""

    status: Literal["healthy", "degraded"]
    version: str
    uptime_seconds: float
    database: str
    failed_plugins: list[FailedPlugin]


class HealthPlugin(Activation, namespace="health", version="1.0.0"):
    """How the hub is doing."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    @method(streaming=False, read_only=True)
    async def check(self) -> AsyncIterator[Health]:
        """Report whether the hub, its database and its plugins work."""
        try:
            await self.db.fetch_one("SELECT count(*) FROM sqlite_schema")
            trouble = None
        except Unavailable as error:
            trouble = error.message
        async with self.host.call("_info") as infos:
            failed = [
                FailedPlugin(plugin=entry["plugin"], reason=entry["reason"])
                async for info in infos
                for entry in info.get("failed_plugins", ())
            ]
        yield Health(
            status="degraded" if trouble or failed else "healthy",
            version=__version__,
            uptime_seconds=round(time.monotonic() - self._started, 3),
            database=trouble or "ok",
            failed_plugins=failed,
        )
