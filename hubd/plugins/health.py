"""health: is the hub well?"""

import time
from collections.abc import AsyncIterator
from typing import Literal

from hubd import __version__
from hubd.activation import Activation, Event, Unavailable, method


class Health(Event):
    """How the hub is doing."""

    status: Literal["healthy", "degraded"]
    version: str
    uptime_seconds: float
    database: str


class HealthPlugin(Activation, namespace="health", version="1.0.0"):
    """How the hub is doing."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    @method(streaming=False, read_only=True)
    async def check(self) -> AsyncIterator[Health]:
        """Look whether the hub and its database answer."""
        try:
            await self.db.fetch_one("SELECT count(*) FROM sqlite_schema")
            trouble = None
        except Unavailable as error:
            trouble = error.message
        yield Health(
            status="degraded" if trouble else "healthy",
            version=__version__,
            uptime_seconds=round(time.monotonic() - self._started, 3),
            database=trouble or "ok",
        )
