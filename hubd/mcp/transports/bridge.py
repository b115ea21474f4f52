"""`hubd mcp`: copies MCP messages between stdin, stdout and the daemon.

It copies bytes without parsing them, so it starts fast and does not depend on the protocol.
Only the daemon's answers reach stdout.
"""

import json
import os
import select
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from hubd.errors import HubError, InvalidParams, PermissionDenied, Unavailable, by_code
from hubd.wire.mcp_bridge import END, REFUSED
from hubd.wire.paths import Paths, distrusted

STDIN: Final = 0
STDOUT: Final = 1
CHUNK: Final = 64 * 1024
# Environment variable with the token of the session that the client belongs to.
SESSION_VARIABLE: Final = "HUBD_SESSION_TOKEN"


def run(paths: Paths, tools: str | None, session_token: str | None) -> int:
    """Copy messages until the client has closed stdin and has its answers.

    Args:
        paths: The paths of a running daemon.
        tools: The namespaces to offer, separated by commas; None for all.
        session_token: The token of the session that the client belongs to.

    Raises:
        InvalidParams: stdin or stdout is closed.
        PermissionDenied: Another user could have created the socket.
        Unavailable: The daemon does not run, or ended before the client did.
        HubError: The daemon refuses this client.
        BrokenPipeError: The reader of stdout has closed it.
    """
    if sys.stdin is None or sys.stdout is None:
        # The socket would get the number of the closed one.
        raise InvalidParams("MCP needs stdin and stdout, and one of them is closed")
    if reason := distrusted(paths.mcp_socket):
        raise PermissionDenied(f"{paths.mcp_socket} is not safe to use: {reason}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(paths.mcp_socket)
        except OSError as error:
            raise _gone(paths, error.strerror or str(error)) from None
        # A daemon thread, because a read of stdin may never return.
        hello = _hello(tools, session_token)
        threading.Thread(target=_copy_in, args=(connection, hello), daemon=True).start()
        if not _copy_out(connection):
            raise _gone(paths, "the daemon closed the connection")
    return 0


def _hello(tools: str | None, session_token: str | None) -> bytes:
    try:
        cwd = str(Path.cwd())
    except OSError:
        cwd = None  # the directory was removed
    hello = {
        "context": {"cwd": cwd, "env": dict(os.environ)},
        "session_token": session_token,
        "tools": tools,
    }
    return json.dumps(hello).encode() + b"\n"


def _copy_in(connection: socket.socket, hello: bytes) -> None:
    try:
        connection.sendall(hello)
        while data := _read():
            connection.sendall(data)
        # The last line may lack a newline.
        connection.sendall(b"\n" + END + b"\n")
    except OSError:
        pass  # the daemon has ended; the other direction reports it


def _copy_out(connection: socket.socket) -> bool:
    """Copy answers until the connection ends; return whether the daemon sent its end mark.

    Raises:
        BrokenPipeError: The reader of stdout has closed it.
        HubError: The daemon refuses this client.
    """
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    # Without events, poll reports only that the reader has closed stdout.
    waiting.register(STDOUT, 0)
    while True:
        events = dict(waiting.poll())
        if events.get(STDOUT, 0) & (select.POLLERR | select.POLLHUP):
            raise BrokenPipeError
        if connection.fileno() not in events:
            waiting.unregister(STDOUT)  # this system reports other events too
            continue
        try:
            data = connection.recv(CHUNK)
        except ConnectionError:
            return False
        answers, refused, reason = data.partition(REFUSED)
        _write(answers.removesuffix(END))
        if refused:
            raise by_code(**json.loads(reason + _rest(connection)))
        if not data or data.endswith(END):
            return bool(data)


def _rest(connection: socket.socket) -> bytes:
    """Read until the daemon closes the connection.

    It closes without reading our last bytes, so the system may report a reset after its own.
    """
    rest = b""
    with suppress(ConnectionError):
        while data := connection.recv(CHUNK):
            rest += data
    return rest


def _read() -> bytes:
    """Return the next bytes of stdin; none at its end."""
    while True:
        try:
            return os.read(STDIN, CHUNK)
        except BlockingIOError:
            # Another process that shares stdin made it non-blocking.
            select.select([STDIN], [], [])
        except OSError:
            return b""


def _write(data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(STDOUT, left) :]
        except BlockingIOError:
            select.select([], [STDOUT], [])
        except ConnectionError:
            raise BrokenPipeError from None


def _gone(paths: Paths, reason: str) -> HubError:
    return Unavailable(
        f"no MCP over {paths.mcp_socket}: {reason}", suggestion="hubd start, then connect again"
    )
