"""health: the state of the hub."""

import time
from typing import Literal

from pydantic import BaseModel

from hubd import __version__
from hubd.activation import Activation, Event, Unavailable, method


class FailedPlugin(BaseModel, defer_build=True):
    """A plugin that failed to load, or failed in its background work."""

    plugin: str
    reason: str


class Health(Event, summary="{status}, database: {database}"):
    """The state of the hub, its database and its plugins."""

    status: Literal["healthy", "degraded"]
    version: str
    uptime_seconds: float
    database: str
    failed_plugins: list[FailedPlugin]


class HealthPlugin(Activation, namespace="health", version="1.0.0"):
    """The state of the hub."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    @method(read_only=True)
    async def check(self) -> Health:
        """Report whether the hub, its database and its plugins work."""
        try:
            await self.db.fetch_one("SELECT count(*) FROM sqlite_schema")
            problem = None
        except Unavailable as error:
            problem = error.message
        info = await self.host.call_one("_info")
        failed = [
            FailedPlugin(plugin=entry["plugin"], reason=entry["reason"])
            for entry in info.get("failed_plugins", ())
        ]
        return Health(
            status="degraded" if problem or failed else "healthy",
            version=__version__,
            uptime_seconds=round(time.monotonic() - self._started, 3),
            database=problem or "ok",
            failed_plugins=failed,
        )
