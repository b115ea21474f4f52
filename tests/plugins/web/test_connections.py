"""A fetch connects only to addresses that were checked, and tells its secrets to one origin."""

import base64
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hubd.activation import Actor, InvalidParams, PermissionDenied, Unavailable
from hubd.plugins.web import network
from hubd.plugins.web.plugin import Web
from hubd.testing import InProcessHub, hub
from tests.fakes.certificate import self_signed
from tests.fakes.hostile_web import (
    HostileWeb,
    Names,
    RecordingNetwork,
    hostile_web,
    redirect,
    response,
)

PUBLIC, OTHER = "93.184.216.34", "93.184.216.35"
SECRET = "hunter2-hunter2"


@asynccontextmanager
async def public(
    server: HostileWeb, names: Names, path: Path | None = None
) -> AsyncIterator[tuple[InProcessHub, RecordingNetwork]]:
    """A hub with a network that leads every allowed address to the server."""
    recording = RecordingNetwork(server.port)
    async with hub(Web(names, recording), path=path) as h:
        yield h, recording


async def test_a_name_is_looked_up_once_and_the_checked_address_is_connected(
    server: HostileWeb,
) -> None:
    names = Names(rebinding_test=[[PUBLIC], ["127.0.0.1"]])
    server.answers["/"] = response(b"public")
    async with public(server, names) as (h, recording):
        fetched = await h.call_one("web.fetch", url="http://rebinding.test/")
        assert (fetched["size"], names.asked) == (6, ["rebinding.test"])
        assert recording.connected == [PUBLIC]
        # The second answer of the name server leads to this machine.
        with pytest.raises(PermissionDenied, match=r"loopback address .* web\.allow_private"):
            await h.call_one("web.fetch", url="http://rebinding.test/")
        assert recording.connected == [PUBLIC]
    assert "Host: rebinding.test" in server.requests[0]


async def test_a_redirect_to_a_private_address_is_refused(server: HostileWeb) -> None:
    for location in (
        *("http://127.0.0.1/", "http://localhost.test/", "http://[::1]/", "//10.0.0.1/x"),
        *("http://169.254.169.254/latest/meta-data/", "http://[::ffff:127.0.0.1]/"),
        "http://first.test/again",
    ):
        names = Names(first_test=[[PUBLIC], ["192.168.0.1"]], localhost_test=[["127.0.0.1", "::1"]])
        server.answers["/"] = redirect(location)
        async with public(server, names) as (h, recording):
            with pytest.raises(PermissionDenied, match=r"web\.allow_private"):
                await h.call_one("web.fetch", url="http://first.test/")
        assert recording.connected == [PUBLIC], location
    assert set(server.paths) == {"/"}


async def test_of_several_addresses_only_public_ones_are_tried(server: HostileWeb) -> None:
    names = Names(mixed_test=[["127.0.0.1", PUBLIC, "10.0.0.1"]], empty_test=[[]])
    server.answers["/"] = response(b"fine")
    async with public(server, names) as (h, recording):
        await h.call_one("web.fetch", url="http://mixed.test/")
        assert recording.connected == [PUBLIC]
        with pytest.raises(Unavailable, match="no address"):
            await h.call_one("web.fetch", url="http://empty.test/")


async def test_the_next_address_is_tried_if_one_does_not_answer(server: HostileWeb) -> None:
    server.answers["/"] = response(b"fine")
    # Nothing listens at the second loopback address.
    names = Names(two_test=[["127.0.0.2", "127.0.0.1"]])
    async with hub(Web(names), settings={"web": {"allow_private": True}}) as h:
        fetched = await h.call_one("web.fetch", url=f"http://two.test:{server.port}/")
    assert fetched["status"] == 200


