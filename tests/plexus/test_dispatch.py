"""Calls: validation, items and errors."""

import asyncio
from collections.abc import AsyncIterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import Field

from hubd.activation import Activation, AnyHandle, Event, method
from hubd.plexus.dispatch import Call
from hubd.plexus.hub import Hub
from tests.sample_plugins.trouble import Trouble
from tests.support import Collector, call_error, call_events, call_items, hub_with


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Got(Event):
    value: Any


class Picky(Activation, namespace="picky", version="2.3.4"):
    """Has parameters of many types."""

    @method
    async def number(self, count: Annotated[int, Field(ge=1)]) -> AsyncIterator[Got]:
        """Take a whole number."""
        yield Got(value=count)

    @method
    async def kinds(
        self,
        flag: bool = False,
        colour: Colour = Colour.RED,
        mode: Literal["a", "b"] = "a",
        ids: list[UUID] | None = None,
        weights: dict[str, float] | None = None,
    ) -> AsyncIterator[Got]:
        """Take parameters of many types."""
        yield Got(value=[flag, colour, mode, ids, weights])

    @method
    async def integers(
        self,
        int: int,
        several: list[int],
        any: Any,
        either: dict[str, int] | int | str | None = None,
    ) -> AsyncIterator[Got]:
        """Take integers in several places."""
        yield Got(value=[{"int": int}, several, any, either])

    @method(aliases={"identifier": ["name", "id"]})
    async def named(self, identifier: str) -> AsyncIterator[Got]:
        """Take a parameter of several names."""
        yield Got(value=identifier)

    @method
    async def handle(self, handle: AnyHandle) -> AsyncIterator[Got]:
        """Take any handle."""
        yield Got(value=[handle.plugin, list(handle.meta)])

    @method
    async def nothing(self) -> AsyncIterator[Got]:
        """Yield no event."""
        if False:
            yield Got(value=None)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with hub_with(tmp_path, Picky(), Trouble()) as built:
        yield built


async def test_every_item_has_its_provenance_and_the_last_is_done(hub: Hub) -> None:
    items = await call_items(hub, "picky.number", count=3)
    assert [item["type"] for item in items] == ["data", "done"]
    for item in items:
        assert item["metadata"]["provenance"] == ["plexus", "picky", "number"]
        assert item["metadata"]["plexus_hash"] == hub.hash
        assert isinstance(item["metadata"]["timestamp"], int)
    assert items[0]["content_type"] == "picky.number"
    assert items[0]["content"] == {"type": "got", "value": 3}


@pytest.mark.parametrize(("count", "expected"), [(3.0, 3), (1e22, 10**22), (2.0**53, 2**53)])
async def test_a_number_without_a_fraction_is_an_integer(
    hub: Hub, count: float, expected: int
) -> None:
    [event] = await call_events(hub, "picky.number", count=count)
    assert event["value"] == expected
    assert isinstance(event["value"], int)


@pytest.mark.parametrize("count", [1.5, 0.0, -1.0, "3", True])
async def test_any_other_number_is_refused_as_an_integer(hub: Hub, count: object) -> None:
    error = await call_error(hub, "picky.number", count=count)
    assert error["code"] == "invalid_params"
    assert "parameter 'count'" in error["message"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({f"p{number}": 0 for number in range(300)}, "300 parameters are too many"),
        (
            {"weights": {f"w{number}": "heavy" for number in range(300)}},
            "300 values do not fit the schema",
        ),
        ({"ids": [0] * 300}, "parameter 'ids.0' must be a UUID"),
    ],
)
async def test_very_many_problems_are_not_listed(
    hub: Hub, params: dict[str, Any], message: str
) -> None:
    error = await call_error(hub, "picky.kinds", **params)
    assert error["code"] == "invalid_params"
    assert error["message"].startswith(message)
    assert "more)" not in error["message"]
    assert "ids" in error["guidance"]["available"]


async def test_integers_within_a_structure_may_be_written_as_floats(hub: Hub) -> None:
    given = {"int": 1.0, "several": [2.0, 3], "any": 4.0, "either": 5.0}
    [event] = await call_events(hub, "picky.integers", **given)
    assert [repr(value) for value in event["value"]] == ["{'int': 1}", "[2, 3]", "4.0", "5"]


