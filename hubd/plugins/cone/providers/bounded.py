"""Limits for the HTTP client of the SDKs, so that no response can fill the daemon's memory.

The SDKs collect lines, events and bodies without a limit. This module imports the HTTP client that
both SDKs use.
"""

from collections.abc import AsyncIterator
from typing import Any, Final

import httpx2

from hubd.activation import ExecutionError

# Bytes. The longest answer with the JSON around its pieces is far shorter.
MAX_RESPONSE: Final = 64 * 1024 * 1024
# Compressed responses are refused, because their real length is unknown.
PLAIN: Final = "identity"


async def _bound(response: httpx2.Response) -> None:
    encoding = response.headers.get("content-encoding", PLAIN)
    if encoding != PLAIN:
        raise ExecutionError(
            f"the server sent a compressed response ({encoding[:50]}) to a request for a plain one",
            suggestion="Turn off compression in the server",
        )
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream)


class _Bounded(httpx2.AsyncByteStream):
    """The body of a response, up to the limit."""

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        length = 0
        async for piece in self._body:
            length += len(piece)
            if length > MAX_RESPONSE:
                raise ExecutionError(
                    f"the server sent more than {MAX_RESPONSE} bytes",
                    suggestion="Ask for a shorter answer",
                )
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


# Arguments for the SDKs' HTTP client.
OPTIONS: Final[dict[str, Any]] = {
    "headers": {"accept-encoding": PLAIN},
    "event_hooks": {"response": [_bound]},
}
