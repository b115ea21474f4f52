"""The HTTP client of the SDKs, within bounds: no server fills the daemon's memory.

The SDKs gather lines, events and whole bodies for as long as they grow. Importing this imports an
HTTP client, which comes with each of them.
"""

from collections.abc import AsyncIterator
from typing import Any, Final

import httpx2

from hubd.activation import ExecutionError

# Far more than the longest answer with all that is said around its pieces.
MAX_RESPONSE: Final = 64 * 1024 * 1024
# Nothing compressed: how much comes out of it is known only when it has come out.
PLAIN: Final = "identity"


async def _bound(response: httpx2.Response) -> None:
    encoding = response.headers.get("content-encoding", PLAIN)
    if encoding != PLAIN:
        raise ExecutionError(
            f"the server compresses its answer ({encoding[:50]}), though it was told not to",
            suggestion="Turn that off in the server",
        )
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream)


class _Bounded(httpx2.AsyncByteStream):
    """The body of a response, as long as it is not too long."""

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        length = 0
        async for piece in self._body:
            length += len(piece)
            if length > MAX_RESPONSE:
                raise ExecutionError(
                    f"the server has sent more than {MAX_RESPONSE} bytes",
                    suggestion="Ask for less at a time",
                )
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


# For the SDKs' own kind of client.
OPTIONS: Final[dict[str, Any]] = {
    "headers": {"accept-encoding": PLAIN},
    "event_hooks": {"response": [_bound]},
}