async def test_a_stream_without_events_is_just_done(hub: Hub) -> None:
    assert [item["type"] for item in await call_items(hub, "picky.nothing")] == ["done"]


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        ("picky.number", {}, "parameter 'count' is missing"),
        ("picky.number", {"count": "3"}, "parameter 'count' must be a whole number"),
        ("picky.number", {"count": True}, "parameter 'count' must be a whole number"),
        ("picky.number", {"count": 0}, "parameter 'count' must be 1 or more"),
        ("picky.number", {"count": 1, "cuont": 2}, "unknown parameter 'cuont'"),
        ("picky.kinds", {"flag": 1}, "parameter 'flag' must be true or false"),
        ("picky.kinds", {"colour": "green"}, "parameter 'colour' must be 'red' or 'blue'"),
        ("picky.kinds", {"mode": "c"}, "parameter 'mode' must be 'a' or 'b'"),
        ("picky.kinds", {"ids": ["x"]}, "parameter 'ids.0' must be a UUID"),
        ("picky.kinds", {"weights": {"a": "1"}}, "parameter 'weights.a' must be a number"),
        ("picky.named", {"name": "a", "id": "b"}, "name and id are the same parameter; give one"),
    ],
)
async def test_invalid_params_are_refused_with_field_and_reason(
    hub: Hub, method: str, params: dict[str, Any], message: str
) -> None:
    error = await call_error(hub, method, **params)
    assert error["code"] == "invalid_params"
    assert error["message"].startswith(message)


async def test_the_error_for_a_misspelt_parameter_suggests_the_nearest(hub: Hub) -> None:
    error = await call_error(hub, "picky.number", count=1, cuont=2)
    assert error["guidance"]["suggestion"] == "Did you mean count?"
    assert error["guidance"]["available"] == ["count"]


async def test_a_method_gets_its_params_as_their_types(hub: Hub) -> None:
    some_id = "11429815-0a5e-5fcc-baf2-842ab3666e77"
    [got] = await call_events(
        hub,
        "picky.kinds",
        flag=True,
        colour="blue",
        mode="b",
        ids=[some_id],
        weights={"a": 1},
    )
    assert got["value"] == [True, "blue", "b", [some_id], {"a": 1.0}]


@pytest.mark.parametrize("name", ["identifier", "name", "id"])
async def test_a_parameter_is_accepted_under_each_of_its_names(hub: Hub, name: str) -> None:
    [got] = await call_events(hub, "picky.named", **{name: "bob"})
    assert got["value"] == "bob"


async def test_a_handle_parameter_is_parsed_and_an_invalid_one_is_handle_invalid(hub: Hub) -> None:
    [got] = await call_events(hub, "picky.handle", handle="a.b@1.0.0::m:x%3Ay")
    assert got["value"] == ["a.b", ["x:y"]]
    assert (await call_error(hub, "picky.handle", handle="nonsense"))["code"] == "handle_invalid"


@pytest.mark.parametrize(
    ("path", "code", "provenance"),
    [
        ("nonsense", "invalid_method", ["plexus"]),
        ("", "invalid_method", ["plexus"]),
        ("picky..number", "invalid_method", ["plexus"]),
        ("picky." + "x" * 5000, "invalid_method", ["plexus"]),
        ("nobody.home", "activation_not_found", ["plexus"]),
        ("picky.nubmer", "method_not_found", ["plexus", "picky"]),
        ("picky.resolve_handle", "method_not_found", ["plexus", "picky"]),
    ],
)
async def test_an_unknown_path_has_the_code_of_its_mistake(
    hub: Hub, path: str, code: str, provenance: list[str]
) -> None:
    error = await call_error(hub, path)
    assert error["code"] == code
    assert error["metadata"]["provenance"] == provenance
    assert error["guidance"]["error_type"] == code


async def test_the_error_for_a_path_without_namespace_suggests_the_method(
    hub: Hub,
) -> None:
    error = await call_error(hub, "number")
    assert error["code"] == "invalid_method"
    assert error["guidance"]["suggestion"].startswith("Did you mean picky.number?")
    assert "picky.named" in error["guidance"]["available"]


async def test_the_error_for_a_misspelt_method_suggests_the_nearest(hub: Hub) -> None:
    error = await call_error(hub, "picky.nubmer")
    assert error["guidance"]["suggestion"] == "Did you mean number?"
    assert "named" in error["guidance"]["available"]


async def test_the_items_of_call_are_those_of_the_inner_method(hub: Hub) -> None:
    inner = {"method": "picky.number", "params": {"count": 7}}
    items = await call_items(hub, "plexus.call", method="plexus.call", params=inner)
    assert items[0]["content"] == {"type": "got", "value": 7}
    assert items[0]["metadata"]["provenance"] == ["plexus", "picky", "number"]


