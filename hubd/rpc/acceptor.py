"""Accept connections on a listening socket, and pause for a moment at the limit of open files.

asyncio's server is not used: at that limit it logs a stack trace and schedules a retry for each
waiting connection, hundreds of times a second, even while it is closed.
"""

import asyncio
import errno
import logging
import resource
import socket
import time
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

# Connections that are accepted before other work of the event loop runs.
AT_ONCE: Final = 64
# Seconds until the next attempt, and the next log line, if descriptors or memory ran out.
RETRY_SECONDS: Final = 0.1
REPORT_SECONDS: Final = 10.0
EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Accepts connections and creates a protocol for each."""

    def __init__(
        self, listener: socket.socket, make_protocol: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._make_protocol = make_protocol
        # The tasks that create protocols for new connections.
        self._tasks: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        # Failures before this time are not logged.
        self._quiet_until = 0.0
        listener.setblocking(False)
        self._resume()

    def close(self) -> None:
        """Stop accepting. Accepted connections stay open."""
        if self._retry is not None:
            self._retry.cancel()
        if self._listener.fileno() != -1:
            self._loop.remove_reader(self._listener)
        self._listener.close()

    def _resume(self) -> None:
        self._retry = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in EXHAUSTED:
                    raise
                self._pause(error)
                return
            task = self._loop.create_task(self._attach(connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _attach(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, connection)
        except OSError as error:
            log.debug("a connection was lost while it was accepted: %s", error)
            connection.close()

    def _pause(self, error: OSError) -> None:
        self._loop.remove_reader(self._listener)
        self._retry = self._loop.call_later(RETRY_SECONDS, self._resume)
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + REPORT_SECONDS
            log.error(
                "new connections wait: %s (limit of open files: %d)",
                error.strerror,
                resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            )
