"""The MCP server, imported and built when the first client needs it."""

import asyncio
import importlib
import logging
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from hubd.errors import Unavailable
from hubd.mcp.access import McpOptions
from hubd.plexus.host import PlexusHost
from hubd.rpc.clients import Clients

if TYPE_CHECKING:
    from hubd.mcp.server import HubMcp

log = logging.getLogger("hubd.transport")

# Seconds that the end of the server may take.
STOP_SECONDS: Final = 1.0


class LazyMcp:
    """An async context manager that builds the server on demand; leaving it ends the server."""

    def __init__(
        self, clients: Clients, host: PlexusHost, options: McpOptions, results: Path
    ) -> None:
        self.clients = clients
        self.options = options
        self._host = host
        self._results = results
        self._ready: asyncio.Future[HubMcp] | None = None
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Do nothing yet."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the server. Bounded."""
        await self.end()

    async def end(self) -> None:
        """End the server and all streams of changes. Bounded."""
        self._stop.set()
        if self._task is not None:
            _, late = await asyncio.wait([self._task], timeout=STOP_SECONDS)
            for task in late:
                task.cancel()

    async def server(self) -> "HubMcp":
        """Return the server; the first caller waits until it is built.

        Raises:
            Unavailable: The daemon is stopping.
            Exception: The server cannot be built; the next caller tries again.
        """
        if self._stop.is_set():
            raise Unavailable("the daemon is stopping")
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            # A separate task, because the server must end in the task in which it began.
            self._task = asyncio.create_task(self._run(self._ready), name="MCP server")
        return self._ready.result() if self._ready.done() else await asyncio.shield(self._ready)

    async def _run(self, ready: "asyncio.Future[HubMcp]") -> None:
        try:
            # In a thread, so that other clients are served while the SDK is imported.
            module = await asyncio.to_thread(importlib.import_module, "hubd.mcp.server")
            server = module.HubMcp(self.clients, self._host, self.options, self._results)
            async with server.running():
                log.info("the MCP server is loaded")
                ready.set_result(server)
                await self._stop.wait()
        except BaseException as error:  # waiting clients get the error
            log.exception("the MCP server failed")
            if not ready.done():
                ready.set_exception(
                    error if isinstance(error, Exception) else RuntimeError(repr(error))
                )
            if not isinstance(error, Exception):
                raise
        finally:
            self._ready = None
