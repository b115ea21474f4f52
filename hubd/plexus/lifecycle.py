"""Bringing plugins to life and to an end. A broken one is reported and left out, never fatal."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Final

from hubd.activation.base import Activation
from hubd.errors import HubError, NotFound, reason_of
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
    running = Running(hub, host)
    host.running = running
    try:
        for source in found:
            await _start(running, hub, host, source)
        yield
    finally:
        host.running = None
        await _stop(running.lives)


class Running:
    """The running plugins of a hub. Children come and go while it runs."""

    def __init__(self, hub: Hub, host: PlexusHost) -> None:
        self._hub = hub
        self._host = host
        # In the order in which they started.
        self.lives: list[_Life] = []

    async def bring_up(self, node: Node, source: Source) -> None:
        """Make the tables of an attached node and those below it, and start them.

        Raises:
            Exception: What failed; the node is no longer attached.
        """
        life = _Life(self._hub, node, source)
        try:
            if self._hub.database is not None:
                for below in node.walk():
                    await self._hub.database.migrate(below.path, below.activation.migrations)
            # Describing it now finds types without JSON Schema before a caller does.
            _ = self._hub.hash
            await life.start()
        except BaseException:
            life.cancel()
            await self.take_down(node)
            raise
        self.lives.append(life)

    async def take_down(self, node: Node) -> None:
        """Detach a node, then stop it and the children that were added below it."""
        self._hub.detach(node)
        ending = [life for life in self.lives if life.is_below(node)]
        self.lives = [life for life in self.lives if life not in ending]
        await _stop(ending)

    async def add_child(self, parent: Activation, child: Activation) -> None:
        """As `Activation.add_child`."""
        node = self._hub.attach(child, self._host, self._node_of(parent))
        target = f"{type(child).__module__}:{type(child).__qualname__}"
        await self.bring_up(node, Source(target, f"added by {parent.path}"))

    async def remove_child(self, parent: Activation, namespace: str) -> None:
        """As `Activation.remove_child`."""
        node = self._node_of(parent).children.get(namespace)
        if node is None or not any(life.is_of(node) for life in self.lives):
            raise NotFound(f"{parent.path} has added no child '{namespace}'")
        await self.take_down(node)

    def _node_of(self, activation: Activation) -> Node:
        node = self._hub.find(activation.path.split("."))
        if node.activation is not activation:
            raise RuntimeError(f"{activation.path} is no longer attached to the hub")
        return node


async def _start(running: Running, hub: Hub, host: PlexusHost, source: Source) -> None:
    namespace = ""
    try:
        activation = source.load()
        namespace = activation.namespace
        await running.bring_up(hub.attach(activation, host), source)
    except (Exception, SystemExit) as error:  # whatever a plugin does on import
        reason = reason_of(error)
        if isinstance(error, HubError) and error.suggestion:
            reason = f"{reason}. {error.suggestion}"
        log.error("plugin %s was left out: %s", source, reason, exc_info=error)
        hub.report_failure(FailedPlugin(source.target, source.found_in, reason, namespace))


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
        # A context of its own: a child may be started inside a call, and outlives it.
        self.task = asyncio.create_task(
            self._run(started), name=f"lifespan of {self._node.path}", context=Context()
        )
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.shield(started)
        except TimeoutError:
            self.task.cancel()
            raise TimeoutError(f"lifespan took longer than {START_SECONDS:g} s to start") from None

    def stop(self) -> None:
        """Ask for the end; the task finishes by itself."""
        self._stop.set()

    def cancel(self) -> None:
        """Give up a start that failed."""
        if self.task is not None:
            self.task.cancel()

    def is_of(self, node: Node) -> bool:
        """Return whether these are the lifespans of a node and the children it began with."""
        return self._node is node

    def is_below(self, node: Node) -> bool:
        """Return whether these are lifespans of a node or of anything below it."""
        return self._node is node or self._node.path.startswith(f"{node.path}.")

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
                self._hub.report_failure(FailedPlugin(target, found_in, reason, self._node.path))


@asynccontextmanager
async def _all_lifespans(nodes: list[Node]) -> AsyncIterator[None]:
    if not nodes:
        yield
        return
    first, *rest = nodes
    async with asynccontextmanager(first.activation.lifespan)(), _all_lifespans(rest):
        yield
