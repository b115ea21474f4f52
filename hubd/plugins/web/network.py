"""Connections for a fetch: the address is checked where it is connected to.

A name is looked up once for each connection, and the connection goes to an address from that
answer. A second answer of the name server is never asked for, so it can't lead elsewhere.
"""

import logging
import ssl
from collections.abc import AsyncIterator, Iterable
from functools import cache
from typing import Any, Final

import httpcore2
import httpx2

from hubd.activation import PermissionDenied, Unavailable
from hubd.plugins.web import addresses
from hubd.plugins.web.lookup import Lookup

# Seconds for one attempt to connect, and the number of addresses that are tried.
CONNECT_SECONDS: Final = 10.0
MAX_ADDRESSES: Final = 4
# The most bytes of one read: parsing them must not delay other clients.
READ_BYTES: Final = 16 * 1024

# At level debug it logs the headers of responses, which contain cookies.
logging.getLogger("httpcore2").setLevel(logging.WARNING)


class Transport(httpx2.AsyncBaseTransport):
    """Sends requests over checked connections. Proxies of the environment are not used."""

    def __init__(
        self, lookup: Lookup, network: httpcore2.AsyncNetworkBackend, *, allow_private: bool
    ) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl_context(),
            network_backend=CheckedNetwork(lookup, network, allow_private=allow_private),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. Errors are those of httpcore2, and of `CheckedNetwork`."""
        url = request.url
        response = await self._pool.handle_async_request(
            httpcore2.Request(
                request.method,
                httpcore2.URL(
                    scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                ),
                headers=request.headers.raw,
                extensions={"timeout": {"connect": CONNECT_SECONDS}},
            )
        )
        return httpx2.Response(
            response.status, headers=response.headers, stream=_Body(response), request=request
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()


class CheckedNetwork(httpcore2.AsyncNetworkBackend):
    """Connects only to addresses that a fetch may use."""

    def __init__(
        self, lookup: Lookup, network: httpcore2.AsyncNetworkBackend, *, allow_private: bool
    ) -> None:
        self._lookup = lookup
        self._network = network
        self._allow_private = allow_private

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 -- the signature of httpcore2
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Look the name up, check the addresses, and connect to one of them.

        Raises:
            PermissionDenied: The name has only addresses that are not public.
            Unavailable: No connection was possible.
        """
        last: Exception = Unavailable(f"{host} has no address")
        for address in self._allowed(host, await self._lookup(host, port))[:MAX_ADDRESSES]:
            try:
                return _ShortReads(await self._network.connect_tcp(address, port, timeout=timeout))
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                last = error
        raise last

    def _allowed(self, host: str, answer: list[str]) -> list[str]:
        if self._allow_private or not answer:
            return answer
        refusals = {address: addresses.refusal(address) for address in answer}
        allowed = [address for address, word in refusals.items() if word is None]
        if not allowed:
            raise PermissionDenied(
                f"{host} has the {refusals[answer[0]]} address {answer[0]}; without the setting "
                "web.allow_private only public addresses are fetched",
                suggestion="To allow all addresses, set allow_private = true in section [web] of "
                "config.toml, or HUBD_WEB_ALLOW_PRIVATE=true",
            )
        return allowed


class _ShortReads(httpcore2.AsyncNetworkStream):
    """A connection that reads a little at a time."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(
        self,
        max_bytes: int,
        timeout: float | None = None,  # noqa: ASYNC109 -- the signature of httpcore2
    ) -> bytes:
        return await self._stream.read(min(max_bytes, READ_BYTES), timeout)

    async def write(
        self,
        buffer: bytes,
        timeout: float | None = None,  # noqa: ASYNC109 -- the signature of httpcore2
    ) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 -- the signature of httpcore2
    ) -> httpcore2.AsyncNetworkStream:
        return _ShortReads(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Body(httpx2.AsyncByteStream):
    """The body of a response."""

    def __init__(self, response: httpcore2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._response.aiter_stream():
            yield piece

    async def aclose(self) -> None:
        await self._response.aclose()


@cache
def ssl_context() -> ssl.SSLContext:
    """Return the settings of TLS. Reading the certificates takes a while."""
    return httpcore2.default_ssl_context()
