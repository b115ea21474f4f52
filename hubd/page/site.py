"""The page on the HTTP port: static files without a token, and the WebSocket `/ws`."""

import secrets
from dataclasses import replace
from typing import Final

from hubd.page.codes import Codes
from hubd.page.keys import Keys
from hubd.page.login import Login
from hubd.page.socket import PageGate, PageSocket, Strangers
from hubd.page.static_files import FOLDER, static_files
from hubd.rpc.clients import Clients
from hubd.rpc.gate import Gate, Headers, own_origins
from hubd.rpc.site import Response

WEBSOCKET: Final = "/ws"
METHODS: Final = ("GET", "HEAD")

Pairs = list[tuple[bytes, bytes]]

# The page loads only its own files, connects only to its own hub, and is shown in no frame.
CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src {connect}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final = (
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    # Notifications have no entry here; the browser asks the person.
    (
        b"permissions-policy",
        b"camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
    (b"cache-control", b"no-cache"),
)


class PageSite:
    """The page of one hub."""

    def __init__(self, clients: Clients, gate: Gate, port: int, codes: Codes) -> None:
        self._clients = clients
        # Files need no token.
        origins = gate.allowed_origins | own_origins(port)
        self._gate = replace(gate, token=None, allowed_origins=origins)
        self._page_gate = PageGate(port)
        # Without authentication the keys are not checked.
        keys = Keys(gate.token or secrets.token_urlsafe())
        self._login = Login(codes, keys, required=gate.token is not None)
        self._strangers = Strangers()

    def websocket(self, path: str) -> PageSocket | None:
        """Return the protocol of a new connection; None if the path has no WebSocket."""
        if path != WEBSOCKET:
            return None
        return PageSocket(self._clients, self._page_gate, self._login, self._strangers)

    def respond(self, method: str, path: str, headers: Headers) -> Response | None:
        """Return the response to a request; None if the path is not part of the page."""
        if path not in ("/", WEBSOCKET) and not path.startswith(FOLDER):
            return None
        refusal = self._gate.check("", headers)
        if refusal is not None:
            return _text(refusal.status, refusal.message, _security())
        own = _security(headers.get_all("Host")[0])
        if method not in METHODS:
            return _text(405, "this path has only GET and HEAD", [*own, (b"allow", b"GET, HEAD")])
        if path == WEBSOCKET:
            return _text(426, "connect with a WebSocket", [*own, (b"upgrade", b"websocket")])
        file = static_files().get(path)
        if file is None:
            return _text(404, "the page has no such file", own)
        own.append((b"etag", file.etag.encode()))
        if file.etag in _etags(headers):
            return Response(304, own)
        own.append((b"content-type", file.content_type.encode()))
        return Response(200, own, file.content)


def _security(host: str = "") -> Pairs:
    """Return the headers of every response. The host was checked by the gate."""
    # Older browsers do not count the WebSocket of the same host as 'self'. An IPv6 address can't
    # be written here.
    connect = f"'self' ws://{host}" if host and not host.startswith("[") else "'self'"
    return [(b"content-security-policy", CSP.format(connect=connect).encode()), *HEADERS]


def _etags(headers: Headers) -> list[str]:
    texts = ",".join(headers.get_all("If-None-Match")).split(",")
    return [text.strip().removeprefix("W/") for text in texts]


def _text(status: int, message: str, headers: Pairs) -> Response:
    content_type = (b"content-type", b"text/plain; charset=utf-8")
    return Response(status, [*headers, content_type], f"{message}\n".encode())
