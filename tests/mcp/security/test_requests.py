"""Requests of clients that were let in over TCP.

Bytes on sockets against a real daemon, on the port of the WebSocket and on that of MCP.
"""

import json
import socket
from contextlib import suppress

import pytest

from tests.mcp.raw_http import (
    ACCEPT,
    JSON,
    META,
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
    read_answer,
    refused,
    request,
    upgrade,
)
from tests.support import Daemon

LIMIT = 8 * 1024 * 1024


@pytest.fixture(scope="module")
def daemon(witnessed_daemon: Daemon) -> Daemon:
    return witnessed_daemon


@pytest.fixture(scope="module")
def ws(daemon: Daemon) -> int:
    """The port of the WebSocket."""
    return ports(daemon)[0]


@pytest.fixture(scope="module")
def mcp(daemon: Daemon) -> RawClient:
    """The MCP port, with the token."""
    return RawClient(ports(daemon)[1], daemon.token)


# Sizes and contents of bodies.


def test_a_body_that_is_declared_too_large_is_refused_before_it_is_sent(mcp: RawClient) -> None:
    for size in (LIMIT + 1, 10**12, 10**19):
        headers = [*mcp.own, *modern("tools/list"), ("Content-Length", str(size))]
        with connection(mcp.port) as opened:
            opened.sendall(head("POST", "/mcp", headers))
            assert read_answer(opened, "POST").status == 413


def test_a_body_is_requested_only_if_it_is_accepted(mcp: RawClient) -> None:
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
def test_a_client_that_sends_too_much_can_read_the_refusal(mcp: RawClient, size: int) -> None:
    body = json.dumps(note("x" * size))
    assert mcp.post(body, NOTE).status == 413
    stranger = RawClient(mcp.port, "wrong")
    assert stranger.post(body, NOTE).status == 401


def test_a_body_in_chunks_is_cut_off_at_the_limit(daemon: Daemon, mcp: RawClient) -> None:
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


def test_the_largest_body_there_may_be_is_taken(mcp: RawClient) -> None:
    body = json.dumps(request("tools/list", {"cursor": None}))
    assert mcp.post(body + " " * (LIMIT - len(body)), modern("tools/list")).status == 200
    assert mcp.post(body + " " * (LIMIT - len(body) + 1), modern("tools/list")).status == 413


def test_a_head_without_measure_is_refused(daemon: Daemon, ws: int, mcp: RawClient) -> None:
    for padding in ([("X-Padding", "x" * 100_000)], [(f"X-{n}", "x" * 50) for n in range(5000)]):
        data = head("POST", "/mcp", [*mcp.own, *padding, *modern("tools/list")])
        assert refused(mcp.port, data)
        assert refused(ws, upgrade([own_host(ws), bearer(daemon.token), *padding]))
    assert refused(mcp.port, head("POST", "/mcp?" + "x" * 100_000, mcp.own))
    assert refused(ws, upgrade([own_host(ws), bearer(daemon.token)], target="/" + "x" * 100_000))
    assert mcp.post(request("tools/list"), modern("tools/list")).status == 200


def arguments(text: str, name: str = "witness.hear") -> bytes:
    """A call with arguments that are written out."""
    return (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":%b,'
        b'"_meta":%b}}' % (name.encode(), text.encode(), json.dumps(META).encode())
    )


TOO_LARGE = {
    "100000 levels": arguments('{"text":' + "[" * 100_000 + "]" * 100_000 + "}"),
    "900 levels": arguments('{"text":' + "[" * 900 + "]" * 900 + "}"),
    "900 objects": arguments('{"text":' + '{"a":' * 900 + "1" + "}" * 901),
    "100000 levels without an end": b"[" * 100_000,
    "too many arrays": arguments('{"text":[' + "[]," * 25_000 + "0]}"),
    "too many values": arguments('{"text":[' + "0," * 80_001 + "0]}"),
    "too many keys": arguments('{"text":{' + '"a":0,' * 40_001 + '"b":0}}'),
    "too many digits": arguments('{"text":' + "9" * 70_000 + "}"),
}


@pytest.mark.parametrize("case", TOO_LARGE)
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_messages_that_take_long_to_parse_are_refused(mcp: RawClient, era: str, case: str) -> None:
    if era == "modern":
        headers = modern("tools/call", "witness.hear")
    else:
        headers = mcp.in_session(mcp.initialize().headers["mcp-session-id"])
    answer = mcp.post(TOO_LARGE[case], headers)
    assert (answer.status, answer.code) == (413, -32600)
    assert b"message too large: " in answer.body
    assert mcp.call("witness.hear", {"text": "alive"}).status == 200


