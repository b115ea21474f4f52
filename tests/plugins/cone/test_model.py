"""Random chats, forks and moves, compared with a model in plain Python."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hubd.plexus.hub import Hub
from tests.plugins.cone.support import answer, cones, conversation, everything, only
from tests.support import call_events, examples

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.strip)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["chat", "chat", "aside", "fork", "move", "note", "delete"]),
        st.integers(0, 100),
        st.integers(0, 100),
        TEXT,
    ),
    max_size=25,
)


class Model:
    """The messages of each path, and the head of each cone."""

    def __init__(self) -> None:
        # The messages from the root to each node, by the node's id.
        self.paths: dict[str, list[tuple[str, str]]] = {}
        # The node id of each cone's head.
        self.heads: dict[str, str] = {}

    def add(self, parent: str, node_id: str, role: str, text: str) -> None:
        self.paths[node_id] = [*self.paths[parent], (role, text)]


async def take(
    hub: Hub, model: Model, tree_id: str, step: tuple[str, int, int, str], number: int
) -> None:
    kind, which, where, text = step
    names = sorted(model.heads)
    name = names[which % len(names)]
    node = sorted(model.paths)[where % len(model.paths)]
    if kind in ("chat", "aside"):
        events = await everything(
            hub, "cone.chat", identifier=name, prompt=text, ephemeral=kind == "aside"
        )
        asked, answered = events[0]["user_position"]["node_id"], events[-1]["position"]["node_id"]
        model.add(model.heads[name], asked, "user", text)
        model.add(asked, answered, "assistant", answer(events))
        if kind == "chat":
            model.heads[name] = answered
        assert events[-1]["new_head"]["node_id"] == model.heads[name]
    elif kind == "fork":
        new = f"fork {number}"
        params: dict[str, Any] = {"at": node} if where % 2 else {}
        await only(hub, "cone.fork", identifier=name, new_name=new, **params)
        model.heads[new] = node if params else model.heads[name]
    elif kind == "move":
        await only(hub, "cone.set_head", identifier=name, node_id=node)
        model.heads[name] = node
    elif kind == "note":
        [added] = await call_events(
            hub, "arbor.node_create_text", tree_id=tree_id, parent=node, content=text
        )
        model.add(node, added["node_id"], "user", text)
    elif len(names) > 1:
        await only(hub, "cone.delete", identifier=name)
        del model.heads[name]


@given(STEPS)
@examples(6)
def test_the_model_sees_exactly_the_messages_of_the_path(
    steps: list[tuple[str, int, int, str]],
) -> None:
    async def example(directory: Path) -> None:
        async with cones(directory) as hub:
            created = await only(hub, "cone.create", name="first", system_prompt="system")
            [root] = [
                node["id"]
                for node in (await only(hub, "arbor.tree_get", tree_id=created["head"]["tree_id"]))[
                    "tree"
                ]["nodes"]
                if node["parent"] is None
            ]
            model = Model()
            model.paths = {root: [], created["head"]["node_id"]: [("system", "system")]}
            model.heads = {"first": created["head"]["node_id"]}
            for number, step in enumerate(steps):
                await take(hub, model, created["head"]["tree_id"], step, number)
            for name, node in model.heads.items():
                assert await conversation(hub, name) == model.paths[node]
            for node, path in model.paths.items():
                some_cone = next(iter(model.heads))
                assert await conversation(hub, some_cone, node_id=node) == path
            [listed] = await call_events(hub, "cone.list")
            assert {cone["name"] for cone in listed["cones"]} == set(model.heads)

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(example(Path(directory)))
