"""Chat events are a chain beside the conversation, in a lane that is hidden by default."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hubd.plexus.hub import Hub
from hubd.plugins.arbor.plugin import Arbor
from tests.plugins.arbor.grower import Grower
from tests.support import call_events, hub_with

COUNT = 1200


@dataclass(frozen=True)
class Chat:
    """A tree with a turn, a long chain of events below it, and an answer."""

    hub: Hub
    tree: str
    root: str
    turn: str
    events: list[str]
    answer: str

    async def pages(self, method: str, **params: Any) -> list[dict[str, Any]]:
        return await call_events(self.hub, f"arbor.{method}", tree_id=self.tree, **params)


@pytest.fixture
async def chat(tmp_path: Path) -> AsyncIterator[Chat]:
    async with hub_with(tmp_path, Arbor(), Grower()) as hub:
        [created] = await call_events(hub, "arbor.tree_create")
        common = {"tree_id": created["tree_id"]}
        [turn] = await call_events(hub, "arbor.node_create_text", content="turn", **common)
        common["parent"] = turn["node_id"]
        [grown] = await call_events(
            hub, "grower.grow", handle="x@1.0.0::event:e", lane="events", count=COUNT, **common
        )
        [answer] = await call_events(hub, "arbor.node_create_text", content="answer", **common)
        yield Chat(
            hub,
            created["tree_id"],
            created["root"],
            turn["node_id"],
            grown["nodes"],
            answer["node_id"],
        )


async def test_events_are_hidden_by_default(chat: Chat) -> None:
    conversation = [chat.root, chat.turn, chat.answer]
    [page] = await chat.pages("tree_get")
    assert [node["id"] for node in page["tree"]["nodes"]] == conversation
    [page] = await chat.pages("tree_get_skeleton")
    assert [node["id"] for node in page["tree"]["nodes"]] == conversation
    [page] = await chat.pages("node_get_children", node_id=chat.turn)
    assert [node["id"] for node in page["children"]] == [chat.answer]
    [page] = await chat.pages("context_list_leaves")
    assert page["leaves"] == [chat.answer]
    [page] = await chat.pages("context_get_handles")
    assert page["handles"] == []
    [page] = await chat.pages("tree_render")
    assert page["render"] == "└──\n    └── turn\n        └── answer"
    assert page["more"] == 0


async def test_events_are_shown_if_their_lane_is_selected(chat: Chat) -> None:
    events, both = {"lanes": ["events"]}, {"lanes": ["main", "events"]}
    pages = await chat.pages("tree_get", **events)
    assert [node["id"] for page in pages for node in page["tree"]["nodes"]] == chat.events
    pages = await chat.pages("tree_get", **both)
    ids = [node["id"] for page in pages for node in page["tree"]["nodes"]]
    assert sorted(ids) == sorted([chat.root, chat.turn, chat.answer, *chat.events])
    [page] = await chat.pages("node_get_children", node_id=chat.turn, **both)
    assert [node["id"] for node in page["children"]] == [chat.events[0], chat.answer]
    [page] = await chat.pages("context_list_leaves", **both)
    assert sorted(page["leaves"]) == sorted([chat.events[-1], chat.answer])
    pages = await chat.pages("context_get_handles", **events)
    assert [handle for page in pages for handle in page["handles"]] == ["x@1.0.0::event:e"] * COUNT
    [page] = await chat.pages("tree_render", **both)
    assert page["render"].count("[x:e]") == 200 - 1


@pytest.mark.parametrize(("first", "last"), [(0, COUNT - 1), (5, 10), (700, 0), (3, 3)])
async def test_the_path_between_two_events_is_their_chain(
    chat: Chat, first: int, last: int
) -> None:
    start, end = chat.events[first], chat.events[last]
    pages = await chat.pages("node_get_path_between", start=start, end=end)
    step = 1 if last >= first else -1
    expected = chat.events[first : last + step if last + step >= 0 else None : step]
    nodes = [node for page in pages for node in page["path"]]
    assert [node["id"] for node in nodes] == expected
    assert {node["lane"] for node in nodes} == {"events"}


async def test_a_path_to_an_event_shows_both_lanes(
    chat: Chat,
) -> None:
    pages = await chat.pages("node_get_path", node_id=chat.events[600])
    ids = [node for page in pages for node in page["path"]]
    assert ids == [chat.root, chat.turn, *chat.events[:601]]
    pages = await chat.pages("node_get_path", node_id=chat.events[600], lanes=["main"])
    assert [node for page in pages for node in page["path"]] == [chat.root, chat.turn]
    pages = await chat.pages("node_get_path_between", start=chat.answer, end=chat.events[1])
    ids = [node["id"] for page in pages for node in page["path"]]
    assert ids == [chat.answer, chat.turn, *chat.events[:2]]


async def test_the_stream_and_the_tree_have_the_same_events(chat: Chat) -> None:
    """A cursor is a place on the chain: what comes after it is the rest of the way."""
    cursor = chat.events[1000]
    pages = await chat.pages("node_get_path_between", start=cursor, end=chat.events[-1])
    [_, *rest] = [node["id"] for page in pages for node in page["path"]]
    assert rest == chat.events[1001:]
    pages = await chat.pages("tree_get", lanes=["events"], after=cursor)
    assert [node["id"] for page in pages for node in page["tree"]["nodes"]] == rest
