"""Telling MCP clients what changed: lists of tools and prompts, and resources they watch.

Clients of 2026-07-28 open a stream of changes; older ones get notifications in their session.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Hashable, Iterable
from contextlib import aclosing
from functools import partial
from typing import Any, Final

from mcp.server import ServerRequestContext
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
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

log = logging.getLogger("hubd.transport")

# A tree that is written a thousand times a second is not worth a thousand notifications.
PAUSE_SECONDS: Final = 0.2
# How many resources one client may watch.
MAX_WATCHED: Final = 200
# A plugin that needs longer to begin watching does it while the client goes on.
BEGIN_SECONDS: Final = 5.0

Ctx = ServerRequestContext[Any, Any]
# Yields once when changes of a resource are noticed from now on, and then at each of them.
Watch = Callable[[str], AsyncGenerator[None, None]]


class _Watched:
    """One resource that somebody watches."""

    def __init__(self) -> None:
        self.watchers = 0
        # Set when changes are noticed, or never will be.
        self.begun = asyncio.Event()
        # Waits for the changes; over for a resource that has none, or none any more.
        self.task: asyncio.Task[None] | None = None


class Changes:
    """Who is to be told what."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        # The connections of the older protocol, with the resources each watches.
        self._sessions: dict[Connection, set[str]] = {}
        self._watched: dict[str, _Watched] = {}
        # Notifications under way, by receiver and content.
        self._sending: dict[Hashable, asyncio.Task[None]] = {}
        self._closed = False
        # Set by the server: where changes of resources come from.
        self.watch: Watch | None = None

    def tools_changed(self) -> None:
        """There are other tools than before."""
        self._spread(ToolsListChanged(), Connection.send_tool_list_changed, self._sessions)

    def prompts_changed(self) -> None:
        """There are other prompts than before."""
        self._spread(PromptsListChanged(), Connection.send_prompt_list_changed, self._sessions)

    def resources_changed(self) -> None:
        """There are other resources than before."""
        self._spread(ResourcesListChanged(), Connection.send_resource_list_changed, self._sessions)

    def resource_updated(self, uri: str) -> None:
        """A resource is not what it was."""
        self._spread(
            ResourceUpdated(uri=uri),
            lambda connection: connection.send_resource_updated(uri),
            [connection for connection, watched in self._sessions.items() if uri in watched],
        )

    def watched(self) -> list[str]:
        """The resources that somebody watches."""
        return list(self._watched)

    async def middleware(self, ctx: Ctx, call_next: CallNext) -> HandlerResult:
        """Remember every session of the older protocol until its connection ends."""
        if ctx.method == "notifications/initialized":
            self._watched_by(ctx)
        return await call_next(ctx)

    async def subscribe(self, ctx: Ctx, params: SubscribeRequestParams) -> EmptyResult:
        """Watch a resource, by the older protocol. What changes after the answer is told.

        Raises:
            MCPError: The client watches too many.
        """
        watched, uri = self._watched_by(ctx), str(params.uri)
        if uri not in watched:
            if len(watched) >= MAX_WATCHED:
                raise MCPError(INVALID_PARAMS, f"{MAX_WATCHED} resources are watched already")
            watched.add(uri)
            self._begin(uri)
        await self._begun([uri])
        return EmptyResult()

    async def unsubscribe(self, ctx: Ctx, params: UnsubscribeRequestParams) -> EmptyResult:
        """Watch it no longer."""
        watched, uri = self._watched_by(ctx), str(params.uri)
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
        uris = set(map(str, params.notifications.resource_subscriptions or ()))
        if len(uris) > MAX_WATCHED:
            raise MCPError(INVALID_PARAMS, f"at most {MAX_WATCHED} resources can be watched")
        for uri in uris:
            self._begin(uri)
        try:
            # The stream's first message promises that nothing is missed from there on.
            await self._begun(uris)
            return await self._listen(ctx, params)
        finally:
            for uri in uris:
                self._end(uri)

    def close(self) -> None:
        """End all streams of changes."""
        self._closed = True
        self._listen.close()
        for watched in self._watched.values():
            if watched.task is not None:
                watched.task.cancel()
        for task in self._sending.values():
            task.cancel()

    def _watched_by(self, ctx: Ctx) -> set[str]:
        """What a session watches; who asks for the first time is remembered."""
        # The SDK has no public way to the connection of a session, whose end we must know.
        connection = ctx.session._connection
        if connection not in self._sessions:
            self._sessions[connection] = set()
            connection.exit_stack.callback(self._leave, connection)
        return self._sessions[connection]

    def _leave(self, connection: Connection) -> None:
        for uri in self._sessions.pop(connection):
            self._end(uri)

    def _begin(self, uri: str) -> None:
        watched = self._watched.setdefault(uri, _Watched())
        watched.watchers += 1
        over = watched.task is None or watched.task.done()
        # Once more for what was not there before: it may be there now.
        if over and self.watch is not None and not self._closed:
            watched.begun.clear()
            watched.task = asyncio.create_task(
                self._follow(uri, watched, self.watch(uri)), name=f"watch {uri[:100]}"
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
        self, uri: str, watched: _Watched, changes: AsyncGenerator[None, None]
    ) -> None:
        try:
            async with aclosing(changes):
                async for _ in changes:
                    if watched.begun.is_set():
                        self.resource_updated(uri)
                        await asyncio.sleep(PAUSE_SECONDS)
                    watched.begun.set()
        except HubError as error:
            log.info("%s is not watched: %s", uri[:200], error.message)
        except Exception:  # a plugin's; the client keeps what it has
            log.exception("changes of %s are not known any more", uri[:200])
        finally:
            watched.begun.set()

    def _spread(
        self,
        event: ServerEvent,
        send: Callable[[Connection], Coroutine[Any, Any, None]],
        connections: Iterable[Connection],
    ) -> None:
        """Tell everybody, without waiting for those that read slowly."""
        self._send(event, partial(self._bus.publish, event))
        for connection in connections:
            self._send((connection, event), partial(send, connection))

    def _send(self, key: Hashable, send: Callable[[], Coroutine[Any, Any, None]]) -> None:
        # What has not left yet says the same: a client that does not read gets no queue.
        if key not in self._sending and not self._closed:
            task = self._sending[key] = asyncio.create_task(send())
            task.add_done_callback(lambda _: self._sending.pop(key, None))
