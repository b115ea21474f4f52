"""Start and stop plugins. A plugin that fails is reported and left out; the hub runs on."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from contextvars import Context
from types import TracebackType
from typing import Final

from hubd.activation import Finding
from hubd.activation.base import Activation
from hubd.activation.declaration.class_checks import name_of
from hubd.errors import HubError, NotFound, reason_of
from hubd.plexus.discovery import Source
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import FailedPlugin, Hub, Node
from hubd.storage.search.service import Search

log = logging.getLogger(__name__)

# Seconds that a lifespan has to start. A slower plugin is left out.
START_SECONDS: Final = 5.0
# Seconds that all plugins together have to stop, because the daemon exits within ten.
STOP_SECONDS: Final = 3.0
# Seconds for the checks of one plugin. All plugins check at the same time.
EXAMINE_SECONDS: Final = 60.0


@asynccontextmanager
async def plugins(
    hub: Hub, host: PlexusHost, sources: Iterable[Source]
) -> AsyncIterator["Running"]:
    """Load, attach and start plugins; stop them at the end, the last started first."""
    running = Running(hub, host)
    host.running = running
    try:
        for source in sources:
            await _start(running, hub, host, source)
        host.all_started.set()
        async with _search_index(hub):
            yield running
    finally:
        host.running = None
        await _stop(running.lifespans)


@asynccontextmanager
async def _search_index(hub: Hub) -> AsyncIterator[None]:
    """Index the documents of the plugins while the block runs."""
    if hub.database is None:
        yield
        return
    async with Search(hub.database, hub.search_sources) as hub.search:
        try:
            yield
        finally:
            hub.search = None


class Running:
    """The running plugins of a hub, with the children that were added at run time."""

    def __init__(self, hub: Hub, host: PlexusHost) -> None:
        self._hub = hub
        self._host = host
        # In the order in which they started.
        self.lifespans: list[_Lifespans] = []

    async def bring_up(self, node: Node, source: Source) -> None:
        """Create the tables of a node and the nodes below it, and start their lifespans.

        Raises:
            Exception: An error of the plugin. The node is detached again.
        """
        lifespans = _Lifespans(self._hub, node, source)
        try:
            if self._hub.database is not None:
                for below in node.walk():
                    await self._hub.database.migrate(below.path, below.activation.migrations)
                    for search_source in below.activation.search_sources():
                        await search_source.check(self._hub.database)
            # Needs the schema, so that a type without JSON Schema fails here and not in a call.
            _ = node.hash
            await lifespans.start()
        except BaseException:
            lifespans.cancel()
            await self.take_down(node)
            raise
        self.lifespans.append(lifespans)

    async def take_down(self, node: Node) -> None:
        """Detach a node, then stop its lifespan and those of the nodes below it."""
        self._hub.detach(node)
        stopping = [each for each in self.lifespans if each.is_below(node)]
        self.lifespans = [each for each in self.lifespans if each not in stopping]
        await _stop(stopping)

    async def add_child(self, parent: Activation, child: Activation) -> None:
        """As `Activation.add_child`."""
        node = self._hub.attach(child, self._host, self._node_of(parent))
        target = f"{type(child).__module__}:{type(child).__qualname__}"
        await self.bring_up(node, Source(target, f"added by {parent.path}"))

    async def remove_child(self, parent: Activation, namespace: str) -> None:
        """As `Activation.remove_child`."""
        node = self._node_of(parent).children.get(namespace)
        if node is None or not any(each.is_of(node) for each in self.lifespans):
            raise NotFound(f"{parent.path} has not added a child '{namespace}'")
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
    except (Exception, SystemExit) as error:  # A plugin may even exit at import.
        reason = reason_of(error)
        if isinstance(error, HubError) and error.suggestion:
            reason = f"{reason}. {error.suggestion}"
        log.error("plugin %s was left out: %s", source, reason, exc_info=error)
        hub.report_failure(FailedPlugin(source.target, source.found_in, reason, namespace))


async def _stop(running: list["_Lifespans"]) -> None:
    """Stop lifespans, the last started first, and wait up to `STOP_SECONDS`."""
    for lifespans in reversed(running):
        lifespans.stop()
    tasks = [lifespans.task for lifespans in running if lifespans.task is not None]
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=STOP_SECONDS)
        for task in late:
            log.warning("%s did not stop in time", task.get_name())
            task.cancel()


class _Lifespans:
    """The lifespans of a plugin and its children, in one task.

    A plugin may hold a TaskGroup across its `yield`. If the group fails, it cancels this task
    and not the daemon.
    """

    def __init__(self, hub: Hub, node: Node, source: Source) -> None:
        self._hub = hub
        self._node = node
        self._source = source
        self._stop = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Wait until all lifespans have started.

        Raises:
            Exception: The error of a lifespan.
            TimeoutError: The start took longer than `START_SECONDS`.
        """
        started = asyncio.get_running_loop().create_future()
        # A new context, because a child that is added in a call outlives the call.
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
        """Let the lifespans continue after their `yield`; the task ends by itself."""
        self._stop.set()

    def cancel(self) -> None:
        """Cancel the task after a failed start."""
        if self.task is not None:
            self.task.cancel()

    def is_of(self, node: Node) -> bool:
        """Return whether these lifespans start with that of the node."""
        return self._node is node

    def is_below(self, node: Node) -> bool:
        """Return whether these are lifespans of the node or of nodes below it."""
        return self._node is node or self._node.path.startswith(f"{node.path}.")

    async def _run(self, started: asyncio.Future[None]) -> None:
        try:
            async with _all_lifespans(list(self._node.walk())):
                started.set_result(None)
                await self._stop.wait()
        except BaseException as error:  # It must reach `start` or the log.
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
    async with _Lifespan(first.activation), _all_lifespans(rest):
        yield


