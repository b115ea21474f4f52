"""An exported page: all branches, folded tools, safe against its content."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hubd.conversations.export import branches
from hubd.conversations.export.entries import Entry, Speaker
from hubd.conversations.export.html.entry import entry_html
from hubd.storage.arbor.walk import Node
from tests.conversations.export.page_reader import Page, check_page
from tests.conversations.export.test_markdown_html import HOSTILE
from tests.plugins.claudecode.chat_support import World, run, say, think, world

NODE = Node(None, 1, b"n", 1, 0, 0, "", None, None, None, 0)
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with world(tmp_path, monkeypatch, "offline") as started:
        yield started


async def exported(here: World, name: str = "s", **params: Any) -> Page:
    parts = await here.call("claudecode.export", name=name, format="html", **params)
    return check_page("\n".join(part["text"] for part in parts))


def shown(speaker: Speaker, *blocks: dict[str, Any], name: str | None = None) -> Page:
    page = Page(entry_html(Entry(NODE, speaker, list(blocks), name, name), "n1", [name or "x"]))
    assert page.problems == []
    return page


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_content_is_harmless_in_every_kind_of_block(text: str) -> None:
    image = {"type": "base64", "media_type": text, "data": text}
    page = shown(
        "assistant",
        {"type": "thinking", "thinking": text},
        {"type": "tool_use", "name": text, "input": {text: text}},
        {"type": "tool_result", "content": text, "is_error": True},
        {"type": "tool_result", "content": [{"type": "text", "text": text}, {"type": text}, text]},
        {"type": "image", "source": image},
        {"type": "image", "source": {"type": "url", "url": text}},
        {"type": "attachment", "kind": text, "text": text},
        {"type": text, text: text},
        name=text,
    )
    assert not {"script", "svg", "iframe", "img", "style"} & set(page.elements)


def test_only_images_of_known_formats_are_shown() -> None:
    svg = base64.b64encode(b"<svg onload='alert(1)'/>").decode()
    for data, count in ((PNG, 1), (svg, 0), (PNG + '"', 0), (PNG[:-1] + "\n", 0), ("", 0)):
        source = {"type": "base64", "media_type": "image/svg+xml", "data": data}
        page = shown(
            "tool", {"type": "tool_result", "content": [{"type": "image", "source": source}]}
        )
        assert page.elements.count("img") == count, data[:20]


async def test_tools_and_thinking_are_folded_and_complete(here: World) -> None:
    await here.chat(think("hm"), run("echo two"), say("**three**"), allowed_tools=["Bash"])
    page = await exported(here)
    assert page.elements.count("details") == 3
    for text in ("hm", "Bash", "echo two", "three", "Exported by hubd"):
        assert text in page.text
    assert page.external == []


async def test_every_branch_is_on_the_page_once_and_linked(here: World) -> None:
    await here.chat(say("one"))
    [question, answer] = await here.call("get_conversation", name="s")
    await here.chat(say("two"))
    await here.one("fork", name="s", new_name="other", at=answer["node_id"])
    await here.chat(say("three"), name="other")
    await here.one("fork", name="s", new_name="third", at=answer["node_id"])
    for name, last in (("s", "two"), ("other", "three"), ("third", "one")):
        page = await exported(here, name)
        branch_links = [link for link in page.links if link[:1] == "b" and link != "branches"]
        assert set(branch_links) == ({"b1", "b2"} if name != "third" else {"b1", "b2", "b3"})
        assert page.elements.count("article") == 6
        # The path of the document is the first branch.
        parts = await here.call("claudecode.export", name=name)
        assert page.articles["b1"] == sum("## " in part["text"] for part in parts)
        assert f"say: {last}" in page.text.partition("Continues after")[0]
        for head in ("s", "other", "third"):
            assert head in page.text
    assert f"n{question['node_id']}" in page.anchors


async def test_secrets_are_replaced_also_in_titles_and_names(here: World) -> None:
    key = "AKIA" + "ABCDEFGHIJKLMNOP"
    await here.chat(say(f"a {key}"), name=key)
    page = await exported(here, key)
    assert key not in page.text
    # Title, heading, question, answer, and the name of the head there.
    assert page.text.count("[REDACTED:aws-access-key]") == 5
    [question, _] = await here.call("get_conversation", name=key)
    await here.one("fork", name=key, new_name="other", at=question["node_id"])
    await here.chat(say(f"b {key}"), name="other")
    page = await exported(here, key)
    assert key not in page.text
    # Also in the list of branches, in the heading of a branch and in the link to it.
    replaced = page.text.count("[REDACTED:aws-access-key]")
    assert replaced == (await exported(here, key, redact=False)).text.count(key) > 10


async def test_a_tree_with_too_many_nodes_has_one_path(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branches, "MAX_NODES", 3)
    await here.chat(say("one"))
    page = await exported(here)
    assert "This is one path" in page.text
    assert page.elements.count("article") == 2


async def test_nodes_of_other_plugins_are_shown_by_their_summary(here: World) -> None:
    await here.chat(say("one"))
    head = (await here.one("get_tree", name="s"))["head"]
    handle = "echo@1.0.0::once:attached%20<b>"
    node = await here.one(
        "arbor.node_create_external", parent=head["node_id"], handle=handle, tree_id=head["tree_id"]
    )
    await here.one("set_head", name="s", node_id=node["node_id"])
    page = await exported(here)
    assert "attached <b>" in page.text
    assert page.elements.count("article") == 3
