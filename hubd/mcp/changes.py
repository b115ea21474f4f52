"""Telling MCP clients what changed: lists of tools and prompts, and resources they watch.

Clients of 2026-07-28 open a stream of changes; older ones get notifications in their session.
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
from hubd.mcp.access import Facts
from hubd.mcp.caller import Ctx, facts_of
from hubd.mcp.uris import Listing

log = logging.getLogger("hubd.transport")

# A tree that is written a thousand times a second is not worth a thousand notifications.
PAUSE_SECONDS: Final = 0.2
# The same for lists, which clients then fetch as a whole.
LIST_PAUSE_SECONDS: Final = 1.0
# How many resources one client may watch.
MAX_WATCHED: Final = 200
# A plugin that needs longer to begin watching does it while the client goes on.
BEGIN_SECONDS: Final = 5.0

# Yields once when changes are noticed from now on, and then at each of them.
Noticed = AsyncGenerator[None, None]


class Source(Protocol):
    """Where changes of resources come from."""

    def watch(self, uri: str) -> Noticed:
        """Notice the changes of one."""

    def may_read(self, uri: str, facts: Facts) -> bool:
        """Whether a client could read it, should it be there."""


class _Watched:
    """One resource that somebody watches."""

    def __init__(self) -> None:
        self.watchers = 0
        # Set when changes are noticed, or never will be.
        self.begun = asyncio.Event()
        # Waits for the changes; over for a resource that has none, or none any more.
        self.task: asyncio.Task[None] | None = None


class _Listener:
    """One client that is told of changes."""

    def __init__(self, facts: Facts) -> None:
        # What it may be told.
        self.facts = facts
        # The resources it watches.
        self.watched: set[str] = set()

    async def send(self, event: ServerEvent) -> None:
        """Tell it."""
        raise NotImplementedError


class _Session(_Listener):
    """A session of the older protocol."""

    def __init__(self, facts: Facts, connection: Connection) -> None:
        super().__init__(facts)
        self._connection = connection

    async def send(self, event: ServerEvent) -> None:
        if isinstance(event, ResourceUpdated):
            await self._connection.send_resource_updated(event.uri)
        else:
            await _TELL[type(event)](self._connection)


class _Stream(_Listener):
    """A stream of changes, which the newer protocol has for that."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        # Set while it is open; drops what the client has not asked for.
        self.deliver: Callable[[ServerEvent], None] | None = None

    async def send(self, event: ServerEvent) -> None:
        if self.deliver is not None:
            self.deliver(event)


_TELL: Final[Mapping[type[ServerEvent], Callable[[Connection], Coroutine[Any, Any, None]]]] = {
    ToolsListChanged: Connection.send_tool_list_changed,
    PromptsListChanged: Connection.send_prompt_list_changed,
    ResourcesListChanged: Connection.send_resource_list_changed,
}

# The stream that is being opened in this task.
_opening: ContextVar[_Stream] = ContextVar("opening")


class _Bus:
    """What the SDK takes for the place where all changes are told: here each stream has its own."""

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        stream = _opening.get()
        stream.deliver = listener

        def unsubscribe() -> None:
            stream.deliver = None

        return unsubscribe

    async def publish(self, event: ServerEvent) -> None:
        raise NotImplementedError


