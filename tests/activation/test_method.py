"""Methods: the declaration that the hub reads from a function, and errors at import."""

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from hubd.activation import (
    Activation,
    AnyHandle,
    Encoded,
    Event,
    Handle,
    NotFound,
    method,
    resolver,
)
from hubd.activation.method import Method


class NoteRef(Handle, method="add"):
    """A note."""

    id: int


class OtherRef(Handle, method="other"):
    """Another thing."""

    id: int


class Added(Event):
    refs: list[OtherRef | NoteRef]


class Said(Event):
    text: str
    mood: Literal["good", "bad"] = "good"


class AlsoSaid(Event, tag="said"):
    text: str


class Unknowable:
    """A type without JSON Schema."""


Says = AsyncIterator[Said]
NOT_ASYNC = f"{__name__}.Notes.add must be `async def`, and return an event or yield events"
RETURNS = (
    f"{__name__}.Notes.add returns: its return hint must be SomeEvent | AnotherEvent; "
    "or `yield` events"
)
NO_DOCSTRING = f"{__name__}.Notes.add: write a docstring; its first line is the help text"
HANDLE = {"type": "string", "format": "plexus-handle"}


def declare(function: Callable[..., Any], **marks: Any) -> Method:
    """Return the declaration of a function as a method of a class named Notes."""
    members = {"__doc__": "Notes.", function.__name__: method(**marks)(function)}
    notes: Any = type("Notes", (Activation,), members, namespace="notes", version="1.0.0")
    [read] = notes.methods.values()
    assert isinstance(read, Method)
    return read


class Good:
    async def add(
        self,
        text: str,
        any_ref: AnyHandle,
        limit: Annotated[float, Field(ge=1)] = 20,
        tags: list[str] | None = None,
        ref: NoteRef | None = None,
    ) -> AsyncIterator[Added | Said]:
        """Store a note.

        It stays until it is dropped.

        Args:
            text: Text of the note, which
                may take: several lines.
            any_ref: Subject of the note.
            limit (float): How many.
            tags: Words to find it by.
            ref: The note it answers.

        Raises:
            NotFound: Never.
        """
        yield Said(text=text)

    async def bare(self) -> AsyncIterator[Said]:
        """Say something."""
        yield Said(text="")

    async def described(
        self, size: Annotated[int, Field(description="How big")]
    ) -> AsyncIterator[Said]:
        """Say something big."""
        yield Said(text="")

    async def counted(self, count: int = Field(3, ge=1)) -> AsyncIterator[Said]:
        """Say something often.

        Args:
            count: How often.
        """
        yield Said(text="")

    async def raw(self) -> AsyncIterator[Encoded]:
        """Return stored JSON."""
        yield Encoded(b"{}")


def test_hints_and_the_docstring_are_the_params_schema() -> None:
    assert declare(Good.add).params_schema == {
        "type": "object",
        "additionalProperties": False,
        "required": ["text", "any_ref"],
        "properties": {
            "text": {
                "type": "string",
                "description": "Text of the note, which may take: several lines.",
            },
            "limit": {
                "type": "number",
                "minimum": 1,
                "default": 20,
                "description": "How many.",
            },
            "tags": {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                "default": None,
                "description": "Words to find it by.",
            },
            "ref": {
                "anyOf": [HANDLE, {"type": "null"}],
                "default": None,
                "description": "The note it answers.",
            },
            "any_ref": {**HANDLE, "description": "Subject of the note."},
        },
    }


def test_the_first_line_is_the_description_and_the_paragraphs_the_details() -> None:
    read = declare(Good.add)
    assert read.description == "Store a note."
    assert read.details == "It stays until it is dropped."


def test_a_description_in_a_field_is_kept() -> None:
    properties = declare(Good.described).params_schema["properties"]
    assert properties["size"] == {"type": "integer", "description": "How big"}


