"""Who gets in over TCP, what may be sent, and what a refusal gives away; MCP.md calls these T1-T12.

Bytes on sockets against a real daemon, on the port of the WebSocket and on that of MCP.
"""

import json
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.raw import (
    ACCEPT,
    JSON,
    META,
    Answer,
    Knocker,
    bearer,
    connection,
    exchange,
    head,
    modern,
    own_host,
    ports,
    read_answer,
    request,
    status_line,
    upgrade,
)
from tests.support import Daemon, events_of

PROC = Path("/proc")
needs_proc = pytest.mark.skipif(not PROC.joinpath("net/tcp").exists(), reason="reads /proc")
PAGE = "http://localhost:3000"
METHODS = ("GET", "HEAD", "OPTIONS", "DELETE", "PUT", "PATCH", "POST", "TRACE", "CONNECT", "BREW")
LIMIT = 4 * 1024 * 1024


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    home = tmp_path_factory.mktemp("locked") / "home"
    plugin = ("--plugin", "tests.mcp.hostile:Witness")
    with Daemon(home, *plugin, "--log-level", "debug") as running:
        yield running


@pytest.fixture(scope="module")
def paged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One that trusts a page."""
    home = tmp_path_factory.mktemp("paged") / "home"
    with Daemon(home, "--allow-origin", PAGE) as running:
        yield running


@pytest.fixture(scope="module")
def unlocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("open") / "home", "--no-auth") as running:
        yield running


@pytest.fixture(scope="module")
def ws(daemon: Daemon) -> int:
    """The port of the WebSocket."""
    return ports(daemon)[0]


@pytest.fixture(scope="module")
def mcp(daemon: Daemon) -> Knocker:
    """The port of MCP, for somebody who has the token."""
    return Knocker(ports(daemon)[1], daemon.token)


def noted(daemon: Daemon) -> list[str]:
    """What the calls that got through left behind."""
    [event] = events_of(daemon.home, "witness.noted")
    texts: list[str] = event["texts"]
    return texts


def note(text: str) -> dict[str, Any]:
    """A call with an effect."""
    return request("tools/call", {"name": "witness.note", "arguments": {"text": text}})


NOTE = modern("tools/call", "witness.note")


# T1


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
def test_a_foreign_host_is_refused_on_the_port_of_mcp_whatever_the_method(
    mcp: Knocker, method: str, host: str
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
def test_two_hosts_are_refused(daemon: Daemon, ws: int, mcp: Knocker, second: str) -> None:
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
def test_no_host_at_all_is_refused(daemon: Daemon, ws: int, mcp: Knocker, version: str) -> None:
    token = bearer(daemon.token)
    status = status_line(mcp.port, head("POST", "/mcp", [token, ACCEPT, JSON], version=version))
    assert status == (403 if version == "1.0" else 400)
    assert refused(ws, upgrade([token], version=version))


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
@pytest.mark.parametrize("suffix", ["", ":{port}", ":8080"])
def test_our_own_names_are_answered_also_through_a_tunnel(
    daemon: Daemon, ws: int, mcp: Knocker, name: str, suffix: str
) -> None:
    host = name + suffix.format(port=mcp.port)
    headers = [("Host", host), bearer(daemon.token), *modern("tools/list")]
    assert mcp.post(request("tools/list"), headers, own=False).status == 200
    assert status_line(ws, upgrade([("Host", host), bearer(daemon.token)])) == 101


# T2, T3


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
    daemon: Daemon, ws: int, mcp: Knocker, origin: str
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
    daemon: Daemon, ws: int, mcp: Knocker, name: str
) -> None:
    own = ("Origin", f"http://{name}:{mcp.port}")
    assert mcp.post(request("tools/list"), [*modern("tools/list"), own]).status == 200
    assert mcp.post(request("tools/list"), [*modern("tools/list"), own, own]).status == 200
    foreign = ("Origin", "http://evil.example")
    assert mcp.post(request("tools/list"), [*modern("tools/list"), own, foreign]).status == 403
    own = ("Origin", f"http://{name}:{ws}")
    assert status_line(ws, upgrade([own_host(ws), bearer(daemon.token), own])) == 403


def test_without_an_origin_the_token_is_enough(daemon: Daemon, ws: int, mcp: Knocker) -> None:
    assert mcp.post(request("tools/list"), modern("tools/list")).status == 200
    assert status_line(ws, upgrade([own_host(ws), bearer(daemon.token)])) == 101


def test_a_page_that_is_trusted_needs_the_token_and_gets_no_cors(paged: Daemon) -> None:
    ws, port = ports(paged)
    page = ("Origin", PAGE)
    assert status_line(ws, upgrade([own_host(ws), page], target=f"/?token={paged.token}")) == 101
    assert status_line(ws, upgrade([own_host(ws), page], target="/?token=wrong")) == 401
    knocker = Knocker(port, paged.token)
    answer = knocker.post(request("tools/list"), [*modern("tools/list"), page])
    assert answer.status == 200
    assert no_cors(answer)
    # On the port of MCP a token in the address counts for nobody, however it is written.
    knocker = Knocker(port, None)
    for target in (f"/mcp?token={paged.token}", f"/mcp%3Ftoken={paged.token}"):
        answer = knocker.post(request("tools/list"), [*modern("tools/list"), page], target=target)
        assert answer.status == 401


# T4, T5


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
def test_what_a_form_can_send_is_refused_and_calls_nothing(
    daemon: Daemon, mcp: Knocker, era: str, content_type: str, body: bytes | None
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


def no_cors(answer: Answer) -> bool:
    """Whether nothing in it lets a page read it."""
    return not any(name.startswith("access-control-") for name in answer.headers)


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:{port}"])
@pytest.mark.parametrize("token", [True, False], ids=["token", "no token"])
def test_a_preflight_allows_nothing(mcp: Knocker, origin: str, token: bool) -> None:
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


# T6


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
@pytest.mark.parametrize("target", ["/mcp", "/", "/health", "/mcp/", "/mcp?token={token}", "*"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
def test_without_the_token_every_route_says_401_and_nothing_else(
    daemon: Daemon, mcp: Knocker, wrong: str, target: str, method: str
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


def test_who_may_not_come_in_learns_neither_routes_nor_methods(mcp: Knocker) -> None:
    targets = ("/mcp", "/nothing")
    [known, unknown] = [
        exchange(mcp.port, head("POST", target, [own_host(mcp.port)])) for target in targets
    ]
    assert (known.status, known.body) == (unknown.status, unknown.body)
    assert mcp.post(request("tools/list"), modern("tools/list"), target="/nothing").status == 404


def test_who_may_not_come_in_does_not_make_the_daemon_import_the_sdk(home: Path) -> None:
    with Daemon(home, "--plugin", "tests.mcp.hostile:Witness") as running:
        _, port = ports(running)
        assert events_of(home, "witness.loaded") == [{"type": "loaded", "modules": []}]
        stranger, guest = Knocker(port, "wrong"), Knocker(port, running.token)
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
def test_the_token_is_in_its_private_file_and_nowhere_else(daemon: Daemon, mcp: Knocker) -> None:
    token = daemon.token
    assert len(token) >= 40
    assert mcp.post(request("tools/list"), modern("tools/list")).status == 200
    assert exchange(mcp.port, head("GET", f"/mcp?token={token}", mcp.own[:1])).status == 401
    assert mcp.post(note(token[:8]), [*NOTE, ("X-Plexus-Session", token)]).status == 200
    assert stat.S_IMODE(Path(daemon.paths.token).stat().st_mode) == 0o600
    assert stat.S_IMODE(daemon.home.stat().st_mode) == 0o700
    for process in PROC.glob("[0-9]*/cmdline"):
        with suppress(OSError):  # gone meanwhile
            assert token.encode() not in process.read_bytes()
    for file in daemon.home.rglob("*"):
        if file.is_file() and file.name != "token":
            assert token.encode() not in file.read_bytes(), file
            assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file


# T7


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
    anybody = Knocker(port, None)
    assert anybody.post(request("tools/list"), modern("tools/list")).status == 200
    assert status_line(ws, upgrade([own_host(ws)])) == 101
    for foreign in (("Host", "evil.example"), ("Origin", "http://evil.example"), ("Origin", "")):
        own = [] if foreign[0] == "Host" else [own_host(port)]
        headers = [*own, foreign, *modern("tools/list")]
        assert anybody.post(request("tools/list"), headers, own=False).status == 403
        own = [] if foreign[0] == "Host" else [own_host(ws)]
        assert status_line(ws, upgrade([*own, foreign])) == 403
    warnings = [
        line
        for line in Path(unlocked.paths.log).read_text().splitlines()
        if '"level": "warning"' in line
    ]
    assert any("--no-auth" in line for line in warnings)


# T8


def test_a_body_that_is_declared_too_large_is_refused_before_it_is_sent(mcp: Knocker) -> None:
    for size in (LIMIT + 1, 10**12, 10**19):
        headers = [*mcp.own, *modern("tools/list"), ("Content-Length", str(size))]
        with connection(mcp.port) as opened:
            opened.sendall(head("POST", "/mcp", headers))
            assert read_answer(opened, "POST").status == 413


def test_who_waits_to_be_asked_for_the_body_is_asked_only_if_it_is_wanted(mcp: Knocker) -> None:
    body = json.dumps(request("tools/list")).encode()
    expecting = [*modern("tools/list"), ("Expect", "100-continue")]
    for own, size, status in (
        (mcp.own, len(body), 100),
        (mcp.own, LIMIT + 1, 413),
        (mcp.own[:1], len(body), 401),
    ):
        headers = [*own, *expecting, ("Content-Length", str(size))]
        with connection(mcp.port) as opened:
            opened.sendall(head("POST", "/mcp", headers))
            with opened.makefile("rb") as answer:
                assert int(answer.readline().split()[1]) == status
                if status == 100:
                    assert answer.readline() == b"\r\n"
                    opened.sendall(body)
                    assert int(answer.readline().split()[1]) == 200


@pytest.mark.parametrize("size", [LIMIT + 1, LIMIT + 1_000_000])
def test_who_sends_too_much_at_once_can_still_read_why(mcp: Knocker, size: int) -> None:
    body = json.dumps(note("x" * size))
    assert mcp.post(body, NOTE).status == 413
    stranger = Knocker(mcp.port, "wrong")
    assert stranger.post(body, NOTE).status == 401


def test_a_body_in_chunks_is_cut_off_at_the_limit(daemon: Daemon, mcp: Knocker) -> None:
    before = noted(daemon)
    headers = [*mcp.own, *NOTE, ("Transfer-Encoding", "chunked")]
    chunk = b"x" * 65536
    with connection(mcp.port) as opened:
        opened.sendall(head("POST", "/mcp", headers))
        sent = 0
        with suppress(ConnectionError):
            # It never ends; the daemon must not wait for that.
            while sent < 64 * LIMIT:
                opened.sendall(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                sent += len(chunk)
        assert LIMIT < sent < 64 * LIMIT
    assert noted(daemon) == before


def test_the_largest_body_there_may_be_is_taken(mcp: Knocker) -> None:
    body = json.dumps(request("tools/list", {"cursor": None}))
    assert mcp.post(body + " " * (LIMIT - len(body)), modern("tools/list")).status == 200
    assert mcp.post(body + " " * (LIMIT - len(body) + 1), modern("tools/list")).status == 413


def test_a_head_without_measure_is_refused(daemon: Daemon, ws: int, mcp: Knocker) -> None:
    for padding in ([("X-Padding", "x" * 100_000)], [(f"X-{n}", "x" * 50) for n in range(5000)]):
        data = head("POST", "/mcp", [*mcp.own, *padding, *modern("tools/list")])
        assert refused(mcp.port, data)
        assert refused(ws, upgrade([own_host(ws), bearer(daemon.token), *padding]))
    assert refused(mcp.port, head("POST", "/mcp?" + "x" * 100_000, mcp.own))
    assert refused(ws, upgrade([own_host(ws), bearer(daemon.token)], target="/" + "x" * 100_000))
    assert mcp.post(request("tools/list"), modern("tools/list")).status == 200


def refused(port: int, data: bytes) -> bool:
    """Whether a request gets an error, or is hung up on while it is still being sent."""
    try:
        status = status_line(port, data)
    except ConnectionError:
        return True
    return status is None or 400 <= status < 500


def arguments(text: str, name: str = "witness.hear") -> bytes:
    """A call with arguments that are written out."""
    return (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":%b,'
        b'"_meta":%b}}' % (name.encode(), text.encode(), json.dumps(META).encode())
    )


UNREADABLE = {
    "100000 levels": arguments('{"text":' + "[" * 100_000 + "]" * 100_000 + "}"),
    "900 levels": arguments('{"text":' + "[" * 900 + "]" * 900 + "}"),
    "900 objects": arguments('{"text":' + '{"a":' * 900 + "1" + "}" * 901),
    "100000 levels without an end": b"[" * 100_000,
    "5000 digits": arguments('{"number":' + "9" * 5000 + "}"),
    "NaN": arguments('{"number":NaN}'),
    "Infinity": arguments('{"number":-Infinity}'),
    "NaN as an id": arguments("{}").replace(b'"id":1', b'"id":NaN'),
    "a lone surrogate": arguments('{"text":"\\ud800"}'),
    "a lone surrogate as a key": arguments('{"\\udfff":1}'),
    "a lone surrogate as an id": arguments("{}").replace(b'"id":1', b'"id":"\\ud800"'),
    "a byte that is no UTF-8": arguments("{}").replace(b"hear", b"h\xffar"),
    "overlong UTF-8": arguments("{}").replace(b"hear", b"h\xc0\xafar"),
    "a NUL": arguments('{"text":"a\x00b"}'),
    "a byte order mark": b"\xef\xbb\xbf" + arguments("{}"),
    "UTF-16": arguments("{}").decode().encode("utf-16"),
    "two values": arguments("{}") * 2,
    "a trailing comma": arguments('{"text":"a",}'),
    "nothing": b"",
    "half of it": arguments("{}")[:40],
}


@pytest.mark.parametrize("case", UNREADABLE)
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_what_is_no_json_is_a_parse_error_and_the_daemon_lives(
    mcp: Knocker, era: str, case: str
) -> None:
    if era == "modern":
        headers = modern("tools/call", "witness.hear")
    else:
        headers = mcp.in_session(mcp.initialize().headers["mcp-session-id"])
    answer = mcp.post(UNREADABLE[case], headers)
    assert (answer.status, answer.code) == (400, -32700)
    assert mcp.call("witness.hear", {"text": "alive"}).status == 200


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize(
    "body",
    [
        b"[" + arguments("{}") + b"]",
        b"[]",
        b"[" + b",".join([arguments("{}")] * 1000) + b"]",
        b"1",
        b'"tools/list"',
        b"null",
        b"{}",
        b'{"jsonrpc":"1.0","id":1,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":7}',
    ],
    ids=lambda body: body[:50].decode(),
)
def test_what_is_no_single_request_is_refused(mcp: Knocker, era: str, body: bytes) -> None:
    if era == "modern":
        headers = modern("tools/call", "witness.hear")
    else:
        headers = mcp.in_session(mcp.initialize().headers["mcp-session-id"])
    answer = mcp.post(body, headers)
    assert answer.status == 400
    assert answer.code in (-32600, -32602)
    assert b"Traceback" not in answer.body


@pytest.mark.parametrize(
    "text",
    [
        '{"number":' + "9" * 4000 + "}",
        '{"number":1e999}',
        '{"text":' + "[" * 150 + "]" * 150 + "}",
        '{"text":1}',
        '{"nothing":1}',
    ],
    ids=["4000 digits", "beyond any float", "150 levels", "another type", "unknown"],
)
def test_what_is_json_but_fits_no_parameter_is_an_error_of_the_call(
    mcp: Knocker, text: str
) -> None:
    answer = mcp.post(arguments(text), modern("tools/call", "witness.hear"))
    assert answer.status == 200
    assert answer.message["result"]["isError"]
    assert answer.message["result"]["_meta"]["plexus/error"]["code"] == "invalid_params"


def test_text_goes_through_as_it_is_whatever_characters_it_has(mcp: Knocker) -> None:
    text = "a\x00b\x1b[31m\u2028\U0001f600\ufeff"
    [event] = mcp.call("witness.hear", {"text": text}).message["result"]["structuredContent"][
        "events"
    ]
    assert event["text"] == text


# T9


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("tools/list", "witness.note"),
        ("tools/call", "witness.hear"),
        ("tools/call", "WITNESS.NOTE"),
        ("tools/call", None),
        ("resources/read", "witness.note"),
        ("", "witness.note"),
    ],
)
def test_headers_that_say_other_than_the_body_are_refused_and_nothing_runs(
    daemon: Daemon, mcp: Knocker, method: str, name: str | None
) -> None:
    before = noted(daemon)
    answer = mcp.post(note("past the headers"), modern(method, name))
    assert (answer.status, answer.code) == (400, -32020)
    assert noted(daemon) == before


def test_headers_given_twice_are_refused_and_nothing_runs(daemon: Daemon, mcp: Knocker) -> None:
    before = noted(daemon)
    for again in (("Mcp-Name", "witness.hear"), ("Mcp-Method", "tools/list")):
        for headers in ([*NOTE, again], [again, *NOTE]):
            answer = mcp.post(note("twice"), headers)
            assert (answer.status, answer.code) == (400, -32020)
    assert noted(daemon) == before


def test_a_key_given_twice_does_not_get_past_the_headers(daemon: Daemon, mcp: Knocker) -> None:
    before = noted(daemon)
    body = arguments('{"text":"by the other name"}', "witness.hear")
    twice = body.replace(b'"name":', b'"name":"witness.note","name":')
    # Everybody who reads it takes the last one.
    answer = mcp.post(twice, modern("tools/call", "witness.note"))
    assert (answer.status, answer.code) == (400, -32020)
    assert mcp.post(twice, modern("tools/call", "witness.hear")).status == 200
    assert noted(daemon) == before


# T11


def test_a_session_that_was_never_opened_or_is_closed_is_not_found(
    daemon: Daemon, mcp: Knocker
) -> None:
    before = noted(daemon)
    for bogus in ("x", "0" * 32, "../../etc/passwd", "x" * 10_000, "ü"):
        assert mcp.post(note("bogus"), mcp.in_session(bogus)).status == 404
    session = mcp.initialize().headers["mcp-session-id"]
    headers = mcp.in_session(session)
    assert mcp.post(note("in a session"), headers).status == 200
    # The session alone is no ticket.
    assert mcp.post(note("no token"), [own_host(mcp.port), *headers], own=False).status == 401
    delete = head("DELETE", "/mcp", [*mcp.own, *headers])
    stranger = head("DELETE", "/mcp", [own_host(mcp.port), *headers])
    assert exchange(mcp.port, stranger, "DELETE").status == 401
    assert exchange(mcp.port, delete, "DELETE").status == 200
    assert exchange(mcp.port, delete, "DELETE").status == 404
    assert mcp.post(note("after the end"), headers).status == 404
    assert noted(daemon) == [*before, "in a session"]


def test_session_ids_cannot_be_guessed(mcp: Knocker) -> None:
    ids = {mcp.initialize().headers["mcp-session-id"] for _ in range(20)}
    assert len(ids) == 20
    assert all(len(one) == 32 and one.isascii() and one.isprintable() for one in ids)


def test_a_session_is_not_opened_by_what_is_no_handshake(mcp: Knocker) -> None:
    answer = mcp.post(note("no handshake"), [ACCEPT, JSON])
    assert answer.status == 400
    get = exchange(mcp.port, head("GET", "/mcp", [*mcp.own, ACCEPT]))
    assert get.status == 400


# T12


HOSTILE_URIS = {
    "up": "plexus://handle/../../etc/passwd",
    "up, escaped": "plexus://handle/%2e%2e/%2e%2e/etc/passwd",
    "up, all escaped": "plexus://handle/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "up, escaped twice": "plexus://handle/%252e%252e%252fetc%252fpasswd",
    "an absolute path": "plexus://handle//etc/passwd",
    "a file": "file:///etc/passwd",
    "a page": "http://127.0.0.1:1/",
    "a schema up": "plexus://schema/../../etc/passwd",
    "a schema of nothing": "plexus://schema/..",
    "a schema with NUL": "plexus://schema/echo%00",
    "a result up": "plexus://result/../token",
    "a result, escaped": "plexus://result/%2e%2e%2ftoken",
    "a result, absolute": "plexus://result/%2fetc%2fpasswd",
    "a result with NUL": "plexus://result/token%00?from=0",
    "a result at a strange place": "plexus://result/x?from=-1",
    "a tree up": "plexus://arbor/..%2f..%2fetc%2fpasswd",
    "a tree with NUL": "plexus://arbor/%00",
    "a tree with SQL": "plexus://arbor/%27%20OR%201=1--",
    "bytes that are no text": "plexus://handle/%ff%fe",
    "a lone surrogate, escaped": "plexus://handle/%ed%a0%80",
    "a handle of nobody": "plexus://handle/nobody@1.0.0::chat:x",
    "a handle of another plugin's file": "plexus://handle/../hub.db",
    "nothing": "plexus://",
    "no kind": "plexus:///",
    "another scheme": "PLEXUS2://handle/x",
    "empty": "",
    "a megabyte": "plexus://handle/" + "x" * 1_000_000,
    "a megabyte of escapes": "plexus://handle/" + "%2e" * 350_000,
    "many slashes": "plexus://arbor/" + "/" * 10_000,
    "a newline": "plexus://handle/a\r\nInjected: yes",
}


@pytest.mark.parametrize("case", HOSTILE_URIS)
def test_a_hostile_uri_is_not_found_and_nothing_is_read(
    daemon: Daemon, mcp: Knocker, case: str
) -> None:
    uri = HOSTILE_URIS[case]
    session = mcp.initialize().headers["mcp-session-id"]
    answers = {-32002: mcp.post(request("resources/read", {"uri": uri}), mcp.in_session(session))}
    if uri and uri.isprintable() and len(uri) < 20_000:
        # Since 2026-07-28 a header says the same, and cannot say everything.
        headers = modern("resources/read", uri)
        answers[-32602] = mcp.post(request("resources/read", {"uri": uri}), headers)
    for code, answer in answers.items():
        assert answer.code == code
        assert b"root:" not in answer.body
        assert b"SQLite" not in answer.body
        assert daemon.token.encode() not in answer.body
        assert len(answer.body) < 2000


# What stands between a client and us may see other requests than we do.


@pytest.mark.parametrize(
    "headers",
    [
        [("Content-Length", "5"), ("Transfer-Encoding", "chunked")],
        [("Transfer-Encoding", "chunked"), ("Content-Length", "0")],
        [("Content-Length", "5"), ("Content-Length", "6")],
        [("Content-Length", "+5")],
        [("Content-Length", "-1")],
        [("Content-Length", "5, 6")],
        [("Content-Length", "0x5")],
        [("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "chunked")],
        [("Transfer-Encoding", "identity")],
        [("Transfer-Encoding", "chunked, identity")],
        [("Transfer-Encoding", "xchunked")],
        [("Transfer-Encoding ", "chunked")],
        [("Content Length", "5")],
    ],
    ids=str,
)
def test_a_request_whose_end_is_doubtful_is_refused_and_nothing_behind_it_is_read(
    daemon: Daemon, mcp: Knocker, headers: list[tuple[str, str]]
) -> None:
    before = noted(daemon)
    behind = mcp.written(note("smuggled"), NOTE)
    data = head("POST", "/mcp", [*mcp.own, *NOTE, *headers]) + b"0\r\n\r\n" + behind
    with connection(mcp.port) as opened:
        opened.sendall(data)
        answer = b""
        with suppress(ConnectionError):
            while piece := opened.recv(65536):
                answer += piece
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert noted(daemon) == before


def test_a_folded_header_counts_as_what_it_folds_to(daemon: Daemon, mcp: Knocker) -> None:
    before = noted(daemon)
    own, token = f"127.0.0.1:{mcp.port}", daemon.token
    body = json.dumps(note("folded")).encode()
    for host, origin in ((f"{own}\r\n .evil.example", None), (own, "\r\n http://evil.example")):
        headers = [("Host", host), bearer(token), *NOTE, ("Content-Length", str(len(body)))]
        if origin is not None:
            headers.append(("Origin", origin))
        assert exchange(mcp.port, head("POST", "/mcp", headers) + body).status == 403
    assert noted(daemon) == before


@pytest.mark.parametrize(
    "target",
    [
        "http://evil.example/mcp",
        "http://127.0.0.1:{port}/mcp",
        "https://user:password@127.0.0.1/mcp",
        "//evil.example/mcp",
        "/mcp/../mcp",
        "/./mcp",
        "/mcp;x",
        "/MCP",
        "/mcp%00",
        "/mcp%2f",
        "mcp",
        "*",
        "127.0.0.1:80",
    ],
)
def test_only_the_one_path_leads_anywhere(daemon: Daemon, mcp: Knocker, target: str) -> None:
    before = noted(daemon)
    answer = mcp.post(note("elsewhere"), NOTE, target=target.format(port=mcp.port))
    assert answer.status == 404
    assert noted(daemon) == before


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "PATCH", "TRACE", "CONNECT", "BREW"])
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_methods_that_mcp_does_not_have_are_refused_and_the_connection_goes_on(
    mcp: Knocker, era: str, method: str
) -> None:
    headers = [*mcp.own, *(modern("tools/list") if era == "modern" else [ACCEPT, JSON])]
    with connection(mcp.port) as opened:
        opened.sendall(head(method, "/mcp", headers))
        answer = read_answer(opened, method)
        assert answer.status == 405
        assert "allow" in answer.headers
        assert no_cors(answer)
        opened.sendall(mcp.written(request("tools/list"), modern("tools/list")))
        assert read_answer(opened, "POST").status == 200


@pytest.mark.parametrize("protocol", ["websocket", "h2c", "TLS/1.0"])
def test_the_port_of_mcp_speaks_nothing_else(mcp: Knocker, protocol: str) -> None:
    asked = [("Connection", "Upgrade"), ("Upgrade", protocol)]
    asked += [("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="), ("Sec-WebSocket-Version", "13")]
    for own, status in ((mcp.own, 400), (mcp.own[:1], 401)):
        with connection(mcp.port) as opened:
            opened.sendall(head("GET", "/mcp", [*own, ACCEPT, *asked]))
            assert read_answer(opened).status == status
            opened.sendall(mcp.written(request("tools/list"), modern("tools/list")))
            assert read_answer(opened, "POST").status == 200
    for greeting in (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"SSH-2.0-x\r\n",
    ):
        assert refused(mcp.port, greeting + b"\r\n\r\n")


def test_a_refusal_leaves_the_connection_to_the_next_request(mcp: Knocker) -> None:
    wanted = mcp.written(request("tools/list"), modern("tools/list"))
    with connection(mcp.port) as opened:
        for refusal in (
            Knocker(mcp.port, "wrong").written(note("x" * 1_000_000), NOTE),
            mcp.written(note("x" * 1_000_000), NOTE, target="/nothing"),
            mcp.written(b"no JSON", NOTE),
        ):
            opened.sendall(refusal)
            assert 400 <= read_answer(opened, "POST").status < 500
            opened.sendall(wanted)
            assert read_answer(opened, "POST").status == 200
        opened.sendall(wanted * 5)
        assert [read_pipelined(opened) for _ in range(5)] == [200] * 5


def read_pipelined(opened: socket.socket) -> int:
    """The status of the next answer, without reading a byte of the one behind it."""
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += opened.recv(1)
    lines = answer.lower().split(b"\r\n")
    [length] = [int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")]
    while length:
        length -= len(opened.recv(length))
    return int(answer.split()[1])
