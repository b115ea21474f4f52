"""Events: the tag comes from the class name, and what is sent is what the schema says."""

import json
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError, create_model

from hubd.activation import Encoded, Event


class Spoken(Event):
    text: str
    loud: bool = False


class Shouted(Spoken):
    times: int


class Silence(Event):
    """Nothing at all."""


class Renamed(Event, tag="another_name"):
    text: str


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


def test_an_event_that_derives_from_another_has_a_tag_of_its_own() -> None:
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
def test_an_event_that_does_not_fit_its_class_cannot_be_made(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Spoken.model_validate(fields)


def test_an_event_cannot_be_changed() -> None:
    event = Spoken(text="hi")
    with pytest.raises(ValidationError, match="frozen"):
        event.text = "bye"


def test_a_field_that_would_hide_the_tag_is_refused() -> None:
    with pytest.raises(TypeError) as caught:
        create_model("Labelled", __base__=Event, tag=(str, ...))
    assert str(caught.value) == "Labelled: an event cannot have a field named 'tag'"


def test_the_schema_requires_what_is_always_sent() -> None:
    schema = TypeAdapter(Spoken).json_schema(mode="serialization")
    assert schema["required"] == ["type", "text", "loud"]
    assert schema["properties"]["type"]["const"] == "spoken"
    assert schema["additionalProperties"] is False


def test_an_encoded_event_is_passed_on_as_it_is() -> None:
    assert Encoded(b'{"type": "x"}').json == b'{"type": "x"}'
