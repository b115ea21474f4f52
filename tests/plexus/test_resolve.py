"""Resolve handles through the tree of hubs."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from hubd.activation import Activation, Event, Handle, NotFound, method, resolver
from hubd.mustache.template import MAX_TEMPLATE
from hubd.plexus import resolve as resolving
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import Hub
from hubd.wire.handle import plugin_id
from tests.support import call_error, call_events, hub_with

LUNA = "solar.earth.luna@1.0.0::info:luna"


class Ref(Handle, method="make", kind="message", summary="{text} ({missing})"):
    """A text."""

    how: str


class ListRef(Handle, method="list_of", kind="document", summary="{text} {more}"):
    """A list."""

    of: str


class Made(Event):
    text: str
    ref: Ref | None = None
    more: list[Any] | None = None


class Picture(Event, kind="binary"):
    text: str


class Priority(Enum):
    high = "high"


class Server(BaseModel):
    port: int


class PlainRef(Handle, method="plain", kind="document", summary="{priority}"):
    """Values of several types. Tests replace the summary."""

    id: str


class Plain(Event):
    priority: Priority = Priority.high
    nothing: str | None = None
    day: date = date(2026, 3, 4)
    id: UUID = UUID(int=1)
    done: bool = True
    server: Server = Server(port=80)
    ref: PlainRef = PlainRef(id="a")
    members: dict[Priority, date | None] = Field(default={Priority.high: None})
    share: float = 0.256


class Inner(Activation, namespace="inner", version="1.4.2"):
    """Resolves in many ways."""

    @method
    async def make(self, how: str) -> AsyncIterator[Made]:
        """Return a handle."""
        yield Made(text=how, ref=Ref(how=how))

    @resolver
    async def plain(self, ref: PlainRef) -> AsyncIterator[Plain]:
        """Resolve to values that Python and JSON write in different ways."""
        yield Plain()

    @resolver
    async def made(self, ref: Ref) -> AsyncIterator[Made | Picture]:
        """Resolve in the way that the handle names."""
        if ref.how == "picture":
            yield Picture(text="a picture")
            return
        if ref.how == "gone":
            raise NotFound("it was removed")
        if ref.how == "raise":
            raise ValueError("a resolver's mistake")
        if ref.how == "hang":
            await asyncio.Event().wait()
        if ref.how == "deep":
            nested: list[Any] = []
            for _ in range(220):
                nested = [nested]
            yield Made(text="deep", more=nested)
            return
        for _ in range({"nothing": 0, "many": 3}.get(ref.how, 1)):
            yield Made(text=ref.how)

    @method
    async def list_of(self, of: str) -> AsyncIterator[Made]:
        """Return a handle to a list."""
        yield Made(text=of, more=[{"it's": of}, True, None])

    @resolver
    async def listed(self, ref: ListRef) -> AsyncIterator[Made]:
        """Resolve to a list."""
        yield Made(text=ref.of, more=[{"it's": ref.of}, True, None])


class Outer(Activation, namespace="outer", version="1.0.0"):
    """A hub without handle types."""

    def children(self) -> Iterable[Activation]:
        return [Inner()]


@pytest.fixture
async def nested(tmp_path: Path) -> AsyncIterator[Hub]:
    async with hub_with(tmp_path, Outer()) as built:
        yield built


async def test_a_moon_resolves_through_two_levels_of_hubs_by_name_and_by_id(hub: Hub) -> None:
    [observed] = await call_events(hub, "solar.earth.luna.info")
    assert observed["handle"] == LUNA
    by_id = LUNA.replace("solar.earth.luna", str(plugin_id("solar.earth.luna", 1)))
    for handle in (LUNA, by_id):
        [resolved] = await call_events(hub, "plexus.resolve_handle", handle=handle)
        assert resolved["type"] == "resolved"
        assert resolved["handle"] == LUNA
        assert resolved["kind"] == "document"
        assert resolved["data"] == observed
        assert resolved["origin"] == {
            "plugin_id": str(plugin_id("solar.earth.luna", 1)),
            "plugin": "solar.earth.luna",
            "method": "info",
        }


@pytest.mark.parametrize(
    ("handle", "code"),
    [
        ("nobody@1.0.0::info", "activation_not_found"),
        (f"{UUID(int=5)}@1.0.0::info", "activation_not_found"),
        ("solar.earth.luna@2.0.0::info:luna", "version_unsupported"),
        (f"{plugin_id('solar.earth.luna', 1)}@2.0.0::info:luna", "version_unsupported"),
        (f"{plugin_id('solar.earth.luna', 7)}@7.0.0::info:luna", "version_unsupported"),
        ("solar.earth.luna@one::info:luna", "version_unsupported"),
        ("solar.earth.luna@1.0.0::photograph:luna", "handle_not_supported"),
        ("health@1.0.0::check", "handle_not_supported"),
        ("solar.earth.luna@1.0.0::info:phobos", "handle_target_missing"),
        ("solar.earth.luna@1.0.0::info", "handle_invalid"),
        ("solar.earth.luna@1.0.0::info:luna:more", "handle_invalid"),
        ("solar.earth.luna@1.0.0::info:%zz", "handle_invalid"),
        ("not a handle", "handle_invalid"),
    ],
)
async def test_each_failure_has_its_code_alone_and_in_a_batch(
    hub: Hub, handle: str, code: str
) -> None:
    error = await call_error(hub, "plexus.resolve_handle", handle=handle)
    assert error["code"] == code
    assert error["guidance"]["suggestion"]
    before, failed, after = await call_events(
        hub, "plexus.resolve_handle", handle=[LUNA, handle, LUNA]
    )
    assert before == after
    assert before["type"] == "resolved"
    assert (failed["type"], failed["handle"], failed["code"]) == ("unresolved", handle, code)
    assert failed["message"] == error["message"]


async def test_the_error_for_an_unknown_plugin_lists_the_plugins(hub: Hub) -> None:
    error = await call_error(hub, "plexus.resolve_handle", handle="solar.erath@1.0.0::info:earth")
    assert error["guidance"]["suggestion"] == "Did you mean solar.earth?"
    assert "echo" in error["guidance"]["available"]


@pytest.mark.parametrize("version", ["1.0.0", "1.9.3", "1"])
async def test_any_minor_version_of_the_same_major_resolves(hub: Hub, version: str) -> None:
    handle = f"solar.earth.luna@{version}::info:luna"
    [resolved] = await call_events(hub, "plexus.resolve_handle", handle=handle)
    assert resolved["handle"] == handle


async def test_the_object_forms_of_a_handle_are_accepted(nested: Hub) -> None:
    forms: list[Any] = [
        {"plugin": "outer.inner", "version": "1.0.0", "method": "make", "meta": ["x"]},
        {
            "plugin_id": str(plugin_id("outer.inner", 1)),
            "version": "1.0.0",
            "method": "make",
            "meta": ["x"],
        },
    ]
    for event in await call_events(nested, "plexus.resolve_handle", handle=forms):
        assert event["handle"] == "outer.inner@1.0.0::make:x"


async def test_a_hub_resolves_only_handles_of_its_children(hub: Hub) -> None:
    [resolved] = await call_events(hub, "solar.earth.resolve_handle", handle=LUNA)
    assert resolved["data"]["name"] == "Luna"
    error = await call_error(hub, "solar.mars.resolve_handle", handle=LUNA)
    assert error["code"] == "activation_not_found"


async def test_handles_made_below_another_hub_carry_the_full_path(nested: Hub) -> None:
    [created] = await call_events(nested, "outer.inner.make", how="x")
    assert created["ref"] == "outer.inner@1.4.2::make:x"
    [resolved] = await call_events(nested, "plexus.resolve_handle", handle=created["ref"])
    assert resolved["data"] == {"type": "made", "text": "x", "ref": None, "more": None}


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("gone", "handle_target_missing"),
        ("nothing", "handle_target_missing"),
        ("raise", "execution_error"),
    ],
)
async def test_an_error_of_a_resolver_has_a_code(nested: Hub, how: str, code: str) -> None:
    handle = f"outer.inner@1.0.0::make:{how}"
    assert (await call_error(nested, "plexus.resolve_handle", handle=handle))["code"] == code


async def test_a_resolver_may_yield_several_results(nested: Hub) -> None:
    handle = "outer.inner@1.0.0::make:many"
    assert len(await call_events(nested, "plexus.resolve_handle", handle=handle)) == 3


async def test_the_data_may_have_another_kind_than_its_handle_type(nested: Hub) -> None:
    handle = "outer.inner@1.4.2::make:"
    [plain] = await call_events(nested, "plexus.resolve_handle", handle=f"{handle}one")
    [picture] = await call_events(nested, "plexus.resolve_handle", handle=f"{handle}picture")
    assert (plain["kind"], picture["kind"]) == ("message", "binary")


async def test_a_resolver_that_never_ends_is_a_timeout(
    nested: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "RESOLVE_TIMEOUT_SECONDS", 0.01)
    handle = "outer.inner@1.0.0::make:hang"
    assert (await call_error(nested, "plexus.resolve_handle", handle=handle))["code"] == "timeout"


async def test_lists_and_objects_in_a_summary_are_json(nested: Hub) -> None:
    handle = "outer.inner@1.0.0::list_of:a"
    [resolved] = await call_events(nested, "plexus.resolve_handle", handle=handle)
    assert resolved["summary"] == """a [{"it's":"a"},true,null]"""


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{priority}", "high"),
        ("a{nothing}b", "ab"),
        ("{day}", "2026-03-04"),
        ("{day:%d.%m.%Y}", "04.03.2026"),
        ("{id}", "00000000-0000-0000-0000-000000000001"),
        ("{done}", "true"),
        ("{server}", '{"port":80}'),
        ("{server.port} {server[port]}", "80 80"),
        ("{ref}", "outer.inner@1.4.2::plain:a"),
        ("{members}", '{"high":null}'),
        ("{priority!r}{nothing!s}", '"high"'),
        ("{share:.0%} {priority:>6}", "26% high"),
    ],
)
async def test_a_summary_shows_json_and_not_python(
    nested: Hub, monkeypatch: pytest.MonkeyPatch, template: str, expected: str
) -> None:
    monkeypatch.setattr(PlainRef, "summary", template)
    handle = "outer.inner@1.0.0::plain:a"
    [resolved] = await call_events(nested, "plexus.resolve_handle", handle=handle)
    assert resolved["summary"] == expected


async def test_without_a_fitting_summary_the_handle_is_the_summary(nested: Hub) -> None:
    handle = "outer.inner@1.0.0::make:x"
    [resolved] = await call_events(nested, "plexus.resolve_handle", handle=handle)
    assert resolved["summary"] == handle


async def test_resolved_data_may_be_nested_deeper_than_a_message(
    nested: Hub,
) -> None:
    resolved = await PlexusHost(nested).resolve("outer.inner@1.0.0::make:deep")
    assert (resolved.text, resolved.data["type"]) == ("deep", "made")


async def test_too_many_handles_at_once_are_refused(hub: Hub) -> None:
    error = await call_error(hub, "plexus.resolve_handle", handle=[LUNA] * 1001)
    assert error["code"] == "invalid_params"


async def test_a_handle_type_is_described_where_it_is_produced(hub: Hub) -> None:
    schema = hub.find(["solar", "earth"]).schema
    [info] = schema["methods"]
    assert info["produces"] == ["solar.earth@1.0.0::info"]
    assert info["handle_schema"] == schema["handles"][0]
    described = info["handle_schema"]
    assert described["plugin"] == "solar.earth"
    assert described["kind"] == "document"
    assert described["meta_fields"] == [{"name": "body", "index": 0, "required": True}]
    assert described["resolve_schema"]["properties"]["mass_kg"] == {"type": "number"}
    assert info["returns"]["properties"]["handle"] == {"type": "string", "format": "plexus-handle"}


async def test_a_template_renders_the_data_of_a_handle(hub: Hub) -> None:
    handle = "echo@1.0.0::once:a <b> & c"
    template = "{{count}} x {{message}}{{#missing}}!{{/missing}}"
    [resolved] = await call_events(hub, "plexus.resolve_handle", handle=handle, template=template)
    assert resolved["text"] == "1 x a <b> & c", "it is no HTML"
    assert resolved["data"]["message"] == "a <b> & c"
    [plain] = await call_events(hub, "plexus.resolve_handle", handle=handle)
    assert plain == {**resolved, "text": None}


async def test_a_template_renders_each_of_several_handles(hub: Hub) -> None:
    handles = ["echo@1.0.0::once:one", "echo@2.0.0::once:x", "echo@1.0.0::once:two"]
    events = await call_events(
        hub, "plexus.resolve_handle", handle=handles, template="<{{message}}>"
    )
    assert [event.get("text", event.get("code")) for event in events] == [
        "<one>",
        "version_unsupported",
        "<two>",
    ]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{#a}}", "line 1: section 'a' is not closed"),
        ("x" * (MAX_TEMPLATE + 1), "parameter 'template' must have at most"),
        ("{{message}}" * 20_000, "longer than 1,048,576 bytes"),
    ],
)
async def test_an_invalid_template_is_invalid_params(hub: Hub, template: str, message: str) -> None:
    handle = "echo@1.0.0::once:" + "x" * 100
    error = await call_error(hub, "plexus.resolve_handle", handle=handle, template=template)
    assert error["code"] == "invalid_params"
    assert message in error["message"]
