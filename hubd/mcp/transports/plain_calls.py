"""Tool calls of the newest protocol over HTTP that end soon: answered without the SDK's streams.

The SDK gives each request its own tasks and streams, because any response may become a stream of
messages. Most calls end within milliseconds, and their response is one message, or two if the
client wants progress. This module begins a call and answers it if it ends soon. If the call asks a
question, has progress to report before its end, or takes longer, the SDK gets the request and
follows the call that was begun here.

This module refuses nothing. A request that is not valid goes to the SDK, which says why.
"""

from collections.abc import Mapping
from functools import lru_cache
from time import monotonic
from typing import Any, Final, Protocol

from mcp.server.streamable_http import check_accept_headers
from mcp.shared.inbound import InboundModernRoute, classify_inbound_request
from mcp_types import ClientCapabilities, Implementation, JSONRPCRequest
from mcp_types.methods import validate_client_request
from starlette.requests import Request

from hubd.mcp.access import Access
from hubd.mcp.caller import with_name
from hubd.mcp.calls import Run, ToolCalls
from hubd.mcp.progress import encode_report
from hubd.mcp.results import encode_response
from hubd.mcp.tools import HubTool
from hubd.mcp.transports.delivery import Delivery
from hubd.rpc.site import Response

METHOD: Final = "tools/call"
# Other params, such as the answer to a question, need the SDK's middleware.
PARAMS: Final = frozenset({"name", "arguments", "_meta"})
# Headers that the SDK reads. It refuses some of them if they are repeated.
HEADERS: Final = ("accept", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name")

# The headers of a response with one message, and with a stream of them.
MESSAGE: Final = [(b"content-type", b"application/json")]
STREAM: Final = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
# Characters that JSON allows in strings, and that some clients take for the end of a line.
LINE_ENDS: Final = tuple((c.encode(), b"\\u%04x" % ord(c)) for c in "\x85\u2028\u2029")


class Source(Protocol):
    """The tools of the hub."""

    @property
    def server_info(self) -> Mapping[str, Any]:
        """The name and version of the server, for each result."""

    def plain_tool(self, name: str, access: Access) -> HubTool | None:
        """Return a method that the client may call by its arguments alone; None if unknown."""


class PlainCall:
    """A valid request for a plain tool call."""

    __slots__ = ("arguments", "capabilities", "id", "info", "name", "progress_token", "version")

    def __init__(self, message: Mapping[str, Any], route: InboundModernRoute) -> None:
        params = message["params"]
        self.id: str | int = message["id"]
        self.version = route.protocol_version
        self.name: str = params["name"]
        self.arguments: Mapping[str, Any] = params.get("arguments") or {}
        self.progress_token: str | int | None = params["_meta"].get("progressToken")
        # The capabilities and the name that the request declares, as the SDK reads them.
        self.capabilities = ClientCapabilities.model_validate(
            route.client_capabilities, by_name=False
        )
        self.info: Implementation | None = None
        if route.client_info is not None:
            self.info = Implementation.model_validate(route.client_info, by_name=False)


def read_call(headers: Mapping[str, list[str]], message: Any) -> PlainCall | None:
    """Return a plain tool call; None if the SDK must read or refuse the request.

    Args:
        headers: All values of each header, by its lowercase name.
        message: The parsed body.
    """
    try:
        single: dict[str, str] = {}
        for name in HEADERS:
            [single[name]] = headers[name]
        if message["method"] != METHOD or not message["params"].keys() <= PARAMS:
            return None
        if any(name.startswith("mcp-param-") for name in headers):
            return None
        if not _accepts(single["content-type"], single["accept"]):
            return None
        JSONRPCRequest.model_validate(message)
        route = classify_inbound_request(message, headers=single)
        if not isinstance(route, InboundModernRoute):
            return None
        validate_client_request(METHOD, route.protocol_version, message["params"])
        return PlainCall(message, route)
    except (KeyError, ValueError, TypeError, AttributeError):
        # A header or key is missing or repeated, or has another type. ValueErrors are pydantic's.
        return None


class PlainCalls:
    """Answers plain tool calls."""

    def __init__(self, source: Source, calls: ToolCalls) -> None:
        self._source = source
        self._calls = calls

    def begin(
        self, headers: Mapping[str, list[str]], message: Any, access: Access
    ) -> "Answering | None":
        """Begin a plain tool call; return None if the SDK must serve the request."""
        call = read_call(headers, message)
        if call is None:
            return None
        if call.info is not None:
            access = with_name(access, call.info)
        tool = self._source.plain_tool(call.name, access)
        if tool is None:
            return None
        run = self._calls.begin(tool, call.arguments, access, call.capabilities)
        return Answering(call, run, self._source.server_info)


class Answering:
    """A plain tool call that was begun."""

    def __init__(self, call: PlainCall, run: Run, server_info: Mapping[str, Any]) -> None:
        self.run = run
        self._call = call
        self._server_info = server_info

    async def response(self, delivery: Delivery) -> Response | None:
        """Return the response if the call ends soon; None if the SDK must follow the call."""
        call, run = self._call, self.run
        if not await run.ends_soon(reports=call.progress_token is not None):
            return None
        collected, text_only = run.complete(delivery), run.tool.text_only
        try:
            body = encode_response(
                call.id, collected, call.version, self._server_info, text_only=text_only
            )
        except (ValueError, RecursionError):
            # An event is not JSON. The SDK gets the same result, and reports it.
            return None
        meter = run.caller.meter
        if call.progress_token is None or not meter.has_news:
            return Response(200, MESSAGE, body)
        report = encode_report(call.progress_token, meter.take(monotonic()))
        return Response(200, STREAM, _event(report) + _event(body))


def _event(message: bytes) -> bytes:
    """Return a message as an event of a stream."""
    for character, escape in LINE_ENDS:
        message = message.replace(character, escape)
    return b"event: message\r\ndata: %b\r\n\r\n" % message


@lru_cache(maxsize=64)
def _accepts(content_type: str, accept: str) -> bool:
    """Return whether the body is JSON, and the client accepts a message or a stream of them."""
    request = Request({"type": "http", "headers": [(b"accept", accept.encode("latin-1"))]})
    return content_type.lower().startswith("application/json") and all(
        check_accept_headers(request)
    )
