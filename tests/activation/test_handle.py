"""Handle types: one declaration to create, parse, check and describe handles."""

import json
from collections.abc import AsyncIterator
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter, ValidationError, create_model
from pydantic.json_schema import JsonSchemaMode

from hubd.activation import Activation, AnyHandle, Event, Handle, Origin, Prefix, resolver
from hubd.activation.handle import ORIGIN, handle_types
from hubd.errors import HandleInvalid, VersionUnsupported
from hubd.wire.handle import WireHandle, plugin_id

ID = UUID("550e8400-e29b-41d4-a716-446655440000")
HERE = Origin("notes", "1.2.0")
THERE = Origin("solar.earth", "2.0.0")


class NoteRef(Handle, method="add", kind="document", summary="{text}"):
    """A note."""

    id: Annotated[UUID, Prefix("note-")] = Field(description="Which note")
    author: str | None = None
    line: int | None = None


class Carries(Event):
    ref: NoteRef
    others: tuple[AnyHandle, ...] = ()


class Colour(StrEnum):
    RED = "red:%"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(Enum):
    ONE = 1
    TWO = "two"


def handle_of(**fields: Any) -> type[Handle]:
    """Return a new handle type `one` with these meta fields and without an owner."""
    return create_model("Ref", __base__=Handle, __cls_kwargs__={"method": "one"}, **fields)


def value_of(handle: Handle) -> Any:
    """Return the meta value of a handle of such a type."""
    return vars(handle)["value"]


def test_a_handle_is_written_with_its_owner_its_prefixes_and_its_values_in_order() -> None:
    ref = NoteRef(id=ID, author="a:b", line=3).at(HERE)
    assert str(ref) == f"notes@1.2.0::add:note-{ID}:a%3Ab:3"
    assert ref.wire == WireHandle("notes", "1.2.0", "add", (f"note-{ID}", "a:b", "3"))


def test_absent_trailing_values_are_not_written_and_not_needed() -> None:
    ref = NoteRef(id=ID).at(HERE)
    assert str(ref) == f"notes@1.2.0::add:note-{ID}"
    assert NoteRef.parse(str(ref)) == ref
    assert NoteRef.parse(str(ref)).author is None


def test_a_prefix_is_optional_when_read() -> None:
    without = NoteRef.parse(f"notes@1.2.0::add:{ID}:bob")
    assert without == NoteRef.parse(f"notes@1.2.0::add:note-{ID}:bob")
    assert (without.id, without.author) == (ID, "bob")


