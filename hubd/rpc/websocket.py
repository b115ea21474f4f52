"""The WebSocket on the TCP port: one JSON message a text frame.

Built on the I/O-free half of `websockets`, which does the protocol; this file moves its bytes.
Plain text frames, which are nearly all, do not pass through it (`frames.py`): it would take a
fifth of the time of a call.
Compression is off: the peers are on this machine.
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
from hubd.rpc.acceptor import Acceptor
from hubd.rpc.clients import Clients
from hubd.rpc.connection import Connection
from hubd.rpc.deadline import Deadline
from hubd.rpc.frames import Splitter, text_frame
from hubd.rpc.gate import Gate
from hubd.rpc.inbox import Inbox
from hubd.rpc.outbox import Outbox
from hubd.wire.caller import Client
from hubd.wire.jsonrpc import Malformed, TooLarge

# A peer that has not finished its opening handshake by then is gone or hostile.
HANDSHAKE_SECONDS: Final = 10.0
# How long a peer may take to answer our closing frame.
CLOSE_SECONDS: Final = 2.0

# The protocol's own log repeats every frame; ours says what matters.
_quiet = logging.getLogger("hubd.websockets")
_quiet.setLevel(logging.ERROR)


@asynccontextmanager
async def serve_websocket(
    clients: Clients, gate: Gate, listener: socket.socket
) -> AsyncIterator[None]:
    """Accept clients on a socket that is bound already."""
    acceptor = Acceptor(listener, lambda: _WebSocket(clients, gate))
    try:
        yield
    finally:
        acceptor.close()


class _WebSocket(asyncio.Protocol):
    """Moves bytes between a TCP connection and the WebSocket protocol."""

    def __init__(self, clients: Clients, gate: Gate) -> None:
        self._clients = clients
        self._gate = gate
        # The size is checked here: the protocol would close without an answer.
        self._protocol = ServerProtocol(max_size=None, logger=_quiet)
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._inbox: Inbox | None = None
        # Set once the handshake is done and the gate has agreed.
        self._connection: Connection | None = None
        # Until the request is whole: its last bytes, which may begin the blank line that ends it.
        self._seen = b""
        # Set with the connection: what comes from then on is frames.
        self._splitter: Splitter | None = None
        # The fragments of a message whose last has not come yet.
        self._fragments: list[bytes] = []
        self._fragments_bytes = 0
        self._max_bytes = clients.max_message_bytes
        # Set while bytes are taken, once one of them ended a message.
        self._has_finished_message = False
        self._message_deadline = Deadline(clients.message_seconds, self._refuse)
        # Set until the handshake is done.
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._outbox = Outbox(transport, self._enframe)
        self._inbox = Inbox(transport, self._receive)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(HANDSHAKE_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._splitter is None:
            data = self._shake_hands(data)
        if self._splitter is None:
            self._protocol.receive_data(data)
            self._act()
            return
        assert self._inbox is not None
        self._inbox.begin_turn()
        self._has_finished_message = False
        try:
            for piece, is_message in self._splitter.split(data):
                self._take_piece(piece, is_message=is_message)
        except TooLarge as error:
            self._refuse(error)
        else:
            self._message_deadline.note(
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

    def _receive(self, message: bytes) -> None:
        if self._connection is None or self._protocol.state is not OPEN:
            return
        try:
            self._connection.receive(message)
        except TooLarge as error:
            self._refuse(error)

    def eof_received(self) -> None:
        self._protocol.receive_eof()
        self._act()

    def pause_writing(self) -> None:
        assert self._outbox is not None
        self._outbox.pause()

    def resume_writing(self) -> None:
        assert self._outbox is not None
        self._outbox.resume()

    def connection_lost(self, error: Exception | None) -> None:
        assert self._outbox is not None
        if self._deadline is not None:
            self._deadline.cancel()
        assert self._inbox is not None
        self._inbox.clear()
        self._message_deadline.stop()
        self._outbox.close()
        self._clients.disconnect(self)

    def hang_up(self) -> None:
        """Send what is queued, say that we are going, and close."""
        self._close(CloseCode.GOING_AWAY, "the daemon is stopping")

    def evict(self, reason: str) -> None:
        """Close to make room; the client is told the reason."""
        self._connection = None
        self._close(CloseCode.TRY_AGAIN_LATER, reason)

    def _refuse(self, error: Malformed) -> None:
        """Answer with an error and close. Anything else that the client sends is dropped."""
        assert self._outbox is not None
        if self._connection is None:
            return
        assert self._inbox is not None
        self._connection = None
        self._inbox.clear()
        self._fragments.clear()
        self._message_deadline.stop()
        self._outbox.write(error.frame)
        is_large = isinstance(error, TooLarge)
        code = CloseCode.MESSAGE_TOO_BIG if is_large else CloseCode.POLICY_VIOLATION
        self._close(code, error.message)

    def _shake_hands(self, data: bytes) -> bytes:
        """Hand the request to the protocol; returns what came behind it."""
        seen = self._seen + data
        blank = seen.find(b"\r\n\r\n")
        behind = len(data) if blank < 0 else blank + 4 - len(self._seen)
        self._seen = seen[-3:]
        self._protocol.receive_data(data[:behind])
        self._act()
        return data[behind:]

    def _act(self) -> None:
        """Do what the bytes just received ask for, then send what the protocol answers."""
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                self._open(event)
            elif isinstance(event, Frame) and self._connection is not None:
                self._take(event)
        self._send_protocol_bytes()

    def _open(self, request: Request) -> None:
        if self._protocol.close_expected():
            return  # what came with the request was no WebSocket; the protocol has hung up
        refusal = self._gate.check(request.path, request.headers)
        if refusal is not None:
            response = self._protocol.reject(refusal.status, refusal.message + "\n")
            if refusal.status == 401:
                response.headers["WWW-Authenticate"] = 'Bearer realm="hubd"'
        else:
            response = self._protocol.accept(request)
        self._protocol.send_response(response)
        if self._protocol.state is not OPEN:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        assert self._outbox is not None
        try:
            self._connection = self._clients.connect(
                self, self._outbox, Client("websocket"), trusts_context=False
            )
        except HubError as error:
            self.evict(error.message)
        else:
            self._splitter = Splitter(self._max_bytes)

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

    def _enframe(self, frame: bytes) -> bytes:
        if self._protocol.state is not OPEN:
            return b""
        return text_frame(frame)

    def _close(self, code: CloseCode, reason: str) -> None:
        assert self._transport is not None
        assert self._outbox is not None
        self._outbox.flush()
        if self._protocol.state is OPEN:
            # A closing frame has room for 123 bytes.
            self._protocol.send_close(code, reason.encode()[:123].decode(errors="ignore"))
        self._send_protocol_bytes()
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, self._transport.abort)

    def _send_protocol_bytes(self) -> None:
        """Handshake answers, pongs and closing frames; an empty piece means: close."""
        assert self._transport is not None
        assert self._outbox is not None
        for data in self._protocol.data_to_send():
            if data:
                self._outbox.write_framed(data)
            else:
                self._outbox.flush()
                self._transport.close()
