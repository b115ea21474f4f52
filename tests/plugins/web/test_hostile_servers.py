"""A fetch from a server that misbehaves ends with a typed error or a record, within bounds."""

import asyncio
import gzip
import tracemalloc
import zlib

import pytest

from hubd.activation import ExecutionError, InvalidParams, PermissionDenied, Timeout, Unavailable
from hubd.plugins.echo import EchoPlugin
from hubd.plugins.web.plugin import Web
from hubd.testing import InProcessHub, hub
from tests.fakes.hostile_web import BOMB_BYTES, HostileWeb, bombs, redirect, response

LIMIT = 5_000


@pytest.mark.parametrize("path", ["/endless", "/chunks"])
async def test_an_endless_body_is_cut_at_max_bytes(
    h: InProcessHub, server: HostileWeb, path: str
) -> None:
    fetched = await h.call_one("web.fetch", url=server.url + path, max_bytes=LIMIT)
    assert (fetched["size"], fetched["truncated"]) == (LIMIT, True)
    document = (await h.resolve(fetched["handle"])).data
    assert (document["text"], document["text_cut"]) == ("x" * LIMIT, True)
    await server.left.wait()


async def test_a_body_of_exactly_max_bytes_is_not_cut(h: InProcessHub, server: HostileWeb) -> None:
    server.answers["/"] = response(b"x" * 1000)
    fetched = await h.call_one("web.fetch", url=server.url, max_bytes=1000)
    assert (fetched["size"], fetched["truncated"]) == (1000, False)


@pytest.mark.parametrize("path", ["/drip", "/silent", "/informational"])
async def test_a_page_that_is_not_complete_in_time_is_a_timeout(
    h: InProcessHub, server: HostileWeb, path: str
) -> None:
    with pytest.raises(Timeout, match=r"did not send the whole page within 0.3 s"):
        await h.call_one("web.fetch", url=server.url + path, timeout_secs=0.3)
    await server.left.wait()


async def test_a_cancelled_fetch_closes_its_connection_and_leaves_no_record(
    h: InProcessHub, server: HostileWeb
) -> None:
    call = asyncio.create_task(h.call_one("web.fetch", url=f"{server.url}/silent"))
    await server.asked.wait()
    call.cancel()
    await server.left.wait()
    assert (await h.call_one("web.list"))["fetches"] == []


INVALID = [
    (response(b"short", length=100), "peer closed connection without sending complete"),
    (response(b"x", length=-5), "bad Content-Length"),
    (response(b"x", "Content-Length: 2"), "conflicting Content-Length"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "illegal chunk header"),
    (b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 200_000, "too long"),
    (b"SSH-2.0-OpenSSH\r\n\r\n", "illegal status line"),
    (b"", "disconnected without sending a response"),
    (response(b"x", "Content-Encoding: br"), "content encoding 'br' is not supported"),
    (response(b"x", "Content-Encoding: zstd"), "content encoding 'zstd' is not supported"),
    (response(b"xyz", "Content-Encoding: gzip"), "compressed body is invalid"),
    (response(gzip.compress(b"x" * 999)[:-9], "Content-Encoding: gzip"), "is incomplete"),
    (response(b"x", "Content-Encoding: gzip, gzip, gzip"), "3 content encodings"),
]


async def test_an_answer_that_is_not_valid_is_an_error_with_its_reason(
    h: InProcessHub, server: HostileWeb
) -> None:
    for answer, reason in INVALID:
        server.answers["/"] = answer
        with pytest.raises(ExecutionError) as caught:
            await h.call_one("web.fetch", url=server.url)
        assert reason in caught.value.message
    assert (await h.call_one("web.list"))["fetches"] == []


async def test_bytes_after_the_announced_length_are_not_part_of_the_page(
    h: InProcessHub, server: HostileWeb
) -> None:
    server.answers["/"] = response(b"the page, and more", length=8)
    fetched = await h.call_one("web.fetch", url=server.url)
    assert (await h.resolve(fetched["handle"])).text == "the page"


async def test_many_headers_are_accepted_up_to_their_total_length(
    h: InProcessHub, server: HostileWeb
) -> None:
    headers = [f"X-{number}: {number}" for number in range(5000)]
    server.answers["/"] = response(b"fine", *headers)
    assert (await h.call_one("web.fetch", url=server.url))["size"] == 4


async def test_compressed_bombs_are_cut_while_they_are_decoded(
    h: InProcessHub, server: HostileWeb
) -> None:
    await h.call_one("web.fetch", url=_page(server, "/first", b"imports the client"))
    for name, body in bombs().items():
        server.answers["/"] = response(body, f"Content-Encoding: {name.removeprefix('raw ')}")
        tracemalloc.start()
        try:
            fetched = await h.call_one("web.fetch", url=server.url, max_bytes=LIMIT)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (fetched["size"], fetched["truncated"]) == (LIMIT, True), name
        assert peak < BOMB_BYTES / 4, name


