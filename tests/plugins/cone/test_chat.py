"""Chats with the offline model: the context, the stored messages, and the moves of the head."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from pathlib import Path

import pytest

from hubd.activation import ExecutionError
from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from hubd.plugins.arbor.plugin import Arbor
from hubd.plugins.cone import answer as answer_module
from hubd.plugins.cone import chat as chat_module
from hubd.plugins.cone.plugin import Cone
from hubd.plugins.cone.providers import offline
from hubd.plugins.cone.providers.provider import Ending, Message
from hubd.plugins.cone.settings import Settings
from hubd.wire.item import Item
from tests.plugins.cone.support import (
    Team,
    answer,
    cones,
    conversation,
    everything,
    head,
    only,
    tree_of,
)
from tests.support import (
    PATIENCE_SECONDS,
    Collector,
    call_error,
    call_events,
    call_items,
    hub_with,
)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with cones(tmp_path) as hub:
        await only(hub, "cone.create", name="c", system_prompt="Be brief.")
        yield hub


class Scripted:
    """A scripted answer of the offline model, which waits for `go_on`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests: list[list[Message]] = []
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.closed = False
        self.failure: Exception | None = None
        monkeypatch.setattr(offline.Offline, "answer", self._answer)

    async def _answer(
        self, model: str, messages: Sequence[Message]
    ) -> AsyncGenerator[str | Ending, None]:
        self.requests.append(list(messages))
        try:
            yield "half "
            self.asked.set()
            await self.go_on.wait()
            if self.failure is not None:
                raise self.failure
            yield "and half"
            yield Ending("scripted", "end_turn", 1, 2)
        finally:
            self.closed = True


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    return Scripted(monkeypatch)


async def test_a_chat_starts_with_the_position_of_the_question_and_ends_with_the_new_head(
    hub: Hub,
) -> None:
    events = await call_events(hub, "cone.chat", identifier="c", prompt="How are you?")
    assert events[0]["type"] == "chat_start"
    assert events[-1]["type"] == "chat_complete"
    assert {event["type"] for event in events[1:-1]} == {"chat_content"}
    assert answer(events) == (
        "[offline: no language model was asked] You said: How are you?\nBefore that: 1 system."
    )
    offsets = [event["offset"] for event in events[1:-1]]
    lengths = [len(event["content"]) for event in events[1:-1]]
    assert offsets == [sum(lengths[:number]) for number in range(len(lengths))]
    asked = await only(hub, "plexus.resolve_handle", handle=events[0]["handle"])
    assert asked["data"]["content"] == "How are you?"
    message = await only(hub, "plexus.resolve_handle", handle=events[-1]["handle"])
    assert message["data"] == {
        "type": "resolved_message",
        "id": message["data"]["id"],
        "role": "assistant",
        "content": answer(events),
        "model": "offline",
        "name": "c",
    }
    assert events[-1]["new_head"] == events[-1]["position"]
    assert events[-1]["new_head"]["node_id"] == await head(hub, "c")
    words = len(answer(events).split())
    assert events[-1]["usage"] == {"input_tokens": 5, "output_tokens": words}


async def test_the_offline_model_is_deterministic(hub: Hub) -> None:
    await only(hub, "cone.fork", identifier="c", new_name="d")
    for prompt in ("one", "two\n three "):
        first = answer(await everything(hub, "cone.chat", identifier="c", prompt=prompt))
        assert first == answer(await everything(hub, "cone.chat", identifier="d", prompt=prompt))


async def test_the_model_sees_all_earlier_messages(hub: Hub, scripted: Scripted) -> None:
    scripted.go_on.set()
    for prompt in ("one", "two"):
        await everything(hub, "cone.chat", identifier="c", prompt=prompt)
    assert [(message.role, message.content) for message in scripted.requests[1]] == [
        ("system", "Be brief."),
        ("user", "one"),
        ("assistant", "half and half"),
        ("user", "two"),
    ]
    assert await conversation(hub, "c") == [
        ("system", "Be brief."),
        ("user", "one"),
        ("assistant", "half and half"),
        ("user", "two"),
        ("assistant", "half and half"),
    ]


async def test_an_ephemeral_chat_is_stored_and_does_not_move_the_head(hub: Hub) -> None:
    before = await head(hub, "c")
    events = await call_events(hub, "cone.chat", identifier="c", prompt="psst", ephemeral=True)
    assert events[-1]["new_head"]["node_id"] == before == await head(hub, "c")
    assert await conversation(hub, "c") == [("system", "Be brief.")]
    aside = await conversation(hub, "c", node_id=events[-1]["position"]["node_id"])
    assert [role for role, _ in aside] == ["system", "user", "assistant"]
    await everything(hub, "cone.chat", identifier="c", prompt="aloud")
    assert [text for role, text in await conversation(hub, "c") if role == "user"] == ["aloud"]


