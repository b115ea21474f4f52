"""What can be read by URI: handles, schemas, large results, and methods that are resources."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp import Client, MCPError
from mcp_types import Implementation, ReadResourceResult, TextResourceContents

from hubd.activation import Activation, Conflict, Event, Handle, NotFound, method, resolver
from hubd.mcp import resources as mcp_resources
from hubd.mcp.access import McpOptions
from hubd.mcp.resources import MAX_LISTED, NEXT_META
from hubd.mcp.spool import PAGE_BYTES
from hubd.mcp.uris import NoSuchResource, handle_in
from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.echo import EchoPlugin
from hubd.plugins.solar import Solar
from hubd.wire.handle import WireHandle
from tests.mcp.notified_clients import client_of, server_of
from tests.mcp.support import (
    ERAS,
    LEGACY,
    MODERN,
    TOKEN,
    Era,
    Served,
    over_http,
    registered,
    serving,
)
from tests.support import PATIENCE_SECONDS, call_events


class Said(Event):
    text: str


class Page(Handle, method="page", kind="document"):
    """Points at one page of the library."""

    title: str


class Leaf(Event):
    text: str
    n: int


class Shelves(Event):
    titles: list[dict[str, str]]


class Library(Activation, namespace="library", version="1.2.0"):
    """Books, by one name or by two."""

    @method(read_only=True, mcp={"resource": {"book": "name"}}, completes={"name": "library.books"})
    async def read(self, name: str) -> AsyncIterator[Said]:
        """Read a book."""
        if name == "lost":
            raise NotFound("that book is lost")
        yield Said(text=f"<{name}>")

    @method(read_only=True, mcp={"resource": {"book": "name", "page": "page"}})
    async def page(self, name: str, page: str) -> AsyncIterator[Said]:
        """Read a page."""
        yield Said(text=f"<{name}|{page}>")

    @method(read_only=True)
    async def books(self) -> AsyncIterator[Shelves]:
        """List the books."""
        yield Shelves(titles=[{"name": "moby dick"}, {"name": "a/b?c#d%"}])

    @method
    async def write(self) -> AsyncIterator[Said]:
        """No resource."""
        yield Said(text="written")

    @method(read_only=True, mcp={"resource": {"size": "size", "a": "count", "b": "text"}})
    async def leaves(self, size: str, count: str, text: str) -> AsyncIterator[Leaf]:
        """Some leaves."""
        for n in range(int(count)):
            yield Leaf(text=text * int(size), n=n)

    @resolver
    async def lookup(self, handle: Page) -> AsyncIterator[Said]:
        """Read it."""
        if handle.title == "gone":
            raise NotFound("that page is gone")
        if handle.title == "torn":
            raise RuntimeError("the page is torn")
        yield Said(text=handle.title)


def content(result: ReadResourceResult) -> TextResourceContents:
    """The one content of a resource."""
    [found] = result.contents
    assert isinstance(found, TextResourceContents)
    return found


async def read(client: Client, uri: str) -> Any:
    """A resource that is JSON."""
    found = content(await client.read_resource(uri))
    assert found.mime_type == "application/json"
    return json.loads(found.text)


async def missing(client: Client, uri: str, era: Era) -> str:
    """That there is nothing, as the protocol says it; the message."""
    with pytest.raises(MCPError) as caught:
        await client.read_resource(uri)
    assert caught.value.error.code == (-32002 if era == LEGACY else -32602)
    assert caught.value.error.data == {"uri": uri[:200]}
    return caught.value.error.message


# ---- what there is


@pytest.mark.parametrize("era", ERAS)
async def test_templates_describe_the_uris(tmp_path: Path, era: Era) -> None:
    async with (
        serving(tmp_path, Arbor(), Library()) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        listed = await client.list_resource_templates()
    templates = {entry.uri_template: entry for entry in listed.resource_templates}
    assert list(templates) == [
        "plexus://arbor/{tree}",
        "plexus://handle/{+handle}",
        "plexus://library/{book}",
        "plexus://library/{book}/{page}",
        "plexus://library/{size}/{a}/{b}",
        "plexus://result/{id}{?from}",
        "plexus://schema/{namespace}",
    ]
    assert templates["plexus://library/{book}"].name == "library.read"
    assert templates["plexus://library/{book}"].description == "Read a book."


@pytest.mark.parametrize("era", ERAS)
async def test_all_listed_resources_can_be_read(tmp_path: Path, era: Era) -> None:
    async with (
        serving(tmp_path, Arbor(), Library(), Solar()) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        [made] = await call_events(served.hub, "arbor.tree_create")
        uris = [entry.uri for entry in (await client.list_resources()).resources]
        assert uris == sorted(uris)
        assert f"plexus://arbor/{made['tree_id']}" in uris
        assert "plexus://schema/library" in uris
        assert "plexus://library/moby%20dick" in uris
        assert "plexus://library/a%2Fb%3Fc%23d%25" in uris
        for uri in uris:
            assert content(await client.read_resource(uri)).uri == uri


async def test_resources_of_plugins_on_request_are_listed_only_if_asked_for(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, Library(), Solar()) as served:
        listed = {}
        for query in ("", "?tools=solar", "?tools=solar.earth"):
            async with over_http(f"{served.url}{query}", TOKEN, MODERN) as client:
                resources = (await client.list_resources()).resources
                listed[query] = [one.uri for one in resources if "schema/solar" in one.uri]
                # It can be read without being listed.
                assert await read(client, "plexus://schema/solar.earth")
    assert listed[""] == []
    assert "plexus://schema/solar.mars" in listed["?tools=solar"]
    assert listed["?tools=solar.earth"] == [
        "plexus://schema/solar.earth",
        "plexus://schema/solar.earth.luna",
    ]


@pytest.mark.parametrize("era", ERAS)
async def test_a_profile_hides_the_resources_of_other_namespaces(tmp_path: Path, era: Era) -> None:
    options = McpOptions(profile=frozenset({"solar.earth", "library"}))
    async with (
        serving(tmp_path, Arbor(), Library(), Solar(), EchoPlugin(), options=options) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        [made] = await call_events(served.hub, "arbor.tree_create")
        uris = [entry.uri for entry in (await client.list_resources()).resources]
        assert [uri for uri in uris if "schema" in uri] == [
            "plexus://schema/library",
            "plexus://schema/solar.earth",
            "plexus://schema/solar.earth.luna",
        ]
        templates = (await client.list_resource_templates()).resource_templates
        assert "plexus://arbor/{tree}" not in [entry.uri_template for entry in templates]
        for hidden in (
            f"plexus://arbor/{made['tree_id']}",
            "plexus://schema/arbor",
            "plexus://schema/solar",
            "plexus://schema/plexus",
            "plexus://handle/echo@1.0.0::once:hi",
        ):
            await missing(client, hidden, era)
        found = await read(client, "plexus://handle/library@1.2.0::page:one")
        assert found["data"]["text"] == "one"
        assert (await read(client, "plexus://schema/solar.earth"))["namespace"] == "solar.earth"


@pytest.mark.parametrize("era", ERAS)
async def test_a_method_that_lists_forever_does_not_delay_the_others(
    tmp_path: Path, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_resources, "LIST_SECONDS", 0.5)

    class Slow(Activation, namespace="slow", version="1.0.0"):
        """Never lists the last of its values."""

        @method(read_only=True, mcp={"resource": {"x": "x"}}, completes={"x": "slow.values"})
        async def read(self, x: str) -> AsyncIterator[Said]:
            """Read it."""
            yield Said(text=x)

        @method(read_only=True)
        async def values(self) -> AsyncIterator[Said]:
            """List it."""
            for name in ("one", "two"):
                yield Named(name=name)
            await asyncio.Event().wait()

    async with (
        serving(tmp_path, Slow(), Library()) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        uris = [entry.uri for entry in (await client.list_resources()).resources]
        assert "plexus://library/moby%20dick" in uris
        assert [uri for uri in uris if "slow/" in uri] == ["plexus://slow/one", "plexus://slow/two"]


class Named(Said):
    name: str
    text: str = ""


class Result(Activation, namespace="result", version="1.0.0"):
    """Has the name of a kind of resource of the hub's, and very many of them."""

    @method(read_only=True, mcp={"resource": {"x": "x"}}, completes={"x": "result.names"})
    async def read(self, x: str) -> AsyncIterator[Said]:
        """Read it."""
        yield Said(text=x)

    @method(read_only=True)
    async def names(self) -> AsyncIterator[Named]:
        """List them."""
        for n in range(MAX_LISTED + 1):
            yield Named(name=f"n{n:03}")


