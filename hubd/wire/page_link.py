"""The address of the page: ask the hub for one, and open it in the browser."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from hubd.wire.client import NotAHub, items
from hubd.wire.item import EXIT_CODES
from hubd.wire.jsonrpc import request

if TYPE_CHECKING:
    from hubd.wire.client import Connection

METHOD: Final = "_page"
HINT: Final = "Open this address within a minute"
# Seconds that the hub has to answer.
ANSWER_SECONDS: Final = 5.0
# On Linux, one of these is set if there is a browser for people. Others show no JavaScript.
SCREEN_VARIABLES: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


class NoPage(Exception):
    """The hub gave no address."""

    def __init__(self, message: str, suggestion: str, status: int) -> None:
        super().__init__(message)
        self.message = message
        self.suggestion = suggestion
        # The exit status of the command.
        self.status = status


def ask(connection: "Connection") -> str:
    """Return a new address of the page.

    Raises:
        NoPage: The hub refused.
        ClientError: The hub refused the request, or does not speak the protocol.
        TimeoutError: The hub does not answer.
    """
    connection.set_timeout(ANSWER_SECONDS)
    connection.send(request(1, METHOD, {}))
    suggestion = ""
    for item in items(connection):
        if item.get("type") == "data" and isinstance(item.get("content"), dict):
            return str(item["content"].get("url"))
        if item.get("type") == "guidance":
            suggestion = str(item.get("suggestion") or "")
        if item.get("type") == "error":
            status = EXIT_CODES.get(str(item.get("code")), 1)
            raise NoPage(str(item.get("message")), suggestion, status)
    raise NotAHub


def show(url: str) -> bool:
    """Open an address in the person's browser; return False if there is no browser."""
    if sys.platform == "linux" and not any(map(os.environ.get, SCREEN_VARIABLES)):
        return False
    import webbrowser

    with _silent():
        try:
            return webbrowser.open(url)
        except webbrowser.Error:
            return False


@contextmanager
def _silent() -> Iterator[None]:
    """Discard the output of programs that are started inside the block.

    A browser would keep the pipe of `$(hubd open)` open until it ends.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        yield
    finally:
        for number, descriptor in enumerate(kept, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.close(nowhere)
