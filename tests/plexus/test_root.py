"""The methods of the root."""

from hubd.plexus.hub import Hub
from hubd.plugins.solar import PLANETS
from tests.support import call_error, call_events, call_items


async def test_the_root_lists_its_methods_and_children(hub: Hub) -> None:
    [schema] = await call_events(hub, "plexus.schema")
    names = {method["name"] for method in schema["methods"]}
    assert names == {
        "call",
        "schema",
        "hash",
        "hashes",
        "activations",
        "methods",
        "resolve_handle",
        "search",
        "walk_and_resolve",
    }
    assert [child["namespace"] for child in schema["children"]] == ["echo", "health", "solar"]


async def test_the_schema_of_one_method_is_asked_for_by_name_or_by_path(hub: Hub) -> None:
    [luna] = await call_events(hub, "solar.earth.luna.schema", method="info")
    [by_path] = await call_events(hub, "plexus.schema", method="solar.earth.luna.info")
    [relative] = await call_events(hub, "solar.earth.schema", method="luna.info")
    assert luna == by_path == relative
    assert luna["name"] == "info"
    assert luna["streaming"] is False
    error = await call_error(hub, "solar.earth.luna.schema", method="inof")
    assert (error["code"], error["guidance"]["suggestion"]) == (
        "method_not_found",
        "Did you mean info?",
    )


async def test_the_content_type_of_a_schema_names_its_method(hub: Hub) -> None:
    items = await call_items(hub, "solar.earth.schema")
    assert items[0]["content_type"] == "solar.earth.schema"


async def test_every_namespace_answers_its_hash(hub: Hub) -> None:
    for node in hub.root.walk():
        [event] = await call_events(hub, f"{node.path}.hash")
        assert event == {"type": "hash", "event": "hash", "value": node.schema["hash"]}
    hashes = {event["namespace"]: event for event in await call_events(hub, "plexus.hashes")}
    assert hashes["plexus"]["hash"] == hub.hash
    assert hashes["solar.earth.luna"]["children_hash"] is None
    assert hashes["solar.earth"]["children_hash"] is not None


async def test_activations_lists_every_namespace_and_failed_plugins(hub: Hub) -> None:
    hub.broken.append(("nowhere:Nothing (--plugin)", "ModuleNotFoundError: nowhere"))
    events = await call_events(hub, "plexus.activations")
    moons = sum(len(planet.moons) for planet in PLANETS)
    listed = [event["namespace"] for event in events if event["type"] == "activation"]
    assert len(listed) == 1 + 2 + 1 + len(PLANETS) + moons
    assert listed == sorted(listed, key=lambda path: (path != "plexus", path.split(".")))
    assert events[-1] == {
        "type": "broken_plugin",
        "source": "nowhere:Nothing (--plugin)",
        "reason": "ModuleNotFoundError: nowhere",
    }


async def test_methods_are_found_by_words_best_first(hub: Hub) -> None:
    matches = await call_events(hub, "plexus.methods", query="Luna info", limit=3)
    assert matches[0]["method"] == "solar.earth.luna.info"
    assert len(matches) == 3
    assert matches[0]["score"] > matches[-1]["score"] or matches[1]["score"] == matches[-1]["score"]
    assert await call_events(hub, "plexus.methods", query="zzzzz") == []
