"""Attachments of a chat: nodes above the turn, and texts in the message of the prompt."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.claudecode import chat_support
from tests.plugins.claudecode.chat_support import (
    HANG,
    Event,
    Failure,
    World,
    asking,
    say,
    world,
)
from tests.sample_plugins.sources import DOCUMENTS, MAKE, NOTES, RENDERED, handle

OUTPUT, DOCUMENT = handle("output", "make"), handle("document", "notes")
MISSING = handle("document", "gone")


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    added = ("tests.sample_plugins.sources:Sources", "hubd.plugins.cone.plugin:Cone")
    monkeypatch.setattr(chat_support, "PLUGINS", (*chat_support.PLUGINS, *added))


@pytest.fixture
async def here(
    plugins: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    async with world(tmp_path, monkeypatch, "offline") as running:
        yield running


@pytest.fixture
async def claude(
    plugins: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    async with world(tmp_path, monkeypatch, "claude") as running:
        yield running


def texts(*rendered: str, role: str = "user") -> tuple[str, list[Event]]:
    """Return a message of these texts."""
    return role, [{"type": "text", "text": text} for text in rendered]


def prompt(here: World, answer: str) -> str:
    """Return the prompt with this answer."""
    return asking(here.engine, say(answer))


async def nodes(here: World) -> list[Event]:
    """Return all nodes of the session's tree."""
    tree_id = (await here.one("get_tree", name="s"))["tree_id"]
    pages = await here.call("arbor.tree_get", tree_id=tree_id)
    return [node for page in pages for node in page["tree"]["nodes"]]


@pytest.mark.claude
async def test_claude_gets_the_documented_texts_once_and_resumes_its_session(
    claude: World,
) -> None:
    await claude.chat(say("one"))
    native = (await claude.session())["claude_session_id"]
    await claude.chat(say("two"), attach=list(RENDERED))
    attached = texts(*RENDERED.values(), prompt(claude, "two"))
    expected = [texts(prompt(claude, "one")), texts("one", role="assistant"), attached]
    assert await claude.model_messages() == expected
    await claude.chat(say("three"))
    expected += [texts("two", role="assistant"), texts(prompt(claude, "three"))]
    assert await claude.model_messages() == expected
    assert (await claude.session())["claude_session_id"] == native
    # Without the program's own session, the tree gives the same context.
    claude.native_file(native).unlink()
    await claude.chat(say("four"))
    expected += [texts("three", role="assistant"), texts(prompt(claude, "four"))]
    assert await claude.model_messages() == expected


async def test_attachments_are_nodes_between_the_head_and_the_turn(here: World) -> None:
    await here.chat(say("one"))
    before = await here.head()
    ended = await here.chat(say("two"), attach=[OUTPUT, DOCUMENT])
    start = ended.of("start")[0]
    assert [each["handle"] for each in start["attachments"]] == [OUTPUT, DOCUMENT]
    chain = [before, *(each["node_id"] for each in start["attachments"])]
    chain += [start["turn_position"]["node_id"], await here.head()]
    tree_id = start["turn_position"]["tree_id"]
    path = await here.one("arbor.context_get_path", tree_id=tree_id, node_id=chain[-1])
    assert [node["id"] for node in path["path"]][-len(chain) :] == chain
    entries = await here.call("get_conversation", name="s")
    assert [entry["handle"] for entry in entries[2:4]] == [OUTPUT, DOCUMENT]
    [branch] = (await here.one("list_branches", name="s", node_id=before))["branches"]
    assert (branch["summary"], branch["turn_index"]) == (prompt(here, "two"), 1)
    # A chat without attachments has no such field.
    assert "attachments" not in (await here.chat(say("three"))).of("start")[0]


async def test_a_fork_shares_the_attachments(here: World) -> None:
    await here.chat(say("one"), attach=[OUTPUT])
    await here.one("fork", name="s", new_name="fork")
    await here.chat(say("two"), name="fork")
    assert (await here.model_messages("fork"))[0] == texts(MAKE, prompt(here, "one"))


