"""All clients of the daemon: makes their connections and owns the tasks of their calls."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Final, Protocol, Self

from hubd.plexus.host import Questions
from hubd.plexus.hub import Hub
from hubd.transport.connection import Connection, FrameWriter

log = logging.getLogger("hubd.transport")

# What runs when the daemon is asked to stop may take this long to finish by itself.
GRACE_SECONDS: Final = 1.0
# After that everything is cancelled, and plugins have this long to clean up.
CANCEL_SECONDS: Final = 3.0
# Far more than one user's programs need; beyond it file descriptors run out.
MAX_CLIENTS: Final = 512


class Link(Protocol):
    """A connected client, as its framing sees it."""

    def hang_up(self) -> None:
        """Send what is queued, say goodbye and close."""


class Clients:
    """Who is connected. An async context manager; leaving it ends all calls, in bounded time."""

    def __init__(self, hub: Hub, questions: Questions) -> None:
        self._hub = hub
        self._questions = questions
        # Connected clients; an entry goes when its connection is lost.
        self._connected: dict[Link, Connection] = {}
        # The tasks of running calls; kept here because they may outlive their connection.
        self._tasks: set[asyncio.Task[None]] = set()
        # Set by leaving: no more clients.
        self._closing = False

    async def __aenter__(self) -> Self:
        """Ready for clients."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let calls finish for a moment, cancel the rest, say goodbye. Bounded."""
        self._closing = True
        for connection in self._connected.values():
            connection.stopping = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE_SECONDS)
        for connection in self._connected.values():
            connection.cancel_all("the daemon is stopping")
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=CANCEL_SECONDS)
            if late:
                log.warning("%d calls did not stop in time", len(late))
        for link in list(self._connected):
            link.hang_up()

    def connect(
        self, link: Link, writer: FrameWriter, *, trusts_context: bool
    ) -> Connection | None:
        """A connection for a new client; None when there are too many or the daemon stops."""
        if self._closing or len(self._connected) >= MAX_CLIENTS:
            log.warning("refused a client: %d are connected", len(self._connected))
            return None
        connection = Connection(
            self._hub, self._questions, writer, self._spawn, trusts_context=trusts_context
        )
        self._connected[link] = connection
        return connection

    def disconnect(self, link: Link) -> None:
        """A client is gone, and its calls with it."""
        connection = self._connected.pop(link, None)
        if connection is not None:
            connection.cancel_all("the client disconnected")

    def _spawn(
        self, coroutine: Coroutine[Any, Any, None], ended: Callable[[], None]
    ) -> asyncio.Task[None]:
        def finish(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            ended()

        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(finish)
        return task
