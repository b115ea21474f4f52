"""JSON-RPC 2.0 as the hub speaks it: reading a request, and the frames that answer it.

Knows nothing of sockets, plugins or JSON parsers: a request comes in as a parsed value, a
frame goes out as bytes without any framing.
"""

import json
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeGuard

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
# The server itself: it has no room for a connection.
OVERLOADED: Final = -32000

# What the protocol calls the notification that carries one stream item.
SUBSCRIPTION: Final = "subscription"

Id = str | int | float | None


class Malformed(Exception):
    """The peer sent something that is not a JSON-RPC 2.0 request."""

    def __init__(self, code: int, message: str, request_id: Id = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.request_id = request_id

    @property
    def frame(self) -> bytes:
        """The answer to the message."""
        return failure(self.request_id, self.code, self.message)


class TooLarge(Malformed):
    """A message exceeds a limit. Its connection is closed, because it may not have been read."""

    def __init__(self, reason: str) -> None:
        super().__init__(INVALID_REQUEST, f"message too large: {reason}")

    @classmethod
    def in_bytes(cls, limit: int) -> "TooLarge":
        """Return the error for a message with too many bytes."""
        return cls(f"it has more than {limit:,} bytes (setting max_message_mib)")


class Incomplete(Malformed):
    """A message took too long to arrive."""

    def __init__(self, seconds: float) -> None:
        super().__init__(INVALID_REQUEST, f"the message was not complete after {seconds:g} s")


class Request(NamedTuple):
    """One request. A notification (no id at all) has `wants_reply` false."""

    id: Id
    wants_reply: bool
    method: str
    params: dict[str, Any] | list[Any]

    def named_params(self, names: Sequence[str]) -> dict[str, Any]:
        """The params by name; positional ones take `names` in order.

        Raises:
            Malformed: More positions than names.
        """
        if isinstance(self.params, dict):
            return self.params
        if len(self.params) > len(names):
            wanted = ", ".join(names) or "none"
            raise Malformed(
                INVALID_PARAMS, f"{self.method}: too many positional params ({wanted})", self.id
            )
        return dict(zip(names, self.params, strict=False))


def read_request(message: object) -> Request:
    """Check one parsed message.

    Raises:
        Malformed: It is not a request; carries the code, the reason and, where known, the id.
    """
    if isinstance(message, list):
        raise Malformed(INVALID_REQUEST, "batches are not supported; send one request a message")
    if not isinstance(message, dict):
        raise Malformed(INVALID_REQUEST, "a request is a JSON object")
    request_id = message.get("id")
    if not _is_id(request_id):
        raise Malformed(INVALID_REQUEST, "'id' must be a string, a number or null")
    if message.get("jsonrpc") != "2.0":
        raise Malformed(INVALID_REQUEST, "'jsonrpc' must be \"2.0\"", request_id)
    method = message.get("method")
    if not isinstance(method, str):
        raise Malformed(INVALID_REQUEST, "'method' must be a string", request_id)
    params = message.get("params")
    if params is None:
        params = {}
    if not isinstance(params, dict | list):
        raise Malformed(INVALID_REQUEST, "'params' must be an object or an array", request_id)
    return Request(request_id, "id" in message, method, params)


def _is_id(value: object) -> TypeGuard[Id]:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int | None) and not isinstance(value, bool)


def success(request_id: Id, result: object) -> bytes:
    """The answer to a request that went well."""
    if type(request_id) is int and type(result) is int:  # a subscription: every call begins so
        return b'{"jsonrpc":"2.0","id":%d,"result":%d}' % (request_id, result)
    return dump({"jsonrpc": "2.0", "id": request_id, "result": result})


def failure(request_id: Id, code: int, message: str) -> bytes:
    """The answer to something that was not JSON-RPC."""
    return dump({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}})


def request(request_id: Id, method: str, params: object) -> bytes:
    """What a client sends."""
    return dump({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def notification(subscription: int, item: bytes) -> bytes:
    """One stream item, already encoded, on its way to a subscriber."""
    return b'{"jsonrpc":"2.0","method":"subscription","params":{"subscription":%d,"result":%b}}' % (
        subscription,
        item,
    )


def dump(value: object) -> bytes:
    """Compact JSON. Text that UTF-8 cannot carry (lone surrogates) is escaped instead."""
    try:
        return json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        ).encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
