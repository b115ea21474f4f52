"""The first message of a page: it must authenticate the connection. No I/O."""

from typing import Any, Final

from hubd.page.codes import Codes
from hubd.page.keys import Keys
from hubd.plexus.params.large import parse
from hubd.wire import jsonrpc
from hubd.wire.jsonrpc import Malformed, Request

METHOD: Final = "_authenticate"
NOT_AUTHENTICATED: Final = -32001
REMEDY: Final = "run `hubd open` again"


class NotAuthenticated(Malformed):
    """The first message does not authenticate the connection, which is closed."""

    def __init__(self, reason: str, request_id: jsonrpc.Id = None) -> None:
        super().__init__(NOT_AUTHENTICATED, f"{reason}; {REMEDY}", request_id)


class Login:
    """Checks first messages. Without authentication, every `_authenticate` succeeds."""

    def __init__(self, codes: Codes, keys: Keys, *, required: bool) -> None:
        self._codes = codes
        self._keys = keys
        self._required = required

    def reply(self, message: bytes) -> bytes:
        """Return the reply to a first message.

        Raises:
            NotAuthenticated: The message is another one, or its code or key is not valid.
        """
        request = _read(message)
        params = request.params if isinstance(request.params, dict) else {}
        has_key = isinstance(params.get("key"), str)
        if self._required:
            self._check(request, params)
        # A page that has a key keeps it.
        result = {"success": True} | ({} if has_key else {"key": self._keys.create()})
        return jsonrpc.success(request.id, result)

    def _check(self, request: Request, params: dict[str, Any]) -> None:
        match params:
            case {"code": str(code), **others} if not others:
                if not self._codes.redeem(code):
                    reason = "the code is wrong, was used before, or is older than a minute"
                    raise NotAuthenticated(reason, request.id)
            case {"key": str(key), **others} if not others:
                if not self._keys.is_valid(key):
                    raise NotAuthenticated("the key is not one of this hub", request.id)
            case _:
                raise NotAuthenticated(f"{METHOD} needs 'code' or 'key', a string", request.id)


def _read(message: bytes) -> Request:
    try:
        request = jsonrpc.read_request(parse(message))
    except (Malformed, ValueError):
        raise NotAuthenticated(f"the first message must be {METHOD}") from None
    if request.method != METHOD or not request.wants_reply:
        raise NotAuthenticated(f"the first message must be {METHOD}", request.id)
    return request