async def test_the_model_sees_texts_and_handles_of_other_plugins_on_the_path(
    hub: Hub, scripted: Scripted
) -> None:
    tree_id, parent = await tree_of(hub, "c"), await head(hub, "c")
    echoed = (await only(hub, "echo.once", message="from afar"))["handle"]
    for method, data in (
        ("node_create_text", {"content": "a plain text"}),
        ("node_create_external", {"handle": echoed}),
        ("node_create_external", {"handle": "gone@1.0.0::thing:1"}),
        ("node_create_external", {"handle": "echo@2.0.0::once:x"}),
        ("node_create_text", {"content": "  "}),
    ):
        [node] = await call_events(hub, f"arbor.{method}", tree_id=tree_id, parent=parent, **data)
        parent = node["node_id"]
    await only(hub, "cone.set_head", identifier="c", node_id=parent)
    scripted.go_on.set()
    await everything(hub, "cone.chat", identifier="c", prompt="Well?")
    assert [(message.role, message.content) for message in scripted.requests[0]] == [
        ("system", "Be brief."),
        ("user", "a plain text"),
        ("user", "from afar"),
        ("user", "[External reference: gone@1.0.0::thing:1]"),
        ("user", "[External reference: echo@2.0.0::once:x]"),
        ("user", "Well?"),
    ]


async def test_an_unknown_role_of_resolved_data_becomes_user(tmp_path: Path) -> None:
    async with hub_with(tmp_path, Arbor(), Cone(), Team()) as hub:
        await only(hub, "cone.create", name="c")
        where = {"tree_id": await tree_of(hub, "c"), "handle": "team@1.0.0::member:Ann"}
        node = await only(hub, "arbor.node_create_external", **where)
        await only(hub, "cone.set_head", identifier="c", node_id=node["node_id"])
        assert await conversation(hub, "c") == [("user", "Ann")]


async def test_a_message_of_another_cone_keeps_its_role(hub: Hub, scripted: Scripted) -> None:
    scripted.go_on.set()
    events = await everything(hub, "cone.chat", identifier="c", prompt="one")
    await only(hub, "cone.create", name="d", model_id="offline")
    where = {"tree_id": await tree_of(hub, "d"), "handle": events[-1]["handle"]}
    [node] = await call_events(hub, "arbor.node_create_external", **where)
    await only(hub, "cone.set_head", identifier="d", node_id=node["node_id"])
    await everything(hub, "cone.chat", identifier="d", prompt="two")
    assert [(message.role, message.content) for message in scripted.requests[-1]] == [
        ("assistant", "half and half"),
        ("user", "two"),
    ]


