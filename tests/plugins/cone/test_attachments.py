"""Attachments of a cone's chat: nodes above the question, and messages to the model."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hubd.conversations import attachments
from hubd.conversations.params import MAX_ATTACHMENTS
from hubd.plexus.hub import Hub
from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.cone.plugin import Cone
from hubd.plugins.echo import EchoPlugin
from tests.fakes.completions_api import FakeCompletionsApi
from tests.fakes.messages_api import FakeMessagesApi
from tests.plexus.test_grants import called
from tests.plugins.cone.support import (
    PROVIDER_VARIABLES,
    conversation,
    everything,
    head,
    only,
    tree_of,
)
from tests.sample_plugins.sources import MAKE, NOTES, RENDERED, Sources, handle
from tests.support import call_error, hub_with

MISSING = handle("document", "gone")


@pytest.fixture
async def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hub]:
    for name in PROVIDER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HUBD_CONE_ATTACHMENT_CHARS", "1000")
    async with hub_with(tmp_path, EchoPlugin(), Arbor(), Cone(), Sources()) as hub:
        await only(hub, "cone.create", name="c", system_prompt="Be brief.")
        yield hub


async def nodes(hub: Hub) -> list[dict[str, Any]]:
    """Return all nodes of the cone's tree."""
    pages = await everything(hub, "arbor.tree_get", tree_id=await tree_of(hub, "c"))
    return [node for page in pages for node in page["tree"]["nodes"]]


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_a_provider_gets_exactly_the_documented_texts_before_the_prompt(
    hub: Hub, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{provider.upper()}_API_KEY", "key")
    fake: FakeMessagesApi | FakeCompletionsApi
    fake = FakeMessagesApi() if provider == "anthropic" else FakeCompletionsApi()
    async with fake as api:
        url = api.base_url if isinstance(api, FakeCompletionsApi) else api.url
        monkeypatch.setenv(f"{provider.upper()}_BASE_URL", url)
        await only(hub, "cone.create", name="p", model_id=f"{provider}/m")
        await everything(hub, "cone.chat", identifier="p", prompt="SAY[one]", attach=list(RENDERED))
        await everything(hub, "cone.chat", identifier="p", prompt="SAY[two]")
        expected = [
            *(("user", text) for text in RENDERED.values()),
            ("user", "SAY[one]"),
            ("assistant", "one"),
            ("user", "SAY[two]"),
        ]
        first, second = (
            [(message["role"], message["content"]) for message in messages]
            for messages in api.conversations
        )
    assert first == expected[: len(RENDERED) + 1]
    assert second == expected


async def test_attachments_are_nodes_above_the_question_and_forks_share_them(hub: Hub) -> None:
    before = await head(hub, "c")
    handles = [handle("output", "make"), handle("document", "notes")]
    events = await everything(hub, "cone.chat", identifier="c", prompt="well?", attach=handles)
    attached = events[0]["attachments"]
    assert [each["handle"] for each in attached] == handles
    chain = [before, *(each["node_id"] for each in attached)]
    chain += [events[0]["user_position"]["node_id"], events[-1]["new_head"]["node_id"]]
    path = await only(
        hub, "arbor.context_get_path", tree_id=await tree_of(hub, "c"), node_id=chain[-1]
    )
    assert [node["id"] for node in path["path"]][-len(chain) :] == chain
    await only(hub, "cone.fork", identifier="c", new_name="fork")
    shared = await conversation(hub, "fork")
    assert shared[1:4] == [("user", MAKE), ("user", NOTES), ("user", "well?")]
    assert shared == await conversation(hub, "c")
    rendered = await only(hub, "arbor.tree_render", tree_id=await tree_of(hub, "c"))
    assert "[sources:make]" in rendered["render"]


async def test_attachments_of_an_ephemeral_chat_stay_beside_the_conversation(hub: Hub) -> None:
    before = await head(hub, "c")
    events = await everything(
        hub,
        "cone.chat",
        identifier="c",
        prompt="psst",
        ephemeral=True,
        attach=[handle("output", "make")],
    )
    assert await head(hub, "c") == before
    aside = await conversation(hub, "c", node_id=events[-1]["position"]["node_id"])
    assert aside[1:3] == [("user", MAKE), ("user", "psst")]
    await everything(hub, "cone.chat", identifier="c", prompt="aloud")
    texts = [text for role, text in await conversation(hub, "c") if role == "user"]
    assert texts == ["aloud"]


@pytest.mark.parametrize(
    ("attach", "code"),
    [
        ([handle("output", "make"), MISSING], "handle_target_missing"),
        (["nobody@1.0.0::thing:1"], "activation_not_found"),
        (["sources@9.0.0::output:make"], "version_unsupported"),
        ([handle("output", "make"), "no handle"], "handle_invalid"),
        (["echo@1.0.0::once:" + "x" * 5000], "invalid_params"),
        ([handle("output", "make")] * (MAX_ATTACHMENTS + 1), "invalid_params"),
        ("sources@1.0.0::output:make", "invalid_params"),
    ],
)
async def test_a_handle_that_cannot_be_attached_changes_nothing(
    hub: Hub, attach: Any, code: str
) -> None:
    before = await nodes(hub)
    error = await call_error(hub, "cone.chat", identifier="c", prompt="hi", attach=attach)
    assert error["code"] == code
    if code in ("handle_target_missing", "activation_not_found", "version_unsupported"):
        assert f"cannot attach {attach[-1]}" in error["message"]
    assert await nodes(hub) == before


async def test_attachments_are_bounded_together(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachments, "MAX_CHARACTERS", 100)
    handles = [handle("document", "notes")] * 3
    error = await call_error(hub, "cone.chat", identifier="c", prompt="hi", attach=handles)
    assert (error["code"], len(await nodes(hub))) == ("invalid_params", 2)


async def test_a_long_attachment_is_cut_at_the_setting(hub: Hub) -> None:
    long = handle("output", "long")
    await everything(hub, "cone.chat", identifier="c", prompt="hi", attach=[long])
    [_, (_, text), *_] = await conversation(hub, "c")
    assert text.startswith("[output, exit code 0: seq 5000]\n```\n0\n1\n")
    assert text.endswith("\n4998\n4999\n```")
    assert "of 23,889 characters left out" in text
    assert len(text) < 1200


async def test_an_answer_of_another_cone_keeps_its_role_as_an_attachment(hub: Hub) -> None:
    events = await everything(hub, "cone.chat", identifier="c", prompt="one")
    await only(hub, "cone.create", name="d", model_id="offline")
    attach = [events[0]["handle"], events[-1]["handle"]]
    await everything(hub, "cone.chat", identifier="d", prompt="two", attach=attach)
    roles = [role for role, _ in await conversation(hub, "d")]
    assert roles == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize("grant", [None, "plexus.resolve_handle", "sources.resolve_handle"])
async def test_an_agent_attaches_only_what_it_may_resolve(hub: Hub, grant: str | None) -> None:
    grants = ("cone", *([grant] if grant else ()))
    items = await called(
        hub, "cone.chat", *grants, identifier="c", prompt="x", attach=[handle("output", "make")]
    )
    errors = [item["code"] for item in items if item["type"] == "error"]
    assert errors == ([] if grant else ["permission_denied"])
