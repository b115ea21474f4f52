"""Admitted and refused requests over TCP, and the contents of refusals.

The tests send bytes to a real daemon, on the WebSocket port and on the MCP port.
"""

import json
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.mcp.raw_http import (
    ACCEPT,
    JSON,
    NOTE,
    RawClient,
    bearer,
    connection,
    exchange,
    head,
    modern,
    no_cors,
    note,
    noted,
    own_host,
    ports,
    refused,
    request,
    status_line,
    upgrade,
)
from tests.support import Daemon, McpDaemon, events_of

PROC = Path("/proc")
needs_proc = pytest.mark.skipif(not PROC.joinpath("net/tcp").exists(), reason="reads /proc")
PAGE = "http://localhost:3000"
METHODS = ("GET", "HEAD", "OPTIONS", "DELETE", "PUT", "PATCH", "POST", "TRACE", "CONNECT", "BREW")


@pytest.fixture(scope="module")
def daemon(witnessed_daemon: Daemon) -> Daemon:
    return witnessed_daemon


@pytest.fixture(scope="module")
def paged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One that trusts a page."""
    home = tmp_path_factory.mktemp("paged") / "home"
    with McpDaemon(home, "--allow-origin", PAGE) as running:
        yield running


@pytest.fixture(scope="module")
def unlocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with McpDaemon(tmp_path_factory.mktemp("open") / "home", "--no-auth") as running:
        yield running


@pytest.fixture(scope="module")
def ws(daemon: Daemon) -> int:
    """The port of the WebSocket."""
    return ports(daemon)[0]


@pytest.fixture(scope="module")
def mcp(daemon: Daemon) -> RawClient:
    """The MCP port, with the token."""
    return RawClient(ports(daemon)[1], daemon.token)


# Hosts.


FOREIGN_HOSTS = [
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1.nip.io",
    "127.0.0.1.nip.io:{port}",
    "0.0.0.0",
    "0.0.0.0:{port}",
    "127.0.0.2:{port}",
    "user@127.0.0.1:{port}",
    "127.0.0.1:{port}@evil.example",
    "localhost:junk",
    "localhost:{port}.evil.example",
    "localhost:junk.evil.example",
    "localhost:",
    "localhost:123456",
    "localhost.:{port}",
    "[::1",
    "::1",
    "2130706433:{port}",
    "127.1:{port}",
    "",
]


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
@pytest.mark.parametrize("method", METHODS)
def test_a_foreign_host_is_refused_on_the_mcp_port_for_each_method(
    mcp: RawClient, method: str, host: str
) -> None:
    headers = [("Host", host.format(port=mcp.port)), bearer(mcp.token or ""), ACCEPT, JSON]
    assert exchange(mcp.port, head(method, "/mcp", headers), method).status == 403


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_a_foreign_host_is_refused_on_the_port_of_the_websocket(
    daemon: Daemon, ws: int, host: str
) -> None:
    headers = [("Host", host.format(port=ws)), bearer(daemon.token)]
    assert status_line(ws, upgrade(headers)) == 403


@pytest.mark.parametrize("method", METHODS)
def test_on_the_port_of_the_websocket_nothing_but_a_handshake_is_answered(
    daemon: Daemon, ws: int, method: str
) -> None:
    headers = [("Host", "evil.example"), bearer(daemon.token), ("Origin", "http://evil.example")]
    with connection(ws) as opened:
        opened.sendall(head(method, "/", headers))
        answer = b""
        while piece := opened.recv(65536):
            answer += piece
    assert not answer or answer.split()[1].startswith(b"4")
    assert b"access-control" not in answer.lower()


@pytest.mark.parametrize(
    "second", ["evil.example", "127.0.0.1:{port}"], ids=["a foreign one", "the same again"]
)
def test_two_hosts_are_refused(daemon: Daemon, ws: int, mcp: RawClient, second: str) -> None:
    for port, written in (
        (ws, upgrade([own_host(ws), ("Host", second.format(port=ws)), bearer(daemon.token)])),
        (
            mcp.port,
            head("POST", "/mcp", [*mcp.own, ("Host", second.format(port=mcp.port))]),
        ),
    ):
        status = status_line(port, written)
        assert status is not None
        assert 400 <= status < 500


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_no_host_at_all_is_refused(daemon: Daemon, ws: int, mcp: RawClient, version: str) -> None:
    token = bearer(daemon.token)
    status = status_line(mcp.port, head("POST", "/mcp", [token, ACCEPT, JSON], version=version))
    assert status == (403 if version == "1.0" else 400)
    assert refused(ws, upgrade([token], version=version))


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
@pytest.mark.parametrize("suffix", ["", ":{port}", ":8080"])
def test_our_own_names_are_answered_also_through_a_tunnel(
    daemon: Daemon, ws: int, mcp: RawClient, name: str, suffix: str
) -> None:
    host = name + suffix.format(port=mcp.port)
    headers = [("Host", host), bearer(daemon.token), *modern("tools/list")]
    assert mcp.post(request("tools/list"), headers, own=False).status == 200
    assert status_line(ws, upgrade([("Host", host), bearer(daemon.token)])) == 101


# Origins.


FOREIGN_ORIGINS = [
    "http://evil.example",
    "https://evil.example",
    "null",
    "",
    "http://localhost:3000",
    "http://127.0.0.1",
    "https://127.0.0.1:{port}",
    "http://127.0.0.1:{port}/",
    "http://127.0.0.1:{port}.evil.example",
    "http://localhost:{port}.evil.example",
    "http://localhost:{port}@evil.example",
    "http://localhost:1{port}",
    "HTTP://LOCALHOST:{port}",
    "chrome-extension://abcdefghijklmnop",
    "file://",
    "http://localhost:{port} http://evil.example",
]


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
def test_a_foreign_origin_is_refused_on_both_ports_even_with_the_token(
    daemon: Daemon, ws: int, mcp: RawClient, origin: str
) -> None:
    before = noted(daemon)
    sent = ("Origin", origin.format(port=mcp.port))
    assert mcp.post(note("from a page"), [*NOTE, sent]).status == 403
    for method in METHODS:
        assert exchange(mcp.port, head(method, "/mcp", [*mcp.own, sent]), method).status == 403
    sent = ("Origin", origin.format(port=ws))
    assert status_line(ws, upgrade([own_host(ws), bearer(daemon.token), sent])) == 403
    assert noted(daemon) == before


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_its_own_origin_is_answered_on_the_port_of_mcp_and_refused_on_the_other(
    daemon: Daemon, ws: int, mcp: RawClient, name: str
) -> None:
    own = ("Origin", f"http://{name}:{mcp.port}")
    assert mcp.post(request("tools/list"), [*modern("tools/list"), own]).status == 200
    assert mcp.post(request("tools/list"), [*modern("tools/list"), own, own]).status == 200
    foreign = ("Origin", "http://evil.example")
    assert mcp.post(request("tools/list"), [*modern("tools/list"), own, foreign]).status == 403
    own = ("Origin", f"http://{name}:{ws}")
    assert status_line(ws, upgrade([own_host(ws), bearer(daemon.token), own])) == 403


def test_without_an_origin_the_token_is_enough(daemon: Daemon, ws: int, mcp: RawClient) -> None:
    assert mcp.post(request("tools/list"), modern("tools/list")).status == 200
    assert status_line(ws, upgrade([own_host(ws), bearer(daemon.token)])) == 101


def test_a_page_that_is_trusted_needs_the_token_and_gets_no_cors(paged: Daemon) -> None:
    ws, port = ports(paged)
    page = ("Origin", PAGE)
    assert status_line(ws, upgrade([own_host(ws), page], target=f"/?token={paged.token}")) == 101
    assert status_line(ws, upgrade([own_host(ws), page], target="/?token=wrong")) == 401
    raw_client = RawClient(port, paged.token)
    answer = raw_client.post(request("tools/list"), [*modern("tools/list"), page])
    assert answer.status == 200
    assert no_cors(answer)
    # On the MCP port a token in the URL does not count.
    raw_client = RawClient(port, None)
    for target in (f"/mcp?token={paged.token}", f"/mcp%3Ftoken={paged.token}"):
        answer = raw_client.post(
            request("tools/list"), [*modern("tools/list"), page], target=target
        )
        assert answer.status == 401


# Requests of browsers.


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/plain", None),
        ("application/x-www-form-urlencoded", None),
        ("multipart/form-data; boundary=x", None),
        ("text/plain; application/json", None),
        ("", None),
        ("application/xml", None),
        ("application/x-www-form-urlencoded", b"jsonrpc=2.0&method=tools/call"),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\n',
        ),
    ],
)
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_requests_that_a_form_can_send_are_refused(
    daemon: Daemon, mcp: RawClient, era: str, content_type: str, body: bytes | None
) -> None:
    before = noted(daemon)
    message = json.dumps(note("from a form")).encode() if body is None else body
    if era == "modern":
        headers = NOTE
    else:
        headers = mcp.in_session(mcp.initialize().headers["mcp-session-id"])
    headers = [(name, value) for name, value in headers if name != "Content-Type"]
    answer = mcp.post(message, [*headers, ("Content-Type", content_type)])
    assert 400 <= answer.status < 500
    # The same as JSON would have called it.
    assert noted(daemon) == before
    if body is None:
        assert mcp.post(message, [*headers, JSON]).status == 200
        assert noted(daemon) == [*before, "from a form"]


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:{port}"])
@pytest.mark.parametrize("token", [True, False], ids=["token", "no token"])
def test_a_preflight_allows_nothing(mcp: RawClient, origin: str, token: bool) -> None:
    headers = [
        *(mcp.own if token else mcp.own[:1]),
        ("Origin", origin.format(port=mcp.port)),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization,content-type"),
        ("Access-Control-Request-Private-Network", "true"),
    ]
    answer = exchange(mcp.port, head("OPTIONS", "/mcp", headers), "OPTIONS")
    assert 400 <= answer.status < 500
    assert no_cors(answer)


# Tokens.


WRONG_TOKENS = {
    "none": [],
    "empty": [("Authorization", "Bearer ")],
    "wrong": [("Authorization", "Bearer wrong")],
    "short": [("Authorization", "Bearer {short}")],
    "long": [("Authorization", "Bearer {token}x")],
    "very long": [("Authorization", "Bearer " + "x" * 4000)],
    "not ASCII": [("Authorization", "Bearer größer")],
    "Basic": [("Authorization", "Basic {token}")],
    "twice": [("Authorization", "Bearer {token}"), ("Authorization", "Bearer {token}")],
    "another header": [("X-Api-Key", "{token}"), ("Cookie", "token={token}")],
}


@pytest.mark.parametrize("wrong", WRONG_TOKENS)
@pytest.mark.parametrize(
    "target", ["/mcp", "/other", "/health", "/mcp/", "/mcp?token={token}", "*"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
def test_every_route_answers_401_without_the_token(
    daemon: Daemon, mcp: RawClient, wrong: str, target: str, method: str
) -> None:
    token = daemon.token
    filled = [
        (name, value.format(token=token, short=token[:-1])) for name, value in WRONG_TOKENS[wrong]
    ]
    headers = [own_host(mcp.port), *filled, ACCEPT, JSON, ("Content-Length", "10")]
    # Nothing of the body is sent, so nothing of it can have been parsed.
    answer = exchange(mcp.port, head(method, target.format(token=token), headers), method)
    assert answer.status == 401
    assert token.encode() not in answer.body
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("wrong", WRONG_TOKENS)
def test_without_the_token_no_websocket_opens(daemon: Daemon, ws: int, wrong: str) -> None:
    token = daemon.token
    filled = [
        (name, value.format(token=token, short=token[:-1])) for name, value in WRONG_TOKENS[wrong]
    ]
    assert status_line(ws, upgrade([own_host(ws), *filled])) == 401
    assert status_line(ws, upgrade([own_host(ws)], target=f"/?token={token}")) == 401


def test_a_refused_request_learns_neither_routes_nor_methods(mcp: RawClient) -> None:
    targets = ("/mcp", "/nothing")
    [known, unknown] = [
        exchange(mcp.port, head("POST", target, [own_host(mcp.port)])) for target in targets
    ]
    assert (known.status, known.body) == (unknown.status, unknown.body)
    assert mcp.post(request("tools/list"), modern("tools/list"), target="/nothing").status == 404


def test_refused_requests_do_not_import_the_sdk(home: Path) -> None:
    with Daemon(home, "--plugin", "tests.mcp.hostile:Witness") as running:
        _, port = ports(running)
        assert events_of(home, "witness.loaded") == [{"type": "loaded", "modules": []}]
        stranger, guest = RawClient(port, "wrong"), RawClient(port, running.token)
        for _ in range(3):
            assert stranger.post(request("tools/list"), modern("tools/list")).status == 401
        assert guest.post(request("tools/list"), [("Origin", "null")]).status == 403
        assert guest.post(request("tools/list"), [], target="/nothing").status == 404
        assert guest.post(b"no JSON", modern("tools/list")).status == 400
        assert events_of(home, "witness.loaded") == [{"type": "loaded", "modules": ["uvicorn"]}]
        assert "the MCP server is loaded" not in Path(running.paths.log).read_text()
        assert guest.post(request("tools/list"), modern("tools/list")).status == 200
        [event] = events_of(home, "witness.loaded")
        assert "mcp" in event["modules"]
        assert "the MCP server is loaded" in Path(running.paths.log).read_text()


@needs_proc
def test_the_token_is_in_its_private_file_and_nowhere_else(daemon: Daemon, mcp: RawClient) -> None:
    token = daemon.token
    assert len(token) >= 40
    assert mcp.post(request("tools/list"), modern("tools/list")).status == 200
    assert exchange(mcp.port, head("GET", f"/mcp?token={token}", mcp.own[:1])).status == 401
    assert mcp.post(note(token[:8]), [*NOTE, ("X-Plexus-Session", token)]).status == 401
    assert stat.S_IMODE(Path(daemon.paths.token).stat().st_mode) == 0o600
    assert stat.S_IMODE(daemon.home.stat().st_mode) == 0o700
    for process in PROC.glob("[0-9]*/cmdline"):
        with suppress(OSError):  # gone meanwhile
            assert token.encode() not in process.read_bytes()
    for file in daemon.home.rglob("*"):
        if file.is_file() and file.name != "token":
            assert token.encode() not in file.read_bytes(), file
            assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file


# Addresses.


@needs_proc
def test_both_ports_listen_on_the_loopback_address_only(daemon: Daemon, unlocked: Daemon) -> None:
    for running in (daemon, unlocked):
        process = PROC / str(running.record["pid"])
        links = [path.readlink().name for path in (process / "fd").iterdir()]
        inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
        listening = {
            fields[1]
            for table in ("tcp", "tcp6")
            for fields in map(str.split, (process / "net" / table).read_text().splitlines()[1:])
            if fields[3] == "0A" and fields[9] in inodes
        }
        loopback = socket.inet_aton("127.0.0.1")[::-1].hex().upper()
        assert listening == {f"{loopback}:{port:04X}" for port in ports(running)}


def test_without_authentication_the_log_warns_and_host_and_origin_still_count(
    unlocked: Daemon,
) -> None:
    ws, port = ports(unlocked)
    client = RawClient(port, None)
    assert client.post(request("tools/list"), modern("tools/list")).status == 200
    assert status_line(ws, upgrade([own_host(ws)])) == 101
    for foreign in (("Host", "evil.example"), ("Origin", "http://evil.example"), ("Origin", "")):
        own = [] if foreign[0] == "Host" else [own_host(port)]
        headers = [*own, foreign, *modern("tools/list")]
        assert client.post(request("tools/list"), headers, own=False).status == 403
        own = [] if foreign[0] == "Host" else [own_host(ws)]
        assert status_line(ws, upgrade([*own, foreign])) == 403
    warnings = [
        line
        for line in Path(unlocked.paths.log).read_text().splitlines()
        if '"level": "warning"' in line
    ]
    assert any("--no-auth" in line for line in warnings)
