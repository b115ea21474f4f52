"""Fetch a page: follow redirects, decode the body and hand it on, within limits.

Imported when the first page is fetched, because the HTTP client takes longer to import than the
hub takes to start.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Final, NamedTuple

import httpcore2
import httpx2

from hubd.activation import ExecutionError, HubError, Timeout, Unavailable
from hubd.plugins.web.decoding import BadEncoding, Decoder, decoder
from hubd.plugins.web.lookup import Lookup
from hubd.plugins.web.network import Transport
from hubd.plugins.web.request import REDIRECTS, Target, first_target, next_target

MAX_REDIRECTS: Final = 10
# Pages that are fetched at the same time. The others wait, within their own time limit.
MAX_FETCHES: Final = 32
# Seconds of work on one body before other calls run.
WORK_SECONDS: Final = 0.005
# The longest reason of a failure in a message; part of it comes from the server.
_MAX_REASON: Final = 200

_OTHER_ADDRESS: Final = "Fetch another address"


class Limits(NamedTuple):
    """The limits of one fetch."""

    max_bytes: int
    timeout_secs: float


class Page(NamedTuple):
    """The answer to a fetch, without its body."""

    # Without user name and password.
    url: str
    final_url: str
    redirects: int
    status: int
    content_type: str | None
    size: int
    # Whether the body was longer than `max_bytes`.
    truncated: bool


class Fetcher:
    """Fetches pages over checked connections."""

    def __init__(
        self, lookup: Lookup, network: httpcore2.AsyncNetworkBackend, *, allow_private: bool
    ) -> None:
        self._lookup = lookup
        self._network = network
        self._allow_private = allow_private
        self._places = asyncio.Semaphore(MAX_FETCHES)

    async def fetch(
        self,
        url: str,
        headers: Mapping[str, str],
        limits: Limits,
        write: Callable[[bytes], Awaitable[None]],
    ) -> Page:
        """Fetch a page and write its decoded body.

        Raises:
            InvalidParams: The URL or a header is not valid.
            PermissionDenied: An address, or the target of a redirect, is not allowed.
            Unavailable: The server can't be reached, or the connection broke.
            Timeout: The page was not complete in time.
            ExecutionError: The server's answer is not usable.
        """
        first = first_target(url, headers)
        try:
            async with asyncio.timeout(limits.timeout_secs), self._places:
                return await self._follow(first, limits, write)
        except TimeoutError:
            raise Timeout(
                f"{first.url.host} did not send the whole page within {limits.timeout_secs:g} s",
                suggestion="Try again, or allow more time with timeout_secs",
            ) from None

    async def _follow(
        self, first: Target, limits: Limits, write: Callable[[bytes], Awaitable[None]]
    ) -> Page:
        target = first
        for redirects in range(MAX_REDIRECTS + 1):
            async with self._response(target) as response:
                location = response.headers.get("location")
                if response.status_code not in REDIRECTS or location is None:
                    size, truncated = await _read(response, limits.max_bytes, write)
                    return Page(
                        url=str(first.url),
                        final_url=str(target.url),
                        redirects=redirects,
                        status=response.status_code,
                        content_type=response.headers.get("content-type"),
                        size=size,
                        truncated=truncated,
                    )
            target = next_target(target, location)
        raise ExecutionError(
            f"{first.url.host} redirects more than {MAX_REDIRECTS} times",
            suggestion=_OTHER_ADDRESS,
        )

    @asynccontextmanager
    async def _response(self, target: Target) -> AsyncIterator[httpx2.Response]:
        """Yield the response of one request. Its connection ends with the block."""
        async with Transport(
            self._lookup, self._network, allow_private=self._allow_private
        ) as transport:
            try:
                request = httpx2.Request("GET", target.url, headers=target.headers)
                response = await transport.handle_async_request(request)
                try:
                    yield response
                finally:
                    await response.aclose()
            except (
                httpcore2.NetworkError,
                httpcore2.TimeoutException,
                httpcore2.ProtocolError,
                BadEncoding,
            ) as error:
                raise _failure(target.url.host, error) from None


async def _read(
    response: httpx2.Response, limit: int, write: Callable[[bytes], Awaitable[None]]
) -> tuple[int, bool]:
    """Write the body up to the limit. Return its size, and whether it was longer."""
    size = 0
    decode = decoder(response.headers.get("content-encoding", ""))
    async with aclosing(_pieces(response, decode)) as pieces:
        async for piece in pieces:
            await write(piece[: limit - size])
            size += len(piece)
            if size > limit:
                return limit, True
    return size, False


async def _pieces(response: httpx2.Response, decode: Decoder) -> AsyncGenerator[bytes, None]:
    """Yield the decoded body, and let other calls run in between."""
    pause = time.monotonic() + WORK_SECONDS
    async with aclosing(response.aiter_raw()) as raw:
        async for data in raw:
            for piece in decode.decode(data):
                yield piece
                if time.monotonic() > pause:
                    await asyncio.sleep(0)
                    pause = time.monotonic() + WORK_SECONDS
    decode.finish()


def _failure(host: str, error: Exception) -> HubError:
    """Return the error for the caller."""
    reason = " ".join(str(error).split())[:_MAX_REASON] or type(error).__name__
    if isinstance(error, httpcore2.TimeoutException):
        return Timeout(f"{host} did not accept a connection in time")
    if isinstance(error, httpcore2.ConnectError):
        return Unavailable(
            f"no connection to {host}: {reason}", suggestion="Check the address and the network"
        )
    if isinstance(error, httpcore2.NetworkError):
        return Unavailable(f"the connection to {host} broke: {reason}", suggestion="Try again")
    return ExecutionError(
        f"the response of {host} is not usable: {reason}", suggestion=_OTHER_ADDRESS
    )
