"""`hubd mcp`: MCP on stdin and stdout, carried to the daemon and back.

Carries bytes and understands none of them, so it starts in no time and never has to change.
Nothing but the daemon's answers reaches stdout.
"""

import json
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Final

from hubd.errors import HubError, PermissionDenied, Unavailable
from hubd.wire.defaults import Paths, distrusted

CHUNK: Final = 64 * 1024
# How a process that starts us says for which session it speaks.
SESSION_VARIABLE: Final = "HUBD_SESSION_TOKEN"


def run(paths: Paths, tools: str | None) -> int:
    """Carry messages until the client closes stdin.

    Args:
        paths: Whose daemon; it must be running.
        tools: The only namespaces to offer, with commas between them.

    Raises:
        PermissionDenied: Another user could have put the socket there.
        Unavailable: Nobody listens, or the daemon ended before the client did.
    """
    if reason := distrusted(paths.mcp_socket):
        raise PermissionDenied(f"{paths.mcp_socket} is not safe to use: {reason}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(paths.mcp_socket)
            connection.sendall(_hello(tools))
        except OSError as error:
            raise _gone(paths, error.strerror or str(error)) from None
        finished = threading.Event()
        # A daemon thread: it may wait for stdin for ever, and must not keep the process.
        threading.Thread(target=_carry_in, args=(connection, finished), daemon=True).start()
        _carry_out(connection)
    if not finished.is_set():
        raise _gone(paths, "the daemon ended")
    return 0


def _hello(tools: str | None) -> bytes:
    hello = {
        "context": {"cwd": str(Path.cwd()), "env": dict(os.environ)},
        "session_token": os.environ.get(SESSION_VARIABLE),
        "tools": tools,
    }
    return json.dumps(hello).encode() + b"\n"


def _carry_in(connection: socket.socket, finished: threading.Event) -> None:
    try:
        while data := os.read(0, CHUNK):
            connection.sendall(data)
        finished.set()
        # The answers that are under way still come.
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the daemon is gone; the other direction says so


def _carry_out(connection: socket.socket) -> None:
    output = sys.stdout.buffer
    try:
        while data := connection.recv(CHUNK):
            output.write(data)
            output.flush()
    except ConnectionError:
        pass  # as good as the end


def _gone(paths: Paths, reason: str) -> HubError:
    return Unavailable(
        f"no MCP over {paths.mcp_socket}: {reason}", suggestion="hubd start, then connect again"
    )