@given(st.text())
def test_a_value_that_begins_with_the_prefix_is_kept(text: str) -> None:
    ref = handle_of(value=(Annotated[str, Prefix("msg-")], ...))
    handle = ref.model_validate({"value": f"msg-{text}"}).at(HERE)
    assert value_of(ref.parse(str(handle))) == f"msg-{text}"


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        (str, st.text()),
        (bool, st.booleans()),
        (int, st.integers()),
        (float, st.floats(allow_nan=False, allow_infinity=False)),
        (UUID, st.uuids()),
        (Colour, st.sampled_from(Colour)),
        (Level, st.sampled_from(Level)),
        (Literal["small", "big"], st.sampled_from(["small", "big"])),
    ],
    ids=str,
)
@given(data=st.data())
def test_values_of_every_plain_type_survive_a_round_trip(
    hint: Any, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    value = data.draw(values)
    ref = handle_of(value=(hint, ...))
    handle = ref.model_validate({"value": value}).at(HERE)
    parsed = ref.parse(str(handle))
    assert parsed == handle
    assert value_of(parsed) == value
    assert type(value_of(parsed)) is type(value)


@pytest.mark.parametrize(
    ("hint", "default", "value"),
    [(str | None, None, ""), (int | None, None, 0), (int, 5, 5)],
    ids=["empty text", "zero", "the default"],
)
def test_optional_values_survive_a_round_trip(hint: Any, default: Any, value: Any) -> None:
    ref = handle_of(value=(hint, default))
    handle = ref.model_validate({"value": value}).at(HERE)
    assert value_of(ref.parse(str(handle))) == value


@pytest.mark.parametrize("hint", [Mixed, Literal[1, 2], Literal[True, "perhaps"], Mixed | None])
def test_choices_that_are_not_text_are_refused_at_import(hint: Any) -> None:
    with pytest.raises(TypeError) as caught:
        handle_of(value=(hint, None))
    assert str(caught.value) == f"{__name__}.Ref.value: the choices of a meta value must be text"


def test_the_default_of_an_optional_value_must_be_none() -> None:
    with pytest.raises(TypeError) as caught:
        handle_of(value=(int | None, 5))
    assert str(caught.value) == (
        f"{__name__}.Ref.value: the default of a value that may be None must be None"
    )


def test_a_value_cannot_be_missing_before_another_value() -> None:
    with pytest.raises(ValueError, match="a meta value is missing before one that is given"):
        str(NoteRef(id=ID, line=3).at(HERE))


def test_a_meta_field_may_be_named_source() -> None:
    ref = handle_of(source=(str, ...))
    assert str(ref.model_validate({"source": "web"}).at(HERE)) == "notes@1.2.0::one:web"
    assert str(ref.parse("notes@1.2.0::one:web")) == "notes@1.2.0::one:web"


def test_a_handle_read_from_text_keeps_the_owner_of_the_text() -> None:
    assert NoteRef.parse(f"solar.earth@2.0.0::add:{ID}").origin == THERE


def test_handles_with_the_same_text_are_equal() -> None:
    one, twin = NoteRef(id=ID, author="x").at(HERE), NoteRef(id=ID, author="x").at(HERE)
    assert one == twin
    assert len({one, twin}) == 1
    assert one != NoteRef(id=ID).at(HERE)
    assert one != one.at(THERE)
    assert one != str(one)
    types = handle_of(value=(str, ...)), handle_of(value=(str, ...))
    assert len({ref.model_validate({"value": "x"}).at(HERE) for ref in types}) == 2


def test_at_returns_a_new_handle() -> None:
    ref = NoteRef(id=ID).at(HERE)
    assert str(ref.at(THERE)).startswith("solar.earth@2.0.0::add:")
    assert str(ref).startswith("notes@1.2.0::add:")


def test_a_copy_with_another_value_is_written_with_that_value() -> None:
    ref = NoteRef(id=ID, author="bob").at(HERE)
    assert str(ref).endswith(":bob")
    assert str(ref.model_copy(update={"author": "eve"})).endswith(":eve")


def test_a_handle_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        NoteRef(id=ID).author = "x"


def test_the_activation_that_resolves_a_type_owns_it() -> None:
    ref = handle_of(value=(str, ...))
    owner = owner_of(ref)
    assert str(ref.model_validate({"value": "x"})) == "owner@1.0.0::one:x"
    ref.settle(Origin("above.owner", "1.0.0"))
    assert str(ref.model_validate({"value": "x"})) == "above.owner@1.0.0::one:x"
    assert owner.resolvers["one"].handle is ref


def owner_of(ref: Any) -> type[Activation]:
    """Return an activation `owner` that resolves this type."""

    class Owner(Activation, namespace="owner", version="1.0.0"):
        """Owns one handle type."""

        @resolver
        async def read(self, handle: ref) -> AsyncIterator[Carries]:
            """Read it."""
            yield Carries(ref=NoteRef(id=ID))

    return Owner


@pytest.mark.parametrize("owners", [[], [HERE, THERE]], ids=["none", "two"])
def test_a_handle_without_exactly_one_owner_cannot_be_written(owners: list[Origin]) -> None:
    ref = handle_of(value=(str, ...))
    for owner in owners:
        ref.settle(owner)
    handle = ref.model_validate({"value": "x"})
    with pytest.raises(TypeError) as caught:
        str(handle)
    assert str(caught.value) == (
        "several activations, or none, own Ref; name one: ref.at(self.origin)"
    )
    assert str(handle.at(THERE)) == "solar.earth@2.0.0::one:x"


@pytest.mark.parametrize("speaker", [HERE, THERE])
def test_in_an_event_a_shared_handle_type_belongs_to_the_sender(speaker: Origin) -> None:
    ref = handle_of(value=(str, ...))
    ref.settle(HERE)
    ref.settle(THERE)
    event = create_model("Shared", __base__=Event, ref=(ref, ...))
    sent = event.model_validate({"ref": {"value": "x"}}).model_dump_json(context={ORIGIN: speaker})
    assert json.loads(sent)["ref"] == f"{speaker.namespace}@{speaker.version}::one:x"


def test_in_an_event_a_handle_with_an_owner_keeps_it() -> None:
    chat = WireHandle("cone", "1.0.0", "chat", ("a:b",))
    event = Carries(ref=NoteRef(id=ID).at(HERE), others=(chat,))
    assert json.loads(event.model_dump_json(context={ORIGIN: THERE})) == {
        "type": "carries",
        "ref": f"notes@1.2.0::add:note-{ID}",
        "others": ["cone@1.0.0::chat:a%3Ab"],
    }


def test_in_an_event_of_another_plugin_a_handle_keeps_its_owner() -> None:
    ref = handle_of(value=(str, ...))
    owner_of(ref)
    event = create_model("Foreign", __base__=Event, ref=(ref, ...))
    sent = event.model_validate({"ref": {"value": "x"}}).model_dump_json(context={ORIGIN: THERE})
    assert json.loads(sent)["ref"] == "owner@1.0.0::one:x"


@pytest.mark.parametrize("mode", ["validation", "serialization"])
@pytest.mark.parametrize("hint", [NoteRef, AnyHandle])
def test_the_schema_of_a_handle_is_a_string(hint: Any, mode: JsonSchemaMode) -> None:
    schema = TypeAdapter(hint).json_schema(mode=mode)
    assert schema == {"type": "string", "format": "plexus-handle"}


FORMS = [
    f"notes@1.2.0::add:note-{ID}:bob",
    {"plugin": "notes", "version": "1.2.0", "method": "add", "meta": [f"note-{ID}", "bob"]},
    {"plugin_id": "notes", "version": "1.2.0", "method": "add", "meta": [f"{ID}", "bob"]},
]


@pytest.mark.parametrize("form", FORMS, ids=["string", "plugin", "plugin_id"])
def test_a_handle_is_read_from_a_string_and_from_the_object_forms(form: Any) -> None:
    ref = NoteRef(id=ID, author="bob").at(HERE)
    text = json.dumps(form)
    assert NoteRef.parse(form) == ref
    assert TypeAdapter(NoteRef).validate_json(text, strict=True) == ref
    wire: WireHandle = TypeAdapter(AnyHandle).validate_json(text, strict=True)
    assert NoteRef.parse(wire) == ref


def test_a_handle_is_read_from_the_source_form() -> None:
    chat = create_model("Chat", __base__=Handle, __cls_kwargs__={"method": "chat"}, id=(str, ...))
    form = {"source": "cone", "source_version": "1.0.0", "identifier": "msg-1"}
    assert str(TypeAdapter(chat).validate_python(form)) == "cone@1.0.0::chat:msg-1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "'nonsense' is not plugin@version::method[:meta]…"),
        ("notes@1.2.0::drop:x", "notes@1.2.0::drop:x is not a handle"),
        (f"notes@1.2.0::add:{ID}:a:1:x", "has 4 meta values, not 3"),
        ("notes@1.2.0::add", "meta value 'id': Field required"),
        ("notes@1.2.0::add:x", "meta value 'id': Input should be a valid UUID"),
        (f"notes@1.2.0::add:{ID}:a:one", "meta value 'line': Input should be a valid integer"),
    ],
)
def test_other_values_are_handle_invalid_with_a_reason(text: str, words: str) -> None:
    with pytest.raises(HandleInvalid) as caught:
        NoteRef.parse(text)
    assert words in str(caught.value)
    assert caught.value.code == "handle_invalid"
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(NoteRef).validate_python(text)
    [problem] = refused.value.errors()
    assert (problem["type"], problem["msg"]) == ("handle_invalid", str(caught.value))