def test_a_default_that_is_a_field_is_still_described_by_the_docstring() -> None:
    properties = declare(Good.counted).params_schema["properties"]
    assert properties["count"] == {
        "type": "integer",
        "minimum": 1,
        "default": 3,
        "description": "How often.",
    }


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"more": 1}, "extra_forbidden"),
        ({"limit": 0}, "greater_than_equal"),
        ({"limit": float("inf")}, "finite_number"),
        ({"text": 3}, "string_type"),
        ({"any_ref": "nonsense"}, "handle_invalid"),
        ({"ref": "notes@1.0.0::add:one"}, "handle_invalid"),
    ],
)
def test_params_that_the_schema_does_not_allow_are_refused(
    changes: dict[str, Any], problem: str
) -> None:
    good = {"text": "x", "any_ref": "cone@1.0.0::chat:1"}
    params = declare(Good.add).params
    assert params.model_validate(good)
    with pytest.raises(ValidationError) as caught:
        params.model_validate({**good, **changes})
    assert problem in [error["type"] for error in caught.value.errors()]


def test_the_returns_schema_of_one_event_is_the_schema_of_the_event() -> None:
    assert declare(Good.bare).returns_schema == {
        "type": "object",
        "additionalProperties": False,
        "required": ["type", "text", "mood"],
        "properties": {
            "type": {"type": "string", "const": "said", "default": "said"},
            "text": {"type": "string"},
            "mood": {"type": "string", "enum": ["good", "bad"], "default": "good"},
        },
    }


def test_the_returns_schema_of_several_events_is_a_union_by_tag() -> None:
    schema = declare(Good.add).returns_schema
    assert schema["discriminator"]["propertyName"] == "type"
    assert schema["oneOf"] == [{"$ref": "#/$defs/Added"}, {"$ref": "#/$defs/Said"}]
    assert schema["$defs"]["Added"]["properties"]["refs"] == {
        "type": "array",
        "items": {"anyOf": [HANDLE, HANDLE]},
    }


def test_the_schema_of_encoded_events_is_an_object() -> None:
    assert declare(Good.raw).returns_schema == {"type": "object"}


def test_a_method_produces_the_handles_in_its_events_its_own_first() -> None:
    assert declare(Good.add).produces == (NoteRef, OtherRef)
    assert declare(Good.bare).produces == ()
    # Handles that the events contain as text are declared.
    assert declare(Good.raw, produces=[OtherRef]).produces == (OtherRef,)
    assert declare(Good.add, produces=[OtherRef]).produces == (NoteRef, OtherRef)


def test_the_defaults_of_the_decorator() -> None:
    read = declare(Good.bare)
    assert (read.name, read.streaming, read.bidirectional, read.annotations) == (
        "bare",
        True,
        False,
        {},
    )


def test_the_declaration_has_the_arguments_of_the_decorator() -> None:
    hints = {
        "read_only": True,
        "destructive": True,
        "needs_context": True,
        "open_to_sessions": True,
        "render": "table",
        "interactive": {"param": "text", "commands": {"newest": {"method": "others.latest"}}},
        "completes": {"text": "others.latest"},
        "aliases": {"text": ["content"]},
        "mcp": {"text_only": True},
    }
    read = declare(Good.add, name="list", streaming=False, bidirectional=True, **hints)
    assert (read.name, read.streaming, read.bidirectional) == ("list", False, True)
    assert read.annotations == hints


async def test_a_method_with_one_result_returns_it() -> None:
    async def add(self: object, text: str) -> Said | Added:
        """Say it once."""
        return Said(text=text)

    read = declare(add)
    assert (read.events, read.streaming) == ((Said, Added), False)
    assert read.returns
    assert await read.function(None, text="hi") == Said(text="hi")
    assert await add(None, "hi") == Said(text="hi")


async def test_a_decorated_function_is_still_the_function() -> None:
    @method(name="list")
    async def listed(text: str) -> AsyncIterator[Said]:
        """Say it."""
        yield Said(text=text)

    assert [event async for event in listed("hi")] == [Said(text="hi")]


def written(head: str, body: str = '"""Say it."""; yield Said(text="")') -> Callable[..., Any]:
    """Return the function `add` from its source, so that each mistake is one line."""
    module = dict(globals())
    exec(f"{head}\n    {body}", module)
    function: Callable[..., Any] = module["add"]
    return function


