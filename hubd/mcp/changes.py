"""Notifications of changes: the lists of tools, prompts and resources, and watched resources.

Clients of protocol 2026-07-28 open a stream of changes; older ones have legacy sessions.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Hashable, Iterable, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Protocol

from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult
from mcp.server.subscriptions import (
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    EmptyResult,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from hubd.errors import HubError
from hubd.mcp.access import Access
from hubd.mcp.caller import Ctx, access_of
from hubd.mcp.sdk_private import connection_of
from hubd.mcp.uris import Listing

log = logging.getLogger("hubd.transport")

# Seconds between two notifications about one resource, which may change very often.
PAUSE_SECONDS: Final = 0.2
# The same for lists, which clients fetch as a whole.
LIST_PAUSE_SECONDS: Final = 1.0
# The most resources that one client may watch.
MAX_WATCHED: Final = 200
# Seconds that a client waits for a plugin to begin watching.
BEGIN_SECONDS: Final = 5.0

# Yields once when watching begins, then at each change.
ChangeStream = AsyncGenerator[None, None]


class Source(Protocol):
    """The resources that can be watched."""

    def watch(self, uri: str) -> ChangeStream:
        """Return the changes of a resource."""

    def may_read(self, uri: str, access: Access) -> bool:
        """Return whether a client may read a resource."""


class _Watched:
    """One resource that clients watch."""

    def __init__(self) -> None:
        self.watchers = 0
        # Set when watching has begun or failed.
        self.begun = asyncio.Event()
        # Waits for changes; done for a resource that does not change.
        self.task: asyncio.Task[None] | None = None


class _Listener:
    """One client that receives notifications."""

    def __init__(self, access: Access) -> None:
        # Decides which notifications it receives.
        self.access = access
        # The URIs of the resources that it watches.
        self.watched: set[str] = set()

    async def send(self, event: ServerEvent) -> None:
        """Send a notification."""
        raise NotImplementedError


class _LegacySession(_Listener):
    """A legacy session."""

    def __init__(self, access: Access, connection: Connection) -> None:
        super().__init__(access)
        self._connection = connection

    async def send(self, event: ServerEvent) -> None:
        if isinstance(event, ResourceUpdated):
            await self._connection.send_resource_updated(event.uri)
        else:
            await _SEND[type(event)](self._connection)


class _Stream(_Listener):
    """A stream of changes of the newer protocol."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        # Set while the stream is open; drops notifications that the client has not asked for.
        self.deliver: Callable[[ServerEvent], None] | None = None

    async def send(self, event: ServerEvent) -> None:
        if self.deliver is not None:
            self.deliver(event)


_SEND: Final[Mapping[type[ServerEvent], Callable[[Connection], Coroutine[Any, Any, None]]]] = {
    ToolsListChanged: Connection.send_tool_list_changed,
    PromptsListChanged: Connection.send_prompt_list_changed,
    ResourcesListChanged: Connection.send_resource_list_changed,
}

# The stream that this task opens.
_opening: ContextVar[_Stream] = ContextVar("opening")


class _Bus:
    """The event bus that the SDK asks for; here each stream has a separate one."""

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        stream = _opening.get()
        stream.deliver = listener

        def unsubscribe() -> None:
            stream.deliver = None

        return unsubscribe

    async def publish(self, event: ServerEvent) -> None:
        raise NotImplementedError


