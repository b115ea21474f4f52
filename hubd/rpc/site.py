"""The interface of a web site that shares the HTTP port of MCP."""

import asyncio
from typing import NamedTuple, Protocol

from hubd.rpc.gate import Headers


class Response(NamedTuple):
    """The response to an HTTP request."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""


class Site(Protocol):
    """A web site. It checks its requests itself."""

    def respond(self, method: str, path: str, headers: Headers) -> Response | None:
        """Return the response to a request; None if the path is not part of the site."""

    def websocket(self, path: str) -> asyncio.Protocol | None:
        """Return a protocol for a WebSocket request; None if the path has no WebSocket.

        The protocol receives the request first.
        """
