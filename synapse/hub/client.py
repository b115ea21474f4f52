"""The hub's client with synapse's errors: each failure has a message, a hint and an exit status."""

from __future__ import annotations

from hubd.wire import client
from hubd.wire.envelope import OVERLOADED
from synapse.errors import CommandError, NoDaemon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from hubd.wire.client import Connection

# The next step when the daemon ends during a call.
GONE_HINT = "See what happened: hubd logs, synapse self doctor"


class UnixConnection(client.UnixConnection):
    """A connection to the daemon of this user."""

    def __init__(self, path: str, timeout: float | None = None) -> None:
        """Connect.

        Raises:
            NoDaemon: No daemon listens.
            CommandError: Another user could have created the socket.
        """
        try:
            super().__init__(path, timeout)
        except client.NotListening as error:
            raise NoDaemon(error.message, hint="Start it: hubd start") from error
        except client.UntrustedSocket as error:
            raise CommandError(error.message, status=4) from None

    def send(self, message: bytes) -> None:
        """Send one message.

        Raises:
            NoDaemon: The daemon closed the connection.
        """
        try:
            super().send(message)
        except client.Disconnected as error:
            raise no_daemon(error) from None

    def receive(self) -> bytes:
        """Return the next message.

        Raises:
            TimeoutError: It did not arrive within the timeout.
            NoDaemon: The daemon ended during the call.
        """
        try:
            return super().receive()
        except client.Disconnected as error:
            raise no_daemon(error) from None


def no_daemon(error: client.Disconnected) -> NoDaemon:
    """Return the error for a connection that the daemon closed."""
    return NoDaemon(error.message, hint=GONE_HINT)


def items(connection: Connection) -> Iterator[dict[str, Any]]:
    """Yield the items of the only call on a connection, `done` included.

    Raises:
        CommandError: The hub refused the request, or does not speak the protocol.
    """
    try:
        yield from client.items(connection)
    except client.ClientError as error:
        raise command_error(error) from None


def item_of(message: bytes) -> dict[str, Any] | None:
    """Return the stream item in a message; None for a reply.

    Raises:
        CommandError: The hub refused the request, or does not speak the protocol.
    """
    try:
        return client.item_of(message)
    except client.ClientError as error:
        raise command_error(error) from None


def command_error(error: client.ClientError) -> CommandError:
    """Return the error for the user: status 2 for a bad request, 5 if the hub is overloaded."""
    if not isinstance(error, client.Refused):
        return CommandError(error.message)
    return CommandError(error.message, status=5 if error.code == OVERLOADED else 2)