UNREADABLE = {
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
def test_malformed_json_is_a_parse_error(mcp: RawClient, era: str, case: str) -> None:
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
def test_batches_and_other_values_are_refused(mcp: RawClient, era: str, body: bytes) -> None:
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
def test_arguments_that_fit_no_parameter_are_an_error_of_the_call(
    mcp: RawClient, text: str
) -> None:
    answer = mcp.post(arguments(text), modern("tools/call", "witness.hear"))
    assert answer.status == 200
    assert answer.message["result"]["isError"]
    assert answer.message["result"]["_meta"]["plexus/error"]["code"] == "invalid_params"


def test_all_characters_of_a_text_are_kept(mcp: RawClient) -> None:
    text = "a\x00b\x1b[31m\u2028\U0001f600\ufeff"
    [event] = mcp.call("witness.hear", {"text": text}).message["result"]["structuredContent"][
        "events"
    ]
    assert event["text"] == text


# Headers that repeat the body.


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
    daemon: Daemon, mcp: RawClient, method: str, name: str | None
) -> None:
    before = noted(daemon)
    answer = mcp.post(note("past the headers"), modern(method, name))
    assert (answer.status, answer.code) == (400, -32020)
    assert noted(daemon) == before


def test_headers_given_twice_are_refused_and_nothing_runs(daemon: Daemon, mcp: RawClient) -> None:
    before = noted(daemon)
    for again in (("Mcp-Name", "witness.hear"), ("Mcp-Method", "tools/list")):
        for headers in ([*NOTE, again], [again, *NOTE]):
            answer = mcp.post(note("twice"), headers)
            assert (answer.status, answer.code) == (400, -32020)
    assert noted(daemon) == before


def test_a_key_given_twice_does_not_get_past_the_headers(daemon: Daemon, mcp: RawClient) -> None:
    before = noted(daemon)
    body = arguments('{"text":"by the other name"}', "witness.hear")
    twice = body.replace(b'"name":', b'"name":"witness.note","name":')
    # JSON readers take the last one.
    answer = mcp.post(twice, modern("tools/call", "witness.note"))
    assert (answer.status, answer.code) == (400, -32020)
    assert mcp.post(twice, modern("tools/call", "witness.hear")).status == 200
    assert noted(daemon) == before


# Legacy sessions.


def test_a_session_that_was_never_opened_or_is_closed_is_not_found(
    daemon: Daemon, mcp: RawClient
) -> None:
    before = noted(daemon)
    for bogus in ("x", "0" * 32, "../../etc/passwd", "x" * 10_000, "ü"):
        assert mcp.post(note("bogus"), mcp.in_session(bogus)).status == 404
    session = mcp.initialize().headers["mcp-session-id"]
    headers = mcp.in_session(session)
    assert mcp.post(note("in a session"), headers).status == 200
    # The session alone does not admit a request.
    assert mcp.post(note("no token"), [own_host(mcp.port), *headers], own=False).status == 401
    delete = head("DELETE", "/mcp", [*mcp.own, *headers])
    stranger = head("DELETE", "/mcp", [own_host(mcp.port), *headers])
    assert exchange(mcp.port, stranger, "DELETE").status == 401
    assert exchange(mcp.port, delete, "DELETE").status == 200
    assert exchange(mcp.port, delete, "DELETE").status == 404
    assert mcp.post(note("after the end"), headers).status == 404
    assert noted(daemon) == [*before, "in a session"]


def test_session_ids_cannot_be_guessed(mcp: RawClient) -> None:
    ids = {mcp.initialize().headers["mcp-session-id"] for _ in range(20)}
    assert len(ids) == 20
    assert all(len(one) == 32 and one.isascii() and one.isprintable() for one in ids)


def test_only_a_handshake_opens_a_legacy_session(mcp: RawClient) -> None:
    answer = mcp.post(note("no handshake"), [ACCEPT, JSON])
    assert answer.status == 400
    get = exchange(mcp.port, head("GET", "/mcp", [*mcp.own, ACCEPT]))
    assert get.status == 400


# URIs.


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
    daemon: Daemon, mcp: RawClient, case: str
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


# A proxy between a client and the hub may read a request in another way than the hub does.


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
def test_a_request_with_an_ambiguous_length_is_refused_and_the_connection_closed(
    daemon: Daemon, mcp: RawClient, headers: list[tuple[str, str]]
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


def test_a_folded_header_counts_as_its_unfolded_value(daemon: Daemon, mcp: RawClient) -> None:
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
def test_only_the_one_path_leads_anywhere(daemon: Daemon, mcp: RawClient, target: str) -> None:
    before = noted(daemon)
    answer = mcp.post(note("elsewhere"), NOTE, target=target.format(port=mcp.port))
    assert answer.status == 404
    assert noted(daemon) == before


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "PATCH", "TRACE", "CONNECT", "BREW"])
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_http_methods_that_mcp_does_not_use_are_refused(
    mcp: RawClient, era: str, method: str
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
def test_the_port_of_mcp_speaks_nothing_else(mcp: RawClient, protocol: str) -> None:
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


def test_a_refusal_leaves_the_connection_to_the_next_request(mcp: RawClient) -> None:
    wanted = mcp.written(request("tools/list"), modern("tools/list"))
    with connection(mcp.port) as opened:
        for refusal in (
            RawClient(mcp.port, "wrong").written(note("x" * 1_000_000), NOTE),
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
