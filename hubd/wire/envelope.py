"""JSON-RPC 2.0 messages, written without importing `json`.

Every message of the protocol is put together here. Ids, params and results are JSON text already.
synapse imports this module on every call, and importing `json` takes longer than the rest of it.
"""

TYPE_CHECKING = False  # `typing` takes long to import too; mypy knows this name.
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "OVERLOADED",
    "call_request",
    "dumps",
    "error_reply",
    "item_envelope",
    "notification",
    "quote",
    "reply",
    "request",
]

# The error code of a server without room for another connection or call.
OVERLOADED = -32000


def quote(text: str) -> str:
    """Return a text as JSON."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    try:
        from _json import encode_basestring_ascii
    except ImportError:  # not CPython
        from json.encoder import encode_basestring_ascii
    return encode_basestring_ascii(text)


def request(request_id: int | str, method: str, params: str) -> bytes:
    """Return a request; the id and the params are JSON text."""
    return (
        f'{{"jsonrpc":"2.0","id":{request_id},"method":{quote(method)},"params":{params}}}'
    ).encode()


def call_request(root: str, method: str, params: str, caller_context: str = "") -> bytes:
    """Return the request, with id 1, that calls a method of any plugin below a root.

    Args:
        root: The namespace of the hub.
        method: The full name of the method.
        params: The method's params, as JSON text.
        caller_context: The caller's directory and environment, as JSON text; by default none.
    """
    context = f',"context":{caller_context}' if caller_context else ""
    return request(1, f"{root}.call", f'{{"method":{quote(method)},"params":{params}{context}}}')


def notification(method: str) -> bytes:
    """Return a notification without params."""
    return f'{{"jsonrpc":"2.0","method":{quote(method)}}}'.encode()


def reply(request_id: bytes, result: bytes) -> bytes:
    """Return the reply to a request that succeeded."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (request_id, result)


def error_reply(request_id: bytes, error: bytes) -> bytes:
    """Return the reply to a request that was refused."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (request_id, error)


def item_envelope(subscription: int) -> tuple[bytes, bytes]:
    """Return the texts before and after each stream item of a subscription: a notification."""
    before = b'{"jsonrpc":"2.0","method":"subscription","params":{"subscription":%d,"result":'
    return before % subscription, b"}}"


def dumps(value: "Any") -> str:
    """Return compact JSON of a value that consists of JSON types only."""
    if isinstance(value, str):
        return quote(value)
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        pairs = (f"{quote(name)}:{dumps(entry)}" for name, entry in value.items())
        return "{" + ",".join(pairs) + "}"
    return "[" + ",".join(map(dumps, value)) + "]"
