"""A browser's side of the page: addresses, requests and the WebSocket."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from hubd.wire import jsonrpc
from tests.mcp.raw_http import ports
from tests.support import PATIENCE_SECONDS, Daemon, events_of


def port_of(daemon: Daemon) -> int:
    """The port of the page."""
    return ports(daemon)[1]


def new_code(daemon: Daemon) -> str:
    """Return a code, as `hubd open` gets it."""
    [event] = events_of(daemon.home, "_page")
    address, _, code = event["url"].partition("#code=")
    assert address == f"http://127.0.0.1:{port_of(daemon)}/"
    return str(code)


@contextmanager
def page(daemon: Daemon, connected: socket.socket | None = None) -> Iterator["Page"]:
    """Open the WebSocket as the page does."""
    host = f"127.0.0.1:{port_of(daemon)}"
    with connect(
        f"ws://{host}/ws",
        origin=Origin(f"http://{host}"),
        sock=connected,
        proxy=None,
        max_size=None,
        open_timeout=PATIENCE_SECONDS,
    ) as connection:
        yield Page(connection)


class Page:
    """An open WebSocket."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def send(self, method: str, params: object) -> None:
        """Send a request."""
        self.connection.send(jsonrpc.request(1, method, params).decode())

    def receive(self) -> dict[str, Any]:
        """Return the next message."""
        message: dict[str, Any] = json.loads(self.connection.recv(PATIENCE_SECONDS))
        return message

    def log_in(self, **params: object) -> dict[str, Any]:
        """Authenticate, and return the reply."""
        self.send("_authenticate", params)
        return self.receive()

    def call(self, method: str, /, **params: object) -> list[dict[str, Any]]:
        """Return the items of a call."""
        self.send(method, params)
        items: list[dict[str, Any]] = []
        while not items or items[-1]["type"] != "done":
            message = self.receive()
            if "params" in message:
                items.append(message["params"]["result"])
        return items

    def close_code(self) -> int:
        """Wait until the hub closes the connection, and return the code."""
        with pytest.raises(ConnectionClosed) as closed:
            self.connection.recv(PATIENCE_SECONDS)
        assert closed.value.rcvd is not None
        return closed.value.rcvd.code

    def refusal(self) -> str:
        """Return the message of the refusal that ends the connection."""
        error = self.receive()["error"]
        assert error["code"] == -32001, error
        assert error["message"].endswith("; run `hubd open` again"), error
        assert self.close_code() == 4401
        return str(error["message"])


def key_of(daemon: Daemon) -> str:
    """Return a new key."""
    with page(daemon) as opened:
        return str(opened.log_in(code=new_code(daemon))["result"]["key"])
