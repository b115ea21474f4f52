"""Bringing plugins to life and to an end. A broken one is reported and left out, never fatal."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

from hubd.errors import reason_of
from hubd.plexus.discovery import Source
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import FailedPlugin, Hub, Node

log = logging.getLogger("hubd.plexus")

# A plugin that needs longer to get going is left out; the others must not wait for it.
START_SECONDS: Final = 5.0
# All plugins together must be done in time for the daemon to exit within ten seconds.
STOP_SECONDS: Final = 3.0


@asynccontextmanager
async def plugins(hub: Hub, host: PlexusHost, found: Iterable[Source]) -> AsyncIterator[None]:
    """Load, attach and start plugins; stop them on leaving, the last started first."""
    running: list[_Life] = []
    try:
        for source in found:
            life = await _start(hub, host, source)
            if life is not None:
                running.append(life)
        yield
    finally:
        await _stop(running)


async def _start(hub: Hub, host: PlexusHost, source: Source) -> "_Life | None":
    node: Node | None = None
    namespace = ""
    try:
        activation = source.load()
        namespace = activation.namespace
        node = hub.attach(activation, host)
        if hub.database is not None:
            for below in node.walk():
                await hub.database.migrate(below.path, below.activation.migrations)
        # Describing it now finds what has no JSON Schema before a caller does.
        _ = hub.hash
        life = _Life(hub, node, source)
        await life.start()
    except (Exception, SystemExit) as error:  # whatever a plugin does on import
        if node is not None:
            hub.detach(node)
        reason = reason_of(error)
        log.error("plugin %s was left out: %s", source, reason, exc_info=error)
        hub.report_failure(FailedPlugin(source.target, source.found_in, reason, namespace))
        return None
    return life


async def _stop(running: list["_Life"]) -> None:
    """All of them, within the time there is."""
    for life in reversed(running):
        life.stop()
    tasks = [life.task for life in running if life.task is not None]
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=STOP_SECONDS)
        for task in late:
            log.warning("%s did not stop in time", task.get_name())
            task.cancel()


class _Life:
    """The lifespans of one plugin and its children, in a task of their own.

    Its own task, because a plugin may hold a TaskGroup across its `yield`: when that fails, it
    is this task that is cancelled and not the daemon.
    """

    def __init__(self, hub: Hub, node: Node, source: Source) -> None:
        self._hub = hub
        self._node = node
        self._source = source
        self._stop = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return when the plugin's start-up code has run.

        Raises:
            Exception: What that code raised.
            TimeoutError: It took too long.
        """
        started = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self._run(started), name=f"lifespan of {self._node.path}")
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.shield(started)
        except TimeoutError:
            self.task.cancel()
            raise TimeoutError(f"lifespan took longer than {START_SECONDS:g} s to start") from None

    def stop(self) -> None:
        """Ask for the end; the task finishes by itself."""
        self._stop.set()

    async def _run(self, started: asyncio.Future[None]) -> None:
        try:
            async with _all_lifespans(list(self._node.walk())):
                started.set_result(None)
                await self._stop.wait()
        except BaseException as error:  # it must reach start(), or the log
            if not started.done():
                started.set_exception(
                    error if isinstance(error, Exception) else RuntimeError(repr(error))
                )
            elif not isinstance(error, asyncio.CancelledError) or not self._stop.is_set():
                log.exception("the background work of %s failed", self._node.path)
                reason = f"its background work ended: {reason_of(error)}"
                target, found_in = self._source.target, self._source.found_in
                self._hub.report_failure(
                    FailedPlugin(target, found_in, reason, self._node.activation.namespace)
                )


@asynccontextmanager
async def _all_lifespans(nodes: list[Node]) -> AsyncIterator[None]:
    if not nodes:
        yield
        return
    first, *rest = nodes
    async with asynccontextmanager(first.activation.lifespan)(), _all_lifespans(rest):
        yield