async def test_the_offline_agent_follows_no_directives_in_attachments(here: World) -> None:
    ended = await here.chat(say("one"), attach=[DOCUMENT], permission_mode="bypassPermissions")
    assert (ended.text, ended.of("tool_use")) == ("one", [])
    assert (await here.model_messages())[0] == texts(NOTES, prompt(here, "one"))


async def test_an_ephemeral_chat_keeps_its_attachments_beside_the_conversation(
    here: World,
) -> None:
    await here.chat(say("one"))
    before, native = await here.context(), (await here.session())["claude_session_id"]
    ended = await here.chat(say("two"), ephemeral=True, attach=[OUTPUT])
    assert await here.context() == before
    position = ended.of("assistant_message")[0]["position"]["node_id"]
    aside = await here.context(node_id=position)
    assert aside[-2:] == [texts(MAKE, prompt(here, "two")), texts("two", role="assistant")]
    assert (await here.session())["claude_session_id"] == native


@pytest.mark.parametrize("method", ["chat", "chat_async"])
async def test_a_handle_that_cannot_be_attached_changes_nothing(here: World, method: str) -> None:
    for attach, code in (
        ([OUTPUT, MISSING], "handle_target_missing"),
        ([OUTPUT, "no handle"], "handle_invalid"),
    ):
        with pytest.raises(Failure) as failed:
            await here.call(method, name="s", prompt="say: hi", attach=attach)
        assert failed.value.code == code
    assert await here.call("list") == [{"type": "session_list", "sessions": []}]
    await here.chat(say("one"))
    before, streams = await nodes(here), await here.streams()
    with pytest.raises(Failure, match=f"cannot attach {MISSING}"):
        await here.call(method, name="s", prompt="say: hi", attach=[OUTPUT, MISSING])
    assert (await nodes(here), await here.streams()) == (before, streams)


async def test_a_queued_chat_keeps_its_attachments_across_a_restart(here: World) -> None:
    running = await here.begin(HANG)
    await here.until(running, lambda event: event["type"] == "user_message")
    queued = await here.begin(say("two"), attach=[OUTPUT])
    failing = await here.begin(say("three"), attach=[handle("document", "plain")])
    await here.stop()
    text = DOCUMENTS.pop("plain")
    try:
        await here.start()
        assert (await here.end_of(queued)).status == "complete"
        assert (await here.model_messages())[-1][1][-2:] == texts(MAKE, prompt(here, "two"))[1]
        # The data of another one is gone.
        ended = await here.end_of(failing)
        assert (ended.status, ended.events) == ("failed", [])
        assert "cannot attach" in (ended.error or "")
    finally:
        DOCUMENTS["plain"] = text


async def test_nodes_with_such_handles_are_context(here: World) -> None:
    tree_id = (await here.one("arbor.tree_create"))["tree_id"]
    above: dict[str, Any] = {}
    for each in RENDERED:
        node = await here.one("arbor.node_create_external", tree_id=tree_id, handle=each, **above)
        above = {"parent": node["node_id"]}
    await here.one("create", name="s", tree_id=tree_id, node_id=above["parent"])
    await here.chat(say("one"))
    assert (await here.model_messages())[0] == texts(*RENDERED.values(), prompt(here, "one"))
    await here.one("cone.create", name="c", tree_id=tree_id, node_id=above["parent"])
    entries = await here.call("cone.get_conversation", identifier="c")
    assert [entry["content"] for entry in entries] == list(RENDERED.values())


async def test_messages_of_another_session_keep_their_roles_as_attachments(here: World) -> None:
    await here.chat(say("one"), name="other")
    entries = await here.call("get_conversation", name="other")
    handles = [entry["handle"] for entry in entries]
    await here.chat(say("zero"))
    await here.chat(say("two"), attach=handles)
    expected = [
        texts(prompt(here, "zero")),
        texts("zero", role="assistant"),
        texts(prompt(here, "one")),
        texts("one", role="assistant"),
        texts(prompt(here, "two")),
    ]
    assert await here.model_messages() == expected
    assert (await here.context())[:-1] == expected
