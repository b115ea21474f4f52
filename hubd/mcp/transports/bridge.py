"""`hubd mcp`: MCP on stdin and stdout, carried to the daemon and back.

Carries bytes and understands none of them, so it starts in no time and never has to change.
Nothing but the daemon's answers reaches stdout.
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
# How a process that starts us says for which session it speaks.
SESSION_VARIABLE: Final = "HUBD_SESSION_TOKEN"


def run(paths: Paths, tools: str | None, session_token: str | None) -> int:
    """Carry messages until the client closes stdin and has its answers.

    Args:
        paths: Whose daemon; it must be running.
        tools: The only namespaces to offer, with commas between them.
        session_token: What says for which session the client speaks.

    Raises:
        InvalidParams: There is no stdin or no stdout.
        PermissionDenied: Another user could have put the socket there.
        Unavailable: Nobody listens, or the daemon ended before the client did.
        HubError: The daemon does not serve this client.
        BrokenPipeError: Nobody reads stdout any more.
    """
    if sys.stdin is None or sys.stdout is None:
        # Their numbers would be given to the next file that is opened, which is the socket.
        raise InvalidParams("MCP needs stdin and stdout, and one of them is closed")
    if reason := distrusted(paths.mcp_socket):
        raise PermissionDenied(f"{paths.mcp_socket} is not safe to use: {reason}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(paths.mcp_socket)
        except OSError as error:
            raise _gone(paths, error.strerror or str(error)) from None
        # A daemon thread: it may wait for stdin for ever, and must not keep the process.
        hello = _hello(tools, session_token)
        threading.Thread(target=_carry_in, args=(connection, hello), daemon=True).start()
        if not _carry_out(connection):
            raise _gone(paths, "the daemon closed the connection")
    return 0


def _hello(tools: str | None, session_token: str | None) -> bytes:
    try:
        cwd = str(Path.cwd())
    except OSError:
        cwd = None  # it was removed
    hello = {
        "context": {"cwd": cwd, "env": dict(os.environ)},
        "session_token": session_token,
        "tools": tools,
    }
    return json.dumps(hello).encode() + b"\n"


def _carry_in(connection: socket.socket, hello: bytes) -> None:
    try:
        connection.sendall(hello)
        while data := _read():
            connection.sendall(data)
        # A last line without an end counts too.
        connection.sendall(b"\n" + END + b"\n")
    except OSError:
        pass  # the daemon is gone; the other direction says so


def _carry_out(connection: socket.socket) -> bool:
    """Carry answers to the last one; tells whether it was the last.

    Raises:
        BrokenPipeError: Nobody reads them any more.
        HubError: There will be none, and why.
    """
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    # Only whether there still is a reader: also one that waits for nothing may go.
    waiting.register(STDOUT, 0)
    while True:
        happened = dict(waiting.poll())
        if happened.get(STDOUT, 0) & (select.POLLERR | select.POLLHUP):
            raise BrokenPipeError
        if connection.fileno() not in happened:
            waiting.unregister(STDOUT)  # a system that cannot tell
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
    """What came on stdin; nothing at its end."""
    while True:
        try:
            return os.read(STDIN, CHUNK)
        except BlockingIOError:
            # Whoever shares it with us has made it so.
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
