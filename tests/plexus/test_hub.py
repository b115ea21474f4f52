"""The tree of activations: attach, look up, hashes."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from hubd.activation import Activation, Event, method
from hubd.errors import ActivationNotFound, Conflict
from hubd.plexus.host import PlexusHost
from hubd.plexus.hub import Hub
from hubd.plexus.root import build_hub
from hubd.plugins.echo import EchoPlugin
from hubd.plugins.health import HealthPlugin
from hubd.plugins.solar import Solar
from tests.support import call_events, environment


class Said(Event):
    text: str


class Leaf(Activation, version="1.0.0"):
    """A leaf with any name."""

    def __init__(self, name: str, *children: Activation) -> None:
        self.namespace = name
        self._children = children

    def children(self) -> Iterable[Activation]:
        return self._children

    @method
    async def say(self, text: str) -> AsyncIterator[Said]:
        """Say something."""
        yield Said(text=text)


class OtherLeaf(Activation, namespace="leaf", version="1.0.0"):
    """A leaf with another method."""

    @method
    async def say(self, words: str) -> AsyncIterator[Said]:
        """Say something."""
        yield Said(text=words)


def build(*activations: Activation, name: str = "plexus") -> Hub:
    hub = build_hub(name)
    host = PlexusHost(hub)
    for activation in activations:
        hub.attach(activation, host)
    return hub


def test_a_second_plugin_of_the_same_name_is_refused() -> None:
    with pytest.raises(Conflict, match="the name 'leaf' is taken in 'plexus'") as refused:
        build(Leaf("leaf"), OtherLeaf())
    assert refused.value.suggestion == (
        f"{__name__}.Leaf has it. Give the plugin another namespace"
    )


@pytest.mark.parametrize("name", ["plexus", "search"])
def test_a_plugin_cannot_take_the_name_of_the_hub_or_of_one_of_its_methods(name: str) -> None:
    with pytest.raises(Conflict, match=f"the name '{name}' is taken"):
        build(Leaf(name))


def test_a_child_cannot_take_the_name_of_its_parents_method() -> None:
    with pytest.raises(Conflict, match="the name 'say' is taken in 'up'"):
        build(Leaf("up", Leaf("say")))


def test_a_plugin_is_refused_if_one_of_its_children_is() -> None:
    hub = build_hub()
    with pytest.raises(Conflict):
        hub.attach(Leaf("up", Leaf("twin"), Leaf("twin")), PlexusHost(hub))
    assert hub.root.children == {}


def test_a_cycle_of_children_is_refused_with_a_reason() -> None:
    class Endless(Leaf, version="1.0.0"):
        """Contains itself."""

        def children(self) -> Iterable[Activation]:
            return [Endless("again")]

    with pytest.raises(TypeError, match="do its children contain it"):
        build(Endless("endless"))


def test_a_namespace_must_be_one_word() -> None:
    with pytest.raises(TypeError, match="must be one word"):
        build(Leaf("two.words"))


async def test_paths_walk_the_tree_to_any_depth() -> None:
    deepest: Activation = Leaf("n20")
    for level in reversed(range(20)):
        deepest = Leaf(f"n{level}", deepest)
    path = ".".join(f"n{level}" for level in range(21))
    [event] = await call_events(build(deepest), f"{path}.say", text="down here")
    assert event == {"type": "said", "text": "down here"}


def test_the_error_for_an_unknown_namespace_suggests_the_nearest_and_lists_all() -> None:
    hub = build(Leaf("up", Leaf("left"), Leaf("right")))
    with pytest.raises(ActivationNotFound) as caught:
        hub.find(["up", "rigth"])
    assert str(caught.value) == "no activation 'rigth' in 'up'"
    assert caught.value.suggestion == "Did you mean right?"
    assert caught.value.available == ["left", "right"]


def test_a_path_may_begin_with_the_name_of_the_root() -> None:
    hub = build(Leaf("up", Leaf("down")))
    assert hub.find(["plexus", "up", "down"]) is hub.find(["up", "down"])


def test_the_hash_does_not_depend_on_the_order_of_registration() -> None:
    one = build(EchoPlugin(), HealthPlugin(), Solar(), Leaf("up", Leaf("a"), Leaf("b")))
    other = build(Leaf("up", Leaf("b"), Leaf("a")), Solar(), HealthPlugin(), EchoPlugin())
    assert one.hash == other.hash
    assert [node.path for node in one.root.walk()] == [node.path for node in other.root.walk()]


def test_the_hash_is_the_same_in_another_process(tmp_path: Path) -> None:
    script = tmp_path / "hash.py"
    script.write_text(
        "from hubd.plugins.echo import EchoPlugin\n"
        "from hubd.plugins.solar import Solar\n"
        "from tests.plexus.test_hub import build\n"
        "print(build(Solar(), EchoPlugin()).hash)\n"
    )
    hashes = {
        subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            check=True,
            text=True,
            env=environment(PYTHONHASHSEED=seed),
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert hashes == {build(EchoPlugin(), Solar()).hash}


def test_the_root_hash_changes_when_any_descendant_does() -> None:
    before = build(Leaf("up", Leaf("mid", Leaf("leaf"))))
    after = build(Leaf("up", Leaf("mid", OtherLeaf())))
    for path in (["up", "mid", "leaf"], ["up", "mid"], ["up"], []):
        assert before.find(path).schema["hash"] != after.find(path).schema["hash"]
    assert before.find(["up"]).schema["self_hash"] == after.find(["up"]).schema["self_hash"]


def test_attaching_and_detaching_restores_the_hash() -> None:
    hub = build(Leaf("up"))
    before = hub.hash
    node = hub.attach(Leaf("more"), PlexusHost(hub))
    assert hub.hash != before
    hub.detach(node)
    assert hub.hash == before


def test_a_schema_is_shallow_and_has_the_documented_shape() -> None:
    hub = build(Leaf("up", Leaf("down")))
    up: dict[str, Any] = json.loads(json.dumps(hub.find(["up"]).schema))
    assert up.keys() == {
        "namespace",
        "version",
        "description",
        "plugin_id",
        "self_hash",
        "children_hash",
        "hash",
        "methods",
        "children",
        "handles",
    }
    down = hub.find(["up", "down"]).schema
    assert up["children"] == [
        {"namespace": "down", "description": "A leaf with any name.", "hash": down["hash"]}
    ]
    assert down["namespace"] == "up.down"
    assert "children" not in down
    assert "children_hash" not in down
    [say] = up["methods"]
    assert say.keys() == {
        "name",
        "description",
        "hash",
        "params",
        "returns",
        "streaming",
        "bidirectional",
    }


def test_the_name_of_the_hub_changes_only_the_namespace_of_the_root() -> None:
    one, other = build(Solar()), build(Solar(), name="galaxy")
    assert other.root.schema["namespace"] == "galaxy"
    assert other.root.schema["plugin_id"] == one.root.schema["plugin_id"]
    assert other.find(["solar", "earth"]).schema == one.find(["solar", "earth"]).schema
