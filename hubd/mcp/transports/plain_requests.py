"""POST requests in the plain form that most clients send, read by one pattern. Pure.

h11 reads any request, step by step in Python, which takes about as long as a whole call. This
module reads a request only if it arrived whole and nothing about it is unusual. It refuses
nothing: h11 gets all other requests, and reads those of this module in the same way.
"""

import re
from typing import Final, NamedTuple

# Longer requests are left to h11.
MAX_BYTES: Final = 64 * 1024
# h11 also accepts folded lines, empty values, spaces around a value, and bytes beyond ASCII.
_HEAD: Final = re.compile(
    rb"POST (/[!-~]*) HTTP/1\.1\r\n((?:[-!#$%&'*+.^_`|~0-9A-Za-z]+: [!-~][ -~]*\r\n)+)\r\n"
)
_LINE: Final = re.compile(rb"([^:]+): ([^\r]+)\r\n")
# Headers that change where a message ends, or what follows it.
_UNUSUAL: Final = frozenset(
    (b"connection", b"expect", b"te", b"trailer", b"transfer-encoding", b"upgrade")
)
_KEEP_ALIVE: Final = (b"connection", b"keep-alive")


class PlainRequest(NamedTuple):
    """A whole request. The names of its headers are in lower case."""

    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


def read_plain(data: bytes) -> PlainRequest | None:
    """Return the request that the bytes are; None if h11 has to read them."""
    if len(data) > MAX_BYTES:
        return None
    head = _HEAD.match(data)
    if head is None or b" \r\n" in head[2]:
        return None
    headers = [(name.lower(), value) for name, value in _LINE.findall(head[2])]
    lengths, hosts = [], 0
    for header in headers:
        name, value = header
        if name == b"content-length":
            lengths.append(value)
        elif name == b"host":
            hosts += 1
        elif name in _UNUSUAL and header != _KEEP_ALIVE:
            return None
    body = data[head.end() :]
    if hosts != 1 or lengths != [b"%d" % len(body)]:
        return None
    return PlainRequest(head[1], headers, body)