def test_a_handle_of_another_owner_is_refused() -> None:
    ref = handle_of(value=(str, ...))
    owner_of(ref)
    assert value_of(ref.parse("owner@1.7.0::one:x")) == "x"
    assert value_of(ref.parse(f"{plugin_id('owner', 1)}@1.0.0::one:x")) == "x"
    for text in (
        "owner@2.0.0::one:x",
        f"{plugin_id('owner', 1)}@2.0.0::one:x",
        f"{plugin_id('owner', 2)}@2.0.0::one:x",
    ):
        with pytest.raises(VersionUnsupported):
            ref.parse(text)
    for text in ("other@1.0.0::one:x", "owner@1.0.0::two:x"):
        with pytest.raises(HandleInvalid) as caught:
            ref.parse(text)
        assert str(caught.value) == f"{text} is not a handle owner@1.0.0::one"


def test_a_type_describes_its_meta_values() -> None:
    assert NoteRef.meta_fields() == [
        {
            "name": "id",
            "index": 0,
            "prefix": "note-",
            "required": True,
            "description": "Which note",
        },
        {"name": "author", "index": 1, "required": False},
        {"name": "line", "index": 2, "required": False},
    ]
    assert (NoteRef.method, NoteRef.kind, NoteRef.summary) == ("add", "document", "{text}")


