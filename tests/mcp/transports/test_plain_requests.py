"""Requests that are read by one pattern: h11 would read them in the same way."""

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hubd.mcp.transports.plain_requests import MAX_BYTES, PlainRequest, read_plain

HEAD = [b"POST /mcp?tools=a HTTP/1.1", b"Host: x", b"Content-Length: 2"]
OTHERS = [
    b"Accept: application/json, text/event-stream",
    b"Connection: keep-alive",
    b"connection: close",
    b"Connection: Upgrade",
    b"Upgrade: websocket",
    b"Expect: 100-continue",
    b"Transfer-Encoding: chunked",
    b"Content-Length: 2",
    b"Content-Length: 3",
    b"content-length: 02",
    b"Content-Length: +2",
    b"Host: y",
    b"X-Empty:",
    b"X-Close:value",
    b"X-Wide:   value",
    b"X-End: value ",
    b"X-Tab:\tvalue",
    b"X-Fold: a\r\n b",
    b"X-Bare: a\nHost: y",
    b"X-Return: a\rb",
    b"X-Byte: \xe9",
    b"X-Null: a\0b",
    b"X Space: a",
    b"X-Space : a",
    b"(X): a",
    b": a",
    b"X-Colons: a: b",
    b"",
]


def by_h11(data: bytes) -> PlainRequest | None:
    """Return the request as h11 reads it; None if there is not exactly one whole request."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    body = b""
    try:
        request = connection.next_event()
        if not isinstance(request, h11.Request) or request.method != b"POST":
            return None
        while isinstance(event := connection.next_event(), h11.Data):
            body += event.data
    except h11.RemoteProtocolError:
        return None
    if not isinstance(event, h11.EndOfMessage) or connection.trailing_data[0]:
        return None
    assert request.http_version == b"1.1"
    assert connection.their_state is h11.DONE, "the connection would not stay open"
    assert not connection.they_are_waiting_for_100_continue
    return PlainRequest(request.target, list(request.headers), body)


@given(
    st.sampled_from([HEAD[0], b"POST / HTTP/1.0", b"POST mcp HTTP/1.1", b"GET / HTTP/1.1"]),
    st.lists(st.sampled_from([*OTHERS, *HEAD[1:]]) | st.binary(max_size=12), max_size=5),
    st.sampled_from([b"{}", b"{", b"", b"{}POST / HTTP/1.1\r\n"]),
)
@example(HEAD[0], [*HEAD[1:], OTHERS[0], OTHERS[1]], b"{}")
def test_h11_reads_each_plain_request_in_the_same_way(
    first: bytes, lines: list[bytes], body: bytes
) -> None:
    data = b"\r\n".join([first, *lines, b"", body])
    plain = read_plain(data)
    assert plain is None or plain == by_h11(data)


def test_the_requests_of_clients_are_plain() -> None:
    data = b"\r\n".join([*HEAD, OTHERS[0], OTHERS[1], b"", b"{}"])
    plain = read_plain(data)
    assert plain is not None
    assert plain.target == b"/mcp?tools=a"
    assert plain.headers[0] == (b"host", b"x")
    assert plain.body == b"{}"


@pytest.mark.parametrize("other", OTHERS[2:])
def test_an_unusual_header_leaves_the_request_to_h11(other: bytes) -> None:
    plain = read_plain(b"\r\n".join([*HEAD, other, b"", b"{}"]))
    # A second colon is a part of the value.
    assert (plain is not None) is (other == b"X-Colons: a: b")


def test_a_request_in_parts_or_with_a_next_one_or_too_long_is_left_to_h11() -> None:
    data = b"\r\n".join([*HEAD, b"", b"{}"])
    assert read_plain(data) is not None
    assert not any(read_plain(data[:end]) for end in range(len(data)))
    assert read_plain(data + b"P") is None
    large = data.replace(b"Length: 2", b"Length: %d" % MAX_BYTES) + b" " * (MAX_BYTES - 2)
    assert read_plain(large) is None