@pytest.mark.parametrize(
    ("signature", "words"),
    [
        (
            "(self, text) -> Says",
            "Notes.add: parameter 'text' has no type hint; write one, such as `text: str`",
        ),
        ("(self, *texts: str) -> Says", "Notes.add: *texts has no schema; name every parameter"),
        ("(self, **texts: str) -> Says", "*texts has no schema; name every parameter"),
        ("(self, a: int, /) -> Says", "Notes.add: parameter 'a' must be usable by name"),
        (
            "(self, a: 'Missing') -> Says",
            "Notes.add: a type hint cannot be resolved (name 'Missing' is not defined); import or "
            "define it at the top of the module",
        ),
        ("(self, a: 'pytest.Missing') -> Says", "Notes.add: a type hint cannot be resolved"),
        (
            "(self)",
            "Notes.add yields: its return hint must be AsyncIterator[SomeEvent | AnotherEvent]",
        ),
        ("(self) -> Said", "Notes.add yields: its return hint must be AsyncIterator["),
        ("(self) -> Callable[[], Said]", "Notes.add yields: its return hint must be Async"),
        (
            "(self) -> AsyncIterator[Said | int]",
            "Notes.add: <class 'int'> is not an Event; use a class derived from Event",
        ),
        ("(self) -> AsyncIterator[Said | AlsoSaid]", "Notes.add: "),
        ("(self, a: Unknowable) -> Says", "Notes.add: "),
        ("(self, a: Callable[[], int]) -> Says", "Notes.add: "),
        ("(self, _a: int) -> Says", "Notes.add: parameter '_a' must not begin with '_'"),
        ("(self, model_config: int) -> Says", "Notes.add: "),
        ("() -> Says", "Notes.add"),
    ],
)
def test_an_invalid_signature_is_an_error_at_import(signature: str, words: str) -> None:
    with pytest.raises(TypeError) as caught:
        declare(written(f"async def add{signature}:"))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("head", "body", "words"),
    [
        ("def add(self):", '"""Say it."""; yield Said(text="")', NOT_ASYNC),
        ("async def add(self):", '"""Say it."""; return Said(text="")', RETURNS),
        ("async def add(self) -> Says:", '"""Say it."""; return Said(text="")', RETURNS),
        ("async def add(self) -> Says:", 'yield Said(text="")', NO_DOCSTRING),
        ("async def add(self) -> Says:", '"""  """; yield Said(text="")', NO_DOCSTRING),
        (
            "async def add(self, a: int) -> Says:",
            '"""Say it.\n\n    Args:\n        a: A.\n        c: C.\n        b: B.\n    """; yield',
            f"{__name__}.Notes.add: the docstring documents unknown parameter(s) b, c. "
            "Remove them, or add them to the signature",
        ),
        (
            "async def add(self, text: str) -> Says:",
            '"""Say it.\n\n    Args:\n        txt: A text.\n    """; yield',
            f"{__name__}.Notes.add: the docstring documents unknown parameter(s) txt. "
            "Did you mean text?",
        ),
    ],
    ids=[
        "not async",
        "no return hint",
        "returns an iterator",
        "no docstring",
        "an empty docstring",
        "unknown in Args",
        "misspelt in Args",
    ],
)
def test_an_invalid_function_is_an_error_at_import(head: str, body: str, words: str) -> None:
    with pytest.raises(TypeError) as caught:
        declare(written(head, body))
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("marks", "words"),
    [
        (
            {"aliases": {"txt": ["t"]}},
            "Notes.add: aliases names unknown parameter 'txt'. Did you mean text?",
        ),
        (
            {"completes": {"z": "a.b"}},
            "Notes.add: completes names unknown parameter 'z'. There are: text, any_ref, limit",
        ),
        (
            {"completes": {"text": "latest"}},
            "Notes.add: completes={'text': 'latest'} must name a method by its path",
        ),
        (
            {"completes": {"text": "notes.ad"}},
            "Notes.add: completes names notes.ad, which is not a method. Did you mean add?",
        ),
        ({"mcp": {"textonly": True}}, "mcp has no hint 'textonly'. Did you mean text_only?"),
        ({"mcp": {"text_only": "yes"}}, "Notes.add: mcp['text_only'] must be True or False"),
        ({"mcp": {"name": 1}}, "Notes.add: mcp['name'] must be a string"),
        ({"mcp": {"resource": "text"}}, "Notes.add: mcp['resource'] must map variables"),
        (
            {"mcp": {"resource": {"note": "txt"}}},
            "Notes.add: mcp['resource'] names unknown parameter 'txt'. Did you mean text?",
        ),
        ({"mcp": {"resource": {"a/b": "text"}}}, "the variable 'a/b' must be one word"),
        ({"aliases": {"text": "t"}}, "Notes.add: aliases: write a list, {'text': ['t']}"),
        ({"aliases": {"text": ["limit"]}}, "Notes.add: "),
        ({"aliases": {"text": ["t"], "limit": ["t"]}}, "Notes.add: "),
        (
            {"render": "picture"},
            "Notes.add: render='picture' is not one of tree, chat, table, text, process",
        ),
        ({"weight": 0}, "Notes.add: weight=0 must be a number from 1 to 100"),
        ({"weight": True}, "Notes.add: weight=True must be a number from 1 to 100"),
        ({"weight": "high"}, "Notes.add: weight='high' must be a number from 1 to 100"),
        ({"read_only": "yes"}, "Notes.add: read_only must be True or False"),
        ({"open_to_sessions": 1}, "Notes.add: open_to_sessions must be True or False"),
        ({"interactive": "text"}, "Notes.add: interactive must be a dict such as"),
        ({"interactive": {"param": "z"}}, "Notes.add: interactive names unknown parameter 'z'"),
        ({"interactive": {"param": "text", "cancle": "a.b"}}, "Did you mean cancel?"),
        ({"interactive": {"param": "text", "cancel": "b"}}, "must name a method by its path"),
        (
            {"interactive": {"param": "text", "cancel": "notes.ad"}},
            "Notes.add: interactive names notes.ad, which is not a method. Did you mean add?",
        ),
        (
            {"interactive": {"param": "text", "commands": {"quit": {"param": "text"}}}},
            "Notes.add: interactive: the command 'quit' must be one word, and not help or quit",
        ),
        (
            {"interactive": {"param": "text", "commands": {"x": {"argument": "a"}}}},
            "Notes.add: interactive: /x must be a dict with either 'method' or 'param'",
        ),
        (
            {"interactive": {"param": "text", "commands": {"x": {"param": "z"}}}},
            "Notes.add: interactive: /x: param names unknown parameter 'z'",
        ),
        (
            {"interactive": {"param": "text", "commands": {"x": {"method": "a.b", "arg": "z"}}}},
            "Notes.add: interactive: /x has no key 'arg'",
        ),
        (
            {
                "interactive": {
                    "param": "text",
                    "commands": {"x": {"method": "a.b", "switches": {"z": "name"}}},
                }
            },
            "Notes.add: interactive: /x: switches names unknown parameter 'z'",
        ),
        ({"completes": "notes.add"}, "Notes.add: completes must map parameters to methods, such"),
        ({"aliases": ["text"]}, "Notes.add: aliases must map parameters to lists of names, such"),
        ({"mcp": "text_only"}, "Notes.add: mcp must be a dict with name, text_only, resource"),
        ({"one_of": "text"}, "Good.add: one_of='text' must be a list"),
        (
            {"one_of": ["txt"]},
            "Notes.add: one_of names unknown parameter 'txt'. Did you mean text?",
        ),
        ({"any_of": "text"}, "Good.add: any_of='text' must be a list"),
        ({"any_of": ["text"]}, "Notes.add: any_of names 'text', which is required; give it a def"),
        ({"one_of": ["text"]}, "Notes.add: one_of names 'text', which is required; give it a def"),
        ({"produces": NoteRef}, "must be a list"),
        (
            {"readonly": True},
            "Good.add: @method: there is no argument 'readonly'. Did you mean read_only?",
        ),
        (
            {"name": "dashed-name"},
            "Notes.add: the name 'dashed-name' must be a letter, then letters, digits, '_'",
        ),
    ],
)
def test_an_unknown_hint_is_an_error_at_import(marks: Any, words: str) -> None:
    with pytest.raises(TypeError) as caught:
        declare(Good.add, **marks)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "hints", ["", "ref: NoteRef, other: NoteRef", "ref: str", "ref: AnyHandle"]
)
def test_a_resolver_takes_exactly_one_handle(hints: str) -> None:
    function = written(f"async def add(self, {hints}) -> Says:")
    members = {"__doc__": "Notes.", "read": resolver(function)}
    with pytest.raises(TypeError) as caught:
        type("Notes", (Activation,), members, namespace="notes", version="1.0.0")
    assert str(caught.value) == (
        f"{__name__}.Notes.add: a resolver takes one parameter, whose hint is a Handle type"
    )