class Changes:
    """Who is to be told what."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._listen = ListenHandler(_Bus())
        # Whom to tell, by both protocols.
        self._sessions: dict[Connection, _Session] = {}
        self._streams: set[_Stream] = set()
        self._watched: dict[str, _Watched] = {}
        # Who waits for lists of resources to become others.
        self._lists: dict[Listing, asyncio.Task[None]] = {}
        # Notifications under way, by receiver and content.
        self._sending: dict[Hashable, asyncio.Task[None]] = {}
        self._closed = False

    def tools_changed(self) -> None:
        """There are other tools than before."""
        self._spread(ToolsListChanged())

    def prompts_changed(self) -> None:
        """There are other prompts than before."""
        self._spread(PromptsListChanged())

    def resources_changed(self, concerns: Callable[[Facts], bool] = lambda facts: True) -> None:
        """There are other resources than before, on the lists of those whom it concerns."""
        self._spread(ResourcesListChanged(), lambda one: concerns(one.facts))

    def resource_updated(self, uri: str) -> None:
        """A resource is not what it was."""
        self._spread(
            ResourceUpdated(uri=uri),
            lambda one: uri in one.watched and self._source.may_read(uri, one.facts),
        )

    def watched(self) -> list[str]:
        """The resources that somebody watches."""
        return list(self._watched)

    def watch_anew(self, uri: str) -> None:
        """Somebody else than before is behind a resource."""
        watched = self._watched[uri]
        if watched.task is not None:
            watched.task.cancel()
        self._notice(uri, watched)
        self.resource_updated(uri)

    def follow_lists(self, listings: Iterable[Listing]) -> None:
        """From now on tell when one of these lists of resources has changed, and no other."""
        wanted = set() if self._closed else set(listings)
        for listing in self._lists.keys() - wanted:
            self._lists.pop(listing).cancel()
        for listing in wanted - self._lists.keys():
            tell = partial(self.resources_changed, listing.concerns)
            self._lists[listing] = asyncio.create_task(
                self._follow(
                    listing.path, listing.watch(), asyncio.Event(), tell, LIST_PAUSE_SECONDS
                ),
                name=f"list {listing.path}",
            )

    async def middleware(self, ctx: Ctx, call_next: CallNext) -> HandlerResult:
        """Remember every session of the older protocol until its connection ends."""
        if ctx.method == "notifications/initialized":
            self._session_of(ctx)
        return await call_next(ctx)

    async def subscribe(self, ctx: Ctx, params: SubscribeRequestParams) -> EmptyResult:
        """Watch a resource, by the older protocol. What changes after the answer is told.

        What the client could not read it does not watch either, as if it were not there.

        Raises:
            MCPError: The client watches too many.
        """
        session, uri = self._session_of(ctx), str(params.uri)
        if uri not in session.watched:
            if not self._source.may_read(uri, session.facts):
                return EmptyResult()
            if len(session.watched) >= MAX_WATCHED:
                raise MCPError(INVALID_PARAMS, f"{MAX_WATCHED} resources are watched already")
            session.watched.add(uri)
            self._begin(uri)
        await self._begun([uri])
        return EmptyResult()

    async def unsubscribe(self, ctx: Ctx, params: UnsubscribeRequestParams) -> EmptyResult:
        """Watch it no longer."""
        watched, uri = self._session_of(ctx).watched, str(params.uri)
        if uri in watched:
            watched.discard(uri)
            self._end(uri)
        return EmptyResult()

    async def listen(
        self, ctx: Ctx, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """The stream of changes of one client of the newer protocol.

        Raises:
            MCPError: It asks for too many resources.
        """
        asked = params.notifications
        uris = set(map(str, asked.resource_subscriptions or ()))
        if len(uris) > MAX_WATCHED:
            raise MCPError(INVALID_PARAMS, f"at most {MAX_WATCHED} resources can be watched")
        stream = _Stream(facts_of(ctx))
        stream.watched = {uri for uri in uris if self._source.may_read(uri, stream.facts)}
        # It is told what will be watched, which is not what it may not read.
        honoured = asked.model_copy(update={"resource_subscriptions": sorted(stream.watched)})
        for uri in stream.watched:
            self._begin(uri)
        self._streams.add(stream)
        opening = _opening.set(stream)
        try:
            # The stream's first message promises that nothing is missed from there on.
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

    def _session_of(self, ctx: Ctx) -> _Session:
        """The session of a request; who asks for the first time is remembered."""
        # The SDK has no public way to the connection of a session, whose end we must know.
        connection = ctx.session._connection
        session = self._sessions.get(connection)
        if session is None:
            session = self._sessions[connection] = _Session(facts_of(ctx), connection)
            connection.exit_stack.callback(self._leave, connection)
        return session

    def _leave(self, connection: Connection) -> None:
        for uri in self._sessions.pop(connection).watched:
            self._end(uri)

    def _begin(self, uri: str) -> None:
        watched = self._watched.setdefault(uri, _Watched())
        watched.watchers += 1
        # Once more for what was not there before: it may be there now.
        if watched.task is None or watched.task.done():
            self._notice(uri, watched)

    def _notice(self, uri: str, watched: _Watched) -> None:
        if not self._closed:
            watched.begun = asyncio.Event()
            tell = partial(self.resource_updated, uri)
            watched.task = asyncio.create_task(
                self._follow(uri, self._source.watch(uri), watched.begun, tell, PAUSE_SECONDS),
                name=f"watch {uri[:100]}",
            )

    async def _begun(self, uris: Iterable[str]) -> None:
        """Wait until changes are noticed. Bounded."""
        try:
            async with asyncio.timeout(BEGIN_SECONDS):
                for watched in [self._watched[uri] for uri in uris]:
                    if watched.task is not None:
                        await watched.begun.wait()
        except TimeoutError:
            log.warning("a resource is not watched within %g s", BEGIN_SECONDS)

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
        changes: Noticed,
        begun: asyncio.Event,
        tell: Callable[[], None],
        pause_seconds: float,
    ) -> None:
        try:
            async with aclosing(changes):
                async for _ in changes:
                    if begun.is_set():
                        tell()
                        await asyncio.sleep(pause_seconds)
                    begun.set()
        except HubError as error:
            log.info("%s is not watched: %s", what[:200], error.message)
        except (Exception, SystemExit):  # a plugin's; the client keeps what it has
            log.exception("changes of %s are not known any more", what[:200])
        finally:
            begun.set()

    def _spread(
        self, event: ServerEvent, concerns: Callable[[_Listener], bool] = lambda one: True
    ) -> None:
        """Tell everybody whom it concerns, without waiting for those that read slowly."""
        for listener in (*self._sessions.values(), *self._streams):
            # What has not left yet says the same: a client that does not read gets no queue.
            key = (listener, event)
            if key not in self._sending and not self._closed and concerns(listener):
                task = self._sending[key] = asyncio.create_task(listener.send(event))
                task.add_done_callback(partial(self._sent, key))

    def _sent(self, key: Hashable, task: asyncio.Task[None]) -> None:
        del self._sending[key]