async def test_compressed_pages_are_stored_decoded(h: InProcessHub, server: HostileWeb) -> None:
    page = b"<title>packed</title>" + b"text " * 50_000
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    packed = {
        "gzip": gzip.compress(page[:1000]) + gzip.compress(page[1000:]),
        "x-gzip": gzip.compress(page) + bytes(100),
        "deflate": zlib.compress(page),
        "Deflate": raw.compress(page) + raw.flush(),
        "gzip, deflate": zlib.compress(gzip.compress(page)),
        "identity": page,
    }
    digests = set()
    for encoding, body in packed.items():
        server.answers["/"] = response(body, f"Content-Encoding: {encoding}")
        fetched = await h.call_one("web.fetch", url=server.url)
        assert (fetched["size"], fetched["title"]) == (len(page), None), encoding
        digests.add(fetched["digest"])
    assert len(digests) == 1


async def test_redirects_lead_to_http_and_https_only(h: InProcessHub, server: HostileWeb) -> None:
    for location in (
        *("file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/", "javascript:alert(1)"),
        *("data:text/plain,hi", "http://127.0.0.1:99999/", "unix:/run/docker.sock"),
    ):
        server.answers["/"] = redirect(location)
        with pytest.raises(PermissionDenied, match="redirects to an address"):
            await h.call_one("web.fetch", url=server.url)


async def test_redirects_are_followed_to_the_final_page(
    h: InProcessHub, server: HostileWeb
) -> None:
    for number, status in enumerate((301, 302, 303, 307, 308)):
        server.answers[f"/{number}?q"] = redirect(f"{number + 1}?q", f"{status} Moved")
    server.answers["/5?q"] = response(b"the end")
    fetched = await h.call_one("web.fetch", url=f"{server.url}/0?q")
    assert (fetched["url"], fetched["final_url"]) == (f"{server.url}/0?q", f"{server.url}/5?q")
    assert (fetched["redirects"], fetched["status"], fetched["size"]) == (5, 200, 7)


async def test_a_redirect_loop_ends(h: InProcessHub, server: HostileWeb) -> None:
    server.answers["/"] = redirect("/")
    with pytest.raises(ExecutionError, match="redirects more than 10 times"):
        await h.call_one("web.fetch", url=server.url)
    assert len(server.requests) == 11


async def test_a_redirect_without_a_location_is_a_result(
    h: InProcessHub, server: HostileWeb
) -> None:
    server.answers["/"] = response(b"choose", status="302 Found")
    assert (await h.call_one("web.fetch", url=server.url))["status"] == 302


async def test_every_status_is_a_result(h: InProcessHub, server: HostileWeb) -> None:
    for status in (204, 206, 304, 401, 403, 404, 410, 429, 500, 503, 599):
        body = b"" if status in (204, 304) else b"<p>Something is wrong"
        server.answers["/"] = response(body, "Content-Type: text/html", status=f"{status} Because")
        fetched = await h.call_one("web.fetch", url=server.url)
        assert fetched["handle"].endswith(f":{status}")
        assert (fetched["status"], fetched["size"]) == (status, len(body))


async def test_a_server_that_can_not_be_reached_is_unavailable(server: HostileWeb) -> None:
    async with hub(Web(), settings={"web": {"allow_private": True}}) as h:
        with pytest.raises(Unavailable, match=r"no connection to 127\.0\.0\.1"):
            await h.call_one("web.fetch", url="http://127.0.0.1:1/")
        with pytest.raises(Unavailable, match=r"no connection to .*SSL"):
            await h.call_one("web.fetch", url=server.url.replace("http", "https"))


async def test_other_addresses_are_invalid_params(h: InProcessHub) -> None:
    for url in (
        *("file:///etc/passwd", "ftp://a/b", "example.org", "//example.org", "http://", "\0"),
        *("http://a:0x50/", "http://a:99999/", "javascript:1", "https:///x", "http://a\0b/"),
    ):
        with pytest.raises(InvalidParams):
            await h.call_one("web.fetch", url=url)


async def test_other_calls_are_answered_while_hostile_pages_are_read(server: HostileWeb) -> None:
    page = b"<div>" * 50_000
    server.answers["/"] = response(page, "Content-Type: text/html")
    settings = {"web": {"allow_private": True}}
    async with hub(Web(), EchoPlugin(), settings=settings) as h:
        fetch = asyncio.create_task(h.call_one("web.fetch", url=server.url))
        calls = 0
        while not fetch.done():
            await h.call_one("echo.once", message="hi")
            calls += 1
    assert calls > 5
    assert fetch.result()["size"] == len(page)


def _page(server: HostileWeb, path: str, body: bytes) -> str:
    server.answers[path] = response(body)
    return server.url + path