@pytest.mark.parametrize(
    ("refs", "results", "words"),
    [
        (NoteRef, list[Said], "a resolver takes one parameter, whose hint is list[SomeHandle]"),
        (
            list[NoteRef],
            Said,
            "read returns: its return hint must be list[SomeEvent | None], with a result for each "
            "handle; or `yield` the results",
        ),
        (list[NoteRef], list[NotFound | None], "read: its return hint names no Event"),
        (
            list[NoteRef],
            list[str | None],
            "read: <class 'str'> is not an Event; use a class derived from Event",
        ),
    ],
)
def test_a_mistake_in_a_resolver_for_many_handles_is_an_error_at_import(
    refs: Any, results: Any, words: str
) -> None:
    @resolver(many=True)
    async def read(self: object, refs: Any) -> Any:
        return []

    read.__annotations__ = {"refs": refs, "return": results}
    with pytest.raises(TypeError) as caught:
        type(
            "Notes",
            (Activation,),
            {"__doc__": "Notes.", "read": read},
            namespace="notes",
            version="1.0.0",
        )
    assert str(caught.value).endswith(words)


def test_a_resolver_with_a_list_needs_its_option() -> None:
    function = written("async def add(self, refs: list[NoteRef]) -> Says:")
    members = {"__doc__": "Notes.", "read": resolver(function)}
    with pytest.raises(TypeError, match=r"a Handle type; for a list write @resolver\(many=True\)"):
        type("Notes", (Activation,), members, namespace="notes", version="1.0.0")


