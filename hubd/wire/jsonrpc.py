"""JSON-RPC 2.0: read requests and write replies. No I/O.

A request is a parsed JSON value. A reply is bytes without framing.
"""

import json
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeGuard

from hubd.wire import envelope
from hubd.wire.envelope import OVERLOADED, error_reply, item_envelope, reply

__all__ = [
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "OVERLOADED",
    "PARSE_ERROR",
    "Id",
    "Incomplete",
    "Malformed",
    "Request",
    "TooLarge",
    "dump",
    "failure",
    "item_envelope",
    "read_request",
    "request",
    "success",
]

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602

Id = str | int | float | None

# `isinstance(value, str | int)` would create the union each time.
_PLAIN_IDS: Final = (str, int)
_CONTAINERS: Final = (dict, list)


class Malformed(Exception):
    """The message is not a JSON-RPC 2.0 request."""

    def __init__(self, code: int, message: str, request_id: Id = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.request_id = request_id

    @property
    def frame(self) -> bytes:
        """The error reply to the message."""
        return failure(self.request_id, self.code, self.message)


class TooLarge(Malformed):
    """A message exceeds a limit. Its connection is closed, because the rest may be unread."""

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
    """One request. A notification has no id, and `wants_reply` is false."""

    id: Id
    wants_reply: bool
    method: str
    params: dict[str, Any] | list[Any]

    def named_params(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the params by name; positional ones get `names` in order.

        Raises:
            Malformed: There are more positional params than names.
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
    """Return the request in a parsed message.

    Raises:
        Malformed: The message is not a request. The error has the id if it is known.
    """
    if type(message) is dict and message.get("jsonrpc") == "2.0":
        request_id, method, params = message.get("id"), message.get("method"), message.get("params")
        if type(request_id) is int and type(method) is str and type(params) is dict:
            # Nearly every request has this form; the checks below explain the others.
            return Request(request_id, True, method, params)
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
    if not isinstance(params, _CONTAINERS):
        raise Malformed(INVALID_REQUEST, "'params' must be an object or an array", request_id)
    return Request(request_id, "id" in message, method, params)


def _is_id(value: object) -> TypeGuard[Id]:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or (isinstance(value, _PLAIN_IDS) and not isinstance(value, bool))


def request(request_id: Id, method: str, params: object) -> bytes:
    """Return a request."""
    return envelope.request(dump(request_id).decode(), method, dump(params).decode())


def success(request_id: Id, result: object) -> bytes:
    """Return the reply to a request that succeeded."""
    if type(request_id) is int and type(result) is int:  # The subscription of a call.
        return reply(b"%d" % request_id, b"%d" % result)
    return reply(dump(request_id), dump(result))


def failure(request_id: Id, code: int, message: str) -> bytes:
    """Return the reply to a message that was refused."""
    return error_reply(dump(request_id), dump({"code": code, "message": message}))


def dump(value: object) -> bytes:
    """Return compact JSON. Lone surrogates, which UTF-8 can't encode, are escaped."""
    try:
        return json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        ).encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