def test_handle_types_are_collected_from_models_unions_and_containers() -> None:
    ref = handle_of(value=(str, ...))
    assert handle_types(dict[str, list[Carries | None]] | tuple[ref, ...]) == [NoteRef, ref]  # type: ignore[valid-type]
    assert handle_types(Level) == []


@pytest.mark.parametrize(
    ("arguments", "fields", "words"),
    [
        (
            {"method": "one"},
            {"a": (str, ""), "b": (str, ...)},
            "Ref.b is required but follows the optional a; give it a default or move it up",
        ),
        (
            {"method": "one", "kind": "song"},
            {},
            "Ref: kind 'song' is not one of approval, binary, block, document, event, message, "
            "output, session, turn, unknown",
        ),
        ({"method": "a:b"}, {}, "Ref: "),
        ({"method": ""}, {}, "Ref: "),
        ({"method": "one"}, {"kind": (str, ...)}, "Ref: a meta value cannot be named 'kind'"),
        ({"method": "one"}, {"origin": (str, ...)}, "Ref: a meta value cannot be named 'origin'"),
        ({"method": "one"}, {"at": (str, ...)}, "Ref: a meta value cannot be named 'at'"),
    ],
    ids=["order", "kind", "method", "no method", "field kind", "field origin", "field at"],
)
@pytest.mark.filterwarnings("ignore:Field name")
def test_a_mistake_in_a_declaration_is_an_error_at_import(
    arguments: dict[str, Any], fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(TypeError) as caught:
        create_model("Ref", __base__=Handle, __cls_kwargs__=arguments, **fields)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, 'give the name of its handles, such as class Ref(Handle, method="add")'),
        ({"method": "add", "sumary": "{text}"}, "there is no argument 'sumary'. Did you mean sum"),
        ({"method": "a b"}, "method 'a b' must be letters, digits, '.', '_' and '-'"),
        ({"method": "add", "kind": "picture"}, "kind 'picture' is not one of approval, binary,"),
    ],
)
def test_a_mistake_in_the_class_arguments_is_an_error_at_import(
    arguments: dict[str, str], problem: str
) -> None:
    with pytest.raises(TypeError) as caught:
        create_model("Ref", __base__=Handle, __cls_kwargs__=arguments)
    assert str(caught.value).startswith(f"{__name__}.Ref: {problem}")
