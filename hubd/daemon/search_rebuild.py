"""`hubd check --rebuild-search`: build the search index again, with or without a running daemon."""

import asyncio
import logging
from pathlib import Path
from typing import Final

from hubd.daemon import control, instance
from hubd.errors import Unavailable
from hubd.plexus.discovery import sources
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import Hub
from hubd.plexus.root import build_hub
from hubd.storage.database import Database
from hubd.storage.maintenance import Report
from hubd.storage.search import index
from hubd.storage.search.service import Search, Status
from hubd.wire import client
from hubd.wire.checks import Finding
from hubd.wire.paths import Paths

log = logging.getLogger(__name__)

# Seconds between two reports of the progress.
REPORT_SECONDS: Final = 0.5
ANSWER_SECONDS: Final = 30.0
# A search waits for the index. Its hits are not used.
QUERY: Final = "rebuild"


def rebuild(paths: Paths, report: Report) -> Finding:
    """Remove the search index, and return when a new one is complete.

    A running daemon builds it; searches find the texts so far meanwhile. Without a daemon this
    process builds it, and no daemon can start meanwhile.

    Raises:
        HubError: The daemon stopped, or another process starts one now.
    """
    report("removing the search index")
    info = control.info(paths)
    if info:
        index.remove(index.index_path(Path(paths.database)))
        _wait_for_daemon(paths, info["backend"], report)
        return Finding("search index", True, "built again by the running daemon")
    with instance.exclusive(paths):
        index.remove(index.index_path(Path(paths.database)))
        status = asyncio.run(_build(Path(paths.database), report))
    return Finding("search index", True, f"built again: {status.indexed:,} texts")


def _wait_for_daemon(paths: Paths, root: str, report: Report) -> None:
    while True:
        try:
            items = list(
                client.call(
                    paths.socket,
                    f"{root}.search",
                    {"query": QUERY, "limit": 1},
                    timeout_seconds=ANSWER_SECONDS,
                )
            )
        except client.ClientError as error:
            raise Unavailable(f"the daemon does not answer: {error.message}") from error
        waiting = [item for item in items if item.get("error_type") == "search_status"]
        if not waiting:
            return
        report(waiting[0]["suggestion"])


async def _build(database: Path, report: Report) -> Status:
    """Index the texts of all plugins that need no options."""
    async with Database(database) as opened:
        hub = build_hub(database=opened)
        await _attach_plugins(hub, opened)
        async with Search(opened, hub.search_sources) as search:
            done = asyncio.ensure_future(search.caught_up())
            while not done.done():
                await asyncio.wait([done], timeout=REPORT_SECONDS)
                status = search.status
                report(f"{status.indexed:,} texts indexed, {status.waiting:,} rows to go")
            return search.status


async def _attach_plugins(hub: Hub, database: Database) -> None:
    """Attach the plugins with their tables, without starting them."""
    host = PlexusHost(hub)
    for source in sources(()):
        try:
            node = hub.attach(source.load(), host)
            for below in node.walk():
                await database.migrate(below.path, below.activation.migrations)
        except Exception as error:  # noqa: BLE001 -- a plugin may fail in any way
            log.warning("the texts of %s are indexed by the next start: %s", source, error)