def test_wrong_options_of_a_resolver_are_errors_at_import() -> None:
    mistaken: Any = resolver
    with pytest.raises(TypeError, match=r"Good\.add: @resolver: there is no argument 'mny'"):
        mistaken(mny=True)(Good.add)
    with pytest.raises(TypeError, match=r"many=1 must be True or False"):
        mistaken(many=1)(Good.add)


def test_a_name_without_its_keyword_is_an_error_at_import() -> None:
    mistaken: Any = method
    with pytest.raises(TypeError, match=r"Good\.add: write @method\(name='list'\)"):
        mistaken("list")(Good.add)


def test_other_decorators_between_method_and_function_are_named() -> None:
    mistaken: Any = method
    decorators: tuple[Any, ...] = (property, staticmethod, classmethod)
    for decorator in decorators:
        with pytest.raises(TypeError, match=rf"Good\.add: write it without @{decorator.__name__}"):
            mistaken(decorator(Good.add))
    with pytest.raises(TypeError, match="3 is not a function; write the decorator above `async"):
        mistaken(3)


def test_a_resolver_with_the_name_of_a_handle_type_is_an_error_at_import() -> None:
    mistaken: Any = resolver
    with pytest.raises(TypeError, match=r"Good\.add: @resolver: remove 'add'; its hint is"):
        mistaken("add")(Good.add)


def test_a_resolver_may_be_marked_with_parentheses() -> None:
    async def read(self: object, ref: NoteRef) -> Said:
        return Said(text="")

    members = {"__doc__": "Notes.", "read": resolver()(read)}
    plugin: Any = type("Notes", (Activation,), members, namespace="notes", version="1.0.0")
    assert list(plugin.resolvers) == [NoteRef.method]
