"""Two plugins on one tree: both tell their models the same, with the same roles."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.claudecode import chat_support
from tests.plugins.claudecode.chat_support import World, run, say, think, world

Messages = list[tuple[str, str]]


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    plugins = (*chat_support.PLUGINS, "hubd.plugins.cone.plugin:Cone")
    monkeypatch.setattr(chat_support, "PLUGINS", plugins)
    async with world(tmp_path, monkeypatch, "offline") as running:
        yield running


async def messages_to_cone(here: World, **where: Any) -> Messages:
    """The context that a cone at this place tells its model."""
    created = await here.one("cone.create", name="reader", **where)
    entries = await here.call("cone.get_conversation", identifier="reader")
    await here.one("cone.delete", identifier=created["cone_id"])
    return [(entry["role"], entry["content"]) for entry in entries]


async def messages_to_claude(here: World, **where: Any) -> Messages:
    """The context that a session at this place tells its model; blocks as texts."""
    await here.one("create", name="reader", **where)
    entries = await here.call("render_context", name="reader")
    await here.one("delete", name="reader")
    messages = []
    for entry in entries:
        kinds = {block["type"] for block in entry["content"]}
        if kinds <= {"text", "thinking"}:
            texts = [block["text"] for block in entry["content"] if block["type"] == "text"]
            messages.append((entry["role"], "\n\n".join(texts)))
        else:
            messages.append((entry["role"], "tool"))
    return messages


async def add(here: World, tree_id: str, parent: str | None = None, **data: str) -> str:
    """Add a node with a text or a handle below another."""
    method = "text" if "content" in data else "external"
    above = {} if parent is None else {"parent": parent}
    node = await here.one(f"arbor.node_create_{method}", tree_id=tree_id, **above, **data)
    return str(node["node_id"])


async def test_a_session_on_a_cones_tree_keeps_every_role(here: World) -> None:
    await here.one("cone.create", name="c", system_prompt="Be brief.", model_id="offline")
    await here.call("cone.chat", identifier="c", prompt="hello")
    cone = (await here.one("cone.get", identifier="c"))["cone"]
    messages = await messages_to_claude(here, **cone["head"])
    assert [role for role, _ in messages] == ["system", "user", "assistant"]
    assert messages[:2] == [("system", "Be brief."), ("user", "hello")]
    assert messages == await messages_to_cone(here, **cone["head"])


async def test_claude_sees_a_cones_messages_and_the_system_prompt_in_tags(
    here: World,
) -> None:
    await here.one("cone.create", name="c", system_prompt="Be brief.", model_id="offline")
    await here.call("cone.chat", identifier="c", prompt="hello")
    cone = (await here.one("cone.get", identifier="c"))["cone"]
    answer = (await here.call("cone.get_conversation", identifier="c"))[-1]["content"]
    await here.one("create", name="s", **cone["head"])
    await here.chat(say("one"))
    texts = [
        (role, block["text"]) for role, blocks in await here.model_messages() for block in blocks
    ]
    assert texts[:3] == [
        ("user", "<system>\nBe brief.\n</system>"),
        ("user", "hello"),
        ("assistant", answer),
    ]


async def test_a_cone_on_a_sessions_tree_sees_complete_prompts_and_answers(here: World) -> None:
    long = "word " * 200
    await here.chat(think("hm"), say(long.strip()))
    await here.chat(say("two"))
    head = (await here.session())["head"]
    messages = await messages_to_claude(here, **head)
    assert [role for role, _ in messages] == ["user", "assistant"] * 2
    assert messages[1][1] == long.strip()
    assert messages == await messages_to_cone(here, **head)


async def test_a_cone_sees_the_tool_calls_of_a_session_and_their_results(here: World) -> None:
    await here.chat(run("echo from-the-tool"), say("done"), allowed_tools=["Bash"])
    head = (await here.session())["head"]
    messages = await messages_to_cone(here, **head)
    assert [role for role, _ in messages] == ["user", "assistant", "user", "assistant"]
    assert messages[1][1].startswith("[Tool call: Bash {")
    assert "echo from-the-tool" in messages[1][1]
    assert messages[2][1].startswith("[Tool result: ")
    assert "from-the-tool" in messages[2][1]
    assert messages[3] == ("assistant", "done")
    natively = await messages_to_claude(here, **head)
    assert [role for role, _ in natively] == [role for role, _ in messages]


async def test_texts_handles_and_missing_data_look_the_same_to_both(here: World) -> None:
    tree_id = (await here.one("arbor.tree_create"))["tree_id"]
    node = await add(here, tree_id, content="a note")
    handles = (
        (await here.one("echo.once", message="an echo"))["handle"],
        "nobody@1.0.0::thing:x",
        "echo@9.0.0::once:x",
        "cone@1.0.0::chat:msg-550e8400-e29b-41d4-a716-446655440000:user:bob",
        "claudecode@1.0.0::message:550e8400-e29b-41d4-a716-446655440000:user",
        "claudecode@1.0.0::session:550e8400-e29b-41d4-a716-446655440000",
    )
    for handle in handles:
        node = await add(here, tree_id, node, handle=handle)
    where = {"tree_id": tree_id, "node_id": node}
    messages = await messages_to_claude(here, **where)
    assert messages == [
        ("user", "a note"),
        ("user", "an echo"),
        *(("user", f"[External reference: {handle}]") for handle in handles[1:]),
    ]
    assert messages == await messages_to_cone(here, **where)


async def test_both_see_every_single_block_of_a_session(here: World) -> None:
    await here.chat(run("echo hi"), say("done"), allowed_tools=["Bash"])
    session = await here.session()
    [page] = await here.call("arbor.context_get_handles", tree_id=session["head"]["tree_id"])
    chosen = {handle.split("::")[1].split(":")[0]: handle for handle in page["handles"]}
    tree_id = (await here.one("arbor.tree_create"))["tree_id"]
    node = None
    kinds = ("content", "tool_use", "tool_result", "session")
    chosen["session"] = f"claudecode@1.0.0::session:{session['id']}"
    for kind in kinds:
        node = await add(here, tree_id, node, handle=chosen[kind])
    where = {"tree_id": tree_id, "node_id": node}
    messages = await messages_to_claude(here, **where)
    assert [role for role, _ in messages] == ["user"] * len(kinds)
    content, call, result, last_text = (text for _, text in messages)
    assert content == "done"
    assert call.startswith("[Tool call: Bash {")
    assert "hi" in result
    assert last_text == "[session: session s]"
    assert messages == await messages_to_cone(here, **where)


async def test_a_block_below_its_message_is_sent_once(here: World) -> None:
    await here.chat(say("done"))
    head = (await here.session())["head"]
    [page] = await here.call("arbor.node_get_children", **head)
    own = {"tree_id": head["tree_id"], "node_id": page["children"][0]["id"]}
    expected = await messages_to_claude(here, **head)
    assert await messages_to_claude(here, **own) == await messages_to_cone(here, **own) == expected
    # The same block below another message was put there, and is told.
    await here.chat(say("more"))
    later = await here.head()
    handle = page["children"][0]["data"]["handle"]
    put = {**head, "node_id": await add(here, head["tree_id"], later, handle=handle)}
    for messages in (await messages_to_claude(here, **put), await messages_to_cone(here, **put)):
        assert messages[-2:] == [("assistant", "more"), ("user", "done")]


async def test_every_message_has_a_short_id_for_forking(here: World) -> None:
    await here.chat(say("one"))
    await here.chat(say("two"))
    messages = await here.call("get_conversation", name="s")
    assert all(len(message["short_id"]) >= 4 for message in messages)
    await here.one("fork", name="s", new_name="early", at=messages[1]["short_id"])
    early = await here.call("get_conversation", name="early")
    assert early == messages[:2]
    await here.one("cone.create", name="c", system_prompt="s", model_id="offline")
    await here.call("cone.chat", identifier="c", prompt="hello")
    conversation = await here.call("cone.get_conversation", identifier="c")
    moved = await here.one("cone.set_head", identifier="c", node_id=conversation[1]["short_id"])
    assert moved["head"]["node_id"] == conversation[1]["node_id"]
