"""mustache: templates that are tied to handle types show the data behind such handles."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.cone.plugin import Cone
from hubd.plugins.echo import EchoPlugin
from hubd.plugins.mustache.plugin import Mustache
from hubd.wire.caller import Actor, Client
from tests.support import Collector, call_error, call_events, hub_with

ECHO = "echo@1.0.0::once:hi"
TYPE = "echo::once"


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with hub_with(tmp_path, EchoPlugin(), Arbor(), Cone(), Mustache()) as hub:
        yield hub


async def tie(hub: Hub, template: str, **more: Any) -> dict[str, Any]:
    [event] = await call_events(
        hub, "mustache.register_template", template=template, handle_type=TYPE, **more
    )
    return event


async def text(hub: Hub, **params: Any) -> str:
    [event] = await call_events(hub, "plexus.resolve_handle", handle=ECHO, **params)
    assert event.keys() == {"type", "handle", "kind", "data", "origin", "summary", "text"}
    result: str = event["text"]
    return result


async def items(hub: Hub, method: str, **params: Any) -> list[dict[str, Any]]:
    caller = Collector()
    await Call(hub, method, params, caller).run()
    return caller.items


def guidance(received: list[dict[str, Any]]) -> list[str]:
    return [item["suggestion"] for item in received if item["type"] == "guidance"]


async def test_a_tied_template_renders_handles_of_its_type_in_its_style(hub: Hub) -> None:
    summary = await text(hub, style="compact")
    event = await tie(hub, "<{{message}}>", style="compact")
    assert (event["name"], event["handle_type"], event["style"]) == (
        "echo.once.compact",
        TYPE,
        "compact",
    )
    assert await text(hub, style="compact") == "<hi>"
    # The other styles have no template.
    assert await text(hub, style="verbose") == await text(hub, style="default") == summary
    await tie(hub, "{{message}}!", name="loud")
    assert await text(hub, style="default") == await text(hub, style="verbose") == "hi!"
    assert await text(hub, style="compact") == "<hi>"


async def test_a_tied_template_is_listed_and_ends_with_its_template(hub: Hub) -> None:
    await tie(hub, "<{{message}}>", name="short", style="compact")
    await tie(hub, "<{{message}}>", name="short", style="verbose")
    [page] = await call_events(hub, "mustache.list_templates")
    assert page["templates"][0]["handle_types"] == [f"{TYPE} compact", f"{TYPE} verbose"]
    await call_events(hub, "mustache.delete_template", name="short")
    assert await text(hub, style="compact") != "<hi>"


async def test_another_template_for_a_type_and_style_needs_replace(hub: Hub) -> None:
    await tie(hub, "1", style="compact")
    for more in ({}, {"name": "second"}):
        error = await call_error(
            hub,
            "mustache.register_template",
            **{"template": "2", "handle_type": TYPE, "style": "compact", **more},
        )
        assert error["code"] == "conflict"
    # A refused template is not stored either.
    assert (await call_error(hub, "mustache.get_template", name="second"))["code"] == "not_found"
    await tie(hub, "2", name="second", style="compact", replace=True)
    assert await text(hub, style="compact") == "2"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "give at least one of name, handle_type"),
        ({"name": "x", "style": "compact"}, "a style needs a handle type"),
        ({"handle_type": "echo"}, "handle_type"),
        ({"handle_type": "echo::once::x"}, "handle_type"),
        ({"handle_type": TYPE, "style": "loud"}, "style"),
    ],
)
async def test_invalid_ties_are_refused(hub: Hub, params: dict[str, Any], message: str) -> None:
    error = await call_error(hub, "mustache.register_template", template="x", **params)
    assert error["code"] == "invalid_params"
    assert message in error["message"]


async def test_a_handle_type_that_no_plugin_has_is_stored_with_a_hint(hub: Hub) -> None:
    received = await items(
        hub, "mustache.register_template", template="x", handle_type="echo::onse"
    )
    [hint] = guidance(received)
    assert "No plugin has handles echo::onse now. Did you mean echo::once?" in hint


async def test_a_registered_name_is_a_template_of_resolve_handle(hub: Hub) -> None:
    await call_events(hub, "mustache.register_template", name="part", template="{{message}}?")
    await call_events(hub, "mustache.register_template", name="whole", template="<{{>part}}>")
    assert await text(hub, template="whole") == "<hi?>"
    assert await text(hub, template="whole {{message}}") == "whole hi"
    received = await items(hub, "plexus.resolve_handle", handle=ECHO, template="unknown")
    [hint] = guidance(received)
    assert "'unknown' is used as text" in hint
    assert received[1]["content"]["text"] == "unknown"


async def test_an_agent_uses_a_registered_name_only_if_it_may_render_templates(hub: Hub) -> None:
    await call_events(hub, "mustache.register_template", name="whole", template="own {{message}}")
    await tie(hub, "<{{message}}>", style="compact")

    async def seen(*grants: str, **params: str) -> tuple[str, int]:
        caller = Collector(client=Client("test", actor=Actor("session", "s", grants=grants)))
        await Call(hub, "plexus.resolve_handle", {"handle": ECHO, **params}, caller).run()
        [event] = [item["content"] for item in caller.items if item["type"] == "data"]
        return event["text"], len(guidance(caller.items))

    assert await seen("plexus.resolve_handle", template="whole") == ("whole", 1)
    assert await seen("plexus.resolve_handle", "mustache.render", template="whole") == ("own hi", 0)
    assert await seen("plexus.resolve_handle", "mustache", template="whole") == ("own hi", 0)
    # A template of a handle type is the form of its data for all callers.
    assert await seen("plexus.resolve_handle", style="compact") == ("<hi>", 0)


async def test_a_template_and_a_style_exclude_each_other(hub: Hub) -> None:
    error = await call_error(
        hub, "plexus.resolve_handle", handle=ECHO, template="{{x}}", style="compact"
    )
    assert error["code"] == "invalid_params"


async def test_a_failing_template_shows_summaries_and_one_hint(hub: Hub) -> None:
    summary = await text(hub, style="default")
    await tie(hub, "{{>self}}", name="self", style="compact")
    received = await items(hub, "plexus.resolve_handle", handle=[ECHO, ECHO], style="compact")
    assert [item["content"]["text"] for item in received if item["type"] == "data"] == [summary] * 2
    [hint] = guidance(received)
    assert "The compact template of echo::once failed" in hint


async def test_trees_show_data_in_a_style(hub: Hub) -> None:
    [tree] = await call_events(hub, "arbor.tree_create")
    for _ in range(2):
        await call_events(hub, "arbor.node_create_external", tree_id=tree["tree_id"], handle=ECHO)
    await tie(hub, "\n<{{message}}>\nmore", style="compact")

    async def drawn(**params: Any) -> str:
        [event] = await call_events(hub, "arbor.tree_render", tree_id=tree["tree_id"], **params)
        result: str = event["render"]
        return result

    assert (await drawn(style="compact")).count("<hi>↵more") == 2
    assert "<hi>" not in await drawn(resolve=True)
    for style, texts in (("compact", ["<hi>↵more"] * 2), ("verbose", [])):
        [event] = await call_events(hub, "arbor.tree_render", tree_id=tree["tree_id"], style=style)
        assert [node["styled"] for node in event["nodes"] if "styled" in node] == texts
    resolved = await call_events(
        hub, "plexus.walk_and_resolve", tree_id=tree["tree_id"], style="compact"
    )
    assert [event["text"] for event in resolved] == ["\n<hi>\nmore"] * 2
    await tie(hub, "{{>echo.once.compact}}", style="compact", replace=True)
    received = await items(hub, "arbor.tree_render", tree_id=tree["tree_id"], style="compact")
    assert "hi" in next(i["content"]["render"] for i in received if i["type"] == "data")
    assert len(guidance(received)) == 1


async def test_documents_show_attachments_by_their_compact_template(hub: Hub) -> None:
    await call_events(hub, "cone.create", name="c", model_id="offline")
    [cone] = await call_events(hub, "cone.get", identifier="c")
    head = cone["cone"]["head"]
    [node] = await call_events(
        hub, "arbor.node_create_external", tree_id=head["tree_id"], handle=ECHO
    )
    await call_events(hub, "cone.set_head", identifier="c", node_id=node["node_id"])
    await tie(hub, "attached\n{{message}}", style="compact")
    parts = await call_events(hub, "cone.export", identifier="c")
    assert "\n".join(part["text"] for part in parts) == "# c\n\n## attachment\n\nattached hi"