async def test_the_question_is_stored_at_once_and_the_head_moves_at_the_end(
    hub: Hub, scripted: Scripted
) -> None:
    before = await head(hub, "c")
    caller = Collector()
    chat = asyncio.create_task(
        Call(hub, "cone.chat", {"identifier": "c", "prompt": "one"}, caller).run()
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        await scripted.asked.wait()
    start = caller.items[0]["content"]
    asked = await conversation(hub, "c", node_id=start["user_position"]["node_id"])
    assert asked[-1] == ("user", "one")
    assert await head(hub, "c") == before
    scripted.go_on.set()
    await chat
    assert await head(hub, "c") == caller.items[-2]["content"]["new_head"]["node_id"] != before


@pytest.mark.parametrize("how", ["fails", "crashes", "cancelled", "endless", "late"])
async def test_an_incomplete_answer_does_not_move_the_head(
    hub: Hub, scripted: Scripted, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await head(hub, "c")
    if how == "endless":
        monkeypatch.setattr(answer_module, "MAX_ANSWER", 6)
    if how == "late":
        cone = hub.find(["cone"]).activation
        monkeypatch.setattr(cone, "_settings", Settings(answer_seconds=0.01))
    caller = Collector()
    call = Call(hub, "cone.chat", {"identifier": "c", "prompt": "one"}, caller)
    chat = asyncio.create_task(call.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await scripted.asked.wait()
        if how == "cancelled":
            chat.cancel()
        elif how != "late":
            failures = {"fails": ExecutionError("no"), "crashes": RuntimeError("oh")}
            scripted.failure = failures.get(how)
            scripted.go_on.set()
        await chat
    codes = {"cancelled": "cancelled", "late": "timeout"}
    assert caller.items[-2]["code"] == codes.get(how, "execution_error")
    assert scripted.closed
    assert await head(hub, "c") == before
    # The question stays in the tree, and the next chat continues from its parent.
    tree = (await call_events(hub, "arbor.tree_get", tree_id=await tree_of(hub, "c")))[0]["tree"]
    assert len(tree["nodes"]) == 3
    monkeypatch.undo()
    await everything(hub, "cone.chat", identifier="c", prompt="two")
    assert [text for role, text in await conversation(hub, "c") if role == "user"] == ["two"]


async def test_a_second_chat_waits_for_the_first_and_sees_its_answer(
    hub: Hub, scripted: Scripted
) -> None:
    first = asyncio.create_task(call_items(hub, "cone.chat", identifier="c", prompt="one"))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await scripted.asked.wait()
    waiting = Collector()
    call = Call(hub, "cone.chat", {"identifier": "c", "prompt": "two"}, waiting)
    second = asyncio.create_task(call.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await waiting.arrived.wait()
    assert [item["type"] for item in waiting.items] == ["progress"]
    assert len(scripted.requests) == 1
    scripted.go_on.set()
    await asyncio.gather(first, second)
    assert [message.content for message in scripted.requests[1]][1:] == [
        "one",
        "half and half",
        "two",
    ]


async def test_a_caller_that_does_not_read_does_not_delay_the_next_chat(
    hub: Hub, scripted: Scripted
) -> None:
    class Stuck(Collector):
        async def send(self, item: Item) -> None:
            self.post(item)
            await asyncio.Event().wait()

    stuck = Stuck()
    params = {"identifier": "c", "prompt": "one"}
    first = asyncio.create_task(Call(hub, "cone.chat", params, stuck).run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await scripted.asked.wait()
        scripted.go_on.set()
        await everything(hub, "cone.chat", identifier="c", prompt="two")
    assert [item["content"]["type"] for item in stuck.items] == ["chat_start"]
    texts = [text for _, text in await conversation(hub, "c")]
    assert texts[1:] == ["one", "half and half", "two", "half and half"]
    first.cancel()
    await first


async def test_a_busy_cone_can_be_forked_but_not_moved_or_deleted(
    hub: Hub, scripted: Scripted
) -> None:
    root = (await call_events(hub, "arbor.tree_get", tree_id=await tree_of(hub, "c")))[0]["tree"]
    chat = asyncio.create_task(call_items(hub, "cone.chat", identifier="c", prompt="one"))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await scripted.asked.wait()
    error = await call_error(hub, "cone.set_head", identifier="c", node_id=root["root"])
    assert error["code"] == "conflict"
    assert (await call_error(hub, "cone.delete", identifier="c"))["code"] == "conflict"
    await only(hub, "cone.fork", identifier="c", new_name="d")
    assert await conversation(hub, "d") == [("system", "Be brief.")]
    scripted.go_on.set()
    await chat
    await only(hub, "cone.set_head", identifier="c", node_id=root["root"])


async def test_concurrent_chats_with_one_cone_become_one_conversation(hub: Hub) -> None:
    prompts = [f"prompt {number}" for number in range(20)]
    await asyncio.gather(
        *(everything(hub, "cone.chat", identifier="c", prompt=prompt) for prompt in prompts)
    )
    messages = await conversation(hub, "c")
    assert [role for role, _ in messages[1:]] == ["user", "assistant"] * 20
    assert [text for role, text in messages if role == "user"] == prompts


async def test_a_too_long_conversation_is_rejected_before_the_question_is_stored(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_module, "MAX_CONTEXT", 5)
    error = await call_error(hub, "cone.chat", identifier="c", prompt="one")
    assert error["code"] == "conflict"
    assert "fork" in error["guidance"]["suggestion"]
    tree = (await call_events(hub, "arbor.tree_get", tree_id=await tree_of(hub, "c")))[0]["tree"]
    assert len(tree["nodes"]) == 2


async def test_a_chat_fails_if_its_tree_is_deleted(hub: Hub, scripted: Scripted) -> None:
    tree_id = await tree_of(hub, "c")
    caller = Collector()
    chat = asyncio.create_task(
        Call(hub, "cone.chat", {"identifier": "c", "prompt": "one"}, caller).run()
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        await scripted.asked.wait()
    await call_events(hub, "arbor.tree_delete", tree_id=tree_id, force=True)
    scripted.go_on.set()
    await chat
    assert caller.items[-2]["code"] == "not_found"


async def test_a_conversation_is_exported_as_markdown_and_as_json_lines(
    hub: Hub, scripted: Scripted
) -> None:
    scripted.go_on.set()
    await everything(hub, "cone.chat", identifier="c", prompt="one")
    written = await call_events(hub, "cone.export", identifier="c")
    assert "\n".join(event["text"] for event in written) == (
        "# c\n\n## system\n\nBe brief.\n\n## user\n\none\n\n## assistant (c)\n\nhalf and half"
    )
    lines = await call_events(hub, "cone.export", identifier="c", format="jsonl")
    read = await call_events(hub, "cone.get_conversation", identifier="c")
    # A short id may become ambiguous later, so it is not exported.
    expected = [
        {name: value for name, value in entry.items() if name != "short_id"} for entry in read
    ]
    assert [json.loads(line["text"]) | {"type": "message"} for line in lines] == expected


async def test_an_empty_prompt_is_rejected(hub: Hub) -> None:
    error = await call_error(hub, "cone.chat", identifier="c", prompt="")
    assert error["code"] == "invalid_params"
