"""A JSON-RPC session without I/O: messages in, actions out.

It counts subscriptions and has no sockets or tasks, so both transports and the tests share it.
"""

from typing import Any, Final, NamedTuple

from hubd.plexus.params.large import parse
from hubd.wire import jsonrpc
from hubd.wire.jsonrpc import INVALID_PARAMS, PARSE_ERROR, Malformed, Request
from hubd.wire.limits import LARGE_BYTES


class Reply(NamedTuple):
    """Send this frame."""

    frame: bytes


class Start(NamedTuple):
    """Start a call; its items go out under this subscription, after the reply."""

    subscription: int
    method: str
    params: dict[str, Any]
    context: object
    reply: bytes
    # Whether the message is so long that work on its params delays other clients.
    large: bool = False


class Cancel(NamedTuple):
    """Cancel a subscription, and reply whether it existed."""

    subscription: int
    request: Request


class Answer(NamedTuple):
    """Pass an answer to the method that asked, and reply whether the answer fits."""

    request_id: str
    data: object
    request: Request


# The params of `{root}.call`.
_CALL_PARAMS: Final = ("method", "params", "context")

Action = Reply | Start | Cancel | Answer


class Session:
    """The protocol's state of one connection."""

    def __init__(self, root: str) -> None:
        self._respond = f"{root}.respond"
        self._cancel = f"{root}.cancel"
        self._call = f"{root}.call"
        # The params of methods that take them in an array, in order.
        self._positional = {self._call: _CALL_PARAMS, f"{root}.schema": ("method",)}
        # The id of the newest subscription; they count up and are never used twice.
        self._last = 0

    def receive(self, message: bytes) -> Action | None:
        """Return the action for one message; None for a notification that needs no action.

        Raises:
            TooLarge: The message exceeds a limit. The connection must be closed.
        """
        try:
            parsed = parse(message)
        except ValueError as error:
            return Reply(jsonrpc.failure(None, PARSE_ERROR, f"not JSON: {error}"))
        try:
            request = jsonrpc.read_request(parsed)
        except Malformed as error:
            return Reply(error.frame)
        try:
            if request.method == self._respond:
                return _answer(request)
            if request.method == self._cancel:
                return _cancel(request)
            # Without a reply, the client could not learn the subscription of its call.
            return self._start(request, message) if request.wants_reply else None
        except Malformed as error:
            # A notification is never answered.
            return Reply(error.frame) if request.wants_reply else None

    def _start(self, request: Request, message: bytes) -> Start:
        params = request.params
        if not isinstance(params, dict):
            params = request.named_params(self._positional.get(request.method, ()))
        context: object = None
        if request.method == self._call:
            # The message was parsed for this call, so the dictionary may change.
            context = params.pop("context", None)
        self._last += 1
        reply = jsonrpc.success(request.id, self._last)
        large = len(message) > LARGE_BYTES
        return Start(self._last, request.method, params, context, reply, large)


def _answer(request: Request) -> Answer:
    params = request.named_params(("request_id", "response_data"))
    request_id = params.get("request_id")
    # Some published clients send `response` instead.
    data = params.get("response_data", params.get("response"))
    if not isinstance(request_id, str) or data is None:
        raise Malformed(
            INVALID_PARAMS, "respond needs 'request_id', a string, and 'response_data'", request.id
        )
    return Answer(request_id, data, request)


def _cancel(request: Request) -> Cancel:
    subscription = request.named_params(("subscription",)).get("subscription")
    if isinstance(subscription, bool) or not isinstance(subscription, int):
        raise Malformed(INVALID_PARAMS, "cancel needs 'subscription', a number", request.id)
    return Cancel(subscription, request)
