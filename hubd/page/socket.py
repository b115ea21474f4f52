"""The WebSocket of the page: that of the TCP port, after a first message that authenticates it."""

import asyncio
from typing import Final

from hubd.page.login import Login, NotAuthenticated
from hubd.plexus.actors import Origin
from hubd.rpc.clients import Clients
from hubd.rpc.gate import Gate, Headers, Refusal, own_origins
from hubd.rpc.websocket import WebSocket
from hubd.wire.caller import Actor
from hubd.wire.jsonrpc import Malformed

# Seconds until the first message, and its size.
LOGIN_SECONDS: Final = 10.0
MAX_LOGIN_BYTES: Final = 4096
# Connections that are not authenticated. A further one replaces the oldest.
MAX_STRANGERS: Final = 256
# The code with which a connection is closed that does not authenticate itself.
CLOSE_CODE: Final = 4401


class PageGate(Gate):
    """Admits the page itself. Its first message is checked later."""

    def __init__(self, port: int) -> None:
        super().__init__(token=None, allowed_origins=own_origins(port))

    def check(self, path: str, headers: Headers) -> Refusal | None:
        """Return the refusal of a request; None if it comes from the page."""
        origins = [f"http://{host.lower()}" for host in headers.get_all("Host")]
        if len(origins) != 1 or origins[0] not in self.allowed_origins:
            return Refusal(403, "this server only accepts its own address as Host")
        # Pages on other ports of this machine have another origin.
        if list(headers.get_all("Origin")) != origins:
            return Refusal(403, "only the page of this hub may connect; run `hubd open`")
        return None

    def session_token(self, headers: Headers) -> str | None:
        """Return None, because a page belongs to no session."""
        return None


class Strangers:
    """The connections that are not authenticated yet."""

    def __init__(self) -> None:
        # The oldest first.
        self._sockets: dict[PageSocket, None] = {}

    def add(self, stranger: "PageSocket") -> None:
        """Add a connection; end the oldest one at the limit."""
        if len(self._sockets) >= MAX_STRANGERS:
            oldest = next(iter(self._sockets))
            del self._sockets[oldest]
            oldest.abort()
        self._sockets[stranger] = None

    def discard(self, stranger: "PageSocket") -> None:
        """Remove a connection that was authenticated or lost."""
        self._sockets.pop(stranger, None)


class PageSocket(WebSocket):
    """A connection of the page."""

    login_seconds = LOGIN_SECONDS

    def __init__(
        self, clients: Clients, gate: PageGate, login: Login, strangers: Strangers
    ) -> None:
        super().__init__(clients, gate)
        self._login = login
        self._strangers = strangers
        # Whether the first message is awaited, and the timer that ends the wait.
        self._awaits_login = False
        self._login_timer: asyncio.TimerHandle | None = None
        # Until the client is authenticated.
        self._max_bytes = MAX_LOGIN_BYTES

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._strangers.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._strangers.discard(self)
        self._stop_waiting()
        super().connection_lost(error)

    def abort(self) -> None:
        """Close at once."""
        assert self._transport is not None
        self._transport.abort()

    @property
    def _accepts_messages(self) -> bool:
        return self._awaits_login or super()._accepts_messages

    def _admit(self, token: str | None) -> None:
        self._awaits_login = True
        loop = asyncio.get_running_loop()
        self._login_timer = loop.call_later(self.login_seconds, self._expire)

    def _expire(self) -> None:
        self._refuse(NotAuthenticated(f"no message within {self.login_seconds:g} s"))

    def _receive_early(self, message: bytes) -> None:
        if not self._awaits_login:
            return
        try:
            reply = self._login.reply(message)
        except NotAuthenticated as error:
            self._refuse(error)
            return
        self._stop_waiting()
        self._strangers.discard(self)
        self._max_bytes = self._clients.max_message_bytes
        assert self._splitter is not None
        self._splitter.max_bytes = self._max_bytes
        super()._admit(None)
        if self._connection is not None:
            assert self._outbox is not None
            self._outbox.write(reply)

    def _refuse(self, error: Malformed) -> None:
        if self._awaits_login and not isinstance(error, NotAuthenticated):
            error = NotAuthenticated(error.message, error.request_id)
        super()._refuse(error)

    def _close_code(self, error: Malformed) -> int:
        is_login = isinstance(error, NotAuthenticated)
        return CLOSE_CODE if is_login else super()._close_code(error)

    def _send_last(self, error: Malformed) -> None:
        self._stop_waiting()
        super()._send_last(error)

    def _set_actor(self, origin: Origin, actor: Actor) -> None:
        if origin.is_other_user:
            # Other users can read the address in the command line of the browser.
            self._refuse(NotAuthenticated("the page is only for the user of this hub"))
        else:
            super()._set_actor(origin, actor)

    def _stop_waiting(self) -> None:
        self._awaits_login = False
        if self._login_timer is not None:
            self._login_timer.cancel()
