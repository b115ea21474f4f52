"""The parts of a hub that an agent with grants may call and see."""

from pathlib import Path
from typing import Any

import pytest

from hubd.activation import Activation, Actor, Client, Event, method
from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from hubd.wire.caller import UNKNOWN
from tests.support import Collector, call_events, hub_with


class Done(Event):
    pass


class Questions(Activation, namespace="questions", version="1.0.0"):
    """Questions of agents."""

    @method(open_to_sessions=True)
    async def ask(self) -> Done:
        """Ask."""
        return Done()

    @method
    async def answer(self) -> Done:
        """Answer."""
        return Done()


async def called(hub: Hub, path: str, *grants: str, **params: Any) -> list[dict[str, Any]]:
    caller = Collector(client=Client("unix", actor=Actor("session", "one", grants)))
    await Call(hub, path, params, caller).run()
    return caller.items


async def content(hub: Hub, path: str, *grants: str, **params: Any) -> list[dict[str, Any]]:
    items = await called(hub, path, *grants, **params)
    assert [item for item in items if item["type"] == "error"] == [], items
    return [item["content"] for item in items if item["type"] == "data"]


async def denial(hub: Hub, path: str, *grants: str, **params: Any) -> dict[str, Any]:
    guidance, error, _ = await called(hub, path, *grants, **params)
    assert error["code"] == "permission_denied"
    return {**guidance, **error}


async def test_a_refusal_names_the_method_and_the_remedy(hub: Hub) -> None:
    error = await denial(hub, "echo.ping", "echo.once", "solar.earth")
    assert error["message"] == "this agent may not call echo.ping"
    assert error["suggestion"].endswith("Grant it when the session is created: --grants echo.ping")
    assert error["available"] == ["echo.once", "solar.earth.info", "solar.earth.luna.info"]
    assert "it has no grants" in (await denial(hub, "echo.ping"))["message"]


async def test_a_refusal_does_not_show_what_exists(hub: Hub) -> None:
    for path in ("echo.nothing", "nothing.at_all", "plexus.call_me"):
        error = await denial(hub, path, "echo.once")
        assert error["available"] == ["echo.once"]
    items = await called(hub, "nonsense", "echo.once")
    assert items[0]["available"] == ["echo.once"]


async def test_wrapping_and_other_spellings_do_not_help(hub: Hub) -> None:
    wrapped = {"method": "plexus.call", "params": {"method": "echo.ping"}}
    await denial(hub, "plexus.call", "echo.once", **wrapped)
    await denial(hub, "plexus.echo.ping", "echo.once")
    await denial(hub, "plexus.call", "plexus.call", method="echo.ping")
    assert await content(hub, "plexus.echo.once", "echo.once", message="hi")


async def test_the_schema_shows_granted_methods_only(hub: Hub) -> None:
    grants = ("echo.once", "solar.earth.info")
    [root] = await content(hub, "plexus.schema", *grants)
    assert root["methods"] == []
    assert [child["namespace"] for child in root["children"]] == ["echo", "solar"]
    [echo] = await content(hub, "echo.schema", *grants)
    assert [method["name"] for method in echo["methods"]] == ["once"]
    assert echo["handles"] == []
    [solar] = await content(hub, "solar.schema", *grants)
    assert [child["namespace"] for child in solar["children"]] == ["earth"]
    [method] = await content(hub, "echo.schema", *grants, method="once")
    assert method["name"] == "once"
    for path, params in (
        ("health.schema", {}),
        ("solar.mars.schema", {}),
        ("echo.schema", {"method": "ping"}),
        ("plexus.schema", {"method": "health.check"}),
        ("plexus.schema", {"method": "nothing.at_all"}),
    ):
        await denial(hub, path, *grants, **params)
    for path in ("plexus.schema", "echo.schema", "plexus.hash"):
        await denial(hub, path)


async def test_the_hash_of_a_limited_schema_is_another_one(hub: Hub) -> None:
    [whole] = await call_events(hub, "plexus.hash")
    [limited] = await content(hub, "plexus.hash", "echo.once")
    items = await called(hub, "echo.once", "echo.once", message="hi")
    assert whole["value"] != limited["value"]
    assert {item["metadata"]["plexus_hash"] for item in items} == {limited["value"]}
    [info] = await content(hub, "_info")
    assert info["plexus_hash"] not in (whole["value"], limited["value"])


async def test_lists_of_the_hub_show_granted_methods_only(hub: Hub) -> None:
    grants = ("plexus.activations", "plexus.methods", "plexus.hashes", "echo.once")
    namespaces = await content(hub, "plexus.activations", *grants)
    assert {entry["namespace"]: entry["methods"] for entry in namespaces} == {
        "plexus": ["methods", "activations", "hashes"],
        "echo": ["once"],
    }
    matches = await content(hub, "plexus.methods", *grants, query="echo message ping")
    assert [match["method"] for match in matches] == ["echo.once"]
    hashes = await content(hub, "plexus.hashes", *grants)
    assert [entry["namespace"] for entry in hashes] == ["plexus", "echo"]


async def test_a_handle_is_resolved_only_if_that_is_granted(hub: Hub) -> None:
    [event] = await content(hub, "echo.once", "echo.once", message="hi")
    handle = event["handle"]
    await denial(hub, "plexus.resolve_handle", "echo.once", handle=handle)
    await denial(hub, "echo.resolve_handle", "echo.once", handle=handle)
    assert await content(hub, "echo.resolve_handle", "echo", handle=handle)


@pytest.mark.parametrize("path", ["echo.once", "plexus.schema", "plexus.search"])
async def test_an_unknown_process_may_call_nothing(hub: Hub, path: str) -> None:
    caller = Collector(client=Client("unix", actor=UNKNOWN))
    await Call(hub, path, {}, caller).run()
    assert caller.items[1]["code"] == "permission_denied"
    assert caller.items[0]["available"] == []
    info = Collector(client=Client("unix", actor=UNKNOWN))
    await Call(hub, "_info", {}, info).run()
    assert [item["type"] for item in info.items] == ["data", "done"]


async def test_a_session_needs_no_grant_for_a_method_that_is_open_to_sessions(
    tmp_path: Path,
) -> None:
    async with hub_with(tmp_path, Questions()) as hub:
        assert await content(hub, "questions.ask") == [{"type": "done"}]
        assert await content(hub, "plexus.call", method="questions.ask") == [{"type": "done"}]
        for path in ("questions.answer", "questions.schema", "plexus.schema"):
            assert (await denial(hub, path))["available"] == []
        # A list shows only granted methods.
        [visible] = await content(hub, "questions.schema", "questions.answer")
        assert [each["name"] for each in visible["methods"]] == ["answer"]
        [whole] = await call_events(hub, "questions.schema")
        assert [each.get("annotations") for each in whole["methods"]] == [
            {"open_to_sessions": True},
            None,
        ]


@pytest.mark.parametrize("actor", [UNKNOWN, Actor("client", "http:1", ("other",))])
async def test_only_sessions_need_no_grant_for_such_a_method(tmp_path: Path, actor: Actor) -> None:
    async with hub_with(tmp_path, Questions()) as hub:
        caller = Collector(client=Client("unix", actor=actor))
        await Call(hub, "questions.ask", {}, caller).run()
        assert caller.items[1]["code"] == "permission_denied"
