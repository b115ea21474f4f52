"""Stored pages: exact bytes, text, kinds, lists, ids and deletion, without the network."""

import asyncio
import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest

from hubd.activation import Ambiguous, HubError, InvalidParams, NotFound
from hubd.errors import HandleTargetMissing
from hubd.plugins.web import plugin
from hubd.plugins.web.plugin import Web
from hubd.storage import ids
from hubd.storage.search import service
from hubd.testing import InProcessHub, hub
from tests.fakes.hostile_web import HostileWeb, response

HTML = "Content-Type: text/html; charset=utf-8"
PAGE = b"""<!doctype html><html><head><title>The  &lt;title&gt;</title></head>
<body><nav><a href="/home">Home</a></nav><main><h1>Heading</h1><p>Some <b>text</b> and
<a href="more?a=1&amp;b=2">a link</a>.</p></main></body></html>"""


async def fetch(h: InProcessHub, server: HostileWeb, answer: bytes, **params: Any) -> Any:
    server.answers["/page"] = answer
    return await h.call_one("web.fetch", url=f"{server.url}/page", **params)


async def content(h: InProcessHub, fetch_id: str) -> bytes:
    """Return the exact bytes of a stored page, read in parts."""
    parts, offset = b"", 0
    while offset is not None:
        part = await h.call_one("web.get", fetch_id=fetch_id, offset=offset)
        assert (part["type"], part["offset"]) == ("content", offset)
        parts += base64.b64decode(part["base64"])
        offset = part["next_offset"]
    return parts


async def test_a_page_is_kept_exactly_with_its_text_title_and_links(
    h: InProcessHub, server: HostileWeb
) -> None:
    fetched = await fetch(h, server, response(PAGE, HTML))
    assert fetched["handle"] == f"web@1.0.0::fetch:{fetched['fetch_id']}:200"
    assert fetched["digest"] == hashlib.sha256(PAGE).hexdigest()
    assert (fetched["mime_type"], fetched["charset"]) == ("text/html", "utf-8")
    resolved = await h.resolve(fetched["handle"])
    assert resolved.kind == "document"
    assert resolved.text == "# Heading\n\nSome text and a link."
    assert resolved.summary == f"200 The <title> {server.url}/page"
    assert resolved.data["links"] == [
        {"url": f"{server.url}/home", "text": "Home"},
        {"url": f"{server.url}/more?a=1&b=2", "text": "a link"},
    ]
    assert await h.call_one("web.get", fetch_id=fetched["fetch_id"]) == resolved.data
    assert await content(h, fetched["fetch_id"]) == PAGE


async def test_resolving_needs_no_server_and_survives_a_restart(
    server: HostileWeb, tmp_path: Path
) -> None:
    path = tmp_path / "hub.db"
    async with hub(Web(), path=path, settings={"web": {"allow_private": True}}) as h:
        fetched = await fetch(h, server, response(PAGE, HTML))
        before = (await h.resolve(fetched["handle"])).data
    server.answers.clear()

    async def no_lookup(host: str, port: int) -> list[str]:
        raise AssertionError("resolving uses the network")

    async with hub(Web(no_lookup), path=path) as h:
        assert (await h.resolve(fetched["handle"])).data == before
    assert len(server.requests) == 1


async def test_other_content_is_binary_in_parts(
    h: InProcessHub, server: HostileWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "PAGE_BYTES", 100_000)
    image = bytes(range(256)) * 1000
    fetched = await fetch(h, server, response(image, "Content-Type: image/png"))
    resolved = await h.resolve(fetched["handle"])
    assert (resolved.kind, resolved.data["mime_type"]) == ("binary", "image/png")
    assert base64.b64decode(resolved.data["base64"]) == image[:100_000]
    assert resolved.data["next_offset"] == 100_000
    assert resolved.summary == f"200 {server.url}/page"
    assert await content(h, fetched["fetch_id"]) == image
    with pytest.raises(InvalidParams, match="behind the end"):
        await h.call_one("web.get", fetch_id=fetched["fetch_id"], offset=len(image) + 1)


CONTENTS = [
    (b'{"a": "\xc3\xa9"}', "application/json", "application/json", "utf-8", '{"a": "é"}'),
    (b"caf\xe9", "text/plain; charset=ISO-8859-1", "text/plain", "cp1252", "café"),
    (b"caf\xe9", "text/plain; charset=no-such", "text/plain", "utf-8", "caf\ufffd"),
    (b"caf\xe9", "text/plain; charset=zlib", "text/plain", "utf-8", "caf\ufffd"),
    (b"\xff\xfeh\0i\0", "text/plain", "text/plain", "utf-16-le", "hi"),
    (b"\xef\xbb\xbfhi", "text/plain; charset=latin1", "text/plain", "utf-8", "hi"),
    (b"<meta charset=koi8-r><p>\xd4", "text/html", "text/html", "koi8-r", "т"),
    (b"<html><p>hi", "", "text/html", "utf-8", "hi"),
    (b"just text", "not a type", "text/plain", "utf-8", "just text"),
    (b"", "text/html", "text/html", "utf-8", ""),
    (b"\0\1\2", "text/plain", "text/plain", None, None),
    (b"\0\1\2", "", "application/octet-stream", None, None),
]


