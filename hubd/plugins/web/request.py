"""The request of a fetch: its address and its headers, with the secrets kept apart.

A URL may contain a user name and a password. They are sent as a header, to the first origin only,
and are not part of the address that is stored, logged or shown in an error.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote

from httpx2 import URL, InvalidURL

from hubd.activation import InvalidParams, PermissionDenied
from hubd.plugins.web.decoding import ACCEPTED
from hubd.wire.lazy_pattern import lazy_pattern

SCHEMES: Final = ("http", "https")
REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))

MAX_HEADERS: Final = 50
MAX_HEADER_VALUE: Final = 8000
_HEADER_NAME: Final = lazy_pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_HEADER_VALUE: Final = lazy_pattern(r"[\t\x20-\x7e]*")
# Headers that belong to the connection. A fetch sets them itself.
_OWN_HEADERS: Final = frozenset(
    (
        *("host", "connection", "keep-alive", "proxy-connection", "content-length", "expect"),
        *("transfer-encoding", "te", "trailer", "upgrade", "accept-encoding"),
    )
)
_DEFAULTS: Final = {"user-agent": "hubd", "accept": "text/html, text/*;q=0.9, */*;q=0.8"}


class Target(NamedTuple):
    """An address to fetch."""

    # Without user name and password.
    url: URL
    # Sent only to this origin.
    secrets: Mapping[str, str]

    @property
    def headers(self) -> dict[str, str]:
        """All headers of the request, except `Host`."""
        return {**_DEFAULTS, **self.secrets, "accept-encoding": ACCEPTED, "connection": "close"}


def first_target(url: str, headers: Mapping[str, str]) -> Target:
    """Return the target of a call.

    Raises:
        InvalidParams: The URL or a header is not valid. The message never has a header's value.
    """
    try:
        parsed = URL(url.strip())
    except InvalidURL:
        # The exception's text may contain a password.
        raise InvalidParams(
            "url is not a valid URL", suggestion="Write it as https://example.org/path"
        ) from None
    if not _is_web(parsed):
        raise InvalidParams(
            "url is not an http or https address with a host and a valid port",
            suggestion="Write it as https://example.org/path",
        )
    secrets = _checked(headers)
    if parsed.userinfo:
        user, _, password = parsed.userinfo.decode("ascii").partition(":")
        login = f"{unquote(user)}:{unquote(password)}".encode()
        secrets.setdefault("authorization", f"Basic {b64encode(login).decode()}")
    return Target(_without_login(parsed), secrets)


def next_target(target: Target, location: str) -> Target:
    """Return the target of a redirect. Another origin gets none of the caller's headers.

    Raises:
        PermissionDenied: The redirect leads to something other than http or https.
    """
    try:
        url = target.url.join(location.strip())
    except (InvalidURL, ValueError):
        raise PermissionDenied(
            f"{target.url.host} redirects to an address that is not a valid URL",
            suggestion="Fetch another address",
        ) from None
    if not _is_web(url):
        raise PermissionDenied(
            f"{target.url.host} redirects to an address of type '{url.scheme[:40]}:'; only http "
            "and https are fetched",
            suggestion="Fetch another address",
        )
    same = (url.scheme, url.host, url.port) == (target.url.scheme, target.url.host, target.url.port)
    # A login that the server chose is not sent.
    return Target(_without_login(url), target.secrets if same else {})


def _is_web(url: URL) -> bool:
    """Return whether a URL can be fetched."""
    return url.scheme in SCHEMES and bool(url.host) and 0 < (url.port or 80) < 65536


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's headers, with names in lower case."""
    if len(headers) > MAX_HEADERS:
        raise InvalidParams(f"headers has {len(headers)} entries, and at most {MAX_HEADERS}")
    checked: dict[str, str] = {}
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise InvalidParams("headers has a name that is not valid in HTTP")
        if name.lower() in _OWN_HEADERS:
            raise InvalidParams(
                f"headers can't set '{name}', which belongs to the connection",
                suggestion="Leave it out",
            )
        if len(value) > MAX_HEADER_VALUE or not _HEADER_VALUE.fullmatch(value):
            raise InvalidParams(
                f"the value of the header '{name}' is not valid: it needs printable ASCII "
                f"characters, at most {MAX_HEADER_VALUE}"
            )
        checked[name.lower()] = value
    return checked


def _without_login(url: URL) -> URL:
    return url.copy_with(userinfo=b"") if url.userinfo else url
