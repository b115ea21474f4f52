"""Events: their tags, their fields, their summaries and their schemas."""

import json
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError, create_model

from hubd.activation import Encoded, Event
from hubd.activation.declaration.json_schema import events_schema, json_schema
from hubd.wire.summary import event_line


class Spoken(Event):
    text: str
    loud: bool = False


class Shouted(Spoken):
    times: int


class Silence(Event):
    """An event without fields."""


class Renamed(Event, tag="another_name"):
    text: str


class Moved(Event, summary="{who.name} moved {count} files"):
    who: dict[str, str]
    count: int


class MovedFar(Moved):
    distance: int


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("Pong", "pong"),
        ("OutputLine", "output_line"),
        ("OK", "ok"),
        ("HTTPError", "http_error"),
        ("TreeID", "tree_id"),
        ("Utf8Line", "utf8_line"),
        ("Already_split", "already_split"),
    ],
)
def test_the_tag_is_the_class_name_in_snake_case(name: str, tag: str) -> None:
    event = create_model(name, __base__=Event)
    assert event.tag == tag
    assert event().type == tag


def test_an_event_begins_with_its_tag() -> None:
    assert Spoken(text="hi").model_dump_json() == '{"type":"spoken","text":"hi","loud":false}'
    assert Silence().model_dump_json() == '{"type":"silence"}'


def test_a_tag_can_be_chosen() -> None:
    assert Renamed.tag == "another_name"
    assert json.loads(Renamed(text="x").model_dump_json())["type"] == "another_name"


def test_a_derived_event_has_its_own_tag() -> None:
    event = Shouted(text="hi", times=2)
    assert event.model_dump() == {"type": "shouted", "text": "hi", "loud": False, "times": 2}
    assert Spoken(text="hi").type == "spoken"


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "hi", "type": "shouted"},
        {"text": "hi", "loudness": 3},
        {"loud": True},
    ],
    ids=["another tag", "an unknown field", "a missing field"],
)
def test_invalid_fields_of_an_event_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Spoken.model_validate(fields)


def test_an_event_cannot_be_changed() -> None:
    event = Spoken(text="hi")
    with pytest.raises(ValidationError, match="frozen"):
        event.text = "bye"


@pytest.mark.parametrize("name", ["tag", "type"])
def test_a_field_with_the_name_of_the_tag_is_refused(name: str) -> None:
    fields: dict[str, Any] = {name: (str, ...)}
    with pytest.raises(TypeError) as caught:
        create_model("Labelled", __base__=Event, **fields)
    assert str(caught.value) == (
        f"{__name__}.Labelled: an event cannot have a field named '{name}'; rename it"
    )


def test_the_schema_requires_fields_with_defaults() -> None:
    schema = TypeAdapter(Spoken).json_schema(mode="serialization")
    assert schema["required"] == ["type", "text", "loud"]
    assert schema["properties"]["type"]["const"] == "spoken"
    assert schema["additionalProperties"] is False


def test_an_encoded_event_keeps_its_bytes() -> None:
    assert Encoded(b'{"type": "x"}').json == b'{"type": "x"}'


def test_the_schema_carries_the_summary() -> None:
    assert json_schema(Moved, "serialization")["x-summary"] == "{who.name} moved {count} files"
    assert "x-summary" not in json_schema(Spoken, "serialization")
    together = events_schema((Moved, Spoken))
    assert together["$defs"]["Moved"]["x-summary"] == "{who.name} moved {count} files"


def test_an_event_inherits_the_summary_of_its_base() -> None:
    assert MovedFar.summary_template == "{who.name} moved {count} files"
    assert event_line(
        MovedFar(who={"name": "ada"}, count=2, distance=3).model_dump(), MovedFar.summary_template
    ) == ("ada moved 2 files")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"summary": "{txt}"}, "the summary uses 'txt', which is not a field. Did you mean text?"),
        ({"summary": "{z}"}, "the summary uses 'z', which is not a field. There are: type, text"),
        ({"summary": "{text"}, "the summary is not a template: expected '}' before end of string"),
        ({"summary": "said"}, "the summary 'said' names no field; write a field's name in braces"),
        ({"summry": "{text}"}, "there is no argument 'summry'. Did you mean summary?"),
        ({"kind": "song"}, "kind 'song' is not one of approval, binary, block, document,"),
        ({"name": "said"}, "there is no argument 'name'. There are: tag, summary"),
    ],
)
def test_a_mistake_in_the_class_arguments_is_an_error_at_import(
    arguments: dict[str, str], problem: str
) -> None:
    with pytest.raises(TypeError) as caught:
        create_model("Said", __base__=Event, __cls_kwargs__=arguments, text=(str, ...))
    assert str(caught.value).startswith(f"{__name__}.Said: {problem}")
