"""The connection to a remote hub over a WebSocket, for `--hub ws://…`."""

from __future__ import annotations

from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidStatus,
    InvalidURI,
)
from websockets.sync.client import connect

from synapse.errors import CommandError, NoDaemon, UsageError

OPEN_SECONDS = 10.0
# The status codes for a wrong token, and for a connection that is not allowed.
REFUSALS = (401, 403)
# The next step when the hub ends during a call.
GONE_HINT = "Check it: synapse self doctor, with the same --hub"


class WebSocketConnection:
    """A connection over which each message is one text frame."""

    def __init__(self, url: str, token: str | None, timeout: float | None = None) -> None:
        """Connect.

        Raises:
            NoDaemon: No hub answers.
            CommandError: The hub refuses the connection.
            UsageError: The address or the token is not valid.
        """
        self._timeout = timeout
        if token and not (token.isascii() and token.isprintable()):
            raise UsageError("the token must be one line of plain characters")
        headers = {"Authorization": f"Bearer {token}"} if token else None
        try:
            # Newer versions of the library connect only as a context manager.
            self._socket = connect(
                url,
                additional_headers=headers,
                compression=None,
                max_size=None,
                open_timeout=timeout or OPEN_SECONDS,
                proxy=None,
            ).__enter__()
        except InvalidStatus as error:
            answer = error.response
            if answer.status_code not in REFUSALS:
                raise NoDaemon(f"{url} is not a hub (HTTP {answer.status_code})") from None
            reason = (answer.body or b"").decode(errors="replace").strip()
            message = f"{url} refused the connection ({answer.status_code})"
            raise CommandError(
                f"{message}: {reason}" if reason else message,
                hint="Give the hub's token with --token-file" if answer.status_code == 401 else "",
                status=4,
            ) from None
        except (InvalidURI, ValueError) as error:
            raise UsageError(f"{url!r} is not an address: {error}") from None
        except (OSError, InvalidHandshake, InvalidMessage, ConnectionClosed) as error:
            raise NoDaemon(f"no hub answers at {url} ({error})") from None

    def send(self, message: bytes) -> None:
        """Send one message."""
        try:
            self._socket.send(message, text=True)
        except ConnectionClosed:
            raise NoDaemon("the hub closed the connection", hint=GONE_HINT) from None

    def receive(self) -> bytes:
        """Return the next message."""
        try:
            message = self._socket.recv(self._timeout, decode=False)
        except ConnectionClosed:
            raise NoDaemon("the hub ended during the call", hint=GONE_HINT) from None
        assert isinstance(message, bytes)
        return message

    @property
    def has_more(self) -> bool:
        """Always False: the library does not tell."""
        return False

    def set_timeout(self, seconds: float | None) -> None:
        """Set the longest wait for one message; None waits without limit."""
        self._timeout = seconds

    def close(self) -> None:
        """Close the connection; its running calls are cancelled."""
        self._socket.close()