class Changes:
    """All clients that receive notifications, and the resources that they watch."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._listen = ListenHandler(_Bus())
        self._sessions: dict[Connection, _LegacySession] = {}
        self._streams: set[_Stream] = set()
        self._watched: dict[str, _Watched] = {}
        # Tasks that wait for changes of lists of resources.
        self._lists: dict[Listing, asyncio.Task[None]] = {}
        # Unsent notifications, by receiver and content.
        self._sending: dict[Hashable, asyncio.Task[None]] = {}
        self._closed = False

    def tools_changed(self) -> None:
        """Notify clients that the list of tools changed."""
        self._spread(ToolsListChanged())

    def prompts_changed(self) -> None:
        """Notify clients that the list of prompts changed."""
        self._spread(PromptsListChanged())

    def resources_changed(self, concerns: Callable[[Access], bool] = lambda access: True) -> None:
        """Notify the clients that see these resources that the list changed."""
        self._spread(ResourcesListChanged(), lambda one: concerns(one.access))

    def resource_updated(self, uri: str) -> None:
        """Notify the clients that watch a resource that it changed."""
        self._spread(
            ResourceUpdated(uri=uri),
            lambda one: uri in one.watched and self._source.may_read(uri, one.access),
        )

    def watched(self) -> list[str]:
        """Return the URIs of all watched resources."""
        return list(self._watched)

    def watch_anew(self, uri: str) -> None:
        """Watch a resource again after its plugin was attached or detached."""
        watched = self._watched[uri]
        if watched.task is not None:
            watched.task.cancel()
        self._watch(uri, watched)
        self.resource_updated(uri)

    def follow_lists(self, listings: Iterable[Listing]) -> None:
        """Watch these lists of resources, and no others."""
        wanted = set() if self._closed else set(listings)
        for listing in self._lists.keys() - wanted:
            self._lists.pop(listing).cancel()
        for listing in wanted - self._lists.keys():
            notify = partial(self.resources_changed, listing.concerns)
            self._lists[listing] = asyncio.create_task(
                self._follow(
                    listing.path, listing.watch(), asyncio.Event(), notify, LIST_PAUSE_SECONDS
                ),
                name=f"list {listing.path}",
            )

    async def middleware(self, ctx: Ctx, call_next: CallNext) -> HandlerResult:
        """Register every legacy session until its connection ends."""
        if ctx.method == "notifications/initialized":
            self._session_of(ctx)
        return await call_next(ctx)

    async def subscribe(self, ctx: Ctx, params: SubscribeRequestParams) -> EmptyResult:
        """Watch a resource in a legacy session; changes after the answer are notified.

        A resource that the client may not read is ignored, as if it did not exist.

        Raises:
            MCPError: The client watches too many resources.
        """
        session, uri = self._session_of(ctx), str(params.uri)
        if uri not in session.watched:
            if not self._source.may_read(uri, session.access):
                return EmptyResult()
            if len(session.watched) >= MAX_WATCHED:
                raise MCPError(
                    INVALID_PARAMS, f"a client may watch at most {MAX_WATCHED} resources"
                )
            session.watched.add(uri)
            self._begin(uri)
        await self._begun([uri])
        return EmptyResult()

    async def unsubscribe(self, ctx: Ctx, params: UnsubscribeRequestParams) -> EmptyResult:
        """Stop watching a resource."""
        watched, uri = self._session_of(ctx).watched, str(params.uri)
        if uri in watched:
            watched.discard(uri)
            self._end(uri)
        return EmptyResult()

    async def listen(
        self, ctx: Ctx, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve the stream of changes of one client of the newer protocol.

        Raises:
            MCPError: The client asks for too many resources.
        """
        asked = params.notifications
        uris = set(map(str, asked.resource_subscriptions or ()))
        if len(uris) > MAX_WATCHED:
            raise _too_many_watched()
        stream = _Stream(access_of(ctx))
        stream.watched = {uri for uri in uris if self._source.may_read(uri, stream.access)}
        # The first message lists the watched resources; it leaves out the forbidden ones.
        honoured = asked.model_copy(update={"resource_subscriptions": sorted(stream.watched)})
        for uri in stream.watched:
            self._begin(uri)
        self._streams.add(stream)
        opening = _opening.set(stream)
        try:
            # The stream's first message promises that no later change is missed.
            await self._begun(stream.watched)
            return await self._listen(ctx, params.model_copy(update={"notifications": honoured}))
        finally:
            _opening.reset(opening)
            self._streams.discard(stream)
            for uri in stream.watched:
                self._end(uri)

    def close(self) -> None:
        """End all streams of changes."""
        self._closed = True
        self._listen.close()
        watching = [watched.task for watched in self._watched.values()]
        for task in (*watching, *self._lists.values(), *self._sending.values()):
            if task is not None:
                task.cancel()

    def _session_of(self, ctx: Ctx) -> _LegacySession:
        """Return the legacy session of a request; register a new one."""
        connection = connection_of(ctx)
        session = self._sessions.get(connection)
        if session is None:
            session = self._sessions[connection] = _LegacySession(access_of(ctx), connection)
            connection.exit_stack.callback(self._leave, connection)
        return session

    def _leave(self, connection: Connection) -> None:
        for uri in self._sessions.pop(connection).watched:
            self._end(uri)

    def _begin(self, uri: str) -> None:
        watched = self._watched.setdefault(uri, _Watched())
        watched.watchers += 1
        # Try again if it did not exist before.
        if watched.task is None or watched.task.done():
            self._watch(uri, watched)

    def _watch(self, uri: str, watched: _Watched) -> None:
        if not self._closed:
            watched.begun = asyncio.Event()
            notify = partial(self.resource_updated, uri)
            watched.task = asyncio.create_task(
                self._follow(uri, self._source.watch(uri), watched.begun, notify, PAUSE_SECONDS),
                name=f"watch {uri[:100]}",
            )

    async def _begun(self, uris: Iterable[str]) -> None:
        """Wait until watching has begun. Bounded."""
        try:
            async with asyncio.timeout(BEGIN_SECONDS):
                for watched in [self._watched[uri] for uri in uris]:
                    if watched.task is not None:
                        await watched.begun.wait()
        except TimeoutError:
            log.warning("a plugin did not begin to watch a resource within %g s", BEGIN_SECONDS)

    def _end(self, uri: str) -> None:
        watched = self._watched[uri]
        watched.watchers -= 1
        if not watched.watchers:
            del self._watched[uri]
            if watched.task is not None:
                watched.task.cancel()

    async def _follow(
        self,
        what: str,
        changes: ChangeStream,
        begun: asyncio.Event,
        notify: Callable[[], None],
        pause_seconds: float,
    ) -> None:
        try:
            async with aclosing(changes):
                async for _ in changes:
                    if begun.is_set():
                        notify()
                        await asyncio.sleep(pause_seconds)
                    begun.set()
        except HubError as error:
            log.info("cannot watch %s: %s", what[:200], error.message)
        except (Exception, SystemExit):  # the plugin failed; the client gets no notifications
            log.exception("stopped watching %s", what[:200])
        finally:
            begun.set()

    def _spread(
        self, event: ServerEvent, concerns: Callable[[_Listener], bool] = lambda one: True
    ) -> None:
        """Notify all concerned clients, without waiting for slow readers."""
        for listener in (*self._sessions.values(), *self._streams):
            # An unsent notification with the same content is enough: slow clients get no queue.
            key = (listener, event)
            if key not in self._sending and not self._closed and concerns(listener):
                task = self._sending[key] = asyncio.create_task(listener.send(event))
                task.add_done_callback(partial(self._sent, key))

    def _sent(self, key: Hashable, task: asyncio.Task[None]) -> None:
        del self._sending[key]


def _too_many_watched() -> MCPError:
    return MCPError(INVALID_PARAMS, f"a client may watch at most {MAX_WATCHED} resources")
