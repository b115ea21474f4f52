"""The blocking client for a hub's Unix socket, for `synapse` and for hubd's own commands.

synapse imports this module on every call, so it imports next to nothing at the top.
"""

from hubd.wire.paths import distrusted

try:
    # The C half of `socket`. The Python half takes a hundred times longer to import.
    import _socket as sockets
except ImportError:  # not CPython
    import socket as sockets  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Protocol, Self

    class Connection(Protocol):
        """One connection to a hub, over a Unix socket or a WebSocket."""

        def send(self, message: bytes) -> None:
            """Send one message."""

        def receive(self) -> bytes:
            """Return the next message."""

        def set_timeout(self, seconds: float | None) -> None:
            """Set the longest wait for one message; None waits without limit."""

        def close(self) -> None:
            """Close the connection; its running calls are cancelled."""


CHUNK_BYTES = 64 * 1024
# A Ctrl-C that arrives just before a wait does not interrupt it. An unlimited wait is therefore
# made of waits of this length.
INTERRUPT_SECONDS = 0.25


class ClientError(Exception):
    """A call failed outside of its method."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class UntrustedSocket(ClientError):
    """Another user could have created the socket."""


class NotListening(ClientError):
    """No daemon listens on the socket."""


class Disconnected(ClientError):
    """The daemon closed the connection."""


class NotAHub(ClientError):
    """The peer does not speak the hub's protocol."""

    def __init__(self) -> None:
        super().__init__("the server at this address does not speak the hub's protocol")


class Refused(ClientError):
    """The hub refused the request, or the connection."""

    def __init__(self, error: "Any") -> None:
        """Read a JSON-RPC error."""
        message = error.get("message") if isinstance(error, dict) else None
        super().__init__(str(message or "the hub refused the request without a reason"))
        self.code = error.get("code") if isinstance(error, dict) else None


class UnixConnection:
    """A connection over which each message is one line."""

    def __init__(self, path: str, timeout: float | None = None) -> None:
        """Connect.

        Raises:
            UntrustedSocket: Another user could have created the socket.
            NotListening: No daemon listens on it.
        """
        if reason := distrusted(path):
            raise UntrustedSocket(f"{path} is not safe to use: {reason}")
        self._socket = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        self._socket.settimeout(timeout)
        # The longest wait for one message, in seconds; None for no limit.
        self._timeout = timeout
        # Received and not yet returned: whole messages in reverse order, and the parts of the next.
        self._lines: list[bytes] = []
        self._partial: list[bytes] = []
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise NotListening(f"no daemon listens on {path}") from error

    def __enter__(self) -> "Self":
        """Return the connection."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the connection."""
        self.close()

    def send(self, message: bytes) -> None:
        """Send one message.

        Raises:
            Disconnected: The daemon closed the connection and gave no reason.
        """
        # A large message may need longer than the interval for interrupts.
        self._socket.settimeout(self._timeout)
        try:
            self._socket.sendall(message + b"\n")
        except ConnectionError:
            # The daemon replies to a message that it refuses before it has read all of it.
            try:
                reply = self._next_message()
            except Disconnected:
                raise Disconnected("the daemon closed the connection") from None
            self._lines.append(reply)
        self.set_timeout(self._timeout)

    def receive(self) -> bytes:
        """Return the next message.

        Raises:
            TimeoutError: It did not arrive within the timeout.
            Disconnected: The daemon closed the connection during the call.
        """
        return self._lines.pop() if self._lines else self._next_message()

    def _next_message(self) -> bytes:
        while not self._lines:
            try:
                data = self._socket.recv(CHUNK_BYTES)
            except TimeoutError:
                if self._timeout is None:
                    continue
                raise
            except ConnectionError:
                data = b""
            if not data:
                raise Disconnected("the daemon ended during the call")
            first, *others = data.split(b"\n")
            self._partial.append(first)
            if others:
                self._lines = [b"".join(self._partial), *others[:-1]]
                self._lines.reverse()
                self._partial = [others[-1]]
        return self._lines.pop()

    @property
    def has_more(self) -> bool:
        """Whether the next message has arrived already."""
        return bool(self._lines)

    def set_timeout(self, seconds: float | None) -> None:
        """Set the longest wait for one message; None waits without limit."""
        self._timeout = seconds
        self._socket.settimeout(INTERRUPT_SECONDS if seconds is None else seconds)

    @property
    def peer_pid(self) -> int | None:
        """The process that listens on the socket; None if the system doesn't tell."""
        option = getattr(sockets, "SO_PEERCRED", None)
        if option is None:
            return None
        # Linux's `struct ucred`: three 32-bit numbers, the pid first.
        credentials = self._socket.getsockopt(sockets.SOL_SOCKET, option, 12)
        return memoryview(credentials).cast("i")[0]

    def close(self) -> None:
        """Close the connection; its running calls are cancelled."""
        self._socket.close()


def call(
    path: str, method: str, params: object, *, timeout_seconds: float | None = None
) -> "Iterator[dict[str, Any]]":
    """Yield the items of one call, `done` included.

    Args:
        path: The Unix socket of the daemon.
        method: The full name of the method.
        params: The method's params.
        timeout_seconds: The longest wait for one item; by default without limit.

    Raises:
        ClientError: The daemon is not there, refused the request, or ended during the call.
    """
    from hubd.wire.jsonrpc import request

    with UnixConnection(path, timeout_seconds) as connection:
        try:
            connection.send(request(1, method, params))
            yield from items(connection)
        except TimeoutError:
            raise Disconnected(f"the daemon does not answer on {path}") from None


def items(connection: "Connection") -> "Iterator[dict[str, Any]]":
    """Yield the items of the only call on a connection, `done` included.

    Raises:
        Refused: The hub refused the request.
        NotAHub: The peer does not speak the hub's protocol.
    """
    while True:
        item = item_of(connection.receive())
        if item is not None:
            yield item
            if item.get("type") == "done":
                return


def item_of(message: bytes) -> "dict[str, Any] | None":
    """Return the stream item in a message; None for a reply.

    Raises:
        Refused: The message is an error reply.
        NotAHub: The message is not one of the hub's protocol.
    """
    import json

    try:
        content = json.loads(message)
    except ValueError:
        raise NotAHub from None
    if not isinstance(content, dict):
        raise NotAHub
    if content.get("error") is not None:
        raise Refused(content["error"])
    params = content.get("params")
    item = params.get("result") if isinstance(params, dict) else None
    if isinstance(item, dict):
        return item
    if "result" not in content and "method" not in content:
        raise NotAHub
    return None
