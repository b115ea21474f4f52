"""The hub over its Unix socket, or over a WebSocket: messages out, messages in."""

from __future__ import annotations

from hubd.wire.paths import distrusted
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

NOT_A_HUB = "what answers there does not speak the hub's protocol"
# The next step when the daemon dies during a call.
GONE_HINT = "See what happened: hubd logs, synapse self doctor"

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
                raise NoDaemon("the daemon closed the connection", hint=GONE_HINT) from None
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
                raise NoDaemon("the daemon went away in the middle of the call", hint=GONE_HINT)
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
    """Yield the items of the one call that runs on a connection, `done` included.

    Raises:
        CommandError: The hub refused the request, or does not speak the protocol.
    """
    while True:
        item = item_of(connection.receive())
        if item is not None:
            yield item
            if item.get("type") == "done":
                return


def item_of(message: bytes) -> dict[str, Any] | None:
    """Return the stream item in a message; None for a reply.

    Raises:
        CommandError: The hub refused the request, or does not speak the protocol.
    """
    import json

    try:
        read = json.loads(message)
    except ValueError:
        raise CommandError(NOT_A_HUB) from None
    if not isinstance(read, dict):
        raise CommandError(NOT_A_HUB)
    if read.get("error") is not None:
        raise _refused(read["error"])
    params = read.get("params")
    item = params.get("result") if isinstance(params, dict) else None
    if isinstance(item, dict):
        return item
    if "result" not in read and "method" not in read:
        raise CommandError(NOT_A_HUB)
    return None


def _refused(error: Any) -> CommandError:
    """Return the error for a JSON-RPC error: the request is wrong, or the hub has no room."""
    crowded = isinstance(error, dict) and error.get("code") == OVERLOADED
    return CommandError(refusal_text(error), status=5 if crowded else 2)


def refusal_text(error: Any) -> str:
    """Return the message of a JSON-RPC error."""
    message = error.get("message") if isinstance(error, dict) else None
    return str(message or "the hub refused the request; it gives no reason")


def request(root: str, path: str, params: str, context: str = "") -> bytes:
    """The request for a call; the params and the context are JSON text already."""
    from synapse.plainjson import quote

    surroundings = f',"context":{context}' if context else ""
    return (
        f'{{"jsonrpc":"2.0","id":1,"method":{quote(root + ".call")},'
        f'"params":{{"method":{quote(path)},"params":{params}{surroundings}}}}}'
    ).encode()