async def test_proxies_of_the_environment_are_not_used(
    server: HostileWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    server.answers["/"] = response(b"direct")
    async with public(server, Names(first_test=[[PUBLIC]])) as (h, recording):
        await h.call_one("web.fetch", url="http://first.test/")
    assert recording.connected == [PUBLIC]


async def test_headers_are_sent_to_the_origin_of_the_url_only(server: HostileWeb) -> None:
    names = Names(first_test=[[PUBLIC]], other_test=[[OTHER]])
    server.answers |= {
        "/": redirect("/same"),
        "/same": redirect("http://other.test/elsewhere"),
        "/elsewhere": redirect("http://first.test/back"),
        "/back": response(b"the end"),
    }
    headers = {"Authorization": SECRET, "Cookie": SECRET, "X-Api-Key": SECRET}
    async with public(server, names) as (h, _):
        await h.call_one("web.fetch", url="http://first.test/", headers=headers)
    assert [head.count(SECRET) for head in server.requests] == [3, 3, 0, 0]


async def test_a_login_in_the_url_is_a_header_of_the_first_origin(server: HostileWeb) -> None:
    names = Names(first_test=[[PUBLIC]], other_test=[[OTHER]])
    server.answers |= {"/": redirect("http://ann:own@other.test/x"), "/x": response(b"the end")}
    async with public(server, names) as (h, _):
        fetched = await h.call_one("web.fetch", url=f"http://ann:{SECRET}%21@first.test/")
    login = base64.b64encode(f"ann:{SECRET}!".encode()).decode()
    assert f"authorization: Basic {login}" in server.requests[0]
    assert "authorization" not in server.requests[1].lower()
    assert (fetched["url"], fetched["final_url"]) == ("http://first.test/", "http://other.test/x")


async def test_secrets_are_not_stored_logged_or_part_of_an_error(
    server: HostileWeb, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    names = Names(first_test=[[PUBLIC]], gone_test=[["10.0.0.1"]])
    cookie = f"Set-Cookie: session={SECRET}"
    server.answers |= {"/": response(b"fine", cookie), "/bad": response(b"x", cookie, length=5)}
    headers = {"Authorization": f"Bearer {SECRET}", "X-Key": SECRET}
    path = tmp_path / "hub.db"
    texts = []
    async with public(server, names, path) as (h, _):
        for url in ("first.test/", "first.test/bad", "gone.test/", "[::1", "first.test:x/"):
            address = f"http://ann:{SECRET}@{url}"
            texts += [str(i) async for i in h.items("web.fetch", url=address, headers=headers)]
        texts += [str(item) async for item in h.items("web.list")]
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert SECRET not in "".join(texts) + caplog.text
    assert SECRET.encode() not in stored


async def test_headers_that_are_not_valid_are_refused_without_their_value(h: InProcessHub) -> None:
    several: list[dict[str, str]] = [
        *({"Host": SECRET}, {"Content-Length": "5"}, {"transfer-encoding": "chunked"}),
        *({"Connection": "x"}, {"Accept-Encoding": "br"}, {"X": f"a\r\nB: {SECRET}"}),
        *({"": "x"}, {"a b": "x"}, {"a\nb": "x"}, {"X": f"é{SECRET}"}, {"X": "a\0"}),
        *({"X": SECRET * 900}, {f"x-{number}": SECRET for number in range(60)}),
    ]
    for headers in several:
        with pytest.raises(InvalidParams) as caught:
            await h.call_one("web.fetch", url="http://127.0.0.1:1/", headers=headers)
        assert SECRET not in caught.value.message


async def test_tls_checks_the_name_and_not_the_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    certificate = self_signed(tmp_path, "secure.test")
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(certificate)
    asked: list[str | None] = []
    serving.sni_callback = lambda _, name, __: asked.append(name)
    trusting = ssl.create_default_context(cafile=certificate)
    monkeypatch.setattr(network, "ssl_context", lambda: trusting)
    names = Names(secure_test=[[PUBLIC]], other_test=[[PUBLIC]])
    async with hostile_web(serving) as server, public(server, names) as (h, recording):
        server.answers["/"] = response(b"secret page")
        fetched = await h.call_one("web.fetch", url="https://secure.test/")
        assert (fetched["size"], asked) == (11, ["secure.test"])
        with pytest.raises(Unavailable, match="certificate"):
            await h.call_one("web.fetch", url="https://other.test/")
    assert recording.connected == [PUBLIC, PUBLIC]


async def test_an_agent_needs_a_grant_to_fetch(h: InProcessHub, server: HostileWeb) -> None:
    server.answers["/"] = response(b"fine")
    agent = h.calling(actor=Actor("session", "agent", ("web.list",)))
    with pytest.raises(PermissionDenied):
        await agent.call_one("web.fetch", url=server.url)
    assert server.requests == []
    granted = h.calling(actor=Actor("session", "agent", ("web.*",)))
    assert (await granted.call_one("web.fetch", url=server.url))["status"] == 200