class _Lifespan:
    """The `lifespan` of one activation as a context manager.

    As `asynccontextmanager`, with words for a missing and for a second `yield`.
    """

    def __init__(self, activation: Activation) -> None:
        self._name = f"{name_of(type(activation))}.lifespan"
        self._steps: AsyncGenerator[None, None] = activation.lifespan()  # type: ignore[assignment]

    async def __aenter__(self) -> None:
        try:
            await anext(self._steps)
        except StopAsyncIteration:
            raise TypeError(f"{self._name} ended without `yield`; it must yield once") from None

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        try:
            if error is None:
                await anext(self._steps)
            else:
                await self._steps.athrow(error)
        except StopAsyncIteration:
            return True
        except BaseException as raised:
            if raised is error:
                return False
            raise
        await self._steps.aclose()
        raise TypeError(f"{self._name} yielded twice; it must yield once")


async def examine_plugins(hub: Hub) -> list[Finding]:
    """Return the findings of the search and of all plugins, in the order of the tree."""
    nodes = [node for node in hub.root.walk() if node is not hub.root]
    lists = await asyncio.gather(*(_examine(node.path, node.activation) for node in nodes))
    return [*_search_finding(hub), *(finding for findings in lists for finding in findings)]


def _search_finding(hub: Hub) -> list[Finding]:
    if hub.search is None:
        return []
    status = hub.search.status
    detail = f"{status.indexed:,} texts indexed, {status.waiting:,} rows waiting"
    if not status.full_text:
        # Not a failure, because the search works without it.
        detail += "; SQLite lacks FTS5, so a search reads the newest texts one by one"
    return [Finding("search", True, detail)]


async def _examine(path: str, plugin: Activation) -> list[Finding]:
    try:
        async with asyncio.timeout(EXAMINE_SECONDS):
            return list(await plugin.examine())
    except TimeoutError:
        return [Finding(path, False, f"its checks took longer than {EXAMINE_SECONDS:g} s")]
    except Exception as error:
        log.exception("the checks of %s failed", path)
        return [Finding(path, False, f"its checks failed: {reason_of(error)}")]
