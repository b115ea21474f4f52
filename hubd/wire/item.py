"""The items of a stream as JSON, and the closed set of error codes.

An item encodes itself. The content of a `Data` item is JSON text already: it is encoded once and
copied into every frame that carries it. `encode` takes the texts around the item, so that the
whole message is written in one step.
"""

import time
from functools import lru_cache
from typing import Any, Final, NamedTuple

from hubd.wire.jsonrpc import dump

# All error codes, with the exit status of a command that fails with it.
EXIT_CODES: Final[dict[str, int]] = {
    "invalid_method": 2,
    "invalid_params": 2,
    "handle_invalid": 2,
    "ambiguous": 2,
    "activation_not_found": 3,
    "method_not_found": 3,
    "not_found": 3,
    "handle_target_missing": 3,
    "cursor_expired": 3,
    "permission_denied": 4,
    "unauthenticated": 4,
    "unavailable": 5,
    "overloaded": 5,
    "timeout": 6,
    "conflict": 7,
    "version_unsupported": 9,
    "handle_not_supported": 1,
    "execution_error": 1,
    "cancelled": 1,
    "internal": 1,
}

# The `timeoutMs` of a question without a time limit, about 25 days. A JavaScript timer with a
# longer delay fires at once.
NO_TIMEOUT_MS: Final = 2**31 - 1

# The message of the error `cancelled` if a method needs an answer that its caller declined to give.
DECLINED: Final = "the caller declined to answer"

# For each kind of question, the type of its answer and the field with the value.
ANSWERS: Final[dict[str, tuple[str, str]]] = {
    "confirm": ("confirmed", "value"),
    "prompt": ("text", "value"),
    "select": ("selected", "values"),
    "custom": ("custom", "data"),
}


class Stamp:
    """The metadata that all items of one call share: their provenance and the schema's hash."""

    __slots__ = ("_head", "plexus_hash", "provenance")

    def __init__(self, provenance: tuple[str, ...], plexus_hash: str) -> None:
        self.provenance = provenance
        self.plexus_hash = plexus_hash
        self._head = _metadata_head(provenance, plexus_hash)

    def metadata(self) -> bytes:
        """Return the metadata object of an item, with the current time."""
        return b"%b%d}" % (self._head, int(time.time()))


class Data(NamedTuple):
    """One event of the method. Its type is a method path, which never needs escaping."""

    metadata: bytes
    content_type: str
    content: bytes

    def encode(self, before: bytes = b"", after: bytes = b"") -> bytes:
        """Return the item as JSON, between two texts."""
        return b'%b{"type":"data","metadata":%b,"content_type":"%b","content":%b}%b' % (
            before,
            self.metadata,
            self.content_type.encode(),
            self.content,
            after,
        )


class Progress(NamedTuple):
    """The progress of a long method; `percentage` is from 0 to 100."""

    metadata: bytes
    message: str
    percentage: float | None = None

    def encode(self, before: bytes = b"", after: bytes = b"") -> bytes:
        """Return the item as JSON, between two texts."""
        fields: dict[str, Any] = {"message": self.message}
        if self.percentage is not None:
            fields["percentage"] = self.percentage
        return before + _encode("progress", self.metadata, fields) + after


class Guidance(NamedTuple):
    """A suggestion for the error in the next item."""

    metadata: bytes
    error_type: str
    suggestion: str
    available: list[str]

    def encode(self, before: bytes = b"", after: bytes = b"") -> bytes:
        """Return the item as JSON, between two texts."""
        fields = {
            "error_type": self.error_type,
            "suggestion": self.suggestion,
            "available": self.available,
        }
        return before + _encode("guidance", self.metadata, fields) + after


class Error(NamedTuple):
    """The call failed."""

    metadata: bytes
    message: str
    code: str
    recoverable: bool = False

    def encode(self, before: bytes = b"", after: bytes = b"") -> bytes:
        """Return the item as JSON, between two texts."""
        fields = {"message": self.message, "code": self.code, "recoverable": self.recoverable}
        return before + _encode("error", self.metadata, fields) + after


class Request(NamedTuple):
    """A question to the caller; the caller answers with `respond`."""

    metadata: bytes
    request_id: str
    request_data: dict[str, Any]
    timeout_ms: int

    def encode(self, before: bytes = b"", after: bytes = b"") -> bytes:
        """Return the item as JSON, between two texts. The published protocol uses camel case."""
        fields = {
            "requestId": self.request_id,
            "requestData": self.request_data,
            "timeoutMs": self.timeout_ms,
        }
        return before + _encode("request", self.metadata, fields) + after


class RequestClosed(NamedTuple):
    """A question that needs no answer any more."""

    metadata: bytes
    request_id: str
    reason: str

    def encode(self, before: bytes = b"", after: bytes = b"") -> bytes:
        """Return the item as JSON, between two texts."""
        fields = {"requestId": self.request_id, "reason": self.reason}
        return before + _encode("request_closed", self.metadata, fields) + after


class Done(NamedTuple):
    """The last item of every stream."""

    metadata: bytes

    def encode(self, before: bytes = b"", after: bytes = b"") -> bytes:
        """Return the item as JSON, between two texts."""
        return b'%b{"type":"done","metadata":%b}%b' % (before, self.metadata, after)


Item = Data | Progress | Guidance | Error | Request | RequestClosed | Done


# A hub has a few hundred methods, and all items of a method have the same provenance.
@lru_cache(maxsize=4096)
def _metadata_head(provenance: tuple[str, ...], plexus_hash: str) -> bytes:
    return b'{"provenance":%b,"plexus_hash":%b,"timestamp":' % (
        dump(provenance),
        dump(plexus_hash),
    )


def _encode(kind: str, metadata: bytes, fields: dict[str, Any]) -> bytes:
    return b'{"type":"%b","metadata":%b,%b' % (kind.encode(), metadata, dump(fields)[1:])
