"""The hub over its Unix socket, or over a WebSocket: messages out, messages in."""

from __future__ import annotations

from hubd.wire.defaults import distrusted
from synapse.errors import CommandError, NoDaemon

try:
    # The C half of `socket`, which alone is loaded in no time.
    import _socket as sockets
except ImportError:  # not CPython
    import socket as sockets  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Protocol

    class Connection(Protocol):
        """One connection to a hub."""

        def send(self, message: bytes) -> None:
            """Send one message."""

        def receive(self) -> bytes:
            """The next message."""

        def set_timeout(self, seconds: float | None) -> None:
            """How long one wait may take."""

        def close(self) -> None:
            """Hang up; running calls are cancelled."""


CHUNK = 64 * 1024
# As `hubd.wire.jsonrpc.OVERLOADED`, which imports too much.
OVERLOADED = -32000

# A Ctrl-C in the moment before a wait begins does not end that wait: it is noticed after it.
GLANCE_SECONDS = 0.25


class UnixConnection:
    """One message a line."""

    def __init__(self, path: str, timeout: float | None = None) -> None:
        """Connect.

        Raises:
            NoDaemon: Nobody listens.
            CommandError: The socket could be another user's.
        """
        if reason := distrusted(path):
            raise CommandError(f"{path} is not safe to use: {reason}", status=4)
        self._socket = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        self._socket.settimeout(timeout)
        # How long one wait may take; None for as long as it takes.
        self._timeout = timeout
        # What was received: whole lines, and the beginning of the next.
        self._lines: list[bytes] = []
        self._partial: list[bytes] = []
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise NoDaemon(f"no daemon listens on {path}", hint="Start it: hubd start") from error

    def send(self, message: bytes) -> None:
        """Send one message."""
        # A large one may take its time.
        self._socket.settimeout(self._timeout)
        try:
            self._socket.sendall(message + b"\n")
        except ConnectionError:
            # The daemon answers a message that it refuses before it has read all of it.
            try:
                answer = self.receive()
            except NoDaemon:
                raise NoDaemon("the daemon closed the connection") from None
            self._lines.append(answer)
        self.set_timeout(self._timeout)

    def receive(self) -> bytes:
        """The next message.

        Raises:
            TimeoutError: It has not come in the time that was set.
            NoDaemon: The daemon went away in the middle of the call.
        """
        while not self._lines:
            try:
                data = self._socket.recv(CHUNK)
            except TimeoutError:
                if self._timeout is None:
                    continue
                raise
            except ConnectionError:
                data = b""
            if not data:
                raise NoDaemon("the daemon went away in the middle of the call")
            first, *others = data.split(b"\n")
            self._partial.append(first)
            if others:
                self._lines = [b"".join(self._partial), *others[:-1]]
                self._lines.reverse()
                self._partial = [others[-1]]
        return self._lines.pop()

    @property
    def has_more(self) -> bool:
        """Whether the next message is there already."""
        return bool(self._lines)

    def set_timeout(self, seconds: float | None) -> None:
        """How long one wait may take."""
        self._timeout = seconds
        self._socket.settimeout(GLANCE_SECONDS if seconds is None else seconds)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def items(connection: Connection) -> Iterator[dict[str, Any]]:
    """The items of the one call that runs on a connection, `done` included.

    Raises:
        CommandError: The hub did not take the request.
    """
    while True:
        item = item_of(connection.receive())
        if item is not None:
            yield item
            if item["type"] == "done":
                return


def item_of(message: bytes) -> dict[str, Any] | None:
    """The stream item in a message; None for a reply.

    Raises:
        CommandError: The hub did not take the request.
    """
    import json

    read = json.loads(message)
    if "error" in read:
        # The one error that is not the request's: the hub has no room for the connection.
        status = 5 if read["error"].get("code") == OVERLOADED else 2
        raise CommandError(read["error"]["message"], status=status)
    if read.get("method") != "subscription":
        return None
    item: dict[str, Any] = read["params"]["result"]
    return item


def request(root: str, path: str, params: str, context: str = "") -> bytes:
    """The request for a call; the params and the context are JSON text already."""
    from synapse.plainjson import quote

    surroundings = f',"context":{context}' if context else ""
    return (
        f'{{"jsonrpc":"2.0","id":1,"method":{quote(root + ".call")},'
        f'"params":{{"method":{quote(path)},"params":{params}{surroundings}}}}}'
    ).encode()
