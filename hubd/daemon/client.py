"""A blocking client for the Unix socket, for the daemon's own commands."""

import json
import socket
from collections.abc import Iterator
from typing import Any

from hubd.errors import InvalidParams, PermissionDenied, Unavailable
from hubd.wire import jsonrpc
from hubd.wire.paths import distrusted


def call(
    path: str, method: str, params: object, *, timeout_seconds: float | None = None
) -> Iterator[dict[str, Any]]:
    """The items of one call, `done` included.

    Raises:
        PermissionDenied: Another user could have put the socket there.
        Unavailable: Nobody listens, nobody answers in time, or the daemon died on the way.
    """
    if reason := distrusted(path):
        raise PermissionDenied(f"{path} is not safe to use: {reason}", suggestion="chmod 700 it")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_seconds)
        try:
            connection.connect(path)
            connection.sendall(jsonrpc.request(1, method, params) + b"\n")
            with connection.makefile("rb") as lines:
                yield from _items(lines)
        except TimeoutError:
            raise Unavailable(f"the daemon does not answer on {path}") from None
        except OSError as error:
            raise Unavailable(
                f"no daemon listens on {path} ({error.strerror})", suggestion="hubd start"
            ) from None


def _items(lines: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        message = json.loads(line)
        if "error" in message:
            raise InvalidParams(message["error"]["message"])
        if message.get("method") == jsonrpc.SUBSCRIPTION:
            item: dict[str, Any] = message["params"]["result"]
            yield item
            if item["type"] == "done":
                return
    raise Unavailable("the daemon closed the connection in the middle of a call")