class Crowd(Result, namespace="crowd", version="1.0.0"):
    """The same under a name that is free."""

    @method(read_only=True, mcp={"resource": {"x": "x"}}, completes={"x": "crowd.names"})
    async def read(self, x: str) -> AsyncIterator[Said]:
        """Read it."""
        yield Said(text=x)


@pytest.mark.parametrize("era", ERAS)
async def test_only_the_first_of_many_resources_are_listed(tmp_path: Path, era: Era) -> None:
    async with (
        serving(tmp_path, Result(), Crowd()) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        uris = [entry.uri for entry in (await client.list_resources()).resources]
        crowd = [uri for uri in uris if not uri.startswith("plexus://schema/")]
        assert crowd == [f"plexus://crowd/n{n:03}" for n in range(MAX_LISTED)]
        templates = (await client.list_resource_templates()).resource_templates
        patterns = [entry.uri_template for entry in templates]
        assert "plexus://crowd/{x}" in patterns
        assert "plexus://result/{x}" not in patterns
        # Those that are not listed are there all the same.
        last = f"n{MAX_LISTED:03}"
        assert (await read(client, f"plexus://crowd/{last}"))["text"] == last


# ---- handles


METAS = [
    "plain",
    "two words",
    "a:b",
    "100%",
    "%3A",
    "%25",
    "a/b/../c",
    "what?",
    "#1",
    "?a=b&c#d",
    "größer 日本 🌳",
    "line\nbreak",
    "",
    "+",
]


@pytest.mark.parametrize("era", ERAS)
async def test_a_handle_is_read_raw_or_escaped(tmp_path: Path, era: Era) -> None:
    async with (
        serving(tmp_path, Library()) as served,
        over_http(served.url, TOKEN, era) as client,
    ):
        for meta in METAS:
            handle = str(WireHandle("library", "1.2.0", "page", (meta,)))
            for written in (handle, quote(handle, safe=""), quote(handle, safe="@:/%")):
                found = await read(client, f"plexus://handle/{written}")
                assert found["data"]["text"] == meta
                assert found["handle"] == handle


@given(st.lists(st.text(max_size=10), max_size=3))
@example(["%3A"])
@example(["%253A", "%"])
@example(["é%C3%A9"])
def test_any_handle_is_the_same_raw_escaped_and_half_escaped(meta: list[str]) -> None:
    handle = WireHandle("some.plugin", "1.2.0", "page", tuple(meta))
    # Raw, fully escaped, and escaped as in templates, where reserved characters stay.
    for written in (str(handle), quote(str(handle), safe=""), quote(str(handle), safe=RESERVED)):
        assert handle_in(f"plexus://handle/{written}") == handle


RESERVED = ":/?#[]@!$&'()*+,;=%"


@given(st.text(alphabet="a1@:.%4F0/é\n", max_size=12), st.booleans())
def test_a_malformed_handle_has_no_resource(text: str, headed: bool) -> None:
    uri = f"plexus://handle/{'a@1::b' if headed else ''}{text}"
    with suppress(NoSuchResource):
        assert isinstance(handle_in(uri), WireHandle)


@pytest.mark.parametrize("era", ERAS)
async def test_a_handle_is_read_by_its_owner_wherever_it_is_in_the_tree(
    tmp_path: Path, era: Era
) -> None:
    async with serving(tmp_path, Solar()) as served, over_http(served.url, TOKEN, era) as client:
        found = await read(client, "plexus://handle/solar.earth.luna@1.0.0::info:luna")
        assert found["data"]["name"] == "Luna"
        assert found["origin"]["plugin"] == "solar.earth.luna"


UNRESOLVABLE = [
    ("library@1.2.0::page:gone", "that page is gone"),
    ("library@2.0.0::page:x", "is of major version 2"),
    ("library@1.2.0::chapter:x", "library has no handles 'chapter'"),
    ("nobody@1.0.0::x", "no plugin 'nobody' owns this handle"),
    ("library@1.2.0::page", "title"),
    ("library@1.2.0", "this URI has no resource"),
    ("library@1.2.0::page:%FF", "this URI has no resource"),
    ("library@1.2.0::page:100%", "this URI has no resource"),
]


@pytest.mark.parametrize("era", ERAS)
async def test_a_handle_without_data_is_not_found(tmp_path: Path, era: Era) -> None:
    async with serving(tmp_path, Library()) as served, over_http(served.url, TOKEN, era) as client:
        for handle, message in UNRESOLVABLE:
            assert message in await missing(client, f"plexus://handle/{handle}", era), handle


@pytest.mark.parametrize("era", ERAS)
async def test_a_resolver_that_fails_is_an_error_of_the_server(tmp_path: Path, era: Era) -> None:
    async with serving(tmp_path, Library()) as served, over_http(served.url, TOKEN, era) as client:
        with pytest.raises(MCPError, match="RuntimeError: the page is torn") as caught:
            await client.read_resource("plexus://handle/library@1.2.0::page:torn")
        assert caught.value.error.code == -32603
        assert caught.value.error.data["code"] == "execution_error"


# ---- trees, schemas, methods


@pytest.mark.parametrize("era", ERAS)
async def test_a_tree_is_read_by_its_id_or_the_beginning_of_it(tmp_path: Path, era: Era) -> None:
    async with serving(tmp_path, Arbor()) as served, over_http(served.url, TOKEN, era) as client:
        [made] = await call_events(served.hub, "arbor.tree_create")
        tree = made["tree_id"]
        await call_events(served.hub, "arbor.node_create_text", tree_id=tree, content="a leaf")
        for name in (tree, tree[:8], quote(tree, safe="").replace("-", "%2D")):
            result = await client.read_resource(f"plexus://arbor/{name}")
            found = content(result)
            assert found.text == "└──\n    └── a leaf"
            assert found.mime_type == "text/plain"
            if era == MODERN:
                assert (result.ttl_ms, result.cache_scope) == (0, "private")
        for name in ("00000000", "0000", "x", tree[:7], f"{tree}x", f"{tree}/{tree}"):
            await missing(client, f"plexus://arbor/{name}", era)


@pytest.mark.parametrize("era", ERAS)
async def test_the_schema_of_a_namespace_is_a_resource(tmp_path: Path, era: Era) -> None:
    async with serving(tmp_path, Solar()) as served, over_http(served.url, TOKEN, era) as client:
        for name in ("solar", "solar.earth", "plexus", "plexus.solar", "solar%2Eearth"):
            path = name.replace("%2E", ".").removeprefix("plexus.")
            found = await read(client, f"plexus://schema/{name}")
            assert found == json.loads(json.dumps(served.hub.find(path.split(".")).schema)), name


@pytest.mark.parametrize("era", ERAS)
async def test_a_method_resource_has_its_declared_variables(tmp_path: Path, era: Era) -> None:
    async with serving(tmp_path, Library()) as served, over_http(served.url, TOKEN, era) as client:
        for one in ("moby dick", "a/b?c#d%", "é"):
            found = await read(client, f"plexus://library/{quote(one, safe='')}")
            assert found["text"] == f"<{one}>"
            found = await read(client, f"plexus://library/{quote(one, safe='')}/{quote(one, '')}")
            assert found["text"] == f"<{one}|{one}>"
        assert await missing(client, "plexus://library/lost", era) == "that book is lost"


HOSTILE_URIS = [
    "plexus://handle/../../etc/passwd",
    "plexus://handle/%2e%2e%2fetc%2fpasswd",
    "plexus://schema/../../etc/passwd",
    "plexus://schema/solar..earth",
    "plexus://schema/solar/earth",
    "plexus://schema/",
    "plexus://result/../../etc/passwd",
    "plexus://result/none",
    "plexus://result/none?from=-1",
    "plexus://result/none?from=x",
    "plexus://library/a/b/c/d",
    "plexus://library",
    "plexus://library/",
    "plexus://plexus/call",
    "plexus://plexus.library/x",
    "plexus://",
    "plexus:",
    "",
    "nonsense",
    "file:///etc/passwd",
    "https://example.com/x",
    "PLEXUS://schema/solar",
    "plexus://schema/\u0000",
    "plexus://schema/" + "x" * 17_000,
    "plexus://handle/library@1.2.0::page:" + "x" * 17_000,
]


@pytest.mark.parametrize("era", ERAS)
async def test_a_hostile_uri_has_no_resource(tmp_path: Path, era: Era) -> None:
    async with (
        serving(tmp_path, Library(), Solar()) as served,
        client_of(served, tmp_path, "stdio", era) as client,
    ):
        for uri in HOSTILE_URIS:
            await missing(client, uri, era)
            # Other requests of the same client are answered.
            assert (await read(client, "plexus://library/x"))["text"] == "<x>"


# ---- large ones


async def leaves(served: Served, client: Client, size: int, count: int, text: str = "x") -> Any:
    return await client.read_resource(f"plexus://library/{size}/{count}/{quote(text, safe='')}")


@pytest.mark.parametrize("era", ERAS)
async def test_a_resource_that_fits_into_one_answer_is_not_paged(tmp_path: Path, era: Era) -> None:
    async with serving(tmp_path, Library()) as served, over_http(served.url, TOKEN, era) as client:
        # More than a tool would show at once.
        found = content(await leaves(served, client, 50_000, 4))
        assert found.mime_type == "application/json"
        assert [leaf["n"] for leaf in json.loads(found.text)] == [0, 1, 2, 3]
        assert (await server_of(served))._spool._kept == {}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("text", ["x", "é", "🌳"])
async def test_a_large_resource_is_read_page_by_page(tmp_path: Path, era: Era, text: str) -> None:
    async with serving(tmp_path, Library()) as served, over_http(served.url, TOKEN, era) as client:
        # The second event alone is longer than a page.
        whole = ""
        found = content(await leaves(served, client, PAGE_BYTES // 3 * 2, 3, text))
        first, result, pages = found.text, "", 1
        while True:
            assert found.mime_type == "application/x-ndjson"
            whole += found.text
            following = (found.meta or {}).get(NEXT_META)
            if following is None:
                break
            assert following.startswith("plexus://result/")
            pages += 1
            result = following.partition("?")[0]
            found = content(await client.read_resource(following))
            assert found.uri == following
        events = [json.loads(line) for line in whole.splitlines()]
        assert [event["n"] for event in events] == [0, 1, 2]
        assert all(set(event["text"]) == {text} for event in events)
        assert pages > 2
        assert content(await client.read_resource(result)).text == whole[: len(first)] == first
        await missing(client, f"{result}?from=999999999999", era)
        await missing(client, f"{result}?from=-1", era)


@pytest.mark.parametrize("era", ERAS)
async def test_a_resource_that_is_not_wanted_any_more_ends_its_method(
    tmp_path: Path, era: Era
) -> None:
    ended = asyncio.Event()
    started = asyncio.Event()

    class Endless(Activation, namespace="endless", version="1.0.0"):
        """Does not end by itself."""

        @method(read_only=True, mcp={"resource": {"x": "x"}})
        async def read(self, x: str) -> AsyncIterator[Said]:
            """Read on and on."""
            try:
                started.set()
                await asyncio.Event().wait()
                yield Said(text=x)
            finally:
                ended.set()

    async with (
        serving(tmp_path, Endless()) as served,
        client_of(served, tmp_path, "stdio", era) as client,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        reading = asyncio.create_task(client.read_resource("plexus://endless/x"))
        await started.wait()
        reading.cancel()
        await ended.wait()


@pytest.mark.parametrize("era", ERAS)
async def test_a_large_resource_that_is_not_wanted_any_more_leaves_no_file(
    tmp_path: Path, era: Era
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()
    results = tmp_path / "results"

    class Flood(Activation, namespace="flood", version="1.0.0"):
        """Has more than fits, and does not end by itself."""

        @method(read_only=True, mcp={"resource": {"x": "x"}})
        async def read(self, x: str) -> AsyncIterator[Said]:
            """Read on and on."""
            try:
                yield Said(text=x * 100_000)
                begun.set()
                await asyncio.Event().wait()
            finally:
                ended.set()

    async with (
        serving(tmp_path, Flood()) as served,
        client_of(served, tmp_path, "stdio", era) as client,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        reading = asyncio.create_task(client.read_resource("plexus://flood/x"))
        await begun.wait()
        assert len(list(results.iterdir())) == 1
        reading.cancel()
        await ended.wait()
        assert list(results.iterdir()) == []


@pytest.mark.parametrize("era", ERAS)
async def test_a_large_resource_that_fails_in_the_end_leaves_no_file(
    tmp_path: Path, era: Era
) -> None:
    class Cliff(Activation, namespace="cliff", version="1.0.0"):
        """Breaks off."""

        @method(read_only=True, mcp={"resource": {"x": "x"}})
        async def read(self, x: str) -> AsyncIterator[Said]:
            """Read until it breaks."""
            yield Said(text=x * 100_000)
            raise NotFound("here it breaks off")

    async with (
        serving(tmp_path, Cliff()) as served,
        client_of(served, tmp_path, "stdio", era) as client,
    ):
        assert await missing(client, "plexus://cliff/x", era) == "here it breaks off"
        assert list((tmp_path / "results").iterdir()) == []


class Doorman(Activation, namespace="doorman", version="1.0.0"):
    """Describes its clients, and refuses some."""

    @method(read_only=True, mcp={"resource": {"x": "x"}})
    async def look(self, x: str) -> AsyncIterator[Said]:
        """Describe the client."""
        if x == "busy":
            raise Conflict("the plugin is busy", suggestion="Come back later")
        yield Said(text=" ".join(map(str, (self.host.client.name, self.host.client.session_token))))


@pytest.mark.parametrize("era", ERAS)
async def test_a_method_that_is_read_knows_its_client_and_gives_its_advice(
    tmp_path: Path, era: Era
) -> None:
    known: dict[str, Any] = {
        "headers": {"X-Plexus-Session": "a-session"},
        "client_info": Implementation(name="agent", version="7.1"),
    }
    async with (
        serving(tmp_path, Doorman()) as served,
        registered(served, "a-session"),
        over_http(served.url, TOKEN, era, **known) as client,
    ):
        assert (await read(client, "plexus://doorman/x"))["text"] == "agent a-session"
        with pytest.raises(MCPError, match="the plugin is busy") as caught:
            await client.read_resource("plexus://doorman/busy")
        assert caught.value.code == -32603
        assert caught.value.error.data == {"code": "conflict", "hint": "Come back later"}
