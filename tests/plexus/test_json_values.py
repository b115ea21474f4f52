"""Params are validated as parsed values, and mean the same as their JSON text."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    create_model,
)
from pydantic_core import from_json, to_json
from typing_extensions import TypedDict

from hubd.activation import AnyHandle
from hubd.errors import InvalidParams
from hubd.plexus.discovery import sources
from hubd.plexus.params import json_values
from hubd.plexus.params.json_values import params_validator, to_json_values
from tests.support import examples


class Color(Enum):
    red = "red"


class Level(IntEnum):
    low = 1


class Point(BaseModel):
    x: int
    id: UUID | None = None


class Options(TypedDict):
    size: int
    type: NotRequired[list[int]]
    id: NotRequired[UUID]


class Chain(BaseModel):
    next: "Chain | None" = None


UUID_TEXT = "11429815-0a5e-5fcc-baf2-842ab3666e77"
TYPES: list[Any] = [
    Any,
    AnyHandle,
    Annotated[int, Field(ge=1, le=9)],
    Annotated[str, Field(min_length=1, pattern="^[a-z]+$")],
    Annotated[str, AfterValidator(str.upper)],
    Chain,
    Color,
    Decimal,
    JsonValue,
    Level,
    Literal["a", 1],
    Options,
    Path,
    Point,
    UUID,
    UUID | str,
    bool,
    bytes,
    date,
    datetime,
    dict[str, int],
    dict[UUID, list[Point]],
    float,
    frozenset[int],
    int,
    int | str | None,
    list[UUID],
    list[int | float],
    set[str],
    str,
    timedelta,
    tuple[int, ...],
    tuple[int, str],
]
TEXTS = [
    "",
    "a",
    "1",
    "red",
    UUID_TEXT,
    "2026-01-02",
    "2026-01-02T03:04:05Z",
    "PT5S",
    "echo@1.0.0::once:hi",
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 12),
    st.just(2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([1.0, 2.0]),
    st.sampled_from(TEXTS),
)
KEYS = st.sampled_from(["x", "id", "size", "next", "type", "other", UUID_TEXT])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


def outcome(validate: Any, value: Any) -> Any:
    try:
        return validate(value)
    except ValidationError as error:
        return [(problem["loc"], problem["type"]) for problem in error.errors()]


@cache
def model_of(kind: Any) -> type[BaseModel]:
    config = ConfigDict(extra="forbid", allow_inf_nan=False, defer_build=True)
    return create_model("Params", __config__=config, value=(kind, ...), count=(int, 1))


@examples(60)
@given(kind=st.sampled_from(TYPES), value=VALUES)
def test_parsed_params_are_validated_as_their_text_would_be(kind: Any, value: Any) -> None:
    model = model_of(kind)
    text = to_json({"value": value})

    def from_text(_: Any) -> dict[str, Any]:
        validated = model.__pydantic_validator__.validate_json(text, strict=True)
        return {name: getattr(validated, name) for name in model.model_fields}

    model.model_rebuild()
    assert outcome(params_validator(model), from_json(text)) == outcome(from_text, None)


def test_unknown_and_missing_params_are_reported() -> None:
    problems = outcome(params_validator(model_of(int)), {"other": 1})
    assert problems == [(("value",), "missing"), (("other",), "extra_forbidden")]


def test_a_problem_inside_a_nested_model_is_reported_with_its_place() -> None:
    problems = outcome(params_validator(model_of(list[Point])), {"value": [{"x": 1}, {"x": "1"}]})
    assert problems == [(("value", 1, "x"), "int_type")]


def test_params_without_json_are_rejected() -> None:
    with pytest.raises(InvalidParams, match="the params are not JSON"):
        to_json_values({"query": "\ud800"})


def test_no_params_of_a_built_in_method_are_written_as_json_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(part: object) -> Any:
        raise AssertionError(f"validated from its text: {part}")

    monkeypatch.setattr(json_values, "_from_text", refuse)
    monkeypatch.setattr(json_values, "_validate_text", refuse)
    specs = [spec for source in sources() for spec in source.load().methods.values()]
    assert specs
    for spec in specs:
        # Without the cache, which other tests have filled.
        params_validator.__wrapped__(spec.params)
