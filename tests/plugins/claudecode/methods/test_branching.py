"""Sessions continue, fork and branch with both agents: each gets the context of its path."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hubd.plugins.claudecode import native
from tests.fakes.gate import Gate
from tests.plugins.claudecode.chat_support import (
    HANG,
    EngineName,
    Failure,
    RoleAndBlocks,
    World,
    asking,
    fail,
    is_sound,
    plain,
    run,
    say,
    text_of,
    think,
    world,
)

BASH: dict[str, Any] = {"allowed_tools": ["Bash"]}


@pytest.fixture(params=["offline", pytest.param("claude", marks=pytest.mark.soak)])
async def here(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    engine: EngineName = request.param
    async with world(tmp_path, monkeypatch, engine) as running:
        yield running


def exchanges(here: World, *said: str) -> list[tuple[str, str]]:
    """Return the context of a conversation with these answers and a last prompt."""
    collected = []
    for text in said:
        collected += [("user", asking(here.engine, say(text))), ("assistant", text)]
    return collected[:-1]


async def messages(here: World, name: str = "s") -> list[RoleAndBlocks]:
    """The context of a session up to its newest prompt."""
    context = await here.context(name)
    return context[:-1] if context[-1][0] == "assistant" else context


async def test_a_second_chat_gets_the_first_turn_as_context(here: World) -> None:
    await here.chat(say("one"))
    await here.chat(say("two"))
    assert text_of(await here.model_messages()) == exchanges(here, "one", "two")


async def test_a_fork_at_the_head_shares_the_tree_and_continues_separately(here: World) -> None:
    await here.chat(say("one"))
    forked = await here.one("fork", name="s", new_name="fork")
    assert forked["head"]["node_id"] == await here.head()
    await here.chat(say("two"), name="fork")
    assert text_of(await here.model_messages("fork")) == exchanges(here, "one", "two")
    await here.chat(say("three"))
    assert text_of(await here.model_messages()) == exchanges(here, "one", "three")
    trees = {(await here.session(name))["head"]["tree_id"] for name in ("s", "fork")}
    assert len(trees) == 1
    natives = {(await here.session(name))["claude_session_id"] for name in ("s", "fork")}
    assert len(natives) == 2


async def test_a_fork_at_an_earlier_message_gets_the_messages_up_to_it(here: World) -> None:
    await here.chat(think("deep"), say("one"))
    early = await here.head()
    await here.chat(say("two"))
    await here.chat(say("three"))
    # The last digits of a node's id are enough.
    await here.one("fork", name="s", new_name="early", at=early[-12:])
    await here.chat(say("other"), name="early")
    sent = await here.model_messages("early")
    assert [text for _, text in text_of(sent)][1:] == ["one", asking(here.engine, say("other"))]
    assert sent == await messages(here, "early")
    # The one that was forked knows nothing of it.
    await here.chat(say("four"))
    assert text_of(await here.model_messages())[1:] == [
        ("assistant", "one"),
        *exchanges(here, "two", "three", "four"),
    ]


async def test_a_fork_at_a_message_with_a_tool_call_gets_the_result_of_the_tool(
    here: World,
) -> None:
    first = await here.chat(run("echo from the tool"), say("done"), **BASH)
    calling, closing = first.of("assistant_message")
    assert first.of("complete")[0]["new_head"] == closing["position"]
    await here.one("fork", name="s", new_name="mid", at=calling["position"]["node_id"])
    await here.chat(say("other"), name="mid")
    sent = await here.model_messages("mid")
    assert sent == await messages(here, "mid")
    assert is_sound(sent)
    [result] = [block for _, blocks in sent for block in blocks if block["type"] == "tool_result"]
    assert "from the tool" in str(result["content"])
    assert "done" not in [text for _, text in text_of(sent)]


async def test_after_set_head_the_next_chat_starts_a_branch_and_both_are_listed(
    here: World,
) -> None:
    await here.chat(say("one"))
    early = await here.head()
    await here.chat(say("two"))
    late = await here.head()
    await here.one("set_head", name="s", node_id=early)
    await here.chat(say("three"))
    assert text_of(await here.model_messages()) == exchanges(here, "one", "three")
    listed = await here.one("list_branches", name="s", node_id=early)
    prompts = [asking(here.engine, say(text)) for text in ("two", "three")]
    assert [branch["summary"] for branch in listed["branches"]] == prompts
    await here.one("set_head", name="s", node_id=late)
    await here.chat(say("four"))
    assert text_of(await here.model_messages()) == exchanges(here, "one", "two", "four")


async def test_the_context_from_the_tree_equals_the_request_of_the_native_session(
    here: World,
) -> None:
    await here.chat(think("hm"), say("one"), run("echo two"), run("false"), **BASH)
    await here.chat(say("three"))
    sent = await here.model_messages()
    assert sent == await messages(here)
    assert is_sound(sent)
    kinds = {block["type"] for _, blocks in sent for block in blocks}
    assert kinds == {"text", "thinking", "tool_use", "tool_result"}


async def test_without_its_native_file_a_session_gets_the_same_context_from_the_tree(
    here: World,
) -> None:
    await here.chat(think("hm"), say("one"), run("echo two"), **BASH)
    before = await here.context()
    gone = (await here.session())["claude_session_id"]
    here.native_file(gone).unlink()
    await here.chat(say("three"))
    assert (await here.session())["claude_session_id"] != gone
    sent = await here.model_messages()
    assert sent[:-1] == before
    assert text_of(sent[-1:]) == [("user", asking(here.engine, say("three")))]


async def test_a_message_missing_from_the_native_file_comes_from_the_tree(here: World) -> None:
    await here.chat(say("one"))
    await here.chat(say("two"))
    file = here.native_file((await here.session())["claude_session_id"])
    lines = file.read_bytes().splitlines(keepends=True)
    # As after a crash of the machine: the newest lines never reached the disk.
    kept = next(place for place, line in enumerate(lines) if asking_two(here) in line)
    file.write_bytes(b"".join(lines[:kept]))
    await here.one("fork", name="s", new_name="fork")
    await here.chat(say("three"), name="fork")
    assert text_of(await here.model_messages("fork")) == exchanges(here, "one", "two", "three")


def asking_two(here: World) -> bytes:
    """Return the entry of the second prompt in a file."""
    return asking(here.engine, say("two")).encode()


async def test_an_ephemeral_chat_gets_the_context_and_is_not_part_of_the_next_one(
    here: World,
) -> None:
    await here.chat(say("one"))
    head = await here.head()
    aside = await here.chat(say("aside"), ephemeral=True)
    assert aside.status == "complete"
    if here.engine == "claude":
        assert text_of(await here.model_messages()) == exchanges(here, "one", "aside")
    assert await here.head() == head
    await here.chat(say("two"))
    assert text_of(await here.model_messages()) == exchanges(here, "one", "two")


async def test_a_failed_turn_stays_in_the_tree_but_not_in_the_next_context(
    here: World,
) -> None:
    await here.chat(say("one"))
    head = await here.head()
    failed = await here.chat(fail())
    assert failed.status == "failed"
    assert failed.error is not None
    assert "500" in failed.error
    assert failed.types[-1] == "error"
    assert failed.events[-1]["message"] == failed.error
    assert await here.head() == head
    await here.chat(say("two"))
    assert text_of(await here.model_messages()) == exchanges(here, "one", "two")
    assert await here.model_messages() == await messages(here)
    listed = await here.one("list_branches", name="s", node_id=head)
    assert [branch["summary"] for branch in listed["branches"]] == [
        asking(here.engine, fail()),
        asking(here.engine, say("two")),
    ]


async def test_a_failed_first_turn_does_not_move_the_head(here: World) -> None:
    await here.one("create", name="s")
    head = await here.head()
    assert (await here.chat(fail())).status == "failed"
    assert await here.head() == head
    await here.chat(say("two"))
    assert text_of(await here.model_messages()) == exchanges(here, "two")


async def test_a_cancelled_chat_keeps_its_text_and_the_session_continues(here: World) -> None:
    await here.chat(say("one"))
    head = await here.head()
    stream = await here.begin(HANG)
    await here.until_said(stream)
    cancelled = await here.one("cancel", name="s")
    assert (cancelled["stream_id"], cancelled["status"]) == (stream, "cancelled")
    ended = await here.end_of(stream)
    assert ended.status == "cancelled"
    assert (ended.types[-1], ended.events[-1]["code"]) == ("error", "cancelled")
    assert ended.text
    assert ended.of("content")[0]["complete"] is False
    assert await here.head() == head
    await here.chat(say("two"))
    assert text_of(await here.model_messages()) == exchanges(here, "one", "two")


async def test_a_chat_cancelled_in_a_tool_leaves_the_head_at_the_message_with_the_call(
    here: World, tmp_path: Path
) -> None:
    with Gate(tmp_path / "gate") as gate:
        stream = await here.begin(run(f"echo > {tmp_path / 'gate'}; tail -f /dev/null"), **BASH)
        await gate.reached()
    await here.one("cancel", stream_id=stream)
    ended = await here.end_of(stream)
    assert ended.status == "cancelled"
    [message] = ended.of("assistant_message")
    assert await here.head() == message["position"]["node_id"]
    assert await here.survivors() == set()
    await here.chat(say("two"))
    sent = await here.model_messages()
    assert is_sound(sent)
    assert text_of(sent)[-1] == ("user", asking(here.engine, say("two")))


async def test_text_nodes_and_handles_of_other_plugins_are_part_of_the_context(here: World) -> None:
    created = await here.one("arbor.tree_create")
    tree = created["tree_id"]
    note = await here.one("arbor.node_create_text", tree_id=tree, content="a note")
    received = await here.one("echo.once", message="an echo")
    echo = await here.one(
        "arbor.node_create_external",
        tree_id=tree,
        parent=note["node_id"],
        handle=received["handle"],
    )
    await here.one("create", name="s", tree_id=tree, node_id=echo["node_id"])
    await here.chat(say("one"))
    [(role, blocks)] = await here.model_messages()
    assert role == "user"
    assert blocks[0]["text"] == "a note"
    assert "an echo" in blocks[1]["text"]
    assert blocks[2]["text"] == asking(here.engine, say("one"))
    # And between two turns.
    later = await here.one(
        "arbor.node_create_text", tree_id=tree, parent=await here.head(), content="by the way"
    )
    await here.one("set_head", name="s", node_id=later["node_id"])
    await here.chat(say("two"))
    sent = await here.model_messages()
    assert [block["text"] for block in sent[-1][1]] == [
        "by the way",
        asking(here.engine, say("two")),
    ]
    assert sent == await messages(here)


async def test_two_sessions_on_one_tree_have_separate_contexts(here: World) -> None:
    tree = (await here.one("arbor.tree_create"))["tree_id"]
    for name in ("a", "b"):
        await here.one("create", name=name, tree_id=tree)
    await here.chat(say("of a"), name="a")
    await here.chat(say("of b"), name="b")
    await here.chat(say("more of a"), name="a")
    assert text_of(await here.model_messages("a")) == exchanges(here, "of a", "more of a")
    owners = await here.one("arbor.tree_get_refs", tree_id=tree)
    assert {f"claudecode:{(await here.session(name))['id']}" for name in ("a", "b")} <= set(
        owners["owners"]
    )


async def test_a_fork_survives_the_deletion_of_its_source(here: World) -> None:
    await here.chat(say("one"))
    await here.one("fork", name="s", new_name="fork")
    await here.one("delete", name="s")
    with pytest.raises(Failure, match="not_found"):
        await here.one("get", name="s")
    await here.chat(say("two"), name="fork")
    assert text_of(await here.model_messages("fork")) == exchanges(here, "one", "two")


async def test_a_busy_session_cannot_be_moved_or_deleted(here: World) -> None:
    stream = await here.begin(HANG)
    await here.until_said(stream)
    with pytest.raises(Failure, match="conflict"):
        await here.one("set_head", name="s", node_id=await here.head())
    with pytest.raises(Failure, match="conflict"):
        await here.one("delete", name="s")
    await here.one("cancel", stream_id=stream)


async def test_export_ends_at_the_given_node(here: World) -> None:
    await here.chat(think("hm"), say("one"), run("echo two"), **BASH)
    early = await here.head()
    await here.chat(say("three"))
    exported = await here.one("sessions_export", name="s", node_id=early)
    history = native.read_history(Path(exported["path"]))
    native_messages = native.conversation(history).messages
    written = plain({"role": each.role, "content": each.content} for each in native_messages)
    assert written == await here.context(node_id=early)