@pytest.mark.parametrize(
    "params", [{}, {"method": 3}, {"method": "a.b", "params": []}, {"method": "a.b", "parms": {}}]
)
async def test_call_with_wrong_params_is_a_failed_stream(hub: Hub, params: dict[str, Any]) -> None:
    assert (await call_error(hub, "plexus.call", **params))["code"] == "invalid_params"


async def test_call_wrapped_in_itself_too_often_is_refused(hub: Hub) -> None:
    params: dict[str, Any] = {"method": "picky.nothing"}
    for _ in range(20):
        params = {"method": "plexus.call", "params": params}
    assert (await call_error(hub, "plexus.call", **params))["code"] == "invalid_params"


@pytest.mark.parametrize(
    ("method", "code", "message"),
    [
        ("raises", "execution_error", "ValueError: a plugin's own mistake"),
        ("exits", "execution_error", "SystemExit: bye"),
        ("wrong_type", "internal", "trouble.wrong_type yielded Number; it declares Text"),
        ("twice", "internal", "trouble.twice promises one event and yielded another"),
        ("never", "internal", "trouble.never promises one event and yielded none"),
        ("ask_undeclared", "internal", "trouble.ask_undeclared asks its caller"),
    ],
)
async def test_an_exception_in_a_plugin_is_an_error_item(
    hub: Hub, method: str, code: str, message: str
) -> None:
    error = await call_error(hub, f"trouble.{method}")
    assert error["code"] == code
    assert error["message"].startswith(message)
    assert "Traceback" not in error["message"]


async def test_cancelling_runs_the_plugins_finally_and_ends_with_error_and_done(
    hub: Hub, tmp_path: Path
) -> None:
    caller = Collector()
    call = Call(hub, "trouble.hang", {"marker": str(tmp_path / "left")}, caller)
    task = asyncio.create_task(call.run())
    await caller.arrived.wait()
    task.cancel()
    await task
    assert (tmp_path / "left").exists()
    assert [item["type"] for item in caller.items] == ["data", "error", "done"]
    assert caller.items[1]["code"] == "cancelled"


async def test_a_plugin_that_catches_the_cancellation_ends_at_its_next_event(hub: Hub) -> None:
    caller = Collector()
    task = asyncio.create_task(Call(hub, "trouble.stubborn", {}, caller).run())
    await caller.arrived.wait()
    task.cancel()
    await task
    assert [item["type"] for item in caller.items] == ["data", "error", "done"]


async def test_progress_is_sent_in_order_with_the_events(hub: Hub) -> None:
    items = await call_items(hub, "trouble.with_progress")
    assert [item["type"] for item in items] == ["data", "progress", "data", "done"]
    assert (items[1]["message"], items[1]["percentage"]) == ("half way", 50.0)


async def test_hyphens_in_a_method_name_are_underscores(hub: Hub) -> None:
    assert (await call_items(hub, "trouble.with-progress"))[0]["type"] == "data"


async def test_info_is_one_item_about_the_hub(hub: Hub) -> None:
    items = await call_items(hub, "_info")
    assert [item["type"] for item in items] == ["data", "done"]
    assert items[0]["content"].keys() == {"backend", "version", "plexus_hash"}
    assert items[0]["content"]["plexus_hash"] == hub.hash


class Choosy(Activation, namespace="choosy", version="1.0.0"):
    """Needs one of two parameters."""

    @method(streaming=False, one_of=("name", "number"))
    async def pick(self, name: str | None = None, number: int | None = None) -> AsyncIterator[Got]:
        """Return the given parameter.

        Args:
            name: First choice.
            number: Second choice.
        """
        yield Got(value=name or number)


async def test_exactly_one_parameter_of_one_of_must_be_given(tmp_path: Path) -> None:
    async with hub_with(tmp_path, Choosy()) as hub:
        [seen] = await call_events(hub, "choosy.pick", number=3)
        assert seen["value"] == 3
        none = await call_error(hub, "choosy.pick")
        both = await call_error(hub, "choosy.pick", name="x", number=3)
        [schema] = await call_events(hub, "choosy.schema", method="pick")
    assert (none["code"], none["message"]) == (
        "invalid_params",
        "give exactly one of name, number",
    )
    assert both["message"] == "give exactly one of name, number, not name and number"
    assert schema["params"]["oneOf"] == [{"required": ["name"]}, {"required": ["number"]}]


async def test_a_null_parameter_counts_as_absent(tmp_path: Path) -> None:
    async with hub_with(tmp_path, Choosy()) as hub:
        error = await call_error(hub, "choosy.pick", name=None)
    assert error["message"] == "give exactly one of name, number"
