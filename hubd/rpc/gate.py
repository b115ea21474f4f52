"""Decide which TCP requests are allowed, by token, Host and Origin. Both ports use it. No I/O."""

import hmac
import re
from collections.abc import Callable, Sequence
from typing import Final, Protocol
from urllib.parse import parse_qs

from hubd.wire.lazy_dataclass import dataclass
from hubd.wire.lazy_pattern import lazy_pattern

# Any port is allowed, because a tunnel changes it. The name alone reveals DNS rebinding.
_OURS: Final = lazy_pattern(
    r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE | re.ASCII
)

# The host names of the daemon's addresses.
_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")

# Header with the token of the session that a client belongs to.
SESSION_HEADER: Final = "X-Plexus-Session"


@dataclass(frozen=True)
class Refusal:
    """The HTTP response to a request that is not allowed."""

    status: int
    message: str


class Headers(Protocol):
    """The headers of a request."""

    def get_all(self, key: str) -> Sequence[str]:
        """Return all values of a header."""


@dataclass(frozen=True)
class Gate:
    """The rules of one daemon. If `token` is None, every local user is allowed."""

    token: str | None
    allowed_origins: frozenset[str] = frozenset()
    # Returns whether a session token is registered. Such a token admits a client too.
    is_session_token: Callable[[str], bool] = lambda _: False

    def check(self, path: str, headers: Headers) -> Refusal | None:
        """Return the refusal of a request; None if it is allowed."""
        hosts = headers.get_all("Host")
        if len(hosts) != 1 or not _OURS.fullmatch(hosts[0]):
            # After DNS rebinding, a web page sends its own name as the host.
            return Refusal(403, "this server only accepts its own address as Host")
        origins = headers.get_all("Origin")
        if any(origin not in self.allowed_origins for origin in origins):
            return Refusal(403, "this origin is not allowed; see hubd run --allow-origin")
        if self.token is None:
            return None
        given = _bearer(headers)
        if given is None and origins:
            # A browser cannot set headers on a WebSocket; its origin was checked above.
            given = _query_token(path)
        if given is None:
            return Refusal(401, "send the token of the token file as 'Authorization: Bearer …'")
        if not hmac.compare_digest(
            given.encode(errors="surrogatepass"), self.token.encode()
        ) and not self.is_session_token(given):
            return Refusal(401, "this is not the token of this hub")
        return None

    def session_token(self, headers: Headers) -> str | None:
        """Return the session token of a request; an invalid one if there are several.

        It has a header of its own, or it is the bearer token.
        """
        tokens = headers.get_all(SESSION_HEADER)
        if tokens:
            return tokens[0] if len(tokens) == 1 else ""
        bearer = _bearer(headers)
        return bearer if bearer is not None and self.is_session_token(bearer) else None


def own_origins(port: int) -> frozenset[str]:
    """Return the origins of web pages that this daemon serves on a port."""
    return frozenset(f"http://{name}:{port}" for name in _NAMES)


def _bearer(headers: Headers) -> str | None:
    values = headers.get_all("Authorization")
    scheme, _, token = values[0].strip().partition(" ") if len(values) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" else None


def _query_token(path: str) -> str | None:
    tokens = parse_qs(path.partition("?")[2]).get("token", [])
    return tokens[0] if len(tokens) == 1 else None
