"""JSON-RPC over the WebSocket on the TCP port: each message is one text frame.

The I/O-free half of `websockets` implements the protocol, and this file moves its bytes. Plain
text frames, which are nearly all, bypass it (`frames.py`), which saves a fifth of the time of a
call. Compression is off because the peers are on this machine.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from hubd.errors import HubError
from hubd.plexus.actors import INVALID_TOKEN, Actors, Origin
from hubd.rpc.acceptor import Acceptor
from hubd.rpc.client_protocol import ClientProtocol
from hubd.rpc.clients import Clients
from hubd.rpc.frames import Splitter, add_text_frame
from hubd.rpc.gate import Gate, Refusal
from hubd.wire.caller import PERSON, UNKNOWN, Actor, Client
from hubd.wire.jsonrpc import Malformed, TooLarge

# The longest time for the opening handshake. A slower peer is gone or hostile.
HANDSHAKE_SECONDS: Final = 10.0
# The longest wait for the reply to a closing frame.
CLOSE_SECONDS: Final = 2.0

# The library logs every frame. Its errors are enough.
_quiet = logging.getLogger("hubd.websockets")
_quiet.setLevel(logging.ERROR)


@asynccontextmanager
async def serve_websocket(
    clients: Clients, gate: Gate, listener: socket.socket
) -> AsyncIterator[None]:
    """Accept clients on a bound socket."""
    acceptor = Acceptor(listener, lambda: WebSocket(clients, gate))
    try:
        yield
    finally:
        acceptor.close()


async def _find_actor(
    actors: Actors, connection: socket.socket, token: str | None
) -> tuple[Origin, Actor]:
    origin = await actors.of_tcp(connection)
    return origin, actors.admit(origin, PERSON, token, origin.process)


class WebSocket(ClientProtocol):
    """Moves bytes between a TCP connection and the WebSocket protocol."""

    def __init__(self, clients: Clients, gate: Gate) -> None:
        super().__init__(clients)
        self._gate = gate
        # This class checks the size, because the protocol would close without a reply.
        self._protocol = ServerProtocol(max_size=None, logger=_quiet)
        # The last bytes of an incomplete request. They may start the blank line that ends it.
        self._request_end = b""
        # Set when the gate has accepted the client. All bytes after that are frames.
        self._splitter: Splitter | None = None
        # The fragments of an incomplete message.
        self._fragments: list[bytes] = []
        self._fragments_bytes = 0
        # Whether the bytes that are being processed completed a message.
        self._has_finished_message = False
        # Aborts a handshake that takes too long.
        self._handshake_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._attach(transport, add_text_frame, self._receive)
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        self._handshake_timer = loop.call_later(HANDSHAKE_SECONDS, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._splitter is None:
            data = self._shake_hands(data)
        if self._splitter is None:
            self._protocol.receive_data(data)
            self._act()
            return
        assert self._inbox is not None
        message = self._splitter.whole(data)
        if message is not None:
            # No message was incomplete, so the deadline does not change.
            self._inbox.put_only(message)
            return
        self._inbox.begin_turn()
        self._has_finished_message = False
        try:
            for piece, is_message in self._splitter.split(data):
                self._take_piece(piece, is_message=is_message)
        except TooLarge as error:
            self._refuse(error)
        else:
            self._deadline.note(
                is_unfinished=self._splitter.is_unfinished, is_new=self._has_finished_message
            )

    def _take_piece(self, piece: bytes, *, is_message: bool) -> None:
        if not is_message:
            self._protocol.receive_data(piece)
            self._act()
        else:
            self._finish_message(piece)

    def _finish_message(self, message: bytes) -> None:
        assert self._inbox is not None
        self._has_finished_message = True
        self._inbox.put(message)

    @property
    def _accepts_messages(self) -> bool:
        """Whether messages are handled: from the handshake until the client is refused."""
        return self._connection is not None

    def _receive(self, message: bytes) -> None:
        assert self._outbox is not None
        if self._outbox.is_closing:
            return
        try:
            if self._connection is not None:
                self._connection.receive(message)
            else:
                self._receive_early(message)
        except TooLarge as error:
            self._refuse(error)

    def _receive_early(self, message: bytes) -> None:
        """Handle a message of a client that can't call methods; by default, ignore it."""

    def eof_received(self) -> None:
        self._protocol.receive_eof()
        self._act()

    def connection_lost(self, error: Exception | None) -> None:
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
        super().connection_lost(error)

    def hang_up(self) -> None:
        """Send the queued frames and a closing frame, then close."""
        self._close(CloseCode.GOING_AWAY, "the daemon is stopping")

    def evict(self, reason: str) -> None:
        """Close to make room for another client; the client receives the reason."""
        self._connection = None
        self._close(CloseCode.TRY_AGAIN_LATER, reason)

    def _refuse(self, error: Malformed) -> None:
        """Send an error, then close."""
        if not self._accepts_messages:
            return
        self._fragments.clear()
        code = self._close_code(error)
        self._send_last(error)
        self._close(code, error.message)

    def _close_code(self, error: Malformed) -> int:
        is_large = isinstance(error, TooLarge)
        return CloseCode.MESSAGE_TOO_BIG if is_large else CloseCode.POLICY_VIOLATION

    def _shake_hands(self, data: bytes) -> bytes:
        """Pass the request to the protocol; return the bytes after it."""
        text = self._request_end + data
        blank = text.find(b"\r\n\r\n")
        end = len(data) if blank < 0 else blank + 4 - len(self._request_end)
        self._request_end = text[-3:]
        self._protocol.receive_data(data[:end])
        self._act()
        return data[end:]

    def _act(self) -> None:
        """Handle the events of the received bytes, then send the protocol's reply."""
        if self._protocol.state > OPEN:
            assert self._outbox is not None
            self._outbox.refuse_frames()
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                self._open(event)
            elif isinstance(event, Frame) and self._accepts_messages:
                self._take(event)
        self._send_protocol_bytes()

    def _open(self, request: Request) -> None:
        if self._protocol.close_expected():
            return  # The protocol closed, because bytes of another protocol followed.
        refusal = self._gate.check(request.path, request.headers)
        actors, token = self._clients.hub.actors, self._gate.session_token(request.headers)
        if refusal is None and token is not None and not actors.is_registered(token):
            refusal = Refusal(401, INVALID_TOKEN)
        if refusal is not None:
            response = self._protocol.reject(refusal.status, refusal.message + "\n")
            if refusal.status == 401:
                response.headers["WWW-Authenticate"] = 'Bearer realm="hubd"'
        else:
            response = self._protocol.accept(request)
        self._protocol.send_response(response)
        if self._protocol.state is not OPEN:
            return
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
        self._splitter = Splitter(self._max_bytes)
        self._admit(token)

    def _admit(self, token: str | None) -> None:
        """Let the client call methods as soon as its actor is found."""
        assert self._outbox is not None
        try:
            client = Client("websocket", session_token=token, actor=UNKNOWN)
            self._connection = self._clients.connect(
                self, self._outbox, client, trusts_context=False
            )
        except HubError as error:
            self.evict(error.message)
        else:
            assert self._transport is not None
            connection = self._transport.get_extra_info("socket")
            self._identify(_find_actor(self._clients.hub.actors, connection, token))

    def _take(self, frame: Frame) -> None:
        if frame.opcode is Opcode.BINARY:
            self._close(CloseCode.UNSUPPORTED_DATA, "send JSON as text")
            return
        if frame.opcode not in (Opcode.TEXT, Opcode.CONT):
            return
        self._fragments.append(bytes(frame.data))
        self._fragments_bytes += len(frame.data)
        if self._fragments_bytes > self._max_bytes:
            raise TooLarge.in_bytes(self._max_bytes)
        if frame.fin:
            message = b"".join(self._fragments)
            self._fragments.clear()
            self._fragments_bytes = 0
            self._finish_message(message)

    def _close(self, code: int, reason: str) -> None:
        assert self._transport is not None
        assert self._outbox is not None
        self._outbox.flush()
        if self._protocol.state is OPEN:
            # A closing frame has room for 123 bytes.
            self._protocol.send_close(code, reason.encode()[:123].decode(errors="ignore"))
        self._outbox.refuse_frames()
        self._send_protocol_bytes()
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, self._transport.abort)

    def _send_protocol_bytes(self) -> None:
        """Send handshake replies, pongs and closing frames. Close after an empty piece."""
        assert self._transport is not None
        assert self._outbox is not None
        for data in self._protocol.data_to_send():
            if data:
                self._outbox.write_framed(data)
            else:
                self._outbox.flush()
                self._transport.close()
