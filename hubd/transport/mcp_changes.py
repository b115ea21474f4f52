"""Telling MCP clients what changed: lists of tools and prompts, and resources they watch.

Clients of 2026-07-28 open a stream of changes; older ones get notifications in their session.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, Final

from mcp.server import ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.server.session import ServerSession
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

log = logging.getLogger("hubd.transport")

# A tree that is written a thousand times a second is not worth a thousand notifications.
PAUSE_SECONDS: Final = 0.2
# How many resources one client may watch.
MAX_WATCHED: Final = 200

Ctx = ServerRequestContext[Any, Any]
# Yields whenever a resource changes.
Watch = Callable[[str], AsyncGenerator[None, None]]


class Changes:
    """Who is to be told what."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        # The sessions of the older protocol, with the resources each watches.
        self._sessions: dict[object, tuple[ServerSession, set[str]]] = {}
        # How many clients watch a resource, and the task that waits for its changes.
        self._watchers: Counter[str] = Counter()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # Notifications under way.
        self._sending: set[asyncio.Task[None]] = set()
        # Set by the server: where changes of resources come from.
        self.watch: Watch | None = None

    def tools_changed(self) -> None:
        """There are other tools than before."""
        self._spread(ToolsListChanged(), lambda session: session.send_tool_list_changed())

    def prompts_changed(self) -> None:
        """There are other prompts than before."""
        self._spread(PromptsListChanged(), lambda session: session.send_prompt_list_changed())

    def resources_changed(self) -> None:
        """There are other resources than before."""
        self._spread(ResourcesListChanged(), lambda session: session.send_resource_list_changed())

    def resource_updated(self, uri: str) -> None:
        """A resource is not what it was."""
        self._spread(
            ResourceUpdated(uri=uri),
            lambda session: session.send_resource_updated(uri),
            [session for session, watched in self._sessions.values() if uri in watched],
        )

    def watched(self) -> list[str]:
        """The resources that somebody watches."""
        return list(self._watchers)

    async def middleware(self, ctx: Ctx, call_next: CallNext) -> HandlerResult:
        """Remember every session of the older protocol until its connection ends."""
        if ctx.method == "notifications/initialized":
            # The SDK has no public way to the connection of a session, whose end we must know.
            connection = ctx.session._connection
            if connection not in self._sessions:
                self._sessions[connection] = (ctx.session, set())
                connection.exit_stack.callback(self._leave, connection)
        return await call_next(ctx)

    async def subscribe(self, ctx: Ctx, params: SubscribeRequestParams) -> EmptyResult:
        """Watch a resource, by the older protocol.

        Raises:
            MCPError: The client watches too many.
        """
        watched = self._watched_by(ctx)
        uri = str(params.uri)
        if uri not in watched:
            if len(watched) >= MAX_WATCHED:
                raise MCPError(INVALID_PARAMS, f"{MAX_WATCHED} resources are watched already")
            watched.add(uri)
            self._begin(uri)
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
        uris = set(params.notifications.resource_subscriptions or ())
        if len(uris) > MAX_WATCHED:
            raise MCPError(INVALID_PARAMS, f"at most {MAX_WATCHED} resources can be watched")
        with self._watching(map(str, uris)):
            return await self._listen(ctx, params)

    def close(self) -> None:
        """End all streams of changes."""
        self._listen.close()
        for task in (*self._tasks.values(), *self._sending):
            task.cancel()

    def _watched_by(self, ctx: Ctx) -> set[str]:
        entry = self._sessions.get(ctx.session._connection)
        return entry[1] if entry is not None else set()

    def _leave(self, connection: object) -> None:
        _, watched = self._sessions.pop(connection)
        for uri in watched:
            self._end(uri)

    @contextmanager
    def _watching(self, uris: Iterable[str]) -> Iterator[None]:
        begun = list(uris)
        for uri in begun:
            self._begin(uri)
        try:
            yield
        finally:
            for uri in begun:
                self._end(uri)

    def _begin(self, uri: str) -> None:
        self._watchers[uri] += 1
        if uri not in self._tasks and self.watch is not None:
            self._tasks[uri] = asyncio.create_task(
                self._follow(uri, self.watch(uri)), name=f"watch {uri[:100]}"
            )

    def _end(self, uri: str) -> None:
        self._watchers[uri] -= 1
        if self._watchers[uri] <= 0:
            del self._watchers[uri]
            if uri in self._tasks:
                self._tasks.pop(uri).cancel()

    async def _follow(self, uri: str, changes: AsyncGenerator[None, None]) -> None:
        try:
            async with aclosing(changes):
                async for _ in changes:
                    self.resource_updated(uri)
                    await asyncio.sleep(PAUSE_SECONDS)
        except Exception:  # a plugin's; the client keeps what it has
            log.exception("changes of %s are not known any more", uri)

    def _spread(
        self,
        event: ServerEvent,
        send: Callable[[ServerSession], Any],
        sessions: Iterable[ServerSession] | None = None,
    ) -> None:
        """Tell everybody, without waiting for those that read slowly."""
        if sessions is None:
            sessions = [session for session, _ in self._sessions.values()]
        for coroutine in (self._bus.publish(event), *map(send, sessions)):
            task = asyncio.create_task(coroutine)
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
