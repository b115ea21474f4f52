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


class PluginFinding(BaseModel, defer_build=True):
    """The result of a plugin's check of this machine."""

    what: str
    ok: bool
    detail: str


class Health(Event, summary="{status}, database: {database}"):
    """The state of the hub, its database and its plugins."""

    status: Literal["healthy", "degraded"]
    version: str
    uptime_seconds: float
    database: str
    failed_plugins: list[FailedPlugin]
    # Absent unless the plugins were asked.
    findings: list[PluginFinding] | None = None


class HealthPlugin(Activation, namespace="health", version="1.0.0"):
    """The state of the hub."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    @method(read_only=True)
    async def check(self, thorough: bool = False) -> Health:
        """Report whether the hub, its database and its plugins work.

        Args:
            thorough: Also let the plugins check the programs that they use. Takes seconds.
        """
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
        findings = None
        if thorough:
            rows = await self.host.examine()
            findings = [PluginFinding(what=row.what, ok=row.ok, detail=row.detail) for row in rows]
        is_degraded = problem or failed or any(not finding.ok for finding in findings or ())
        return Health(
            status="degraded" if is_degraded else "healthy",
            version=__version__,
            uptime_seconds=round(time.monotonic() - self._started, 3),
            database=problem or "ok",
            failed_plugins=failed,
            findings=findings,
        )
