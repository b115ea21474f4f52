"""A JSON-RPC session without I/O: messages in, actions out.

It counts subscriptions and has no sockets or tasks, so both transports and the tests share it.
"""

from typing import Any, Final, NamedTuple

from hubd.plexus.params.large import parse
from hubd.wire import jsonrpc
from hubd.wire.jsonrpc import INVALID_PARAMS, PARSE_ERROR, Malformed, Request, TooLarge
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


# The params of `{root}.call`, in the order of an array.
_CALL_PARAMS: Final = ("method", "params", "context")

Action = Reply | Start | Cancel | Answer


class Session:
    """One connection's side of the protocol."""

    def __init__(self, root: str) -> None:
        self._respond = f"{root}.respond"
        self._cancel = f"{root}.cancel"
        self._call = f"{root}.call"
        self._schema = f"{root}.schema"
        # The id of the newest subscription; they count up and are never used twice.
        self._last = 0

    def receive(self, message: bytes) -> Action | None:
        """What one message asks for; None for a notification that needs nothing done.

        Raises:
            TooLarge: The message exceeds a limit. The connection must be closed.
        """
        try:
            return self._read(message)
        except TooLarge:
            raise
        except Malformed as error:
            return Reply(error.frame)

    def _read(self, message: bytes) -> Action | None:
        try:
            parsed = parse(message)
        except ValueError as error:
            raise Malformed(PARSE_ERROR, f"not JSON: {error}") from None
        request = jsonrpc.read_request(parsed)
        try:
            return self._act(request, message)
        except Malformed:
            if request.wants_reply:
                raise
            return None  # a notification is never answered

    def _act(self, request: Request, message: bytes) -> Action | None:
        if request.method == self._respond:
            return _answer(request)
        if request.method == self._cancel:
            return _cancel(request)
        # Nobody could be told the subscription of a call that wants no reply.
        return self._start(request, message) if request.wants_reply else None

    def _start(self, request: Request, message: bytes) -> Start:
        context: object = None
        if request.method == self._call:
            params = request.named_params(_CALL_PARAMS)
            # The message was parsed for this call, so the dictionary may change.
            context = params.pop("context", None)
        elif request.method == self._schema:
            params = request.named_params(("method",))
        else:
            params = request.named_params(())
        self._last += 1
        reply = jsonrpc.success(request.id, self._last)
        large = len(message) > LARGE_BYTES
        return Start(self._last, request.method, params, context, reply, large)


def _answer(request: Request) -> Answer:
    params = request.named_params(("request_id", "response_data"))
    request_id = params.get("request_id")
    # Some published clients say `response`.
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