async def test_the_type_and_the_character_set_decide_about_the_text(
    h: InProcessHub, server: HostileWeb
) -> None:
    for body, header, mime_type, charset, text in CONTENTS:
        fetched = await fetch(h, server, response(body, f"Content-Type: {header}"))
        assert (fetched["mime_type"], fetched["charset"]) == (mime_type, charset), (body, header)
        assert (await h.resolve(fetched["handle"])).data.get("text") == text
        assert await content(h, fetched["fetch_id"]) == body


async def test_pages_are_listed_newest_first(h: InProcessHub, server: HostileWeb) -> None:
    for status in (200, 404, 500):
        await fetch(h, server, response(PAGE, HTML, status=f"{status} X"))
    listed = (await h.call_one("web.list"))["fetches"]
    assert [entry["status"] for entry in listed] == [500, 404, 200]
    assert [entry["title"] for entry in listed] == ["The <title>"] * 3
    first = (await h.call_one("web.list", limit=1))["fetches"]
    assert first == listed[:1]


async def test_equal_pages_are_stored_once_and_removed_with_the_last(
    h: InProcessHub, server: HostileWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def blobs() -> list[int]:
        rows = await h.database.fetch_rows("SELECT refs FROM hub_blobs ORDER BY size")
        return [refs for (refs,) in rows]

    one = await fetch(h, server, response(PAGE, HTML))
    two = await fetch(h, server, response(PAGE, HTML))
    assert await blobs() == [2, 2]
    deleted = await h.call_one("web.delete", fetch_id=one["fetch_id"][:8])
    assert deleted == {"type": "deleted", "fetch_id": one["fetch_id"], "url": one["url"]}
    with pytest.raises(HandleTargetMissing):
        await h.resolve(one["handle"])
    assert (await h.resolve(two["handle"])).kind == "document"
    await h.call_one("web.delete", fetch_id=two["fetch_id"].upper())
    assert await blobs() == []


async def test_ids_are_found_by_an_unambiguous_beginning(
    h: InProcessHub, server: HostileWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_ids = iter([b"\xab" * 15 + b"\x01", b"\xab" * 15 + b"\x02"])
    monkeypatch.setattr(ids, "uuid4", lambda: next(new_ids))
    fetched = await fetch(h, server, response(b"one"))
    assert (await h.call_one("web.get", fetch_id="ABABABAB"))["fetch_id"] == fetched["fetch_id"]
    await fetch(h, server, response(b"two"))
    for method in ("web.get", "web.delete"):
        with pytest.raises(Ambiguous):
            await h.call_one(method, fetch_id="abababab")
        for unknown in ("ababab", "cdcdcdcd", "nothing", fetched["fetch_id"][:-1] + "9"):
            with pytest.raises(NotFound, match="no fetched page"):
                await h.call_one(method, fetch_id=unknown)


async def test_a_handle_with_another_status_points_at_nothing(
    h: InProcessHub, server: HostileWeb
) -> None:
    fetched = await fetch(h, server, response(PAGE, HTML))
    with pytest.raises(HandleTargetMissing):
        await h.resolve(fetched["handle"].replace(":200", ":404"))


async def test_settings_are_the_defaults_of_the_parameters(server: HostileWeb) -> None:
    settings = {"web": {"allow_private": True, "max_mib": 1, "timeout_secs": 0.3}}
    async with hub(Web(), settings=settings) as h:
        long = response(bytes(2**20 + 50))
        assert (await fetch(h, server, long, timeout_secs=30))["size"] == 2**20
        assert (await fetch(h, server, response(b"x" * 50), max_bytes=20))["size"] == 20
        with pytest.raises(HubError, match=r"within 0.3 s"):
            await h.call_one("web.fetch", url=f"{server.url}/silent")


async def test_many_fetches_at_once_all_succeed(h: InProcessHub, server: HostileWeb) -> None:
    server.answers["/page"] = response(PAGE, HTML)
    url = f"{server.url}/page"
    fetches = await asyncio.gather(*(h.call_one("web.fetch", url=url) for _ in range(50)))
    assert len({each["fetch_id"] for each in fetches}) == 50


async def test_pages_are_found_by_title_text_and_address_until_their_deletion(
    h: InProcessHub, server: HostileWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "PATIENCE_SECONDS", 60.0)
    fetched = await fetch(h, server, response(PAGE, HTML))
    for query in ('"the <title>"', "heading text", "127.0.0.1 /page"):
        [hit] = [hit async for hit in h.call("plexus.search", query=query, kind="document")]
        assert hit["handle"] == fetched["handle"]
    await h.call_one("web.delete", fetch_id=fetched["fetch_id"])
    assert [hit async for hit in h.call("plexus.search", query="heading")] == []
